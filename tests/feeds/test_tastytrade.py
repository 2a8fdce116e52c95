"""tastytrade's adapter with the fake vendor on loopback: its requests, and events that equal the tape."""

import asyncio
import os
import sys
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import msgspec
import numpy as np
import pytest
from support.vendors.tastytrade_peer import (
    CLIENT_SECRET,
    MINUTE,
    MS,
    REFRESH_TOKEN,
    BarsOnlyPeer,
)
from tests.feeds.tastytrade_harness import (
    ES,
    NOW,
    NQ,
    SECOND,
    ZC,
    ZN,
    FixedPeer,
    PeerClock,
    Reader,
    TastytradeHarness,
    alike,
    between,
    run_with_vendor,
    universe,
    walk,
)

from outcry.connections.broker_adapter import AdapterContext, InvalidCredential
from outcry.feeds.tastytrade import stream as streams
from outcry.feeds.tastytrade.adapter import ADAPTER
from outcry.feeds.tastytrade.rest import Credentials, QuoteToken
from outcry.feeds.tastytrade.symbols import (
    EXCHANGES,
    read_future,
    rest_symbol,
    streamed_contract,
    streamed_symbol,
)
from outcry.market.instruments import Contract
from outcry.trades.feed import Bars, CaughtUp, Gap, Heartbeat, Repaired, RowFlag, Status, Trades
from outcry.trades.records import Quality

# -- what contracts are called


def test_every_product_has_a_name_on_the_stream_and_back() -> None:
    for product in universe().products.values():
        contract = universe().front(product.root, date(2026, 11, 18))
        symbol = streamed_symbol(contract, product.exchange)
        assert symbol is not None, product.root
        assert streamed_contract(symbol) == contract
        answer = {"streamer-symbol": symbol, "tick-size": str(Decimal(product.tick_e9) / 10**9)}
        found = read_future(answer, contract, product)
        assert found is not None
        assert (found.symbol, found.scale) == (symbol, 1)
    assert {p.exchange for p in universe().products.values()} <= set(EXCHANGES)


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
def test_names_as_the_vendor_writes_them(contract: Contract, rest: str, streamed: str) -> None:
    assert rest_symbol(contract) == rest
    assert streamed_symbol(contract, universe().products[contract.root].exchange) == streamed
    assert streamed_contract(streamed) == contract


def test_the_vendors_answer_decides_but_for_another_decade() -> None:
    product = universe().products["ES"]
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
def test_the_vendors_tick_tells_its_unit(root: str, tick: str | None, scale: int) -> None:
    """Corn in dollars is told in cents; half a tick is a finer tick and no other unit."""
    contract = Contract(root, 2026, 12)
    found = read_future({"tick-size": tick}, contract, universe().products[root])
    assert found is not None
    assert found.scale == scale


# -- what is entered


def test_entries_that_cannot_be_right() -> None:
    context = AdapterContext(universe(), PeerClock(FixedPeer()), lambda: ())
    good = {"client_secret": "s", "refresh_token": "r", "environment": "sandbox"}
    for changed, code, name in (
        ({"client_secret": " "}, "missing", "client_secret"),
        ({"refresh_token": ""}, "missing", "refresh_token"),
        ({"refresh_token": "two words"}, "rejected", "refresh_token"),
        ({"client_secret": "x" * 5000}, "rejected", "client_secret"),
        ({"environment": "staging"}, "rejected", "environment"),
    ):
        with pytest.raises(InvalidCredential) as caught:
            ADAPTER.feed({**good, **changed}, context)
        assert (caught.value.code, caught.value.field) == (code, name)
        assert "words" not in str(caught.value)


def test_what_holds_secrets_does_not_show_them() -> None:
    assert "hidden" not in repr(Credentials("hidden", "hidden"))
    assert "hidden" not in repr(QuoteToken("wss://x", "hidden"))


# -- what it brings


@pytest.mark.parametrize("full", [False, True])
def test_history_and_what_comes_are_the_tape_row_for_row(full: bool) -> None:
    tapes = {ES: walk(ES, 1), NQ: walk(NQ, 2)}

    async def work(harness: TastytradeHarness) -> None:
        harness.peer.full = full
        feed = harness.feed()
        readers = {contract: Reader(feed, contract) for contract in (ES, NQ)}
        for reader in readers.values():
            await reader.caught_up()
        for second in range(1, 120, 7):
            await harness.peer.advance(NOW + second * SECOND)
        for contract, reader in readers.items():
            truth = between(tapes[contract], NOW - 600 * SECOND, harness.peer.now_ns)
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
        assert harness.peer.logins == 1
        assert len(harness.peer.lines) == 1

    run_with_vendor(work, tapes=tapes)


