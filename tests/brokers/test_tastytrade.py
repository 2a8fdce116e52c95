"""tastytrade's adapter against the vendor on loopback: what it sends is the tape, and what goes wrong is said."""

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from aiohttp import web
from tests.brokers.tastytrade_peer import (
    CLIENT_SECRET,
    MINUTE,
    MS,
    REFRESH_TOKEN,
    BarsOnlyPeer,
    TastytradePeer,
)

from outcry.core.instruments import Contract, Universe
from outcry.feeds.tastytrade import channel as channels
from outcry.feeds.tastytrade import events, series
from outcry.feeds.tastytrade import stream as streams
from outcry.feeds.tastytrade.adapter import ADAPTER
from outcry.feeds.tastytrade.rest import Entries, Streamer
from outcry.feeds.tastytrade.symbols import (
    EXCHANGES,
    read_future,
    rest_symbol,
    streamed_contract,
    streamed_symbol,
)
from outcry.ports.adapters import BadEntry, Kit
from outcry.ports.feed import (
    Amend,
    Bars,
    CaughtUp,
    Cursor,
    Event,
    Feed,
    FeedLost,
    FeedRefused,
    Gap,
    Heartbeat,
    LoginRefused,
    Repaired,
    RowFlag,
    Status,
    Trades,
)
from outcry.ports.records import TRADE, Quality, Rows
from outcry.store.reference import load_reference

SECOND = 1_000_000_000
NOW = int(datetime(2026, 11, 18, 15, 0, tzinfo=UTC).timestamp()) * SECOND
ES, NQ, ZN, ZC = (Contract(root, 2026, 12) for root in ("ES", "NQ", "ZN", "ZC"))
SECRETS = (CLIENT_SECRET, REFRESH_TOKEN, "tt-access-", "tt-quote-")


@pytest.fixture(scope="module")
def universe() -> Universe:
    return load_reference().universe


@dataclass
class PeerClock:
    peer: TastytradePeer

    def now_ns(self) -> int:
        return self.peer.now_ns


@dataclass
class Desk:
    """A vendor, and a feed of it."""

    peer: TastytradePeer
    universe: Universe
    given: dict[str, str] = field(default_factory=dict)
    rush: float = 20.0
    feeds: list[Feed] = field(default_factory=list)

    def feed(self, **changed: str) -> Feed:
        kit = Kit(self.universe, PeerClock(self.peer), lambda: (ES, NQ), self.peer.places, self.rush)
        made = ADAPTER.feed({**self.peer.given, **changed}, kit)
        self.feeds.append(made)
        return made


class Reader:
    """Reads a stream beside the test."""

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
        for _ in range(1000):
            if met(self):
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"{what} did not come to be: {self.problem!r}, {self.events[-5:]}")

    async def rows_of(self, count: int) -> None:
        await self.until(lambda r: len(r.rows) >= count, f"{count} rows")

    async def caught_up(self) -> None:
        await self.until(lambda r: any(isinstance(e, CaughtUp) for e in r.events), "caught up")

    async def lost(self) -> FeedLost:
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


def played(
    universe: Universe,
    work: Callable[[Desk], Awaitable[None]],
    make: Callable[[], TastytradePeer] = TastytradePeer,
    tapes: dict[Contract, Rows] | None = None,
    seconds: float = 20,
) -> None:
    """Run a test with a vendor at 15:00, and see that it leaves nothing behind."""

    @asynccontextmanager
    async def desk() -> AsyncIterator[Desk]:
        peer = make()
        for contract, rows in (tapes or {ES: walk(ES, 1), NQ: walk(NQ, 2)}).items():
            peer.tape(contract, rows)
        peer.now_ns = NOW
        await peer.start()
        made = Desk(peer, universe)
        try:
            yield made
        finally:
            for feed in made.feeds:
                await feed.close()
            await peer.stop()
        assert peer.complaints == []

    async def whole() -> None:
        async with desk() as made:
            await asyncio.wait_for(work(made), seconds)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left

    threads = threading.active_count()
    asyncio.run(whole())
    assert threading.active_count() <= threads + 1  # aiohttp's resolver may keep the loop's own


