"""A week of a market, a feed that may connect at any moment of it, and the answers at fixed timestamps."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
from support.recordings import MemoryRecording
from tests.live.engine_harness import MINUTE, SECOND, EngineHarness, run

from outcry.access.licences import Grant, Scope
from outcry.answers import live_answers
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings
from outcry.market.calendar import Calendar, SessionKind
from outcry.market.instruments import Contract
from outcry.trades.feed import (
    LIVE_TRADE,
    Backfill,
    CaughtUp,
    Cursor,
    Event,
    FeedCaps,
    Gap,
    Heartbeat,
    Resume,
    RowFlag,
    Trades,
)
from outcry.trades.records import TRADE, Batch, Quality, Rows

ES = Contract("ES", 2024, 12)
TRADER = Scope(1, (Grant("everyone", "live", (), None, None), Grant("everyone", "completed", (), None, None)))
DAY_NS = 24 * 60 * MINUTE


def new_york(text: str) -> int:
    """Convert a New York time to ns UTC."""
    there = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("America/New_York"))
    return int(there.timestamp()) * SECOND


#: Thanksgiving week of 2024: Thursday has no regular session, Friday closes early.
PAST, RECORDED, BEGIN, END = (
    new_york(text)
    for text in ("2024-11-08T18:00", "2024-11-21T18:00", "2024-11-22T08:00", "2024-12-03T12:00")
)


class Clock:
    """Clock that the test moves."""

    def __init__(self, now_ns: int) -> None:
        self.at_ns = now_ns

    def now_ns(self) -> int:
        return self.at_ns


def market(calendar: Calendar, seed: int) -> Rows:
    """Generate trades of ES around each half minute of every session from `PAST` to `END`, a random walk in ticks."""
    chance = np.random.default_rng(seed)
    first, last = (
        datetime.fromtimestamp(at // SECOND, ZoneInfo("UTC")).date() for at in (PAST, END + DAY_NS)
    )
    times = np.concatenate(
        [
            np.arange(start, end, MINUTE // 2)
            for session in calendar.sessions("ES", first, last)
            for start, end in session.segments
        ]
    )
    times = times[(times >= PAST) & (times < END)]
    rows = np.zeros(len(times), LIVE_TRADE)
    rows["ts_event"] = times + chance.integers(0, 20 * 1000, len(times)) * (SECOND // 1000)
    rows["ts_recv"] = rows["ts_event"]
    rows["price"] = (24_000 + np.cumsum(chance.integers(-4, 5, len(times)))) * 250_000_000
    rows["size"] = chance.integers(1, 9, len(times))
    rows["side"] = b"N"
    rows["sequence"] = np.arange(1, len(times) + 1)
    return rows


@dataclass
class MarketFeed:
    """Feed of the market up to the clock.

    `reach_ns`: length of its history; `brought_ns`: time up to which it has returned everything."""

    rows: Rows
    clock: Clock
    caps: FeedCaps
    name: str = "script"
    run: str = ""
    sent_ns: int = 0
    opened: Cursor | None = None

    def __post_init__(self) -> None:
        self._moved = asyncio.Event()

    async def contracts(self) -> list[Contract]:
        return [ES]

    def move(self) -> None:
        """Poll the clock."""
        self._moved.set()

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        assert contract == ES
        self.opened = since
        now_ns = self.clock.now_ns()
        earliest_ns = max(since.since_ns, now_ns - self.caps.reach_ns)
        if self.caps.backfill is not Backfill.NONE:
            if since.since_ns < earliest_ns and self.caps.from_cursor:
                yield Gap(since.since_ns, earliest_ns, "not_kept")
            past = self._between(earliest_ns, now_ns)
            past["flags"] = int(RowFlag.BACKFILL)
            for first in range(0, len(past), 5000):
                yield Trades(past[first : first + 5000])
        yield CaughtUp(now_ns, Quality.TICKS)
        while True:
            self.sent_ns = now_ns
            await self._moved.wait()
            self._moved.clear()
            before_ns, now_ns = now_ns, self.clock.now_ns()
            if len(news := self._between(before_ns, now_ns)):
                yield Trades(news)
            yield Heartbeat(now_ns)

    async def close(self) -> None:
        pass

    def _between(self, from_ns: int, to_ns: int) -> Rows:
        times = self.rows["ts_event"]
        return self.rows[np.searchsorted(times, from_ns) : np.searchsorted(times, to_ns)].copy()


#: Return the capabilities of a live feed with this length of history.
def caps(reach_ns: int) -> FeedCaps:
    backfill = Backfill.TICKS if reach_ns else Backfill.NONE
    return FeedCaps(1, True, False, backfill, reach_ns, Resume.BY_TIME, False)


def instants(calendar: Calendar) -> list[int]:
    """Return the times of comparison: at each open, shortly after it, after the first hour, and within closed hours."""
    first, last = (
        datetime.fromtimestamp(at // SECOND, ZoneInfo("UTC")).date() for at in (BEGIN, END + DAY_NS)
    )
    found: set[int] = set()
    for session in calendar.sessions("ES", first, last):
        after = [1, 7] if session.kind is SessionKind.ETH else [1, 7, 61, 200]
        for start, end in session.segments:
            found.update(start + minutes * MINUTE for minutes in after)
            found.update((start, end - MINUTE, end + 6 * MINUTE))
    return sorted(at for at in found if BEGIN + MINUTE < at < END)


@dataclass(frozen=True)
class Seen:
    """Read the answers at a time.

    These are the levels, the context, and the keys of alerts that fired since another time."""

    levels: dict[str, Any]
    context: dict[str, Any]
    alerts: tuple[str, ...]


class Week:
    """The market, a data folder with its past up to `RECORDED`, and the answers of a feed that ran all week."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        with self._house("base", BEGIN) as installation:
            self.calendar = installation.reference.calendar
            self.rows = market(self.calendar, seed)
            self._import_past(installation)
        self.instants = instants(self.calendar)
        self.whole = self.answers(BEGIN, caps(10 * DAY_NS), self.instants)

    def _house(self, name: str, now_ns: int) -> Any:
        return open_installation(Settings(data=str(self._folder / name)), Clock(now_ns))

    def _import_past(self, installation: Installation) -> None:
        past = self.rows[self.rows["ts_event"] < RECORDED]
        plain = np.zeros(len(past), TRADE)
        for column in TRADE.names or ():
            plain[column] = past[column]
        batch = Batch(ES, Quality.TICKS, plain, "the past")
        reading = MemoryRecording("past", [batch], covered=((PAST, RECORDED),))
        installation.importer.record(reading, 0, RECORDED)

    def answers(self, moment_ns: int, feed_caps: FeedCaps, at: Iterable[int]) -> dict[int, Seen]:
        """Return the answers after a time by a feed that first connects at that time."""
        name = f"at {moment_ns}"
        shutil.copytree(self._folder / "base", self._folder / name)
        try:
            with (
                self._house(name, moment_ns) as installation,
                patch.object(live_answers, "MIN_RENDER_INTERVAL_NS", 0),
            ):
                return run(
                    installation,
                    lambda harness: self._followed(harness, installation, feed_caps, list(at)),
                    installation.registry,
                )
        finally:
            shutil.rmtree(self._folder / name)

    async def _followed(
        self, harness: EngineHarness, installation: Installation, feed_caps: FeedCaps, at: Sequence[int]
    ) -> dict[int, Seen]:
        clock = installation.clock
        assert isinstance(clock, Clock)
        moment_ns = clock.now_ns()
        feed = MarketFeed(self.rows, clock, feed_caps)
        task = harness.engine.attach(0, feed)
        found: dict[int, Seen] = {}
        for at_ns in at:
            while feed.sent_ns < clock.now_ns():
                assert not task.done(), harness.reports
                await asyncio.sleep(0.001)
            clock.at_ns = at_ns
            feed.move()
            while feed.sent_ns < at_ns:
                assert not task.done(), harness.reports
                await asyncio.sleep(0.001)
            found[at_ns] = await self._seen(harness, installation, moment_ns, at_ns)
        return found

    async def _seen(
        self, harness: EngineHarness, installation: Installation, moment_ns: int, now_ns: int
    ) -> Seen:
        await harness.engine.drained()
        runner = harness.engine.runners[f"0/script/{ES.key}"]
        runner.update_availability(asyncio.get_running_loop().time())
        levels = installation.query.levels(TRADER, "ES", now_ns).answer
        context = installation.query.context(TRADER, "ES", now_ns).answer
        fired = sorted(f"{row.key} {row.price_e9} {row.ref}" for row in harness.live.alerts([0]))
        alerts = tuple(key for key in fired if int(key.split()[0].split(":")[2]) > moment_ns // 1_000_000)
        return Seen(msgspec.to_builtins(levels), msgspec.to_builtins(context), alerts)


def since(seen: Seen, moment_ns: int) -> Seen:
    """Return the answers without alerts that fired before a time, which the later feed cannot have."""
    remaining = tuple(
        key for key in seen.alerts if int(key.split()[0].split(":")[2]) > moment_ns // 1_000_000
    )
    return replace(seen, alerts=remaining)


def differing(one: Seen, other: Seen) -> dict[str, tuple[Any, Any]]:
    """Return the fields in which two answers differ, with both values."""
    pairs = {"alerts": (one.alerts, other.alerts)}
    for name in ("levels", "context"):
        first, second = getattr(one, name), getattr(other, name)
        pairs |= {f"{name}.{key}": (first[key], second[key]) for key in first}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def there(at_ns: int) -> str:
    """Format a timestamp in New York time."""
    return f"{datetime.fromtimestamp(at_ns // SECOND, ZoneInfo('America/New_York')):%a %Y-%m-%d %H:%M:%S}"
