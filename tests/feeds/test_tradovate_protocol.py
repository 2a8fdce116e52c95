"""Tradovate's symbols, credentials, frames and pages: parsing is exact and complete."""

import asyncio
from datetime import date
from decimal import Decimal

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.vendors.tradovate_peer import TradovatePeer
from tests.feeds.tradovate_harness import (
    ES,
    MINUTE,
    SECOND,
    alike,
    past,
    run,
)
from tests.virtual_time import run_in_virtual_time

from outcry.connections.broker_adapter import AdapterContext, InvalidCredential
from outcry.feeds.tradovate import history, protocol
from outcry.feeds.tradovate.adapter import ADAPTER, FIELDS
from outcry.feeds.tradovate.heartbeat_clock import HeartbeatClock
from outcry.feeds.tradovate.symbols import vendor_symbol
from outcry.market.instruments import Contract, Universe
from outcry.trades.feed import LIVE_TRADE, FeedLost, Heartbeat
from outcry.trades.records import Rows
from outcry.trades.reference_tables import load_reference


@pytest.fixture(scope="module")
def universe() -> Universe:
    return load_reference().universe


# -- names and entries


def test_every_product_has_an_unambiguous_symbol(universe: Universe) -> None:
    on = date(2026, 11, 18)
    for root in universe.products:
        contract = universe.front(root, on)
        assert (
            vendor_symbol(universe, contract, on)
            == f"{root}{'FGHJKMNQUVXZ'[contract.month - 1]}{contract.year % 10}"
        )
    assert vendor_symbol(universe, ES, on) == "ESZ6"
    assert vendor_symbol(universe, Contract("SIL", 2027, 3), on) == "SILH7"
    assert vendor_symbol(universe, Contract("6E", 2026, 12), on) == "6EZ6"


def test_a_digit_is_the_next_contract_to_end(universe: Universe) -> None:
    """ESZ6 is December 2026 until it has ended, on 18 December, and December 2036 from the next day on."""
    later = Contract("ES", 2036, 12)
    assert (
        vendor_symbol(universe, ES, date(2026, 12, 18)),
        vendor_symbol(universe, later, date(2026, 12, 18)),
    ) == (
        "ESZ6",
        None,
    )
    assert (
        vendor_symbol(universe, ES, date(2026, 12, 19)),
        vendor_symbol(universe, later, date(2026, 12, 19)),
    ) == (
        None,
        "ESZ6",
    )
    for unknown in (Contract("XX", 2026, 12), Contract("ES", 2027, 1)):
        assert vendor_symbol(universe, unknown, date(2026, 11, 18)) is None


def test_entries_that_cannot_be_right(universe: Universe) -> None:
    context = AdapterContext(universe, TradovatePeer, list)  # type: ignore[arg-type]
    good = TradovatePeer.given
    for name, text, code in (
        ("user", " ", "missing"), ("password", "", "missing"), ("secret", "", "missing"), ("cid", "", "missing"),
        ("cid", "4x", "rejected"), ("environment", "wss://evil", "rejected"),
    ):  # fmt: skip
        with pytest.raises(InvalidCredential) as caught:
            ADAPTER.feed({**good, name: text}, context)
        assert (caught.value.code, caught.value.field) == (code, name)
        assert text.strip() == "" or text not in str(caught.value)
    assert {field.name for field in FIELDS if field.secret} == {"password", "secret"}
    ADAPTER.feed({name: text for name, text in good.items() if name not in {"app", "environment"}}, context)


# -- what is read off the wire


def packet(text: str) -> protocol.Packet:
    return msgspec.json.decode(text.encode(), type=protocol.Packet)


