"""Hyperliquid's adapter with the fake vendor on loopback."""

import asyncio
from dataclasses import replace
from decimal import Decimal

import pytest
from support.vendors.bars import bars_by_hand
from support.vendors.hyperliquid_peer import HyperliquidPeer
from tests.feeds.feed_harness import (
    ES,
    NOW_NS,
    NQ,
    SECOND,
    FeedHarness,
    StreamReader,
    columns,
    open_feed,
    run,
    tape,
    until,
)
from tests.virtual_time import run_in_virtual_time

from outcry.base.clock import SystemClock
from outcry.connections.broker_adapter import AdapterContext, InvalidCredential
from outcry.feeds.hyperliquid import socket, terms
from outcry.feeds.hyperliquid.adapter import ADAPTER, coin_of
from outcry.feeds.hyperliquid.info import WeightLimiter
from outcry.feeds.hyperliquid.protocol import Asset, Candle, Meta, Trade, candle_rows, decode, trade_rows
from outcry.feeds.number_parsing import parse_steps
from outcry.market.instruments import Contract
from outcry.trades.feed import CaughtUp, FeedLost, FeedRefused, Gap, Heartbeat, Status
from outcry.trades.records import Quality
from outcry.trades.reference_tables import load_reference

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
SINCE_NS = NOW_NS - HOUR


