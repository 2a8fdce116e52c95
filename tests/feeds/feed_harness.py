"""Harness that reads an adapter's stream concurrently with the test and checks for leaks at the end."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from support.vendors.peer import FakePeer
from tests.timeouts import until, within

from outcry.connections.broker_adapter import AdapterContext
from outcry.market.instruments import Contract
from outcry.trades.feed import Bars, Cursor, Event, Feed, FeedLost, Trades
from outcry.trades.records import TRADE, Rows
from outcry.trades.reference_tables import load_reference

SECOND = 1_000_000_000
MS = 1_000_000
ES, NQ = Contract("ES", 2026, 12), Contract("NQ", 2026, 12)
#: 2026-11-18 15:00 UTC.
NOW_NS = 1_795_014_000 * SECOND
SPEEDUP = 20.0
E = TypeVar("E", bound=Event)


def tape(seed: int, step_ns: int, *, first_ns: int, end_ns: int) -> Rows:
    """Generate trades about every `step_ns`, in whole ms, some identical and some with equal timestamps."""
    chance = np.random.default_rng(seed)
    count = (end_ns - first_ns) // step_ns
    rows = np.zeros(count, TRADE)
    rows["ts_event"] = np.sort(chance.integers(first_ns // MS, end_ns // MS, count)) * MS
    rows["price"] = (26_800 + np.cumsum(chance.integers(-2, 3, count))) * 250_000_000
    rows["size"] = chance.integers(1, 20, count)
    rows["side"] = chance.choice([b"A", b"B"], count)
    rows["sequence"] = np.arange(1, count + 1)
    rows[11::10] = rows[10:-1:10]
    return rows


@dataclass
class PeerClock:
    """Clock of the vendor, and the offset of our own from it."""

    peer: FakePeer
    off_ns: int = 0

    def now_ns(self) -> int:
        return self.peer.now_ns + self.off_ns


@dataclass
class StreamReader:
    """Events of one stream, and the error that ended it."""

    events: list[Event] = field(default_factory=list[Event])
    problem: BaseException | None = None

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def trades(self) -> Rows:
        parts = [event.rows for event in self.of(Trades)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def bars(self) -> list[tuple[int, ...]]:
        names = ("ts_event", "open", "high", "low", "close", "volume")
        return [tuple(int(row[name]) for name in names) for bars in self.of(Bars) for row in bars.rows]

    async def read(self, feed: Feed, contract: Contract, since: Cursor) -> None:
        try:
            async for event in feed.open(contract, since):
                self.events.append(event)
        except FeedLost as problem:
            self.problem = problem


@dataclass
class FeedHarness:
    """A feed of a fake vendor, and the readers of its streams."""

    peer: FakePeer
    feed: Feed
    clock: PeerClock
    tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def follow(self, contract: Contract, since_ns: int) -> StreamReader:
        reader = StreamReader()
        self.tasks.append(asyncio.create_task(reader.read(self.feed, contract, Cursor(since_ns))))
        return reader

    async def ended(self, contract: Contract = ES, since_ns: int = NOW_NS) -> FeedLost:
        """Open a stream and return the error with which it ends."""
        reader = self.follow(contract, since_ns)
        await until(lambda: reader.problem is not None, "an end")
        assert isinstance(reader.problem, FeedLost)
        return reader.problem


@asynccontextmanager
async def open_feed(
    peer: FakePeer,
    given: Mapping[str, str] | None = None,
    wanted: Sequence[Contract] = (ES, NQ),
    places: Mapping[str, str] | None = None,
) -> AsyncIterator[FeedHarness]:
    """Start the peer and a feed of it; at the end assert that no task, socket or thread remains."""
    before = asyncio.all_tasks()
    await peer.start()
    clock = PeerClock(peer)
    context = AdapterContext(load_reference().universe, clock, lambda: wanted, places or peer.places, SPEEDUP)
    feed = peer.adapter.feed(given or peer.given, context)
    made = FeedHarness(peer, feed, clock)
    try:
        yield made
    finally:
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)
        await feed.close()
        await peer.stop()
    await asyncio.sleep(0.01)
    assert asyncio.all_tasks() <= before


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Run a test's coroutine and assert that no new thread remains."""
    before = set(threading.enumerate())
    asyncio.run(within(work(), 180))
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive(), thread


class _LogCollector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.name} {self.format(record)}")


@contextmanager
def all_logs() -> Generator[list[str]]:
    """Collect all log lines at the finest level."""
    collector, root = _LogCollector(), logging.getLogger()
    names = [name for name in logging.root.manager.loggerDict if not name.startswith("_")]
    levels = {logger: logger.level for logger in (root, *map(logging.getLogger, names))}
    for logger in levels:
        logger.setLevel(logging.DEBUG)
    root.addHandler(collector)
    try:
        yield collector.lines
    finally:
        root.removeHandler(collector)
        for logger, level in levels.items():
            logger.setLevel(level)


def error_text(problem: BaseException) -> str:
    """Return all texts of an exception and its causes."""
    parts: list[str] = []
    seen: BaseException | None = problem
    while seen is not None:
        parts += [str(seen), repr(seen), *(str(note) for note in getattr(seen, "__notes__", []))]
        seen = seen.__cause__ or seen.__context__
    return " ".join(parts)


def columns(rows: Rows, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(rows[name].tolist() for name in names), strict=True))
