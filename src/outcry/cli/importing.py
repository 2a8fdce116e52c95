"""`outcry import` and `outcry refold`: store market data from files, and recompute sessions."""

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from outcry.app.installation import LOG_FOLDER, Installation, open_installation
from outcry.app.settings import read_settings
from outcry.base.sizes import size
from outcry.base.timestamps import iso_timestamp
from outcry.cli.columns import IMPORTED, REFOLDED
from outcry.cli.imports import forget_imports, list_imports
from outcry.cli.reading_options import AS_IT_SAYS, Reading
from outcry.cli.tables import Output, RowsOutput, StreamedRows, print_rows
from outcry.database.errors import StoreBusy
from outcry.live.log_files import names_in
from outcry.market.calendar import SessionKind
from outcry.people.email_address import is_email, spellings
from outcry.recordings.file_model import INVALID, FileRefused, ReadOptions, shown
from outcry.recordings.import_report import FileReport
from outcry.recordings.tape_errors import TapeDamaged, TapeInUse
from outcry.sessions.completeness import hole_text
from outcry.sessions.product_units import changed_units, is_of, store_units

#: Maximum number of gaps of one file that are printed as sentences. The `holes` column lists all of them.
_MAX_SHOWN = 5


def import_files(
    *paths: Path,
    reading: Reading = AS_IT_SAYS,
    owner: str = "operator",
    listed: Annotated[bool, Parameter(name="--list", negative="")] = False,
    forget: Annotated[bool, Parameter(negative="")] = False,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    output: RowsOutput = None,
    data: Annotated[str | None, Parameter(name="--data")] = None,
) -> int:
    """Import recordings of trades or bars.

    Formats: DBN, Sierra Chart .scid, LEAN zip, Parquet, and CSV from Databento, Kibot, FirstRate, NinjaTrader and
    TradingView. Format, time zone, timestamps and contract are detected from the file where possible. Each file is
    imported completely or not at all. Importing a file again changes nothing.

    Prints one row per session: a table at the end on a terminal, tab-separated lines with column names in a pipe.
    Progress and errors go to standard error. The exit status is 1 if any file was rejected (the others are still
    imported) or if no file contains trades, else 0.

    The column `complete` is yes if the session has ended without a gap. A gap is a time without trades that is
    unusually long for the product at that hour. `holes` lists the gaps as from/to in UTC. A session with a gap has no
    levels and is not used as the prior session.

        outcry import recordings/

        outcry import 6EH4.csv --tz UTC --stamp open

        outcry import --list

        outcry import --forget 6EH4.csv --dry-run

    Parameters
    ----------
    paths
        Files, or folders to search for files.
    owner
        Owner of the recordings: operator, or the email address of a user.
    listed
        Import nothing. Print the files that were imported: size, SHA-256, how each was read, and the days it has.
    forget
        Import nothing. Undo the imports of PATHS: remove exactly their rows, and recompute what depends on them. Each
        of PATHS is a file, the name of an imported file, or the beginning of an id or digest that --list prints.
    dry_run
        With --forget, print the rows that would be removed, and change nothing.
    data
        Data folder. Default: OUTCRY_DATA.
    """
    if (listed and (paths or forget)) or (dry_run and not forget):
        print("outcry import: Use --list alone, and --dry-run with --forget.", file=sys.stderr)
        return 2
    if not paths and not listed:
        print("outcry import: No PATHS given. Name at least one file or folder.", file=sys.stderr)
        return 2
    if owner != "operator" and not is_email(owner):
        print(
            f"outcry import: Invalid --owner {owner[:60]!r}: use `operator` or an email address.",
            file=sys.stderr,
        )
        return 2
    with open_installation(read_settings(data=data)) as installation:
        now_ns = installation.clock.now_ns()
        if listed or forget:
            found = 0 if owner == "operator" else installation.store.find_user(spellings(owner)[-1])
            if found is None:
                print(f"outcry import: {owner} has no account, so no recordings either.", file=sys.stderr)
                return 1
            if forget:
                return forget_imports(
                    installation, [str(path) for path in paths], found, output, dry_run=dry_run
                )
            return list_imports(installation, found, output)
        owner_id = 0 if owner == "operator" else installation.store.ensure_user(spellings(owner)[-1], now_ns)
        with StreamedRows(IMPORTED, output) as rows:
            return _import_all(installation, paths, owner_id, reading.options(now_ns), rows)


def _import_all(
    installation: Installation, paths: tuple[Path, ...], owner: int, options: ReadOptions, rows: StreamedRows
) -> int:
    refused = known = 0
    files: list[Path] = []
    for path in paths:
        try:
            files += installation.importer.library.expand(path)
        except FileRefused as problem:
            refused += 1
            print(f"Rejected {problem}", file=sys.stderr)
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=console,
        disable=not console.is_terminal, transient=True,
    )  # fmt: skip
    with bar:
        for path in files:
            task = bar.add_task(shown(path.name), total=None)
            try:
                installation.disk.check_room()
                report = installation.importer.run(
                    path, owner, options, installation.clock.now_ns(),
                    lambda done, total, task=task: bar.update(task, completed=done, total=total),
                )  # fmt: skip
            except (FileRefused, OSError, StoreBusy, TapeDamaged, TapeInUse, MemoryError) as problem:
                refused += 1
                text = (
                    str(problem)
                    if isinstance(problem, FileRefused)
                    else f"{shown(path)}: {problem or 'Not enough memory.'}"
                )
                console.print(f"Rejected {text}", style="red", markup=False, highlight=False, soft_wrap=True)
            else:
                known += report.state != "no trades"
                print_report(report, rows, console)
            bar.remove_task(task)
    if not known and not refused:
        print(
            "outcry import: Nothing was imported: no file contains trades of a known product.",
            file=sys.stderr,
        )
    return 0 if known and not refused else 1