def walk(contract: Contract, seed: int, tick_e9: int = 250_000_000, step_ns: int = 700 * MS) -> Rows:
    """Half an hour of trades around 15:00, some alike in everything, some of them in one millisecond."""
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
    """A server that says these things, and where it is."""
    app = web.Application()

    async def answer(request: web.Request) -> web.Response:
        told = routes[request.path]
        return web.Response(status=told.status, body=told.body, headers=told.headers)

    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, handle_signals=False, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


# -- what contracts are called


def test_every_product_has_a_name_on_the_stream_and_back(universe: Universe) -> None:
    for product in universe.products.values():
        contract = universe.front(product.root, date(2026, 11, 18))
        symbol = streamed_symbol(contract, product.exchange)
        assert symbol is not None, product.root
        assert streamed_contract(symbol) == contract
        told = {"streamer-symbol": symbol, "tick-size": str(Decimal(product.tick_e9) / 10**9)}
        found = read_future(told, contract, product)
        assert found is not None
        assert (found.symbol, found.scale) == (symbol, 1)
    assert {p.exchange for p in universe.products.values()} <= set(EXCHANGES)


@pytest.mark.parametrize(
    ("contract", "rest", "streamed"),
    [
        (ES, "ESZ6", "/ESZ26:XCME"),
        (ZN, "ZNZ6", "/ZNZ26:XCBT"),
        (Contract("CL", 2027, 1), "CLF7", "/CLF27:XNYM"),
        (Contract("GC", 2027, 2), "GCG7", "/GCG27:XCEC"),
        (Contract("6J", 2026, 12), "6JZ6", "/6JZ26:XCME"),
        (Contract("MES", 2030, 3), "MESH0", "/MESH30:XCME"),
    ],
)
def test_names_as_the_vendor_writes_them(
    universe: Universe, contract: Contract, rest: str, streamed: str
) -> None:
    assert rest_symbol(contract) == rest
    assert streamed_symbol(contract, universe.products[contract.root].exchange) == streamed
    assert streamed_contract(streamed) == contract


def test_the_vendors_answer_decides_but_for_another_decade(universe: Universe) -> None:
    product = universe.products["ES"]
    assert read_future({"streamer-symbol": "/ESZ36:XCME"}, ES, product) is None
    assert read_future({"streamer-symbol": "/NQZ26:XCME"}, ES, product) is None
    assert read_future({"streamer-symbol": "nonsense"}, ES, product) is None
    moved = read_future({"streamer-symbol": "/ESZ26:GLBX"}, ES, product)
    assert moved is not None
    assert moved.symbol == "/ESZ26:GLBX"
    left_out = read_future({"streamer-symbol": ""}, ES, product)
    assert left_out is not None
    assert left_out.symbol == "/ESZ26:XCME"


@pytest.mark.parametrize(
    ("root", "tick", "scale"),
    [
        ("ZC", "0.0025", 100),
        ("ZC", "0.25", 1),
        ("6E", "0.0001", 1),
        ("ES", None, 1),
        ("ES", "NaN", 1),
        ("ES", "0", 1),
    ],
)
def test_the_vendors_tick_tells_its_unit(universe: Universe, root: str, tick: str | None, scale: int) -> None:
    """Corn in dollars is told in cents; half a tick is a finer tick and no other unit."""
    contract = Contract(root, 2026, 12)
    found = read_future({"tick-size": tick}, contract, universe.products[root])
    assert found is not None
    assert found.scale == scale


# -- what is entered


def test_entries_that_cannot_be_right(universe: Universe) -> None:
    kit = Kit(universe, PeerClock(TastytradePeer()), lambda: ())
    good = {"client_secret": "s", "refresh_token": "r", "environment": "sandbox"}
    for changed, code, name in (
        ({"client_secret": " "}, "missing", "client_secret"),
        ({"refresh_token": ""}, "missing", "refresh_token"),
        ({"refresh_token": "two words"}, "rejected", "refresh_token"),
        ({"client_secret": "x" * 5000}, "rejected", "client_secret"),
        ({"environment": "staging"}, "rejected", "environment"),
    ):
        with pytest.raises(BadEntry) as caught:
            ADAPTER.feed({**good, **changed}, kit)
        assert (caught.value.code, caught.value.field) == (code, name)
        assert "words" not in str(caught.value)