def peer() -> HyperliquidPeer:
    made = HyperliquidPeer()
    made.now_ns = NOW_NS
    for seed, contract in enumerate((ES, NQ)):
        made.tape(contract, tape(seed, SECOND, first_ns=NOW_NS - 2 * HOUR, end_ns=NOW_NS + HOUR // 4))
    return made


async def caught_up(harness: FeedHarness, contract: Contract = ES, since_ns: int = SINCE_NS) -> StreamReader:
    reader = harness.follow(contract, since_ns)
    await until(lambda: bool(reader.of(CaughtUp)) or reader.problem is not None, "caught up")
    assert reader.problem is None, reader.problem
    return reader


async def play(made: HyperliquidPeer, seconds: int, step: int = 1) -> None:
    for _ in range(0, seconds, step):
        await made.advance(made.now_ns + step * SECOND)
        await asyncio.sleep(0.005)


async def equals_the_tape(made: HyperliquidPeer, one: StreamReader, cut_ns: int) -> None:
    """Bars up to a whole minute and trades from it on are the tape."""
    rows = made.tapes["ES"]
    past = rows[(rows["ts_event"] >= SINCE_NS) & (rows["ts_event"] < cut_ns)]
    live = rows[(rows["ts_event"] >= cut_ns) & (rows["ts_event"] < made.now_ns)]
    await until(lambda: len(one.trades()) >= len(live), "all trades")
    assert one.bars() == bars_by_hand(past, MINUTE)
    names = ("ts_event", "price", "size", "side")
    assert columns(one.trades(), *names) == columns(live, *names)


# -- the stream


def test_bars_up_to_a_whole_minute_and_then_every_trade() -> None:
    """Connected at 15:00:00: bars to 14:59, caught up; then the bar of 15:00, and trades from 15:01 on."""

    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            one = await caught_up(harness)
            assert one.events[0] == Status(subscribed=True, code="subscribed")
            assert one.of(CaughtUp) == [CaughtUp(NOW_NS - MINUTE, Quality.BARS_1M)]
            await play(made, 50)
            assert not len(one.trades())
            assert all(beat.at_ns <= NOW_NS - MINUTE for beat in one.of(Heartbeat))
            await play(made, 40)
            await equals_the_tape(made, one, NOW_NS + MINUTE)
            assert not one.of(Gap)

    run(work)


def test_the_newest_trades_that_a_subscription_repeats_are_not_sent() -> None:
    async def work() -> None:
        made = peer()
        made.snapshot = 500
        async with open_feed(made) as harness:
            one = await caught_up(harness)
            await play(made, 75)
            two = harness.follow(ES, made.now_ns)  # shares the subscription
            await until(lambda: bool(two.of(CaughtUp)), "the second stream")
            await play(made, 15)
            await equals_the_tape(made, one, NOW_NS + MINUTE)
            assert len(made.lines) == 1

    run(work)


def test_trades_that_the_vendor_sends_twice_count_once() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            one = await caught_up(harness)
            await play(made, 70)
            rows = made.past("ES", NOW_NS + MINUTE, made.now_ns)
            for text in made.texts("ES", rows):
                await made.lines[0].send(text)
            await play(made, 5)
            await equals_the_tape(made, one, NOW_NS + MINUTE)

    run(work)


def test_a_candle_that_lacks_trades_is_requested_again() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            one = await caught_up(harness)
            await play(made, 30)
            made.unsettled = 3
            await play(made, 45)
            await until(lambda: made.unsettled == 0, "the requests")
            await play(made, 5)
            await equals_the_tape(made, one, NOW_NS + MINUTE)

    run(work)


def test_a_candle_that_stays_incomplete_is_a_gap() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            one = await caught_up(harness)
            await play(made, 30)
            made.unsettled = 100
            await play(made, 45)
            await until(lambda: bool(one.of(Gap)), "the gap")
            assert one.of(Gap) == [Gap(NOW_NS - MINUTE, NOW_NS + MINUTE, "not_kept")]

    run(work)


def test_history_from_before_the_vendors_is_a_gap() -> None:
    """The vendor has 5,000 minutes; at 15:00 that is since 3 days, 11 hours and 20 minutes ago."""

    async def work() -> None:
        async with open_feed(peer()) as harness:
            one = await caught_up(harness, since_ns=NOW_NS - 100 * HOUR)
            kept_ns = NOW_NS - 5_000 * MINUTE
            assert one.of(Gap) == [Gap(NOW_NS - 100 * HOUR, kept_ns, "not_kept")]

    run(work)


# -- limits and refusals


def test_a_coin_that_the_vendor_does_not_have() -> None:
    async def work() -> None:
        made = peer()
        del made.tapes["ES"]
        async with open_feed(made) as harness:
            problem = await harness.ended(ES)
            assert isinstance(problem, FeedRefused)
            assert problem.code == "unknown_contract"
            await caught_up(harness, NQ)

    run(work)


def test_a_coin_that_is_no_longer_traded() -> None:
    async def work() -> None:
        made = peer()
        made.delisted = {"ES"}
        async with open_feed(made) as harness:
            problem = await harness.ended(ES)
            assert (type(problem), problem.code) == (FeedRefused, "unknown_contract")

    run(work)


def test_sizes_finer_than_the_size_step_are_refused_before_the_first_trade() -> None:
    async def work() -> None:
        made = peer()
        made.decimals["ES"] = 2
        async with open_feed(made) as harness:
            problem = await harness.ended(ES)
            assert (type(problem), problem.code) == (FeedRefused, "wrong_step")
            assert "size_step" in str(problem)
            await caught_up(harness, NQ)

    run(work)


def test_prices_finer_than_the_tick_are_refused_before_the_first_trade() -> None:
    """ES has a tick of 0.25; the last trade before the connection is at a multiple of 0.05."""

    async def work() -> None:
        made = peer()
        rows = made.tapes["ES"]
        last = int((rows["ts_event"] < NOW_NS).sum()) - 1
        rows["price"][last] += 50_000_000
        async with open_feed(made) as harness:
            problem = await harness.ended(ES)
            assert (type(problem), problem.code) == (FeedRefused, "wrong_step")
            assert "tick" in str(problem)

    run(work)


def test_the_first_trade_between_two_ticks_ends_the_stream() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            one = await caught_up(harness)
            await play(made, 75)
            rows = made.tapes["ES"]
            rows["price"][rows["ts_event"] >= made.now_ns] += 50_000_000
            await play(made, 5)
            await until(lambda: one.problem is not None, "an end")
            assert isinstance(one.problem, FeedRefused)
            assert one.problem.code == "wrong_step"
            assert not (one.trades()["price"] % 250_000_000).any()

    run(work)


def test_a_refused_request_is_tried_again_by_the_service() -> None:
    async def work() -> None:
        made = peer()
        made.busy = 1
        async with open_feed(made) as harness:
            problem = await harness.ended(ES)
            assert (type(problem), problem.code) == (FeedLost, "rate_limited")
            await caught_up(harness)

    run(work)


def test_requests_wait_for_room_within_the_limit() -> None:
    """Of 60 a minute, 20 and 21 are spent at once; 21 waits for the first to be a minute old, 40 for the second."""

    async def work() -> list[float]:
        loop, limiter = asyncio.get_running_loop(), WeightLimiter(60, 60.0)
        began_s, sent = loop.time(), list[float]()
        for weight, pause_s in ((20, 10), (21, 10), (21, 0), (40, 0)):
            await limiter.wait(weight)
            sent.append(round(loop.time() - began_s, 3))
            await asyncio.sleep(pause_s)
        return sent

    assert run_in_virtual_time(work()) == [0, 10, 60, 120]


def test_each_ping_is_a_message_of_the_vendors_protocol() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            one = await caught_up(harness)
            await until(lambda: made.pings >= 3, "pings")
            await until(lambda: bool(one.of(Heartbeat)), "heartbeats")

    run(work)


@pytest.mark.parametrize(
    "text",
    [
        "{", '{"channel":"trades","data":[{"coin":"ES"}]}', '{"channel":"trades","data":{}}',
        '{"channel":"trades","data":[{"coin":"ES","side":"B","px":"1e99999999","sz":"1","time":1,"tid":1}]}',
        '{"channel":"trades","data":[{"coin":"ES","side":"B","px":"1","sz":"0.5","time":1,"tid":1}]}',
        '{"channel":"trades","data":[{"coin":"ES","side":"B","px":"1","sz":"1","time":1,"tid":-1}]}',
        '{"channel":"trades","data":[{"coin":"ES","side":"B","px":"1","sz":"1","time":99999999999999999,"tid":1}]}',
    ],
)  # fmt: skip
def test_an_unreadable_message_ends_the_connection(text: str) -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            one = await caught_up(harness)
            await made.lines[0].send(text)
            await until(lambda: one.problem is not None, "an end")
            assert isinstance(one.problem, FeedLost)
            assert one.problem.code == "protocol"

    run(work)


@pytest.mark.parametrize(
    "text",
    [
        '{"channel":"news","data":{"a":1}}', '{"channel":"error","data":"Already subscribed"}',
        '{"channel":"trades","data":[{"coin":"XX","side":"B","px":"1","sz":"1","time":1,"tid":1}]}',
        '{"channel":"subscriptionResponse","data":{"method":"unsubscribe","subscription":{"type":"trades"}}}',
    ],
)  # fmt: skip
def test_a_message_of_no_interest_changes_nothing(text: str) -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            one = await caught_up(harness)
            await made.lines[0].send(text)
            await play(made, 75)
            await equals_the_tape(made, one, NOW_NS + MINUTE)

    run(work)


def test_a_refused_subscription_ends_the_streams_of_this_coin_only() -> None:
    async def work() -> None:
        made = peer()
        made.refused = {"ES"}
        async with open_feed(made) as harness:
            problem = await harness.ended(ES)
            assert (type(problem), problem.code) == (FeedRefused, "unknown_contract")
            await caught_up(harness, NQ)
            assert len(made.lines) == 1

    run(work)


def test_a_subscription_that_is_not_confirmed_is_tried_again_by_the_service() -> None:
    async def work() -> None:
        made = peer()
        made.unconfirmed = {"ES"}
        async with open_feed(made) as harness:
            problem = await harness.ended(ES)
            assert (type(problem), problem.code) == (FeedLost, "vendor_error")
            await caught_up(harness, NQ)

    run(work)


def test_a_message_larger_than_any_of_the_vendor_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of 64 kB stands for the real one, of 16 MB."""
    monkeypatch.setattr(socket, "MAX_FRAME_BYTES", 1 << 16)

    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            one = await caught_up(harness)
            await made.lines[0].send('{"channel":"trades","data":[' + " " * (1 << 17) + "]}")
            await until(lambda: one.problem is not None, "an end")
            assert isinstance(one.problem, FeedLost)
            assert one.problem.code == "disconnected"
            await caught_up(harness)  # over a new connection

    run(work)


def test_the_page_of_a_proxy_instead_of_an_answer() -> None:
    async def work() -> None:
        made = peer()
        made.garbled = 1
        async with open_feed(made) as harness:
            problem = await harness.ended(ES)
            assert (type(problem), problem.code) == (FeedLost, "protocol")
            assert "Attention" not in str(problem)
            await caught_up(harness)

    run(work)


def test_a_refused_request_between_bars_and_trades_ends_the_stream() -> None:
    """The bar of the first minute is refused with HTTP 429; the next stream has everything."""

    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            one = await caught_up(harness)
            made.busy = 1
            await play(made, 75)
            await until(lambda: one.problem is not None, "an end")
            assert isinstance(one.problem, FeedLost)
            assert one.problem.code == "rate_limited"
            cut_ns = -(-made.now_ns // MINUTE) * MINUTE
            two = await caught_up(harness)
            await play(made, 90)
            await equals_the_tape(made, two, cut_ns)

    run(work)


# -- reading


def test_a_trade_of_the_documentation() -> None:
    """0.00017 BTC are 17 steps of 0.00001."""
    trade = Trade("BTC", "B", Decimal("72581.0"), Decimal("0.00017"), 1787259217020, 877707108085800)
    (row,) = trade_rows([trade], 10_000, 5)
    assert (row["ts_event"], row["ts_recv"]) == (1_787_259_217_020_000_000, 5)
    assert (row["price"], row["size"], row["side"]) == (72_581_000_000_000, 17, b"B")
    assert (row["id"], row["flags"], row["sequence"]) == (877_707_108_085_800, 0, 0)
    assert trade_rows([replace_side(trade, "A")], 10_000, 5)["side"][0] == b"A"
    assert trade_rows([replace_side(trade, "?")], 10_000, 5)["side"][0] == b"N"


def replace_side(trade: Trade, side: str) -> Trade:
    return Trade(trade.coin, side, trade.px, trade.sz, trade.time, trade.tid)


def test_a_candle_of_the_documentation_and_one_without_trades() -> None:
    text = (
        b'[{"T":1681923659999,"c":"29258.0","h":"29309.0","i":"1m","l":"29250.0","n":189,"o":"29295.0","s":"BTC",'
        b'"t":1681923600000,"v":"0.98639"},{"t":1681923660000,"o":"1","h":"1","l":"1","c":"1","v":"0.0"}]'
    )
    (row,) = candle_rows(decode(text, list[Candle], "candle"), 10_000)
    assert row.tolist() == (
        1_681_923_600_000_000_000, 29_295_000_000_000, 29_309_000_000_000, 29_250_000_000_000, 29_258_000_000_000,
        98_639,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("price", "decimals", "step"),
    [
        ("1234.5", 0, "0.1"), ("123456", 0, "1"), ("0.001234", 0, "0.000001"), ("0.01234", 1, "0.00001"),
        ("72581", 5, "1"), ("3021.4", 4, "0.1"), ("151.37", 2, "0.01"), ("99.123", 2, "0.001"), ("9.1234", 2, "0.0001"),
        ("0.9", 2, "0.0001"),
    ],
)  # fmt: skip
def test_price_steps_as_the_vendors_rule_has_them(price: str, decimals: int, step: str) -> None:
    """Five significant figures, at most 6 decimals less those of sizes; whole numbers always (Tick and lot size)."""
    asset = Asset("X", decimals)
    assert asset.price_step_e9(int(Decimal(price).scaleb(9))) == int(Decimal(step).scaleb(9))


def test_the_list_of_coins() -> None:
    text = '{"universe":[{"name":"BTC","szDecimals":5,"maxLeverage":40},{"name":"X","szDecimals":0,"isDelisted":true}]}'
    bitcoin, other = decode(text, Meta, "list").universe
    assert (bitcoin.name, bitcoin.size_step_e9, bitcoin.delisted) == ("BTC", 10_000, False)
    assert (other.size_step_e9, other.delisted) == (1_000_000_000, True)
    with pytest.raises(FeedLost):
        _ = Asset("X", 40).size_step_e9


@pytest.mark.parametrize(
    ("text", "step_e9", "steps"), [("0.00017", 10_000, 17), ("2", 10**9, 2), ("-3.5", 5 * 10**8, -7)]
)
def test_sizes_in_steps(text: str, step_e9: int, steps: int) -> None:
    assert parse_steps(text, step_e9) == steps


@pytest.mark.parametrize("text", ["0.000015", "x", "1e400", "NaN"])
def test_sizes_that_are_no_multiple_of_the_step(text: str) -> None:
    with pytest.raises(ValueError, match=r"number|multiple"):
        parse_steps(text, 10_000)


def test_only_products_of_the_vendor_have_a_coin() -> None:
    product = load_reference().universe.products["BTC"]
    assert coin_of(product) is None  # the future of the CME
    assert coin_of(replace(product, exchange="HYPERLIQUID")) is None
    assert coin_of(replace(product, exchange="HYPERLIQUID", root="BTC-PERP")) == "BTC"


@pytest.mark.parametrize(
    ("given", "code"), [({}, "missing"), ({"terms": ""}, "missing"), ({"terms": "2020-01-01"}, "rejected")]
)
def test_no_feed_without_consent_to_the_current_terms(given: dict[str, str], code: str) -> None:
    context = AdapterContext(load_reference().universe, SystemClock(), tuple)
    with pytest.raises(InvalidCredential) as found:
        ADAPTER.feed(given, context)
    assert (found.value.code, found.value.field) == (code, "terms")
    assert ADAPTER.feed({"terms": terms.VERSION}, context).name == "hyperliquid"
    assert terms.VERSION in terms.SUMMARY
    assert terms.URL in terms.SUMMARY