def test_the_packet_of_the_documentation() -> None:
    """As documented: bp 11917 and ts 0.25 are 2979.25; a bid one step below and an ask at the price: a buyer. The
    second tick is one step lower, at the bid, 5 ms later; the third is between; the fourth has no quote."""
    rows = protocol.parse_rows(
        packet(
            '{"id":16335,"s":"db","td":20190718,"bp":11917,"bt":1563421179735,"ts":0.25,"tks":['
            '{"t":0,"p":0,"s":3,"b":-1,"a":0,"bs":122,"as":28,"id":11768401},'
            '{"t":5,"p":-1,"s":1,"b":-1,"a":0,"bs":122,"as":28,"id":11768402},'
            '{"t":5,"p":0,"s":2,"b":-1,"a":1,"id":11768403},'
            '{"t":6,"p":-20000,"s":1.0,"id":11768404}]}'
        ),
        77,
        1,
    )
    assert alike(rows) == [
        (1563421179735_000000, 2979_250000000, 3, b"B"),
        (1563421179740_000000, 2979_000000000, 1, b"A"),
        (1563421179740_000000, 2979_250000000, 2, b"N"),
        (1563421179741_000000, -2020_750000000, 1, b"N"),
    ]
    assert rows["id"].tolist() == [11768401, 11768402, 11768403, 11768404]
    assert set(rows["ts_recv"].tolist()) == {77}
    assert set(rows["flags"].tolist()) == {1}


@pytest.mark.parametrize(
    ("step", "expected"),
    [("0.00390625", 3906250), ("5e-7", 500), ("0.0000005", 500), ("0.1", 100_000_000), ("5", 5_000_000_000)],
)
def test_a_step_is_exact(step: str, expected: int) -> None:
    rows = protocol.parse_rows(
        packet(f'{{"id":1,"bp":3,"bt":1,"ts":{step},"tks":[{{"t":0,"p":4,"s":1,"id":1}}]}}'), 0, 0
    )
    assert rows["price"].tolist() == [7 * expected]


@pytest.mark.parametrize(
    "text",
    [
        '{"id":1,"bp":3,"bt":1,"ts":0.00000000001,"tks":[{"t":0,"p":4,"s":1,"id":1}]}',
        '{"id":1,"bp":3,"bt":1,"tks":[{"t":0,"p":4,"s":1,"id":1}]}',
        '{"id":1,"bp":3,"bt":1,"ts":0.25,"tks":[{"t":0,"p":4,"s":1.5,"id":1}]}',
        '{"id":1,"bp":3,"bt":1,"ts":0.25,"tks":[{"t":0,"p":4,"s":-1,"id":1}]}',
        '{"id":1,"bp":3,"bt":9999999999999999,"ts":0.25,"tks":[{"t":0,"p":4,"s":1,"id":1}]}',
    ],
)
def test_what_cannot_be_is_no_trade(text: str) -> None:
    with pytest.raises(FeedLost) as caught:
        protocol.parse_rows(packet(text), 0, 0)
    assert caught.value.code == "protocol"


def test_requests_and_frames_are_as_documented() -> None:
    assert protocol.request("authorize", 2, "token") == "authorize\n2\n\ntoken"
    assert (
        protocol.request("md/subscribeQuote", 3, {"symbol": "ESM7"})
        == 'md/subscribeQuote\n3\n\n{"symbol":"ESM7"}'
    )
    (answer,) = protocol.parse_messages('a[{"s":200,"i":13,"d":{"historicalId":32,"realtimeId":31}}]')
    assert (answer.s, answer.i, protocol.parse(answer.d, protocol.Answer).numbers) == (200, 13, {31, 32})
    refusal = msgspec.Raw(b'{"errorText":"Symbol is inaccessible","errorCode":"UnknownSymbol","mode":"None"}')
    assert protocol.parse(refusal, protocol.Answer).withheld
    penalty = protocol.parse(msgspec.Raw(b'{"p-ticket":"t","p-time":15,"p-captcha":true}'), protocol.Answer)
    assert (penalty.p_ticket, penalty.p_time, penalty.p_captcha) == ("t", 15, True)
    assert protocol.format_timestamp(1563421179735_999999) == "2019-07-18T03:39:39.735Z"
    assert protocol.chart_request("ESU9", 1563421179735_000000, None)["timeRange"] == {
        "asFarAsTimestamp": "2019-07-18T03:39:39.735Z"
    }
    for broken in ("a[", 'a{"s":200}', 'a[{"s":"x"}]'):
        with pytest.raises(FeedLost):
            protocol.parse_messages(broken)
    assert Decimal("0.25") == packet('{"id":1,"ts":0.25}').ts


# -- pages of history