def test_what_holds_secrets_does_not_show_them() -> None:
    assert "hidden" not in repr(Entries("hidden", "hidden"))
    assert "hidden" not in repr(Streamer("wss://x", "hidden"))


# -- what it brings


@pytest.mark.parametrize("full", [False, True])
def test_history_and_what_comes_are_the_tape_row_for_row(universe: Universe, full: bool) -> None:
    tapes = {ES: walk(ES, 1), NQ: walk(NQ, 2)}

    async def work(desk: Desk) -> None:
        desk.peer.full = full
        feed = desk.feed()
        readers = {contract: Reader(feed, contract) for contract in (ES, NQ)}
        for reader in readers.values():
            await reader.caught_up()
        for second in range(1, 120, 7):
            await desk.peer.advance(NOW + second * SECOND)
        for contract, reader in readers.items():
            truth = between(tapes[contract], NOW - 600 * SECOND, desk.peer.now_ns)
            await reader.rows_of(len(truth))
            assert alike(reader.rows) == alike(truth)
            first = reader.of(Trades)[0].rows
            assert (first["flags"] == RowFlag.BACKFILL).all()
            assert (reader.rows["flags"][-50:] == 0).all()
            assert (reader.rows["ts_recv"] >= NOW).all()
            assert len(np.unique(reader.rows["id"])) == len(truth)
            assert isinstance(reader.events[0], Status)
            caught = next(e for e in reader.events if isinstance(e, CaughtUp))
            assert caught.quality is Quality.TICKS
            assert caught.at_ns >= int(between(truth, 0, NOW)["ts_event"][-1])
            assert not reader.of(Bars) + reader.of(Gap)
        assert desk.peer.logins == 1
        assert len(desk.peer.lines) == 1

    played(universe, work, tapes=tapes)


def test_prices_are_told_in_our_unit_and_exactly(universe: Universe) -> None:
    """Corn quoted in dollars, and 64ths of notes, which a float would keep but a decimal text must too."""
    tapes = {ZC: walk(ZC, 3), ZN: walk(ZN, 4, tick_e9=15_625_000)}

    async def work(desk: Desk) -> None:
        feed = desk.feed()
        for contract, tape in tapes.items():
            reader = Reader(feed, contract)
            await reader.caught_up()
            assert alike(reader.rows) == alike(between(tape, NOW - 600 * SECOND, NOW))

    played(universe, work, tapes=tapes)


def test_where_the_server_keeps_candles_only_history_is_bars(universe: Universe) -> None:
    """Whole minutes up to the present one; that one is a gap until its candle is told, then mended."""
    tapes = {ES: walk(ES, 1)}

    async def work(desk: Desk) -> None:
        await desk.peer.advance(NOW + 20 * SECOND)
        reader = Reader(desk.feed())
        await reader.caught_up()
        assert next(e for e in reader.events if isinstance(e, CaughtUp)).quality is Quality.BARS_1M
        bars = np.concatenate([event.rows for event in reader.of(Bars)])
        truth = between(tapes[ES], NOW - 600 * SECOND, NOW)
        told = bars[bars["ts_event"] >= NOW - 600 * SECOND]
        assert told["ts_event"].tolist() == list(range(NOW - 600 * SECOND, NOW, MINUTE))
        for bar in told:
            of_it = between(truth, int(bar["ts_event"]), int(bar["ts_event"]) + MINUTE)
            assert (int(bar["high"]), int(bar["low"])) == (of_it["price"].max(), of_it["price"].min())
            assert (int(bar["open"]), int(bar["close"])) == (of_it["price"][0], of_it["price"][-1])
            assert int(bar["volume"]) == of_it["size"].sum()
        assert reader.of(Gap) == [Gap(NOW, NOW + 20 * SECOND, "reconnect")]
        for second in range(25, 90, 5):
            await desk.peer.advance(NOW + second * SECOND)
        await reader.until(lambda r: bool(r.of(Repaired)), "the gap mended")
        last = reader.of(Bars)[-1].rows
        assert last["ts_event"].tolist() == [NOW]
        assert int(last["volume"][0]) == between(tapes[ES], NOW, NOW + MINUTE)["size"].sum()
        await reader.until(
            lambda r: len(r.rows) >= len(between(tapes[ES], NOW + 20 * SECOND, NOW + 85 * SECOND))
        )
        assert alike(reader.rows) == alike(between(tapes[ES], NOW + 20 * SECOND, NOW + 85 * SECOND))

    played(universe, work, BarsOnlyPeer, tapes)


