"""Live engine with an installation of its own, and a scripted feed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from tests.timeouts import within

from outcry.access.licences import Grant, resolve
from outcry.app.installation import Installation
from outcry.delivery.fan_out import OutboxEntries
from outcry.live.archive import Archive
from outcry.live.background_log import BackgroundLog
from outcry.live.engine import Engine, Market, Stores
from outcry.live.file_log import FileLog
from outcry.live.registry import Registry
from outcry.live.store import LiveStore
from outcry.market.instruments import Contract
from outcry.trades.feed import (
    LIVE_TRADE,
    Backfill,
    CaughtUp,
    Cursor,
    Ended,
    Event,
    FeedCaps,
    FeedLost,
    Heartbeat,
    Resume,
    Trades,
)
from outcry.trades.records import Quality, Rows

T = TypeVar("T")
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
ES = Contract("ES", 2024, 9)
OWN_CLOCK = FeedCaps(
    resolution_ns=1, has_id=True, has_side=False, backfill=Backfill.TICKS, reach_ns=0, resume=Resume.BY_TIME,
    has_volume_counter=False, own_clock=True,
)  # fmt: skip


def rows(
    *trades: tuple[int, int] | tuple[int, int, int], flags: int = 0, delay_ns: int = 0, first_id: int = 0
) -> Rows:
    """Return live rows of (at_ns, price in quarter points, size)."""
    made = np.zeros(len(trades), LIVE_TRADE)
    for at, (at_ns, ticks, *size) in enumerate(trades):
        made[at] = (at_ns, at_ns + delay_ns, ticks * 250_000_000, size[0] if size else 1, b"N", flags, 0,
                    first_id + at if first_id else 0)  # fmt: skip
    return made


@dataclass
class ScriptFeed:
    """Feed that sends its script when opened: events, an exception to raise, or seconds to wait.

    `scripts`: one for each time it is opened; the last one repeats.
    """

    scripts: Sequence[Sequence[Event | Exception | float]]
    caps: FeedCaps = OWN_CLOCK
    name: str = "script"
    run: str = ""
    contract: Contract = ES
    others: Mapping[Contract, Sequence[Event | Exception | float]] = field(default_factory=dict)
    opened: list[Cursor] = field(default_factory=list)

    async def contracts(self) -> list[Contract]:
        return [self.contract, *self.others]

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        script = self.others.get(contract)
        if script is None:
            assert contract == self.contract
            script = self.scripts[min(len(self.opened), len(self.scripts) - 1)]
            self.opened.append(since)
        for item in script:
            if isinstance(item, Exception):
                raise item
            if isinstance(item, float):
                await asyncio.sleep(item)
            elif isinstance(item, Trades):
                yield Trades(item.rows[item.rows["ts_event"] >= since.since_ns])
            else:
                yield item

    async def close(self) -> None:
        pass


class SubstitutableLog:
    """Passes calls on to a log. A test can assign methods to it, because those of a compiled log cannot be replaced."""

    def __init__(self, log: BackgroundLog) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


@dataclass
class EngineHarness:
    """An engine, the parts that it works with, and its reports."""

    installation: Installation
    engine: Engine
    registry: Registry
    live: LiveStore
    log: SubstitutableLog
    reports: list[str]

    def channel(self, contract: Contract = ES, feed: str = "script", owner: int = 0):
        return self.engine.runners[f"{owner}/{feed}/{contract.key}"].channel


def build_harness(
    installation: Installation, registry: Registry | None = None, log: BackgroundLog | None = None
) -> EngineHarness:
    """Build an engine whose retry pauses are a thousand times shorter than in production."""
    substitutable = SubstitutableLog(log or BackgroundLog(FileLog(installation.settings.folder / "live")))
    live = LiveStore(installation.database, OutboxEntries())
    registry = registry or Registry()
    reports: list[str] = []

    def report(event: str, **details: object) -> None:
        reports.append(f"{event} {details}")

    market = Market(
        installation.reference.universe, installation.reference.calendar, installation.clock,
        lambda user: resolve(user, 0, "free", (Grant("everyone", "completed", (), None, None),)),
    )  # fmt: skip
    stores = Stores(
        substitutable,
        live,
        live,
        installation.store,
        Archive(lambda: installation.importer, installation.reference.calendar.session_at),
    )
    return EngineHarness(
        installation, Engine(stores, market, registry, report, speedup=1000.0), registry, live, substitutable,
        reports,
    )  # fmt: skip


def run(
    installation: Installation,
    work: Callable[[EngineHarness], Awaitable[T]],
    registry: Registry | None = None,
    log: BackgroundLog | None = None,
) -> T:
    """Start an engine, run the work, and stop the engine."""

    async def main() -> T:
        harness = build_harness(installation, registry, log)
        with harness.log.exclusively():
            await harness.engine.start()
            try:
                return await within(work(harness), 120)
            finally:
                await harness.engine.stop()

    return asyncio.run(main())


async def play_feed(
    harness: EngineHarness, *scripts: Sequence[Event | Exception | float], owner: int = 0, **more: object
) -> ScriptFeed:
    """Attach a feed with these scripts and wait until it has ended."""
    feed = ScriptFeed(scripts, **more)  # type: ignore[arg-type]
    await harness.engine.attach(owner, feed)
    await harness.engine.drained()
    return feed


__all__ = [
    "ES",
    "MINUTE",
    "OWN_CLOCK",
    "SECOND",
    "AbstractContextManager",
    "CaughtUp",
    "Ended",
    "EngineHarness",
    "FeedLost",
    "Heartbeat",
    "Path",
    "Quality",
    "ScriptFeed",
    "Trades",
    "build_harness",
    "play_feed",
    "rows",
    "run",
]  # fmt: skip
