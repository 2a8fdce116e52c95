"""`outcry fetch hyperliquid`: download the past days that Hyperliquid still has, and import them.

They belong to the user of the free market (`cli.market`) and are stored in its data folder. Each day is stored at once,
so an interrupted command continues where it stopped.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from gettext import NullTranslations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from outcry.app.installation import Installation, open_installation
from outcry.app.settings import read_settings
from outcry.cli.columns import IMPORTED
from outcry.cli.importing import print_report
from outcry.cli.market import EMAIL, Consent, accepted_by, market_settings, roots_of, write_instruments
from outcry.cli.tables import Output, StreamedRows
from outcry.database.errors import StoreBusy
from outcry.feeds.hyperliquid.downloads import (
    SOURCE,
    CandleDownloader,
    CandleReading,
    DayDownload,
    DownloadPlan,
    plan_downloads,
)
from outcry.feeds.hyperliquid.protocol import MAX_CANDLES
from outcry.market.calendar import SessionKind
from outcry.market.units import NANOS_PER_SECOND
from outcry.people.email_address import is_email, spellings
from outcry.recordings.file_model import FileRefused, ReadOptions
from outcry.recordings.tape_errors import TapeDamaged, TapeInUse
from outcry.trades.feed import FeedLost

#: Days before today that contain all of the vendor's history.
_REACH = timedelta(days=4)


def fetch_hyperliquid(
    *symbols: str,
    first: Annotated[date | None, Parameter(name="--from")] = None,
    last: Annotated[date | None, Parameter(name="--to")] = None,
    owner: str = "",
    accept_terms: Annotated[bool, Parameter(negative="")] = False,
    output: Output = None,
    data: Annotated[str | None, Parameter(name="--data")] = None,
) -> int:
    """Download the past days that Hyperliquid still has as one-minute candles, and import them. Free, without a key.

    Hyperliquid has no trades of the past, and the candles of about three days. Highs and lows are exact, volume by
    price is estimated. Days that are already complete are not downloaded again, so you can repeat an interrupted
    command. The first use shows Hyperliquid's terms and asks whether you accept them. Prints one row per session, as
    `outcry import` does.

        outcry fetch hyperliquid

        outcry fetch hyperliquid BTC-PERP --from 2026-11-20

    Parameters
    ----------
    symbols
        Products, such as BTC-PERP. Default: all products of the free market.
    first
        First trade date (UTC). Default: the oldest that Hyperliquid has completely.
    last
        Last trade date, included. Default: yesterday.
    owner
        Email address of the user to whom the data belongs. Default: the user of `outcry serve --market hyperliquid`.
    accept_terms
        Accept Hyperliquid's terms of use without being asked.
    data
        Data folder. Default: that of `outcry serve --market hyperliquid`.
    """
    if owner and not is_email(owner):
        return _wrong(f"Invalid --owner {owner[:60]!r}: use an email address.")
    settings = market_settings(
        read_settings(data=data), chosen=data is not None or "OUTCRY_DATA" in os.environ
    )
    consent = Consent(accepted=accept_terms)
    write_instruments(settings, consent)
    with open_installation(settings) as installation:
        user = accepted_by(installation)
        if not user:
            consent.require()
        email = spellings(owner or user or EMAIL)[-1]
        owner_id = installation.store.ensure_user(email, installation.clock.now_ns())
        known = dict.fromkeys(roots_of(installation))
        roots = [symbol.upper() for symbol in symbols] or list(known)
        if unknown := [root for root in roots if root not in known]:
            return _wrong(f"{unknown[0][:60]!r} is not one of the market's products: {', '.join(known)}.")
        plan = _plan(installation, roots, first, last, owner_id)
        _announce(plan)
        if not plan.days:
            return 0
        with StreamedRows(IMPORTED, output) as rows:
            url = settings.feed_places.get(SOURCE, {}).get("api", "")
            return asyncio.run(_fetch_all(installation, url, plan.days, owner_id, rows))


def _wrong(what: str) -> int:
    print(f"outcry fetch hyperliquid: {what}", file=sys.stderr)
    return 2


def _plan(
    installation: Installation, roots: Sequence[str], first: date | None, last: date | None, owner: int
) -> DownloadPlan:
    reference, now_ns = installation.reference, installation.clock.now_ns()
    today = datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC).date()
    stored = {
        (root, row.trade_date)
        for root in roots
        for row in installation.store.sessions([owner], root)
        if row.kind is SessionKind.RTH and row.complete
    }
    plan = plan_downloads(
        [reference.universe.products[root] for root in roots], reference.calendar, first or today - _REACH,
        last or today, now_ns, stored,
    )  # fmt: skip
    if first is None:  # nobody asked for the days before the vendor's history
        plan.too_old.clear()
    return plan


def _announce(plan: DownloadPlan) -> None:
    if plan.too_old:
        print(
            f"Not available: {min(plan.too_old)} to {max(plan.too_old)}. Hyperliquid has the candles of the last "
            f"{MAX_CANDLES:,} minutes only.",
            file=sys.stderr,
        )
    if not plan.days:
        print(
            "outcry: Nothing to download: all days that Hyperliquid has are stored, or are not over.",
            file=sys.stderr,
        )
        return
    roots = ", ".join(dict.fromkeys(day.product.root for day in plan.days))
    count = NullTranslations().ngettext("%d day", "%d days", len(plan.days)) % len(plan.days)
    wait = (
        f" This takes about {plan.minutes} min, within half of Hyperliquid's rate limit."
        if plan.minutes
        else ""
    )
    print(
        f"{count} of {roots}, {plan.days[0].trade_date} to {plan.days[-1].trade_date}, as one-minute candles. "
        f"Hyperliquid has no trades of the past, so volume by price is estimated.{wait}",
        file=sys.stderr,
    )


async def _fetch_all(
    installation: Installation, url: str, days: Sequence[DayDownload], owner: int, rows: StreamedRows
) -> int:
    """Download and import days one after the other; return the exit status of the command."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console,
        disable=not console.is_terminal, transient=True,
    )  # fmt: skip
    with bar, TemporaryDirectory(prefix="outcry-fetch-") as folder:
        task = bar.add_task("", total=len(days))
        async with CandleDownloader(installation.clock, url) as past:
            for done, day in enumerate(days):
                name = f"{day.product.root} {day.trade_date}"
                bar.update(task, description=name)
                try:
                    await _fetch(installation, past, day, owner, rows, Path(folder), console)
                except (FeedLost, FileRefused, StoreBusy, TapeDamaged, TapeInUse, OSError) as problem:
                    left = f"{done} of {len(days)} days are stored. Run the command again to continue."
                    print(f"outcry fetch hyperliquid: {name}: {problem}. {left}", file=sys.stderr)
                    return 1
                bar.advance(task)
    return 0


async def _fetch(
    installation: Installation, past: CandleDownloader, day: DayDownload, owner: int, rows: StreamedRows,
    folder: Path, console: Console,
) -> None:  # fmt: skip
    installation.disk.check_room()
    bars = await past.bars(day)
    if not len(bars):
        print(
            f"{day.product.root} {day.trade_date}: Hyperliquid has no candles of this day.", file=sys.stderr
        )
        return
    path = folder / f"{SOURCE}-{day.product.root}-{day.trade_date}"
    path.write_bytes(bars.tobytes())
    options = ReadOptions(contract=day.product.root)
    report = installation.importer.store(
        CandleReading(path, day, bars), owner, options, installation.clock.now_ns()
    )
    print_report(report, rows, console)
    path.unlink()