def test_a_past_cut_short_begins_with_bars(universe: Universe) -> None:
    """The server gives the newest 200 sales: bars to the edge of a minute, trades from it on, nothing twice."""
    tapes = {ES: walk(ES, 1)}

    async def work(desk: Desk) -> None:
        desk.peer.most_sales = 200
        reader = Reader(desk.feed())
        await reader.caught_up()
        assert next(e for e in reader.events if isinstance(e, CaughtUp)).quality is Quality.BARS_1M
        (bars,) = reader.of(Bars)
        edge_ns = int(bars.rows["ts_event"][-1]) + MINUTE
        assert edge_ns % MINUTE == 0
        oldest_ns = int(between(tapes[ES], 0, NOW)["ts_event"][-200])
        assert oldest_ns <= edge_ns < oldest_ns + MINUTE
        assert alike(reader.rows) == alike(between(tapes[ES], edge_ns, NOW))

    played(universe, work, tapes=tapes)


@pytest.mark.parametrize(("keeps_ns", "first_ns"), [(0, None), (290 * SECOND, NOW - 240 * SECOND)])
def test_a_past_that_is_not_what_was_traded_is_not_believed(
    universe: Universe, keeps_ns: int, first_ns: int | None
) -> None:
    """The server says that it has told all, and has forgotten what its candles still tell of."""
    tapes = {ES: walk(ES, 1)}

    async def work(desk: Desk) -> None:
        desk.peer.keeps_ns = keeps_ns
        await desk.peer.advance(NOW + 7 * SECOND)
        reader = Reader(desk.feed())
        await reader.caught_up()
        assert reader.of(CaughtUp)[0].quality is Quality.BARS_1M
        bars = np.concatenate([event.rows for event in reader.of(Bars)])
        told = bars[bars["ts_event"] >= NOW - 600 * SECOND]
        assert told["ts_event"].tolist() == list(range(NOW - 600 * SECOND, first_ns or NOW, MINUTE))
        assert alike(reader.rows) == alike(between(tapes[ES], first_ns or NOW * 2, NOW + 7 * SECOND))

    played(universe, work, tapes=tapes)


