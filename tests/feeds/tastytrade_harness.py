"""Harness of tastytrade: the fake vendor, its feed and tape, and readers of its streams."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
from aiohttp import web
from support.vendors.tastytrade_peer import (
    CLIENT_SECRET,
    MS,
    REFRESH_TOKEN,
    TastytradePeer,
)
from tests.feeds.feed_harness import PeerClock
from tests.timeouts import until, within

from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.tastytrade import series
from outcry.feeds.tastytrade.adapter import ADAPTER
from outcry.market.instruments import Contract, Universe
from outcry.trades.feed import CaughtUp, Cursor, Event, Feed, FeedLost, Trades
from outcry.trades.records import TRADE, Rows
from outcry.trades.reference_tables import load_reference

SECOND = 1_000_000_000
NOW = int(datetime(2026, 11, 18, 15, 0, tzinfo=UTC).timestamp()) * SECOND
ES, NQ, ZN, ZC = (Contract(root, 2026, 12) for root in ("ES", "NQ", "ZN", "ZC"))
#: Factor by which pauses and time limits are shorter than in production.
SPEEDUP = 20.0
SECRETS = (CLIENT_SECRET, REFRESH_TOKEN, "tt-access-", "tt-quote-")


@cache
def universe() -> Universe:
    return load_reference().universe


class FixedPeer:
    now_ns = NOW


@dataclass
class TastytradeHarness:
    """A fake vendor and the feeds of it."""

    peer: TastytradePeer
    feeds: list[Feed] = field(default_factory=list)

    def feed(self, **changed: str) -> Feed:
        context = AdapterContext(
            universe(), PeerClock(self.peer), lambda: (ES, NQ), self.peer.places, SPEEDUP
        )
        made = ADAPTER.feed({**self.peer.given, **changed}, context)
        self.feeds.append(made)
        return made


class Reader:
    """Reads a stream concurrently with the test."""

    def __init__(self, feed: Feed, contract: Contract = ES, since_ns: int = NOW - 600 * SECOND) -> None:
        self.events: list[Event] = []
        self.problem: BaseException | None = None
        self._task = asyncio.ensure_future(self._read(feed.open(contract, Cursor(since_ns))))

    async def _read(self, stream: AsyncIterator[Event]) -> None:
        try:
            async for event in stream:
                self.events.append(event)
        except FeedLost as problem:
            self.problem = problem
        finally:
            await stream.aclose()  # type: ignore[attr-defined]

    async def until(self, met: Callable[["Reader"], bool], what: str = "it") -> None:
        await until(lambda: met(self), lambda: f"{what}: {self.problem!r}, {self.events[-5:]}", 120.0)

    async def rows_of(self, count: int) -> None:
        await self.until(lambda r: len(r.rows) >= count, f"{count} rows")

    async def caught_up(self) -> None:
        await self.until(lambda r: any(isinstance(e, CaughtUp) for e in r.events), "caught up")

    async def end_of_stream(self) -> FeedLost:
        await self.until(lambda r: r.problem is not None, "the end")
        assert isinstance(self.problem, FeedLost)
        return self.problem

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def rows(self) -> Rows:
        return np.concatenate([np.zeros(0, series.LIVE_TRADE), *(event.rows for event in self.of(Trades))])

    async def close(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


def run_with_vendor(
    work: Callable[[TastytradeHarness], Awaitable[None]],
    make: Callable[[], TastytradePeer] = TastytradePeer,
    tapes: dict[Contract, Rows] | None = None,
    seconds: float = 120,
) -> None:
    """Run a test with a vendor at 15:00 and assert that nothing remains."""

    @asynccontextmanager
    async def open_harness() -> AsyncIterator[TastytradeHarness]:
        peer = make()
        for contract, rows in (tapes or {ES: walk(ES, 1), NQ: walk(NQ, 2)}).items():
            peer.tape(contract, rows)
        peer.now_ns = NOW
        await peer.start()
        made = TastytradeHarness(peer)
        try:
            yield made
        finally:
            for feed in made.feeds:
                await feed.close()
            await peer.stop()
        assert peer.complaints == []

    async def whole() -> None:
        async with open_harness() as made:
            await within(work(made), seconds)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left

    threads = threading.active_count()
    asyncio.run(whole())
    assert threading.active_count() <= threads + 1  # aiohttp's resolver may keep the loop's own


def walk(contract: Contract, seed: int, tick_e9: int = 250_000_000, step_ns: int = 700 * MS) -> Rows:
    """Generate half an hour of trades around 15:00, some identical, some in one millisecond."""
    chance = np.random.default_rng(seed)
    count = 1800 * SECOND // step_ns
    rows = np.zeros(count, TRADE)
    rows["ts_event"] = np.sort(NOW - 1200 * SECOND + chance.integers(0, 1800 * SECOND, count))
    rows["ts_event"][10:13] = rows["ts_event"][10]
    rows["price"] = (6_700 * 4 + np.cumsum(chance.integers(-2, 3, count))) * tick_e9
    rows["size"] = chance.integers(1, 50, count)
    rows["side"] = chance.choice([b"A", b"B", b"N"], count)
    rows[50] = rows[49]
    return rows


async def exhausted(stream: AsyncIterator[Event]) -> None:
    async for _ in stream:
        pass


def alike(rows: Rows) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows[["ts_event", "price", "size", "side"]].tolist()]


def between(rows: Rows, from_ns: int, to_ns: int) -> Rows:
    return rows[(rows["ts_event"] >= from_ns) & (rows["ts_event"] < to_ns)]


async def answers(routes: dict[str, web.Response]) -> tuple[web.AppRunner, str]:
    """Start a server with these answers; return it and its URL."""
    app = web.Application()

    async def answer(request: web.Request) -> web.Response:
        answer = routes[request.path]
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)

    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, handle_signals=False, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"
