"""Harness of Tradovate: the fake vendor on loopback, a feed of it, and all events read."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from support.vendors.tradovate_peer import TradovatePeer
from tests.timeouts import no_more_threads_than, until, within

from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.tradovate.adapter import ADAPTER
from outcry.market.instruments import Contract, Universe
from outcry.trades.feed import LIVE_TRADE, CaughtUp, Cursor, Event, Feed, FeedLost, Trades
from outcry.trades.records import TRADE, Rows

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
ES, ZT = Contract("ES", 2026, 12), Contract("ZT", 2026, 12)
#: 2026-11-18 15:00 UTC.
NOW_NS = 1_795_014_000 * SECOND
SPEEDUP = 20.0
E = TypeVar("E", bound=Event)


def tape(
    contract: Contract, universe: Universe, *, before_s: int = 7200, after_s: int = 600, count: int = 900
) -> Rows:
    """Generate trades around the current time in whole ms, some identical, some with equal timestamps."""
    chance = np.random.default_rng(len(contract.root) + contract.month)
    rows = np.zeros(count, TRADE)
    drawn = (
        chance.integers(NOW_NS - before_s * SECOND, NOW_NS + after_s * SECOND, count) // 1_000_000 * 1_000_000
    )
    rows["ts_event"] = np.sort(drawn)
    rows["price"] = (4_000 + np.cumsum(chance.integers(-3, 4, count))) * universe.products[
        contract.root
    ].tick_e9
    rows["size"] = chance.integers(1, 30, count)
    rows["side"] = chance.choice([b"A", b"B", b"N"], count)
    rows[10], rows[500] = rows[9], rows[499]
    rows["ts_event"][20:24] = rows["ts_event"][20]
    return rows


@dataclass
class TradovateHarness:
    """A fake vendor, a feed of it, and the events read of each contract."""

    peer: TradovatePeer
    feed: Feed
    tapes: dict[Contract, Rows]
    events: dict[Contract, list[Event]] = field(default_factory=dict)
    ends: dict[Contract, BaseException] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def now_ns(self) -> int:
        return self.peer.now_ns

    def read(self, contract: Contract, since_ns: int) -> None:
        self.events[contract] = []
        self.ends.pop(contract, None)
        self.tasks.append(asyncio.create_task(self._read(contract, since_ns)))

    async def _read(self, contract: Contract, since_ns: int) -> None:
        try:
            async for event in self.feed.open(contract, Cursor(since_ns)):
                self.events[contract].append(event)
        except FeedLost as problem:
            self.ends[contract] = problem

    async def until(self, met: Callable[[], object], seconds: float = 60.0) -> None:
        await until(met, lambda: (self.ends, {c: e[-3:] for c, e in self.events.items()}), seconds)

    async def caught_up(self, contract: Contract) -> None:
        await self.until(lambda: self.of(contract, CaughtUp))

    async def ended(self, contract: Contract) -> FeedLost:
        await self.until(lambda: contract in self.ends)
        problem = self.ends[contract]
        assert isinstance(problem, FeedLost)
        return problem

    def of(self, contract: Contract, kind: type[E]) -> list[E]:
        return [event for event in self.events[contract] if isinstance(event, kind)]

    def rows(self, contract: Contract) -> Rows:
        return np.concatenate([np.zeros(0, LIVE_TRADE), *(event.rows for event in self.of(contract, Trades))])


@asynccontextmanager
async def open_harness(universe: Universe, **given: str) -> AsyncIterator[TradovateHarness]:
    """Start a vendor with two tapes and a feed; at the end assert that nothing remains."""
    threads, tasks = threading.active_count(), len(asyncio.all_tasks())
    peer = TradovatePeer()
    tapes = {contract: tape(contract, universe) for contract in (ES, ZT)}
    for contract, rows in tapes.items():
        peer.tape(contract, rows)
    peer.now_ns = NOW_NS
    await peer.start()
    harness = TradovateHarness(peer, None, tapes)  # type: ignore[arg-type]
    harness.feed = ADAPTER.feed(
        {**peer.given, **given}, AdapterContext(universe, harness, lambda: [ES, ZT], peer.places, SPEEDUP)
    )
    try:
        yield harness
    finally:
        for task in harness.tasks:
            task.cancel()
        await asyncio.gather(*harness.tasks, return_exceptions=True)
        await harness.feed.close()
        await peer.stop()
    assert len(asyncio.all_tasks()) == tasks
    await no_more_threads_than(threads)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await within(work(), 180)

    asyncio.run(bounded())


def alike(rows: Rows) -> list[tuple[int, int, int, bytes]]:
    return list(zip(*(rows[name].tolist() for name in ("ts_event", "price", "size", "side")), strict=True))


def past(rows: Rows, since_ns: int, before_ns: int) -> Rows:
    return rows[(rows["ts_event"] >= since_ns) & (rows["ts_event"] < before_ns)]