def test_a_stretch_is_whole_before_it_is_sent(universe: Universe) -> None:
    """Pages of five, each in no order, of 400 ticks of which many are in one millisecond: nothing twice, none missing;
    stretches become shorter where there are many pages."""
    rows = np.zeros(400, LIVE_TRADE)
    chance = np.random.default_rng(3)
    rows["ts_event"] = (
        np.sort(chance.integers(0, 3 * history.FIRST_WINDOW_NS // 1_000_000, 400) // 50 * 50) * 1_000_000
    )
    rows["ts_event"][100:104] = rows["ts_event"][100]
    rows["id"] = np.arange(400)
    asked: list[tuple[int, int]] = []

    async def fetch(first_ns: int, last_ns: int) -> Rows:
        asked.append((first_ns, last_ns))
        found = past(rows, first_ns, last_ns)[-5:]
        return found[chance.permutation(len(found))]

    async def work() -> None:
        got = [piece async for piece in history.fetch_windows(fetch, 7 * MINUTE, 150 * MINUTE)]
        assert np.concatenate(got)["id"].tolist() == past(rows, 7 * MINUTE, 150 * MINUTE)["id"].tolist()
        assert len(got) > 3

    run(work)


def test_a_pause_between_requests_for_pages() -> None:
    """Thirty at once, and then one in 0.8 s; here twenty times as fast."""

    async def work() -> None:
        pace = history.RequestPacer(20.0)
        loop = asyncio.get_running_loop()
        for _ in range(30):
            await pace.turn()
        assert loop.time() == pytest.approx(0.0, abs=1e-6)
        for _ in range(50):
            await pace.turn()
        assert loop.time() == pytest.approx(50 * 0.8 / 20.0, abs=0.05)

    run_in_virtual_time(work())


@settings(max_examples=60, deadline=None)
@given(
    times_s=st.lists(st.integers(0, 5 * 3600), max_size=120),
    page=st.integers(7, 40),
    upto=st.booleans(),
    begin_s=st.integers(0, 3600),
    end_s=st.integers(3601, 6 * 3600),
)
def test_whatever_the_vendor_means_by_until(
    times_s: list[int], page: int, upto: bool, begin_s: int, end_s: int
) -> None:
    """Up to an instant or before it, in pages of any size: each tick once, in order, and nothing left out. No more than
    six are in one millisecond, for more than a page of them nobody could ask for."""
    times = sorted(at_s * 1000 for at_s in (*times_s, begin_s, end_s))
    times = [at for nth, at in enumerate(times) if nth < 6 or times[nth - 6] != at]
    rows = np.zeros(len(times), LIVE_TRADE)
    rows["ts_event"], rows["id"] = np.array(times, np.int64) * 1_000_000, np.arange(len(times)) + 1

    async def fetch(first_ns: int, last_ns: int) -> Rows:
        first, last = (at_ns // 1_000_000 * 1_000_000 for at_ns in (first_ns, last_ns))
        return past(rows, first, last + int(upto))[-page:]

    async def work() -> None:
        begin_ns, end_ns = begin_s * SECOND - 500_000, end_s * SECOND + 500_000
        got = [piece async for piece in history.fetch_windows(fetch, begin_ns, end_ns)]
        numbers = np.concatenate([np.zeros(0, LIVE_TRADE), *got])["id"].tolist()
        assert numbers == past(rows, begin_ns, end_ns)["id"].tolist()

    run(work)


def test_a_heartbeat_lags_by_what_the_vendor_is_behind() -> None:
    """A second in any case; three more for a clock that is three behind; none less for one that is ahead."""

    class Clock:
        at_ns = 100 * SECOND

        def now_ns(self) -> int:
            return self.at_ns

    async def work() -> None:
        for off_s, lag_s in ((0, 1), (-3, 4), (5, 1)):
            present = HeartbeatClock(Clock(), 1.0)
            for delay_ms in (900, 40, 0, 3000):  # what the network takes says nothing of clocks
                present.observe(100 * SECOND + off_s * SECOND - delay_ms * 1_000_000)
            assert present.due_heartbeat(idle=True) == Heartbeat((100 - lag_s) * SECOND)
            assert present.due_heartbeat(idle=True) is None, "no time has passed"
            present.observe(90 * SECOND)
            Clock.at_ns += SECOND
            assert present.due_heartbeat(idle=True) == Heartbeat((101 - lag_s) * SECOND)
            Clock.at_ns -= SECOND

    run(work)
