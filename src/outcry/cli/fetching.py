"""`outcry fetch SYMBOL`: download past sessions from Databento's historical service and import them.

`outcry fetch hyperliquid` is a command of its own, in `cli.free_history`.

The user confirms the estimated cost before the download. The key is not an argument, because other users of the machine
can see arguments and shells store them.
"""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from gettext import NullTranslations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from outcry.app.installation import Installation, open_installation
from outcry.app.settings import read_settings
from outcry.base.extras import MissingExtra
from outcry.cli.columns import IMPORTED
from outcry.cli.importing import print_report
from outcry.cli.tables import Output, StreamedRows
from outcry.connections.broker_adapter import InvalidCredential
from outcry.market.calendar import SessionKind
from outcry.market.instruments import UnknownName
from outcry.market.units import NANOS_PER_SECOND
from outcry.people.email_address import is_email, spellings
from outcry.recordings.file_model import FileRefused, ReadOptions
from outcry.trades.feed import FeedRefused
from outcry.trades.records import Quality

if TYPE_CHECKING:
    from outcry.feeds.databento.downloads import HistoricalDownloader, TradeDateDownload

KEY = "OUTCRY_DATABENTO_KEY"

fetch = App(name="fetch")
fetch.command("outcry.cli.free_history:fetch_hyperliquid", name="hyperliquid")


@fetch.default
def fetch_databento(
    symbol: str,
    *,
    first: Annotated[date, Parameter(name="--from")],
    last: Annotated[date, Parameter(name="--to")],
    owner: str = "operator",
    key_file: Path | None = None,
    yes: bool = False,
    output: Output = None,
    data: Annotated[str | None, Parameter(name="--data")] = None,
) -> int:
    """Download past sessions and import them: trades from Databento, or candles of the free market.

    For the free market use `outcry fetch hyperliquid`. This command downloads from Databento, which charges by volume.
    It first prints Databento's estimate and asks for confirmation. Complete sessions that are already stored are not
    downloaded again, so you can repeat an interrupted command. Prints one row per session, as `outcry import` does. The
    API key comes from OUTCRY_DATABENTO_KEY or --key-file.

        outcry fetch ES --from 2026-11-02 --to 2026-11-20

    Parameters
    ----------
    symbol
        Product, such as ES, for its front contracts and, near a roll, the next ones. Or one contract, such as ESZ2026.
    first
        First trade date, such as 2026-11-02.
    last
        Last trade date, included.
    owner
        Owner of the recordings: operator, or the email address of a user.
    key_file
        File that contains only the Databento API key.
    yes
        Download without asking for confirmation.
    data
        Data folder. Default: OUTCRY_DATA.
    """
    if owner != "operator" and not is_email(owner):
        return _wrong(f"Invalid --owner {owner[:60]!r}: use `operator` or an email address.")
    try:
        from outcry.feeds.databento.adapter import checked_key  # noqa: PLC0415 - the vendor's library is an extra
        from outcry.feeds.databento.downloads import FetchRefused, HistoricalDownloader  # noqa: PLC0415

        key = checked_key(key_file.read_text("utf-8") if key_file else os.environ.get(KEY, ""))
    except ImportError:
        return _wrong(str(MissingExtra("Downloading from Databento", "databento")))
    except InvalidCredential as problem:
        where = str(key_file) if key_file else KEY
        if problem.code == "missing":
            return _wrong(f"No Databento API key: {where} is not set or is empty. Put your key there.")
        return _wrong(
            f"{where} is not a Databento API key. Databento keys start with `db-` and have 32 characters."
        )
    settings = read_settings(data=data)
    with open_installation(settings) as installation:
        owner_id = (
            0
            if owner == "operator"
            else installation.store.ensure_user(spellings(owner)[-1], installation.clock.now_ns())
        )
        past = HistoricalDownloader(key, settings.feed_places.get("databento", {}).get("historical", ""))
        try:
            parts = _parts(installation, symbol, (first, last), owner_id)
            if not parts:
                print(
                    "outcry: Nothing to download: all sessions of these dates are stored, or have not ended.",
                    file=sys.stderr,
                )
                return 0
            if not _agreed(parts, past.cost(parts), yes=yes):
                return 1
            with StreamedRows(IMPORTED, output) as rows:
                return _fetch_all(installation, past, parts, owner_id, rows)
        except (FetchRefused, FeedRefused, UnknownName) as problem:
            print(f"outcry: {problem}", file=sys.stderr)
            return 1


def _wrong(what: str) -> int:
    print(f"outcry fetch: {what}", file=sys.stderr)
    return 2


def _parts(
    installation: Installation, symbol: str, dates: tuple[date, date], owner: int
) -> "list[TradeDateDownload]":
    """Return the downloads that are needed, one per contract and trade date. Raises `UnknownName`, `FeedRefused`."""
    from outcry.feeds.databento.downloads import plan_downloads  # noqa: PLC0415 - the vendor's library is an extra

    reference = installation.reference
    named = reference.universe.resolve(symbol, dates[1], history=True)
    stored = {
        (reference.universe.contract(row.contract), row.trade_date)
        for row in installation.store.sessions([owner], named.product.root)
        if row.kind is SessionKind.RTH and row.quality is Quality.TICKS and row.complete
    }
    return plan_downloads(
        reference.universe, reference.calendar, named.product.root, named.contract, *dates, installation.clock.now_ns(),
        stored,
    )  # fmt: skip


def _agreed(parts: "Sequence[TradeDateDownload]", dollars: float, *, yes: bool) -> bool:
    contracts = ", ".join(dict.fromkeys(part.contract.key for part in parts))
    days = sorted(part.trade_date for part in parts)
    count = NullTranslations().ngettext("%d trade date", "%d trade dates", len(parts)) % len(parts)
    dates = f"{count} of {contracts}, {days[0]} to {days[-1]}"
    print(f"{dates}. Databento estimates ${dollars:,.2f}.", file=sys.stderr)
    if yes:
        return True
    if not sys.stdin.isatty():
        print("outcry fetch: Not a terminal: pass --yes to confirm.", file=sys.stderr)
        return False
    print("Download? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _fetch_all(
    installation: Installation, past: "HistoricalDownloader", parts: "Sequence[TradeDateDownload]", owner: int,
    rows: StreamedRows,
) -> int:  # fmt: skip
    """Download and import trade dates one after the other (`parts`); return the exit status of the command.

    Raises `FetchRefused`; what was imported before stays imported.
    """
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console,
        disable=not console.is_terminal, transient=True,
    )  # fmt: skip
    today = datetime.fromtimestamp(installation.clock.now_ns() // NANOS_PER_SECOND, UTC).date()
    refused = 0
    with bar, TemporaryDirectory(prefix="outcry-fetch-") as folder:
        task = bar.add_task("", total=len(parts))
        for part in parts:
            bar.update(task, description=f"{part.contract.key} {part.trade_date}")
            installation.disk.check_room()  # before a download is charged
            path = Path(folder) / f"{part.contract.key}-{part.trade_date}.dbn.zst"
            past.save(part, path)
            try:
                options = ReadOptions(contract=part.contract.key, today=today)
                report = installation.importer.run(path, owner, options, installation.clock.now_ns())
            except FileRefused as problem:
                refused += 1
                print(f"Rejected {problem}", file=sys.stderr)
            else:
                print_report(report, rows, console)
            path.unlink()
            bar.advance(task)
    return 1 if refused else 0
