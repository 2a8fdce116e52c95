"""tastytrade: corrected, flagged and unreadable sales."""

import asyncio
import contextlib
from collections import deque
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vendors.tastytrade_peer import (
    MS,
)
from tests.feeds.tastytrade_harness import (
    ES,
    NOW,
    NQ,
    SECOND,
    SPEEDUP,
    FixedPeer,
    PeerClock,
    Reader,
    TastytradeHarness,
    exhausted,
    run_with_vendor,
    walk,
)

from outcry.feeds.tastytrade import channel as channels
from outcry.feeds.tastytrade import events, series
from outcry.feeds.tastytrade import stream as streams
from outcry.trades.feed import Amend, CaughtUp, Cursor, FeedLost, Heartbeat

# -- what becomes of sales


def test_sales_are_corrected_cancelled_and_removed() -> None:
    async def work(harness: TastytradeHarness) -> None:
        reader = Reader(harness.feed())
        await reader.caught_up()
        known = reader.rows["id"][-4:].tolist()
        time = NOW // MS
        base = {"time": time, "price": 6700.25, "size": 3, "aggressorSide": "BUY"}
        before = len(reader.rows)
        for event in (
            {**base, "index": known[0], "type": "CORRECTION", "price": 6700.75, "size": 2},
            {**base, "index": known[1], "type": "CANCEL"},
            {**base, "index": known[2], "eventFlags": events.REMOVE_EVENT},
            {**base, "index": known[3], "type": "CORRECTION", "validTick": False},
            {**base, "index": 7, "validTick": False},
            {**base, "index": 8, "price": "NaN"},
            {**base, "index": 9, "spreadLeg": True, "extendedTradingHours": True},
        ):
            await harness.peer.say("/ESZ26:XCME", event)
        await reader.until(lambda r: len(r.rows) > before, "a sale")
        assert reader.of(Amend) == [
            Amend(known[0], "correct", 6_700_750_000_000, 2),
            Amend(known[1], "cancel"),
            Amend(known[2], "cancel"),
            Amend(known[3], "cancel"),
        ]
        assert reader.rows["id"][before:].tolist() == [9]

    run_with_vendor(work)


