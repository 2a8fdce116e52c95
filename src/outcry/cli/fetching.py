"""`outcry fetch`: past sessions from Databento's historical service into the store.

Rules kept: what it costs is said, and agreed to, before anything is fetched; the key is no argument, for arguments are
seen by every user of a machine and kept by shells.
"""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from gettext import NullTranslations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from outcry.accounts.emails import is_email, spellings
from outcry.cli.importing import COLUMNS, tell
from outcry.core.calendar import SessionKind
from outcry.core.instruments import UnknownName
from outcry.core.units import NANOS_PER_SECOND
from outcry.ports.adapters import BadEntry
from outcry.ports.feed import FeedRefused
from outcry.ports.files import FileRefused, ReadOptions
from outcry.ports.records import Quality
from outcry.settings import read_settings
from outcry.wiring import House, open_house

if TYPE_CHECKING:
    from outcry.feeds.databento.past import Part, Past

KEY = "OUTCRY_DATABENTO_KEY"


def fetch(
    symbol: str,
    *,
    first: Annotated[date, Parameter(name="--from")],
    last: Annotated[date, Parameter(name="--to")],
    owner: str = "operator",
    key_file: Path | None = None,
    yes: bool = False,
    data: Annotated[str | None, Parameter(name="--data")] = None,
) -> int:
    """Fetch past sessions from Databento, and import them.

    Trade by trade, a trade date at a time. Databento charges by volume: what it estimates is said first, and you are
    asked. What is stored complete already is not fetched again, so a command that was interrupted can be repeated.
    Prints a line a session, as `outcry import` does. The key is read from OUTCRY_DATABENTO_KEY, or a file.

        outcry fetch ES --from 2026-11-02 --to 2026-11-20

    Parameters
    ----------
    symbol
        A product, whose front contracts are fetched and near a roll the next ones too: ES; or one contract: ESZ2026.
    first
        The first trade date: 2026-11-02.
    last
        The last one, included.
    owner
        Whose recording it is: operator, or a user's e-mail address.
    key_file
        A file that holds the API key, and nothing else.
    yes
        Fetch without asking.
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    if owner != "operator" and not is_email(owner):
        return _wrong(f"--owner {owner[:60]!r} is neither operator nor an e-mail address")
    try:
        from outcry.feeds.databento.adapter import checked_key  # noqa: PLC0415 - the vendor's library is an extra
        from outcry.feeds.databento.past import FetchRefused, Past  # noqa: PLC0415

        key = checked_key(key_file.read_text() if key_file else os.environ.get(KEY, ""))
    except ImportError:
        return _wrong("Databento's library is not installed: pip install 'outcry[databento]'")
    except BadEntry as problem:
        where = str(key_file) if key_file else KEY
        wants = (
            "holds no key" if problem.code == "missing" else "is no key: 32 characters that begin with db-"
        )
        return _wrong(f"{where} {wants}")
    settings = read_settings(data=data)
    with open_house(settings) as house:
        owner_id = (
            0 if owner == "operator" else house.store.ensure_user(spellings(owner)[-1], house.clock.now_ns())
        )
        past = Past(key, settings.feed_places.get("databento", {}).get("historical", ""))
        try:
            parts = _parts(house, symbol, (first, last), owner_id)
            if not parts:
                print(
                    "outcry: nothing to fetch: these trade dates are stored, or not over yet", file=sys.stderr
                )
                return 0
            if not _agreed(parts, past.cost(parts), yes=yes):
                return 1
            return _fetch_all(house, past, parts, owner_id)
        except (FetchRefused, FeedRefused, UnknownName) as problem:
            print(f"outcry: {problem}", file=sys.stderr)
            return 1


def _wrong(what: str) -> int:
    print(f"outcry fetch: {what}", file=sys.stderr)
    return 2


def _parts(house: House, symbol: str, dates: tuple[date, date], owner: int) -> "list[Part]":
    """What is to be fetched. Raises `UnknownName`, `FeedRefused`."""
    from outcry.feeds.databento.past import parts_of  # noqa: PLC0415 - the vendor's library is an extra

    reference = house.reference
    named = reference.universe.resolve(symbol, dates[1], history=True)
    stored = {
        (reference.universe.contract(row.contract), row.trade_date)
        for row in house.store.sessions([owner], named.product.root)
        if row.kind is SessionKind.RTH and row.quality is Quality.TICKS and row.complete
    }
    return parts_of(
        reference.universe, reference.calendar, named.product.root, named.contract, *dates, house.clock.now_ns(),
        stored,
    )  # fmt: skip


def _agreed(parts: "Sequence[Part]", dollars: float, *, yes: bool) -> bool:
    contracts = ", ".join(dict.fromkeys(part.contract.key for part in parts))
    days = sorted(part.trade_date for part in parts)
    count = NullTranslations().ngettext("%d trade date", "%d trade dates", len(parts)) % len(parts)
    dates = f"{count} of {contracts}, {days[0]} to {days[-1]}"
    print(f"{dates}: ${dollars:,.2f} by Databento's estimate", file=sys.stderr)
    if yes:
        return True
    if not sys.stdin.isatty():
        print("outcry fetch: say --yes where nobody can be asked", file=sys.stderr)
        return False
    print("Fetch them? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _fetch_all(house: House, past: "Past", parts: "Sequence[Part]", owner: int) -> int:
    """Fetch and import part by part. Raises `FetchRefused` for what stops it: what came before is kept."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console,
        disable=not console.is_terminal, transient=True,
    )  # fmt: skip
    today = datetime.fromtimestamp(house.clock.now_ns() // NANOS_PER_SECOND, UTC).date()
    refused = 0
    print("\t".join(COLUMNS))
    with bar, TemporaryDirectory(prefix="outcry-fetch-") as folder:
        task = bar.add_task("", total=len(parts))
        for part in parts:
            bar.update(task, description=f"{part.contract.key} {part.trade_date}")
            house.disk.check_room()  # before anything is paid for
            path = Path(folder) / f"{part.contract.key}-{part.trade_date}.dbn.zst"
            past.save(part, path)
            try:
                options = ReadOptions(contract=part.contract.key, today=today)
                report = house.importer.run(path, owner, options, house.clock.now_ns())
            except FileRefused as problem:
                refused += 1
                print(f"refused: {problem}", file=sys.stderr)
            else:
                tell(report, console)
            path.unlink()
            bar.advance(task)
    return 1 if refused else 0