def test_prices_are_told_in_our_unit_and_exactly() -> None:
    """Corn quoted in dollars, and 64ths of notes, which a float would keep but a decimal text must too."""
    tapes = {ZC: walk(ZC, 3), ZN: walk(ZN, 4, tick_e9=15_625_000)}

    async def work(harness: TastytradeHarness) -> None:
        feed = harness.feed()
        for contract, tape in tapes.items():
            reader = Reader(feed, contract)
            await reader.caught_up()
            assert alike(reader.rows) == alike(between(tape, NOW - 600 * SECOND, NOW))

    run_with_vendor(work, tapes=tapes)


def test_where_the_server_keeps_candles_only_history_is_bars() -> None:
    """Whole minutes up to the present one; that one is a gap until its candle is told, then mended."""
    tapes = {ES: walk(ES, 1)}

    async def work(harness: TastytradeHarness) -> None:
        await harness.peer.advance(NOW + 20 * SECOND)
        reader = Reader(harness.feed())
        await reader.caught_up()
        assert next(e for e in reader.events if isinstance(e, CaughtUp)).quality is Quality.BARS_1M
        bars = np.concatenate([event.rows for event in reader.of(Bars)])
        truth = between(tapes[ES], NOW - 600 * SECOND, NOW)
        answer = bars[bars["ts_event"] >= NOW - 600 * SECOND]
        assert answer["ts_event"].tolist() == list(range(NOW - 600 * SECOND, NOW, MINUTE))
        for bar in answer:
            of_it = between(truth, int(bar["ts_event"]), int(bar["ts_event"]) + MINUTE)
            assert (int(bar["high"]), int(bar["low"])) == (of_it["price"].max(), of_it["price"].min())
            assert (int(bar["open"]), int(bar["close"])) == (of_it["price"][0], of_it["price"][-1])
            assert int(bar["volume"]) == of_it["size"].sum()
        assert reader.of(Gap) == [Gap(NOW, NOW + 20 * SECOND, "reconnect")]
        for second in range(25, 90, 5):
            await harness.peer.advance(NOW + second * SECOND)
        await reader.until(lambda r: bool(r.of(Repaired)), "the gap mended")
        last = reader.of(Bars)[-1].rows
        assert last["ts_event"].tolist() == [NOW]
        assert int(last["volume"][0]) == between(tapes[ES], NOW, NOW + MINUTE)["size"].sum()
        await reader.until(
            lambda r: len(r.rows) >= len(between(tapes[ES], NOW + 20 * SECOND, NOW + 85 * SECOND))
        )
        assert alike(reader.rows) == alike(between(tapes[ES], NOW + 20 * SECOND, NOW + 85 * SECOND))

    run_with_vendor(work, BarsOnlyPeer, tapes)


def test_a_past_cut_short_begins_with_bars() -> None:
    """The server gives the newest 200 sales: bars to the edge of a minute, trades from it on, nothing twice."""
    tapes = {ES: walk(ES, 1)}

    async def work(harness: TastytradeHarness) -> None:
        harness.peer.most_sales = 200
        reader = Reader(harness.feed())
        await reader.caught_up()
        assert next(e for e in reader.events if isinstance(e, CaughtUp)).quality is Quality.BARS_1M
        (bars,) = reader.of(Bars)
        edge_ns = int(bars.rows["ts_event"][-1]) + MINUTE
        assert edge_ns % MINUTE == 0
        oldest_ns = int(between(tapes[ES], 0, NOW)["ts_event"][-200])
        assert oldest_ns <= edge_ns < oldest_ns + MINUTE
        assert alike(reader.rows) == alike(between(tapes[ES], edge_ns, NOW))

    run_with_vendor(work, tapes=tapes)


