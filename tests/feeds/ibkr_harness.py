"""Harness of Interactive Brokers: a fake TWS, a feed through the real library, and readers of its streams."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache

import numpy as np
from support.vendors.ibkr_peer import IbkrPeer
from tests.timeouts import no_more_threads_than, within

from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.ibkr.adapter import ADAPTER
from outcry.market.instruments import Contract, Universe
from outcry.trades.feed import CaughtUp, Cursor, Event, Feed, FeedLost, Replaced, Trades
from outcry.trades.records import TRADE, Rows
from outcry.trades.reference_tables import load_reference

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
ES, NQ = Contract("ES", 2026, 12), Contract("NQ", 2026, 12)
SPEEDUP = 20.0
Row = tuple[int, int, int]


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


NOW = at("2026-11-18 15:00:00")


@cache
def universe() -> Universe:
    """Return the packaged products."""
    return load_reference().universe


def tape_of(*trades: Row) -> Rows:
    """Return rows of trades (ns, price, lots)."""
    rows = np.zeros(len(trades), TRADE)
    for at_row, (when, price, lots) in enumerate(trades):
        rows[at_row] = (when, price, lots, b"B", 0, at_row + 1)
    return rows


def walk(from_ns: int, to_ns: int, step_s: int, seed: int = 1) -> list[Row]:
    """Generate a random walk on the tick, some seconds with several trades, some of them identical."""
    chance = np.random.default_rng(seed)
    found: list[Row] = []
    price = 26_800
    for when in range(from_ns, to_ns, step_s * SECOND):
        price += int(chance.integers(-2, 3))
        found += [(when, price * 250_000_000, int(chance.integers(1, 9)))] * int(chance.integers(1, 4))
    return found


def trade_rows(rows: Rows) -> list[Row]:
    columns = (rows[name].tolist() for name in ("ts_event", "price", "size"))
    return list(zip(*columns, strict=True))


@dataclass
class Reader:
    """Reads one stream until it ends."""

    events: list[Event] = field(default_factory=list[Event])
    problem: Exception | None = None
    task: asyncio.Task[None] | None = None

    async def read(self, stream: AsyncIterator[Event]) -> None:
        try:
            async for event in stream:
                self.events.append(event)
        except FeedLost as problem:
            self.problem = problem
        finally:
            await stream.aclose()

    def of(self, *kinds: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kinds)]

    @property
    def caught(self) -> CaughtUp | None:
        found = self.of(CaughtUp)
        return found[0] if found else None

    def rows(self) -> list[Row]:
        """Return all trades, including those that replaced bars, ordered by time."""
        found = [row for event in self.of(Trades, Replaced) for row in trade_rows(event.rows)]
        return sorted(found, key=lambda row: row[0])


class IbkrHarness:
    """A fake TWS, a feed of it, and the readers of its streams."""

    def __init__(self, peer: IbkrPeer) -> None:
        self.peer = peer
        self.feeds: list[Feed] = []
        self.readers: list[Reader] = []

    def now_ns(self) -> int:
        return self.peer.now_ns

    def feed(self, **entries: str) -> Feed:
        context = AdapterContext(universe(), self, lambda: [ES, NQ], {}, SPEEDUP)
        feed = ADAPTER.feed({**self.peer.given, **entries}, context)
        self.feeds.append(feed)
        return feed

    def open(self, feed: Feed, contract: Contract, since_ns: int, barred_ns: tuple[int, ...] = ()) -> Reader:
        reader = Reader()
        cursor = Cursor(since_ns, barred_ns=barred_ns)
        reader.task = asyncio.create_task(reader.read(feed.open(contract, cursor)))
        self.readers.append(reader)
        return reader

    async def until(self, met: Callable[[], object], what: str) -> None:
        """Wait until a condition is met while the TWS sends heartbeats."""
        async with asyncio.timeout(60):
            while not met():
                await self.peer.advance(self.peer.now_ns)
                await asyncio.sleep(0.01)
        assert met(), what

    async def leave(self, reader: Reader) -> None:
        assert reader.task is not None
        reader.task.cancel()
        with suppress(asyncio.CancelledError):
            await reader.task


@asynccontextmanager
async def open_harness() -> AsyncIterator[IbkrHarness]:
    """Start a TWS at `NOW`; at the end assert that no task or thread remains."""
    before = asyncio.all_tasks()
    threads = threading.active_count()
    peer = IbkrPeer()
    peer.now_ns = NOW
    await peer.start()
    harness = IbkrHarness(peer)
    try:
        yield harness
    finally:
        for reader in harness.readers:
            await harness.leave(reader)
        for feed in harness.feeds:
            await feed.close()
        await peer.stop()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before
        await no_more_threads_than(threads)


def run(work: Callable[[IbkrHarness], Awaitable[None]]) -> None:
    """Run a test with a TWS in an event loop of its own."""

    async def whole() -> None:
        async with open_harness() as harness:
            await within(work(harness), 180)

    asyncio.run(whole())
