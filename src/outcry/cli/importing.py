"""`outcry import`: files of market data into the store, with progress and a line for each session."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from outcry.accounts.emails import is_email, spellings
from outcry.cli.reading_options import AS_IT_SAYS, Reading
from outcry.core.calendar import SessionKind
from outcry.ports.files import FileRefused, ReadOptions, shown
from outcry.ports.store import StoreBusy
from outcry.ports.tape import TapeDamaged, TapeInUse
from outcry.services.completeness import hole_text
from outcry.services.describe import instant
from outcry.services.importing import FileReport
from outcry.settings import read_settings
from outcry.wiring import House, open_house

COLUMNS = ("date", "session", "contract", "quality", "rows", "volume", "off_tick", "duplicate", "out_of_order",
           "complete", "kept", "holes")  # fmt: skip
#: Holes of one file that are told in a sentence; the column has all of them.
_MOST_TOLD = 5


def import_files(
    *paths: Path,
    reading: Reading = AS_IT_SAYS,
    owner: str = "operator",
    data: Annotated[str | None, Parameter(name="--data")] = None,
) -> int:
    """Import recordings of trades or bars.

    Reads DBN, Sierra Chart .scid, LEAN zips, Parquet, and the CSV of Databento, Kibot, FirstRate, NinjaTrader and
    TradingView; format, zone, stamps and contract are taken from the file where it tells them. Each file is imported
    whole or not at all, and importing it again changes nothing. One line a session is printed, tab-separated; progress
    and faults go to standard error. The exit status is 1 if any file was refused (the others are imported all the same)
    or if no file holds trades. It is 0 if the files were imported before.

    `complete` is yes if the session was over and has no hole: a gap longer than the trade usual for the product at that
    hour explains. `holes` names them, from/to in UTC. A session with a hole makes no levels: it answers nothing and is
    no other session's prior.

        outcry import recordings/

        outcry import 6EH4.csv --tz UTC --stamp open

    Parameters
    ----------
    paths
        Files, or folders to search for files.
    owner
        Whose recording it is: operator, or a user's e-mail address.
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    if not paths:
        print("outcry import: name a file or a folder", file=sys.stderr)
        return 2
    if owner != "operator" and not is_email(owner):
        print(f"outcry: --owner {owner[:60]!r} is neither operator nor an e-mail address", file=sys.stderr)
        return 2
    with open_house(read_settings(data=data)) as house:
        now_ns = house.clock.now_ns()
        owner_id = 0 if owner == "operator" else house.store.ensure_user(spellings(owner)[-1], now_ns)
        return _import_all(house, paths, owner_id, reading.options(now_ns))


def _import_all(house: House, paths: tuple[Path, ...], owner: int, options: ReadOptions) -> int:
    refused = known = 0
    files: list[Path] = []
    for path in paths:
        try:
            files += house.importer.files(path)
        except FileRefused as problem:
            refused += 1
            print(f"refused: {problem}", file=sys.stderr)
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=console,
        disable=not console.is_terminal, transient=True,
    )  # fmt: skip
    with bar:
        print("\t".join(COLUMNS))
        for path in files:
            task = bar.add_task(shown(path.name), total=None)
            try:
                house.disk.check_room()
                report = house.importer.run(
                    path, owner, options, house.clock.now_ns(),
                    lambda done, total, task=task: bar.update(task, completed=done, total=total),
                )  # fmt: skip
            except (FileRefused, OSError, StoreBusy, TapeDamaged, TapeInUse, MemoryError) as problem:
                refused += 1
                said = (
                    str(problem)
                    if isinstance(problem, FileRefused)
                    else f"{shown(path)}: {problem or 'no memory'}"
                )
                console.print(f"refused: {said}", style="red", markup=False, highlight=False, soft_wrap=True)
            else:
                known += report.state != "no trades"
                tell(report, console)
            bar.remove_task(task)
    if not known and not refused:
        print(
            "outcry import: nothing was imported: no file contains trades of a known product", file=sys.stderr
        )
    return 0 if known and not refused else 1


def tell(report: FileReport, console: Console) -> None:
    """Print what came of a file: a line a session, and on the console what it was."""
    for session in report.sessions:
        values = (
            session.trade_date, session.kind.value, session.contract, session.quality.value, session.rows,
            session.volume, session.off_tick, session.duplicates, session.out_of_order,
            "yes" if session.complete else "no", session.kept,
            " ".join(f"{instant(first)}/{instant(last)}" for first, last in session.holes),
        )  # fmt: skip
        print("\t".join(str(value) for value in values), flush=True)
    _tell_holes(report, console)
    notes = [f"{rows:,} {reason}" for reason, rows in report.skipped.items()]
    for path in report.damaged:
        console.print(
            f"{path}: damaged, replaced by {shown(report.path.name)}; the damaged file was renamed to end in .damaged",
            style="yellow", markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip
    if report.outside:
        notes.append(f"{report.outside:,} outside trading hours")
    words = {
        "imported": "imported",
        "unchanged": "nothing new",
        "no trades": "holds no trades of our products, passed over",
    }
    line = f"{shown(report.path.name)}: {words[report.state]}"
    if report.format:
        line += f" ({report.format}, {report.rows:,} rows)" if report.rows else f" ({report.format})"
    console.print(
        line + ("; left out: " + ", ".join(notes) if notes else ""),
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _tell_holes(report: FileReport, console: Console) -> None:
    """Name the holes of regular sessions by the exchange's clock, the first few."""
    holes = [
        f"{session.contract} {session.trade_date} is not complete: no trade from {hole_text(hole, session.zone)}"
        for session in report.sessions
        if session.kind is SessionKind.RTH
        for hole in session.holes
    ]
    more = len(holes) - _MOST_TOLD
    if more > 0:
        holes[_MOST_TOLD:] = [f"{more:,} more holes: see the column holes"]
    for line in holes:
        console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)


def refold(*, data: str | None = None) -> int:
    """Compute every session anew from the tape, after session tables, settings or rules have changed.

    Prints a line for each contract: the contract and its sessions, tab-separated. A contract that an interrupted
    refold has not reached keeps its earlier levels; run it again. A damaged tape file is named on standard error, the
    sessions it holds a part of stay as stored, and the exit status is 1.

    Parameters
    ----------
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    faults = 0
    with open_house(read_settings(data=data)) as house:
        for done in house.importer.refold(house.clock.now_ns()):
            print(f"{done.contract}\t{done.sessions}", flush=True)
            for fault in done.faults:
                print(f"fault: {fault}", file=sys.stderr, flush=True)
            faults += len(done.faults)
        for row in house.store.damaged():
            print(f"fault: {row.text()}", file=sys.stderr, flush=True)
            faults += 1
    return 1 if faults else 0