@pytest.mark.parametrize(("keeps_ns", "first_ns"), [(0, None), (290 * SECOND, NOW - 240 * SECOND)])
def test_a_past_that_is_not_what_was_traded_is_not_believed(keeps_ns: int, first_ns: int | None) -> None:
    """The server says that it has told all, and has forgotten what its candles still tell of."""
    tapes = {ES: walk(ES, 1)}

    async def work(harness: TastytradeHarness) -> None:
        harness.peer.keeps_ns = keeps_ns
        await harness.peer.advance(NOW + 7 * SECOND)
        reader = Reader(harness.feed())
        await reader.caught_up()
        assert reader.of(CaughtUp)[0].quality is Quality.BARS_1M
        bars = np.concatenate([event.rows for event in reader.of(Bars)])
        answer = bars[bars["ts_event"] >= NOW - 600 * SECOND]
        assert answer["ts_event"].tolist() == list(range(NOW - 600 * SECOND, first_ns or NOW, MINUTE))
        assert alike(reader.rows) == alike(between(tapes[ES], first_ns or NOW * 2, NOW + 7 * SECOND))

    run_with_vendor(work, tapes=tapes)


def test_more_than_can_be_held_is_bars_and_older_than_is_kept_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 300 sales, by the counts of candles: bars to the edge of a minute, at most so many trades from it on."""
    monkeypatch.setattr(streams, "MAX_SALES", 300)
    tapes = {ES: walk(ES, 1)}

    async def work(harness: TastytradeHarness) -> None:
        since_ns = NOW - int(timedelta(days=40).total_seconds()) * SECOND
        reader = Reader(harness.feed(), since_ns=since_ns)
        await reader.caught_up()
        assert reader.of(Gap) == [Gap(since_ns, NOW - ADAPTER.caps.reach_ns, "not_kept")]
        assert reader.of(CaughtUp)[0].quality is Quality.BARS_1M
        bars = np.concatenate([event.rows for event in reader.of(Bars)])
        edge_ns = int(bars["ts_event"][-1]) + MINUTE
        assert int(bars["volume"].sum()) == between(tapes[ES], 0, edge_ns)["size"].sum()
        assert alike(reader.rows) == alike(between(tapes[ES], edge_ns, NOW))
        count = len(reader.rows)
        assert count <= 300 < count + len(between(tapes[ES], edge_ns - MINUTE, edge_ns))

    run_with_vendor(work, tapes=tapes)


def test_after_a_drop_it_goes_on_where_it_was() -> None:
    tapes = {ES: walk(ES, 1)}

    async def work(harness: TastytradeHarness) -> None:
        feed = harness.feed()
        reader = Reader(feed)
        await reader.caught_up()
        await harness.peer.advance(NOW + 30 * SECOND)
        await reader.until(lambda r: len(r.rows) > 900, "rows")
        await harness.peer.drop()
        assert (await reader.end_of_stream()).code == "disconnected"
        since_ns = int(reader.rows["ts_event"].max()) - 2 * SECOND
        harness.peer.repeat(30)
        again = Reader(feed, since_ns=since_ns)
        await again.caught_up()
        assert alike(again.rows) == alike(between(tapes[ES], since_ns, NOW + 30 * SECOND))
        assert harness.peer.logins == 1, "the access token still holds"

    run_with_vendor(work, tapes=tapes)


def test_heartbeats_come_while_the_link_lives_and_not_while_it_is_silent() -> None:
    async def work(harness: TastytradeHarness) -> None:
        reader = Reader(harness.feed())
        await reader.caught_up()
        await reader.until(lambda r: len(r.of(Heartbeat)) >= 3, "beats")
        assert all(beat.at_ns <= NOW for beat in reader.of(Heartbeat))
        harness.peer.freeze(on=True)
        await asyncio.sleep(0.3)  # what is under way when the link falls silent, and its two beats of grace
        beats = len(reader.of(Heartbeat))
        assert (await reader.end_of_stream()).code == "link_silent"
        assert len(reader.of(Heartbeat)) == beats

    run_with_vendor(work)


# -- a second opinion


def test_the_library_most_used_reads_the_fake_as_we_do() -> None:
    """The same sales, prices and sides by `tastytrade` 13, and the tape's candles: the fake speaks what is spoken."""
    tapes = {ES: walk(ES, 1)}
    truth = between(tapes[ES], NOW, NOW + MINUTE)

    async def work(harness: TastytradeHarness) -> None:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-W", "ignore", str(Path(__file__).with_name("tastytrade_library.py")),
            harness.peer.places["api"], str((NOW - 600 * SECOND) // SECOND), "10", str(len(truth)),
            env={**os.environ, "TT_SECRET": CLIENT_SECRET, "TT_REFRESH": REFRESH_TOKEN},
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert child.stdout is not None
        assert await child.stdout.readline() == b"ready\n"
        ours = Reader(harness.feed(), since_ns=NOW)
        await ours.caught_up()
        await harness.peer.advance(NOW + MINUTE)
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

    run_with_vendor(work, tapes=tapes, seconds=60)