def test_a_change_of_several_events_is_told_when_it_is_whole() -> None:
    async def work(harness: TastytradeHarness) -> None:
        reader = Reader(harness.feed())
        await reader.caught_up()
        before = len(reader.rows)
        sale = {"time": NOW // MS, "price": 6700.25, "size": 3}
        await harness.peer.say("/ESZ26:XCME", {**sale, "index": 1, "eventFlags": events.TX_PENDING})
        beats = len(reader.of(Heartbeat))
        await reader.until(lambda r: len(r.of(Heartbeat)) > beats + 1, "beats")
        assert len(reader.rows) == before
        await harness.peer.say("/ESZ26:XCME", {**sale, "index": 2})
        await reader.until(lambda r: len(r.rows) == before + 2, "both")

    run_with_vendor(work)


def test_a_sale_corrected_while_nobody_listened_is_amended() -> None:
    """What the first stream sent is not sent again in its new shape, which would count it twice."""
    tapes = {ES: walk(ES, 1)}

    async def work(harness: TastytradeHarness) -> None:
        feed = harness.feed()
        reader = Reader(feed)
        await reader.caught_up()
        known, cancelled = reader.rows["id"][-2:].tolist()
        await reader.close()
        find = harness.peer.sales_between

        def changed(symbol: str, from_ns: int, to_ns: int) -> Any:
            for event in find(symbol, from_ns, to_ns):
                kind = {known: "CORRECTION", cancelled: "CANCEL"}.get(event["index"], "NEW")
                yield {**event, "type": kind, **({"price": 6701.5} if kind == "CORRECTION" else {})}

        harness.peer.sales_between = changed  # type: ignore[method-assign]
        again = Reader(feed, since_ns=NOW - 20 * SECOND)
        await again.caught_up()
        (correct,) = [e for e in again.of(Amend) if e.kind == "correct"]
        assert (correct.id, correct.price) == (known, 6_701_500_000_000)
        assert [e.id for e in again.of(Amend) if e.kind == "cancel"] == [cancelled]
        assert not {known, cancelled} & set(again.rows["id"].tolist())

    run_with_vendor(work, tapes=tapes)


def test_a_past_that_begins_when_nobody_expects_it_is_waited_for_the_next_time() -> None:
    """A server too slow to begin within the time of doubt is taken for one without a past, once."""

    async def work(harness: TastytradeHarness) -> None:
        harness.peer.grants = False
        feed = harness.feed()
        reader = Reader(feed)
        await reader.caught_up()
        sale = {"index": 1, "time": NOW // MS, "price": 6700.25, "size": 1}
        await harness.peer.say("/ESZ26:XCME", {**sale, "eventFlags": events.SNAPSHOT_BEGIN})
        assert (await reader.end_of_stream()).code == "vendor_error"
        again = Reader(feed)
        await asyncio.sleep(2 * streams.UNKNOWN_HISTORY_S / SPEEDUP)
        assert not again.of(CaughtUp)
        await again.caught_up()

    run_with_vendor(work)


def test_a_past_told_anew_is_asked_for_again() -> None:
    async def work(harness: TastytradeHarness) -> None:
        reader = Reader(harness.feed())
        await reader.caught_up()
        sale = {"index": 1, "time": NOW // MS, "price": 1, "size": 1}
        await harness.peer.say("/ESZ26:XCME", {**sale, "eventFlags": events.SNAPSHOT_BEGIN})
        assert (await reader.end_of_stream()).code == "vendor_error"

    run_with_vendor(work)


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
    sales = msgspec.json.decode(
        f'{{"index":1,"time":2,"price":{text},"size":1.0}}', type=dict[str, Any], strict=True
    )
    exact = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode(
        f'{{"index":1,"time":2,"price":{text},"size":1.0}}'
    )
    assert sales["index"] == 1
    sale = events.read_sale(exact, Decimal(1))
    assert (sale.price_e9, sale.size_lots, sale.side, sale.trade) == (price_e9, 1, b"N", True)


_values = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.decimals(allow_nan=True, allow_infinity=True),
    st.text("0123456789-+.eENainf", max_size=9),
    st.sampled_from(["NaN", "-Infinity", "NEW", "CANCEL", "CORRECTION", "BUY"]),
)  # fmt: skip
_sensible = {"index": 5, "time": NOW // MS, "price": Decimal("6700.25"), "size": 3, "count": 2, "volume": 3}


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from([*events.FIELDS[events.SALE], *events.FIELDS[events.CANDLE]]), _values
        ),
        max_size=4,
    )
)
def test_whatever_is_sent_is_read_or_said_not_to_be(sales: list[dict[str, Any]]) -> None:
    clock = PeerClock(FixedPeer())
    sale_series, candles = series.SaleSeries(Decimal(1), clock, deque(), 0), series.CandleSeries(Decimal(1))
    for changed in sales:
        event = {**_sensible, **changed}
        with contextlib.suppress(FeedLost):
            sale_series.receive(event)
        with contextlib.suppress(FeedLost):
            candles.receive(event)
    rows, amends = sale_series.live()
    past = sale_series.past()
    assert (rows["size"] > 0).all()
    assert (past["size"] > 0).all()
    assert len(rows) + len(past) + len(amends) <= 2 * len(sales)
    assert (candles.between(0, 2**63 - 1)["volume"] > 0).all()


def test_what_cannot_be_read_is_said_and_leaves_the_other_stream() -> None:
    async def work(harness: TastytradeHarness) -> None:
        feed = harness.feed()
        reader, other = Reader(feed), Reader(feed, NQ)
        await reader.caught_up()
        await other.caught_up()
        (line,) = harness.peer.lines
        number = next(n for n, room in line.rooms.items() if room.series[0].symbol.startswith("/ES"))
        await line.send({"type": "FEED_DATA", "channel": number, "data": ["TimeAndSale", [1, 2]]})
        assert (await reader.end_of_stream()).code == "protocol"
        beats = len(other.of(Heartbeat))
        await other.until(lambda r: len(r.of(Heartbeat)) > beats, "the other's beats")

    run_with_vendor(work)


def test_a_reader_that_is_slow_loses_its_own_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "MAX_WAITING", 300)
    tapes = {ES: walk(ES, 1), NQ: walk(NQ, 2)[:20]}

    async def work(harness: TastytradeHarness) -> None:
        harness.peer.now_ns = NOW - 1200 * SECOND
        feed = harness.feed()
        other = Reader(feed, NQ, NOW)
        slow = feed.open(ES, Cursor(harness.peer.now_ns))
        while not isinstance(await anext(slow), CaughtUp):
            pass
        await other.caught_up()
        for step in range(1, 11):
            await harness.peer.advance(NOW + (step * 120 - 1200) * SECOND)
        beats = len(other.of(Heartbeat))
        await other.until(lambda r: len(r.of(Heartbeat)) > beats + 1, "the other's beats")
        with pytest.raises(FeedLost) as caught:
            await exhausted(slow)
        assert caught.value.code == "seam_overflow"
        assert other.problem is None

    run_with_vendor(work, tapes=tapes)