def print_report(report: FileReport, rows: StreamedRows, console: Console) -> None:
    """Print the result of a file: a row per session, and a summary on the console."""
    for session in report.sessions:
        rows.add(
            session.trade_date, session.kind.value, session.contract, session.quality.value, session.rows,
            size(session.volume, session.size_step_e9), session.off_tick, session.duplicates, session.out_of_order,
            "yes" if session.complete else "no", session.outcome,
            " ".join(f"{iso_timestamp(first)}/{iso_timestamp(last)}" for first, last in session.holes),
        )  # fmt: skip
    _print_holes(report, console)
    notes = [f"{rows:,} {reason}" for reason, rows in report.skipped.items()]
    for path in report.damaged:
        console.print(
            f"Tape file {path} is damaged. {shown(report.path.name)} replaced it; the damaged file was renamed to "
            "*.damaged.",
            style="yellow", markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip
    for row in report.invalid:
        console.print(
            f"{shown(report.path.name)}, {row}", style="yellow", markup=False, highlight=False, soft_wrap=True
        )
    unnamed = report.skipped.get(INVALID, 0) - len(report.invalid)
    if unnamed > 0:
        console.print(f"{unnamed:,} more invalid rows", style="yellow", highlight=False)
    if report.outside:
        notes.append(f"{report.outside:,} outside trading hours")
    words = {
        "imported": "imported",
        "unchanged": "already imported",
        "no trades": "skipped, no trades of known products",
    }
    line = f"{shown(report.path.name)}: {words[report.state]}"
    if report.format:
        line += f" ({report.format}, {report.rows:,} rows)" if report.rows else f" ({report.format})"
    console.print(
        line + ("; rows left out: " + ", ".join(notes) if notes else ""),
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    _print_micros(report, console)


def _print_micros(report: FileReport, console: Console) -> None:
    """Print for each micro which levels answers about it have, because its own trades do not decide them."""
    for micro, parent in sorted(report.parents.items()):
        console.print(
            f"{micro} is the micro of {parent}: answers about {micro} have the levels of {parent}. To see levels from "
            f'the trades of {micro}, call outcry.profile(FILE, symbol="{micro}", date=…) in Python.',
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip


def _print_holes(report: FileReport, console: Console) -> None:
    """Print the first few gaps of regular sessions, in the exchange's time zone."""
    holes = [
        f"{session.contract} {session.trade_date} is incomplete: no trades from {hole_text(hole, session.zone)}"
        for session in report.sessions
        if session.kind is SessionKind.RTH
        for hole in session.holes
    ]
    more = len(holes) - _MAX_SHOWN
    if more > 0:
        holes[_MAX_SHOWN:] = [f"{more:,} more gaps: see the column `holes`."]
    for line in holes:
        console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)


def refold(*, output: Output = None, data: str | None = None) -> int:
    """Recompute all sessions from the tape. Run it after a change of session tables, settings or rules.

    Prints one row per contract: contract, number of sessions. After an interruption, run it again: the
    remaining contracts still have their earlier levels. Damaged tape files are listed on standard error, and the exit
    status is 1. Their sessions stay as they were.

    If the tick of a product has changed, its live streams are ended, and the service must be stopped.

    Parameters
    ----------
    data
        Data folder. Default: OUTCRY_DATA.
    """
    faults: list[str] = []

    def report(fault: str) -> None:
        faults.append(fault)
        print(f"fault: {fault}", file=sys.stderr, flush=True)

    def rows() -> Iterator[tuple[str, int]]:
        for done in installation.importer.refold(installation.clock.now_ns()):
            yield done.contract, done.sessions
            for fault in done.faults:
                report(fault)

    with open_installation(read_settings(data=data), refolds=True) as installation:
        products = installation.reference.universe.products
        streams = names_in(installation.settings.folder / LOG_FOLDER)
        changed = changed_units(installation.database, products, streams)
        if changed:
            _end_streams(installation, {one.root for one in changed})
        print_rows(REFOLDED, rows(), output)
        for row in (*installation.store.damaged(), *installation.alerts.damaged()):
            report(row.text())
        if changed and not faults:
            store_units(installation.database, products)
    return 1 if faults else 0


def _end_streams(installation: Installation, roots: Collection[str]) -> None:
    """Delete the logs and states of all live streams of products, which count in ticks of their earlier size."""
    alerts = installation.alerts
    with installation.log.exclusively():
        streams = {*installation.log.keys(), *alerts.streams()}
        for key in streams:
            if any(is_of(root, key.rpartition("/")[2]) for root in roots):
                alerts.forget_snapshot(key)
                alerts.forget_stream(key)
                installation.log.forget(key)