def test_more_than_can_be_held_is_bars_and_older_than_is_kept_a_gap(
    universe: Universe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 300 sales, by the counts of candles: bars to the edge of a minute, at most so many trades from it on."""
    monkeypatch.setattr(streams, "MOST_ASKED", 300)
    tapes = {ES: walk(ES, 1)}

    async def work(desk: Desk) -> None:
        since_ns = NOW - int(timedelta(days=40).total_seconds()) * SECOND
        reader = Reader(desk.feed(), since_ns=since_ns)
        await reader.caught_up()
        assert reader.of(Gap) == [Gap(since_ns, NOW - ADAPTER.caps.reach_ns, "not_kept")]
        assert reader.of(CaughtUp)[0].quality is Quality.BARS_1M
        bars = np.concatenate([event.rows for event in reader.of(Bars)])
        edge_ns = int(bars["ts_event"][-1]) + MINUTE
        assert int(bars["volume"].sum()) == between(tapes[ES], 0, edge_ns)["size"].sum()
        assert alike(reader.rows) == alike(between(tapes[ES], edge_ns, NOW))
        count = len(reader.rows)
        assert count <= 300 < count + len(between(tapes[ES], edge_ns - MINUTE, edge_ns))

    played(universe, work, tapes=tapes)


def test_after_a_drop_it_goes_on_where_it_was(universe: Universe) -> None:
    tapes = {ES: walk(ES, 1)}

    async def work(desk: Desk) -> None:
        feed = desk.feed()
        reader = Reader(feed)
        await reader.caught_up()
        await desk.peer.advance(NOW + 30 * SECOND)
        await reader.until(lambda r: len(r.rows) > 900, "rows")
        await desk.peer.drop()
        assert (await reader.lost()).code == "disconnected"
        since_ns = int(reader.rows["ts_event"].max()) - 2 * SECOND
        desk.peer.repeat(30)
        again = Reader(feed, since_ns=since_ns)
        await again.caught_up()
        assert alike(again.rows) == alike(between(tapes[ES], since_ns, NOW + 30 * SECOND))
        assert desk.peer.logins == 1, "the access token still holds"

    played(universe, work, tapes=tapes)


def test_heartbeats_come_while_the_link_lives_and_not_while_it_is_silent(universe: Universe) -> None:
    async def work(desk: Desk) -> None:
        reader = Reader(desk.feed())
        await reader.caught_up()
        await reader.until(lambda r: len(r.of(Heartbeat)) >= 3, "beats")
        assert all(beat.at_ns <= NOW for beat in reader.of(Heartbeat))
        desk.peer.freeze(on=True)
        await asyncio.sleep(0.3)  # what is under way when the link falls silent, and its two beats of grace
        beats = len(reader.of(Heartbeat))
        assert (await reader.lost()).code == "link_silent"
        assert len(reader.of(Heartbeat)) == beats

    played(universe, work)


# -- what becomes of sales


def test_sales_are_corrected_cancelled_and_removed(universe: Universe) -> None:
    async def work(desk: Desk) -> None:
        reader = Reader(desk.feed())
        await reader.caught_up()
        known = reader.rows["id"][-4:].tolist()
        time = NOW // MS
        base = {"time": time, "price": 6700.25, "size": 3, "aggressorSide": "BUY"}
        before = len(reader.rows)
        for event in (
            {**base, "index": known[0], "type": "CORRECTION", "price": 6700.75, "size": 2},
            {**base, "index": known[1], "type": "CANCEL"},
            {**base, "index": known[2], "eventFlags": events.Flag.REMOVE_EVENT},
            {**base, "index": known[3], "type": "CORRECTION", "validTick": False},
            {**base, "index": 7, "validTick": False},
            {**base, "index": 8, "price": "NaN"},
            {**base, "index": 9, "spreadLeg": True, "extendedTradingHours": True},
        ):
            await desk.peer.say("/ESZ26:XCME", event)
        await reader.until(lambda r: len(r.rows) > before, "a sale")
        assert reader.of(Amend) == [
            Amend(known[0], "correct", 6_700_750_000_000, 2),
            Amend(known[1], "cancel"),
            Amend(known[2], "cancel"),
            Amend(known[3], "cancel"),
        ]
        assert reader.rows["id"][before:].tolist() == [9]

    played(universe, work)


def test_a_change_of_several_events_is_told_when_it_is_whole(universe: Universe) -> None:
    async def work(desk: Desk) -> None:
        reader = Reader(desk.feed())
        await reader.caught_up()
        before = len(reader.rows)
        sale = {"time": NOW // MS, "price": 6700.25, "size": 3}
        await desk.peer.say("/ESZ26:XCME", {**sale, "index": 1, "eventFlags": events.Flag.TX_PENDING})
        beats = len(reader.of(Heartbeat))
        await reader.until(lambda r: len(r.of(Heartbeat)) > beats + 1, "beats")
        assert len(reader.rows) == before
        await desk.peer.say("/ESZ26:XCME", {**sale, "index": 2})
        await reader.until(lambda r: len(r.rows) == before + 2, "both")

    played(universe, work)


def test_a_sale_corrected_while_nobody_listened_is_amended(universe: Universe) -> None:
    """What the first stream sent is not sent again in its new shape, which would count it twice."""
    tapes = {ES: walk(ES, 1)}

    async def work(desk: Desk) -> None:
        feed = desk.feed()
        reader = Reader(feed)
        await reader.caught_up()
        known, cancelled = reader.rows["id"][-2:].tolist()
        await reader.close()
        find = desk.peer.sales_between

        def changed(symbol: str, from_ns: int, to_ns: int) -> Any:
            for event in find(symbol, from_ns, to_ns):
                kind = {known: "CORRECTION", cancelled: "CANCEL"}.get(event["index"], "NEW")
                yield {**event, "type": kind, **({"price": 6701.5} if kind == "CORRECTION" else {})}

        desk.peer.sales_between = changed  # type: ignore[method-assign]
        again = Reader(feed, since_ns=NOW - 20 * SECOND)
        await again.caught_up()
        (correct,) = [e for e in again.of(Amend) if e.kind == "correct"]
        assert (correct.id, correct.price) == (known, 6_701_500_000_000)
        assert [e.id for e in again.of(Amend) if e.kind == "cancel"] == [cancelled]
        assert not {known, cancelled} & set(again.rows["id"].tolist())

    played(universe, work, tapes=tapes)


def test_a_past_told_anew_is_asked_for_again(universe: Universe) -> None:
    async def work(desk: Desk) -> None:
        reader = Reader(desk.feed())
        await reader.caught_up()
        sale = {"index": 1, "time": NOW // MS, "price": 1, "size": 1}
        await desk.peer.say("/ESZ26:XCME", {**sale, "eventFlags": events.Flag.SNAPSHOT_BEGIN})
        assert (await reader.lost()).code == "vendor_error"

    played(universe, work)


@pytest.mark.parametrize(
    ("text", "price_e9"),
    [
        ("6.7315E-3", 6_731_500),
        ("0.0067315000000000005", 6_731_500),
        ("-37.63", -37_630_000_000),
        ("111.015625", 111_015_625_000),
    ],
)
def test_a_price_is_read_from_its_text(text: str, price_e9: int) -> None:
    told = msgspec.json.decode(
        f'{{"index":1,"time":2,"price":{text},"size":1.0}}', type=dict[str, Any], strict=True
    )
    exact = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode(
        f'{{"index":1,"time":2,"price":{text},"size":1.0}}'
    )
    assert told["index"] == 1
    sale = events.read_sale(exact, Decimal(1))
    assert (sale.price_e9, sale.size_lots, sale.side, sale.trade) == (price_e9, 1, b"N", True)


def test_what_cannot_be_read_is_said_and_leaves_the_other_stream(universe: Universe) -> None:
    async def work(desk: Desk) -> None:
        feed = desk.feed()
        reader, other = Reader(feed), Reader(feed, NQ)
        await reader.caught_up()
        await other.caught_up()
        (line,) = desk.peer.lines
        number = next(n for n, room in line.rooms.items() if room.series[0].symbol.startswith("/ES"))
        await line.send({"type": "FEED_DATA", "channel": number, "data": ["TimeAndSale", [1, 2]]})
        assert (await reader.lost()).code == "protocol"
        beats = len(other.of(Heartbeat))
        await other.until(lambda r: len(r.of(Heartbeat)) > beats, "the other's beats")

    played(universe, work)


def test_a_reader_that_is_slow_loses_its_own_stream(
    universe: Universe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "MOST_WAITING", 300)
    tapes = {ES: walk(ES, 1), NQ: walk(NQ, 2)[:20]}

    async def work(desk: Desk) -> None:
        desk.peer.now_ns = NOW - 1200 * SECOND
        feed = desk.feed()
        other = Reader(feed, NQ, NOW)
        slow = feed.open(ES, Cursor(desk.peer.now_ns))
        while not isinstance(await anext(slow), CaughtUp):
            pass
        await other.caught_up()
        for step in range(1, 11):
            await desk.peer.advance(NOW + (step * 120 - 1200) * SECOND)
        beats = len(other.of(Heartbeat))
        await other.until(lambda r: len(r.of(Heartbeat)) > beats + 1, "the other's beats")
        with pytest.raises(FeedLost) as caught:
            await exhausted(slow)
        assert caught.value.code == "seam_overflow"
        assert other.problem is None

    played(universe, work, tapes=tapes)


# -- what goes wrong


def test_a_wrong_secret_is_tried_twice_and_not_again(universe: Universe) -> None:
    async def work(desk: Desk) -> None:
        feed = desk.feed(client_secret="another")
        first, second = await Reader(feed).lost(), await Reader(feed).lost()
        assert (type(first), first.code) == (FeedLost, "login_refused")
        assert (type(second), second.code) == (LoginRefused, "login_refused")
        assert (await Reader(feed, NQ).lost()).code == "login_refused"
        assert (desk.peer.logins, desk.peer.refusals) == (2, 2)

    played(universe, work)


def test_a_grant_that_has_ended_is_told_as_such(universe: Universe) -> None:
    async def work(desk: Desk) -> None:
        feed = desk.feed()
        reader = Reader(feed)
        await reader.caught_up()
        await desk.peer.expire(on=True)
        assert (await reader.lost()).code == "login_expired"
        assert type(await Reader(feed).lost()) is FeedLost
        last = await Reader(feed).lost()
        assert (type(last), last.code) == (LoginRefused, "login_expired")
        assert desk.peer.refusals == 2

    played(universe, work)


def test_one_sign_in_serves_all_and_a_token_is_renewed_in_time(universe: Universe) -> None:
    async def work(desk: Desk) -> None:
        feed = desk.feed()
        readers = [Reader(feed, contract) for contract in (ES, NQ)]
        for reader in readers:
            await reader.caught_up()
        assert (desk.peer.logins, len(desk.peer.lines)) == (1, 1)
        desk.peer.now_ns += 721 * SECOND  # four fifths of a quarter of an hour
        await desk.peer.drop()
        for reader in readers:
            await reader.lost()
        again = [Reader(feed, contract) for contract in (ES, NQ)]
        for reader in again:
            await reader.caught_up()
        assert (desk.peer.logins, desk.peer.refusals, len(desk.peer.lines)) == (2, 0, 1)

    played(universe, work)


def test_an_access_token_refused_before_its_time_is_renewed_once(universe: Universe) -> None:
    async def work(desk: Desk) -> None:
        feed = desk.feed()
        await Reader(feed).caught_up()
        desk.peer.access_tokens.clear()
        await Reader(feed, NQ).caught_up()
        assert (desk.peer.logins, desk.peer.refusals) == (2, 0)

    played(universe, work)


@pytest.mark.parametrize(
    ("level", "code"), [("demo", "not_entitled"), ("delayed", "not_entitled"), ("none", "not_entitled")]
)
def test_a_login_without_real_time_data(universe: Universe, level: str, code: str) -> None:
    async def work(desk: Desk) -> None:
        desk.peer.level = level
        problem = await Reader(desk.feed()).lost()
        assert (type(problem), problem.code) == (FeedRefused, code)

    played(universe, work)


def test_a_contract_it_may_not_see_or_does_not_have_ends_its_own_stream(universe: Universe) -> None:
    async def work(desk: Desk) -> None:
        desk.peer.forbidden.add("/NQZ26:XCME")
        feed = desk.feed()
        reader = Reader(feed)
        await reader.caught_up()
        forbidden, unknown = await Reader(feed, NQ).lost(), await Reader(feed, ZN).lost()
        assert (type(forbidden), forbidden.code) == (FeedRefused, "not_entitled")
        assert (type(unknown), unknown.code) == (FeedRefused, "unknown_contract")
        nowhere = await Reader(feed, Contract("XX", 2026, 12)).lost()
        assert nowhere.code == "unknown_contract"
        assert reader.problem is None

    played(universe, work)


@pytest.mark.parametrize(
    "url",
    [
        "ws://169.254.169.254/latest", "wss://dxfeed.com.example.org/realtime", "wss://evil.org/?a=.dxfeed.com",
        "wss://tasty-openapi-ws.dxfeed.com:8443/realtime", "ws://tasty-openapi-ws.dxfeed.com/realtime",
        "https://127.0.0.1/", "wss://[bad", "",
    ],
)  # fmt: skip
def test_an_address_that_is_not_the_vendors_is_not_followed(universe: Universe, url: str) -> None:
    async def work(desk: Desk) -> None:
        desk.peer.dxlink_url = url
        problem = await Reader(desk.feed()).lost()
        assert problem.code == "protocol"
        assert desk.peer.lines == []

    played(universe, work)


@pytest.mark.parametrize("url", ["wss://tasty-openapi-ws.dxfeed.com/realtime", "wss://x.tastyworks.com/y"])
def test_the_vendors_own_addresses_are(universe: Universe, url: str) -> None:
    """Believed, that is: there is no such name here, so that it is not reached."""

    async def work(desk: Desk) -> None:
        desk.peer.dxlink_url = url
        problem = await Reader(desk.feed()).lost()
        assert problem.code == "unreachable"
        assert url not in str(problem)

    played(universe, work)


@pytest.mark.parametrize(
    ("status", "body", "headers", "kind", "code"),
    [
        (429, b"", {}, FeedLost, "rate_limited"),
        (503, b"<html>", {}, FeedLost, "vendor_error"),
        (403, b'{"error":{"code":"not_permitted"}}', {}, FeedRefused, "not_allowed"),
        (200, b"nonsense", {}, FeedLost, "protocol"),
        (200, b'{"data":[]}', {}, FeedLost, "protocol"),
        (200, b'{"data":{"token":1}}', {}, FeedLost, "protocol"),
        (302, b"", {"Location": "http://127.0.0.1:1/elsewhere"}, FeedLost, "protocol"),
    ],
)
def test_what_the_vendor_may_answer(
    universe: Universe, status: int, body: bytes, headers: dict[str, str], kind: type, code: str
) -> None:
    async def work(desk: Desk) -> None:
        token = web.Response(status=200, body=b'{"access_token":"tt-access-1","expires_in":900}')
        quote = web.Response(status=status, body=body, headers=headers)
        runner, base = await answers({"/oauth/token": token, "/api-quote-tokens": quote})
        kit = Kit(desk.universe, PeerClock(desk.peer), lambda: (ES,), {"api": base}, 20.0)
        feed = ADAPTER.feed(desk.peer.given, kit)
        problem = await Reader(feed).lost()
        assert (type(problem), problem.code) == (kind, code)
        await feed.close()
        await runner.cleanup()

    played(universe, work)


def test_a_vendor_that_is_not_there(universe: Universe) -> None:
    async def work(desk: Desk) -> None:
        kit = Kit(desk.universe, PeerClock(desk.peer), lambda: (ES,), {"api": "http://127.0.0.1:1"}, 20.0)
        feed = ADAPTER.feed(desk.peer.given, kit)
        problem = await Reader(feed).lost()
        assert (type(problem), problem.code) == (FeedLost, "unreachable")
        await feed.close()

    played(universe, work)


def test_secrets_are_in_no_log_and_no_error(universe: Universe, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[str] = []

    async def work(desk: Desk) -> None:
        feed = desk.feed()
        reader = Reader(feed)
        await reader.caught_up()
        await desk.peer.drop()
        told.append(repr(await reader.lost()))
        await desk.peer.expire(on=True)
        told.extend([repr(await Reader(feed).lost()) for _ in range(3)])
        told.append(repr(vars(feed)) + str(feed.contracts))

    played(universe, work)
    assert len(told) == 5
    for secret in SECRETS:
        assert secret not in caplog.text
        assert not [text for text in told if secret in text]


# -- a second opinion


def test_the_library_most_used_reads_the_fake_as_we_do(universe: Universe) -> None:
    """The same sales, prices and sides by `tastytrade` 13, and the tape's candles: the fake speaks what is spoken."""
    tapes = {ES: walk(ES, 1)}
    truth = between(tapes[ES], NOW, NOW + MINUTE)

    async def work(desk: Desk) -> None:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-W", "ignore", str(Path(__file__).with_name("tastytrade_library.py")),
            desk.peer.places["api"], str((NOW - 600 * SECOND) // SECOND), "10", str(len(truth)),
            env={**os.environ, "TT_SECRET": CLIENT_SECRET, "TT_REFRESH": REFRESH_TOKEN},
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert child.stdout is not None
        assert await child.stdout.readline() == b"ready\n"
        ours = Reader(desk.feed(), since_ns=NOW)
        await ours.caught_up()
        await desk.peer.advance(NOW + MINUTE)
        theirs = msgspec.json.decode(await child.stdout.readline())
        assert await child.wait() == 0
        await ours.until(lambda r: len(r.rows) == len(truth), "all rows")
        assert theirs["symbol"] == "/ESZ26:XCME"
        assert [(time, volume) for time, *_, volume in theirs["candles"]] == [
            (start_ns // MS, int(between(tapes[ES], start_ns, start_ns + MINUTE)["size"].sum()))
            for start_ns in range(NOW - MINUTE, NOW - 601 * SECOND, -MINUTE)
        ]
        sides = {"BUY": b"B", "SELL": b"A", "UNDEFINED": b"N"}
        assert [
            (index, time * MS + nanos, int(Decimal(price) * 10**9), size, sides[side])
            for index, time, nanos, price, size, side in theirs["sales"]
        ] == [tuple(row) for row in ours.rows[["id", "ts_event", "price", "size", "side"]].tolist()]

    played(universe, work, tapes=tapes, seconds=60)
