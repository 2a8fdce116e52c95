"""Simulated market as a feed: live events equal the session's array, whenever and however they are read."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import cast

import numpy as np
import pytest

from outcry.feeds.simulator.faults import Faults
from outcry.feeds.simulator.feed import SimulatorFeed
from outcry.feeds.simulator.market import SimulatedMarket
from outcry.market.calendar import Session, SessionKind
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND
from outcry.trades.feed import (
    Amend,
    CaughtUp,
    Cursor,
    Event,
    FeedLost,
    FeedRefused,
    Gap,
    Heartbeat,
    Repaired,
    RowFlag,
    Status,
    Trades,
)
from outcry.trades.records import Quality, Rows
from outcry.trades.reference_tables import Reference, load_reference

HE = Contract("HE", 2026, 12)  # no night, few trades
CL = Contract("CL", 2027, 1)
DAY = date(2026, 11, 18)  # a Wednesday


def at(text: str) -> int:
    """Convert a UTC time to ns; New York was five hours behind."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * NANOS_PER_SECOND


class SleepClock:
    """Clock that is advanced by sleeping."""

    def __init__(self, now_ns: int, step_s: float) -> None:
        self.now, self.step_ns = now_ns, round(step_s * NANOS_PER_SECOND)

    def now_ns(self) -> int:
        return self.now

    async def sleep(self, _seconds: float) -> None:
        self.now += self.step_ns
        await asyncio.sleep(0)


@pytest.fixture(scope="module")
def reference() -> Reference:
    return load_reference()


Made = tuple[SimulatorFeed, SleepClock]
Make = Callable[..., Made]


@pytest.fixture
def make(reference: Reference) -> Make:
    def made(now: str, step_s: float = 5.0, faults: Faults | None = None) -> Made:
        market = SimulatedMarket(1, reference.universe.products, reference.calendar)
        hand = SleepClock(at(now), step_s)
        feed = SimulatorFeed(
            market, reference.universe, reference.calendar, hand, faults=faults, sleep=hand.sleep
        )
        return feed, hand

    return made


@pytest.fixture
def whole(reference: Reference) -> Callable[[Contract, date, SessionKind], Rows]:
    def rows(contract: Contract, day: date, kind: SessionKind) -> Rows:
        session = reference.calendar.session(contract.root, day, kind)
        assert session is not None
        return SimulatedMarket(1, reference.universe.products, reference.calendar).trades(contract, session)

    return rows


Whole = Callable[[Contract, date, SessionKind], Rows]


def listen(made: Made, contract: Contract, until: str, since_ns: int = 0) -> list[Event]:
    """Return all events up to a time of the clock."""
    feed, hand = made

    async def run() -> list[Event]:
        events: list[Event] = []
        stream = cast("AsyncIterator[Event]", feed.open(contract, Cursor(since_ns)))
        async for event in stream:
            if isinstance(event, Trades):
                assert event.rows["ts_recv"].max() <= hand.now  # nothing is sent before it happened
            events.append(event)
            if hand.now >= at(until):
                await feed.close()
        return events

    return asyncio.run(run())


def rows_of(events: Sequence[Event]) -> Rows:
    return np.concatenate([event.rows for event in events if isinstance(event, Trades)])


def test_live_rows_are_those_of_the_whole_session(make: Make, whole: Whole) -> None:
    """From 10:20 New York to past the close: regular hours of crude from 09:00 to 14:30, the night before included."""
    events = listen(make("2026-11-18T15:20", 0.9), CL, "2026-11-18T19:40")
    expected = np.concatenate([whole(CL, DAY, SessionKind.ETH), whole(CL, DAY, SessionKind.RTH)])
    assert rows_of(events)[: len(expected)].tobytes() == expected.tobytes()
    later = rows_of(events)[len(expected) :]
    following = whole(CL, date(2026, 11, 19), SessionKind.ETH)
    assert later.tobytes() == following[: len(later)].tobytes()
    assert not rows_of(events)["flags"].any()


def test_a_fresh_stream_has_caught_up_at_the_open_of_its_trade_date(make: Make) -> None:
    """The night of Wednesday begins with the close of Tuesday's regular hours, 14:30 New York."""
    events = [
        event
        for event in listen(make("2026-11-18T15:20"), CL, "2026-11-18T15:21")
        if not isinstance(event, Status)
    ]
    first, second, *_ = events
    assert first == CaughtUp(at("2026-11-17T19:30"), Quality.TICKS)
    assert isinstance(second, Trades)


def test_a_fresh_stream_is_behind_until_it_has_sent_the_day_so_far(make: Make) -> None:
    """It begins at 10:20 New York: what was traded from the night on is news of the past."""
    events = listen(make("2026-11-18T15:20"), CL, "2026-11-18T15:21")
    begun, present = [place for place, event in enumerate(events) if isinstance(event, Status)]
    assert events[begun] == Status(subscribed=True, code="catching_up")
    assert events[present] == Status(subscribed=True, code="subscribed")
    assert begun == 0
    past, news = rows_of(events[:present]), rows_of(events[present:])
    assert len(past) > 1000
    assert past["ts_recv"].max() <= at("2026-11-18T15:20") < news["ts_recv"].min()


def test_it_beats_every_second_also_when_nothing_trades(make: Make) -> None:
    """Hogs rest from 14:05 New York to the next morning."""
    events = listen(make("2026-11-18T19:04:30", 0.1), HE, "2026-11-18T19:06")
    beats = [event.at_ns for event in events if isinstance(event, Heartbeat)]
    assert all(1.0 <= (b - a) / 1e9 <= 1.3 for a, b in pairwise(beats))
    assert beats[0] < at("2026-11-18T19:04:33")
    assert beats[-1] > at("2026-11-18T19:05:57")


def test_a_heartbeat_says_that_nothing_earlier_is_to_come(make: Make) -> None:
    beaten = 0
    for event in listen(make("2026-11-18T15:20", 0.3), CL, "2026-11-18T15:40"):
        if isinstance(event, Trades):
            assert event.rows["ts_event"].min() > beaten
        elif isinstance(event, Heartbeat):
            beaten = event.at_ns


@pytest.mark.parametrize("step_s", [0.1, 7.3, 1800.0])
def test_how_often_it_looks_changes_nothing(make: Make, whole: Whole, step_s: float) -> None:
    """From before the open of hogs at 09:30 New York; read in steps, or in a few large ones."""
    until = "2026-11-18T14:50" if step_s < 1 else "2026-11-18T19:20"
    rows = rows_of(listen(make("2026-11-18T14:29", step_s), HE, until))
    expected = whole(HE, DAY, SessionKind.RTH)
    due = expected[expected["ts_recv"] <= at(until)]
    assert len(due) > 100
    assert rows[: len(due)].tobytes() == due.tobytes()


def test_it_crosses_a_weekend(make: Make, whole: Whole) -> None:
    events = listen(make("2026-11-20T15:00", 1800), CL, "2026-11-24T23:30")
    nights = (SessionKind.ETH, SessionKind.RTH)
    days = (date(2026, 11, 20), date(2026, 11, 23), date(2026, 11, 24))
    expected = np.concatenate([whole(CL, day, kind) for day in days for kind in nights])
    assert rows_of(events)[: len(expected)].tobytes() == expected.tobytes()


def test_from_a_cursor_it_brings_what_lies_after_it_and_then_has_caught_up(make: Make, whole: Whole) -> None:
    """Two seconds before the newest row known, which comes again: the service knows it by itself."""
    since = at("2026-11-18T15:31:07")
    events = listen(make("2026-11-18T16:00"), CL, "2026-11-18T16:01", since)
    expected = whole(CL, DAY, SessionKind.RTH)
    expected = expected[expected["ts_event"] >= since]
    rows = rows_of(events)
    assert rows.tobytes() == expected[: len(rows)].tobytes()
    (place,) = [index for index, event in enumerate(events) if isinstance(event, CaughtUp)]
    caught_up = events[place]
    assert isinstance(caught_up, CaughtUp)
    assert at("2026-11-18T15:59:59") < caught_up.at_ns < at("2026-11-18T16:00:05")
    missed = rows_of(events[:place])
    assert missed["ts_event"].max() <= caught_up.at_ns
    assert (rows["ts_event"] <= caught_up.at_ns).sum() == len(missed)


def test_a_cursor_in_a_session_before_goes_through_all_between(make: Make, whole: Whole) -> None:
    since = at("2026-11-17T18:00")
    rows = rows_of(listen(make("2026-11-18T16:00"), CL, "2026-11-18T16:01", since))
    before = whole(CL, date(2026, 11, 17), SessionKind.RTH)
    expected = np.concatenate(
        [
            before[before["ts_event"] >= since],
            whole(CL, DAY, SessionKind.ETH),
            whole(CL, DAY, SessionKind.RTH),
        ]
    )
    assert rows.tobytes() == expected[: len(rows)].tobytes()


def test_beyond_its_reach_it_says_what_is_missing(make: Make) -> None:
    since = at("2026-10-01T15:00")
    first, *_ = listen(make("2026-11-18T16:00", 30), HE, "2026-11-18T16:01", since)
    assert isinstance(first, Gap)
    assert first.from_ns == since
    assert at("2026-10-19T15:59:59") < first.to_ns < at("2026-10-19T16:00:01")


def test_the_contracts_are_the_fronts_by_the_clock_given(make: Make) -> None:
    """Crude for December ends on Friday 20 November, three business days before the 25th; two before that, on the
    18th, it is front no longer. Index and FX go on to December's third week, gold to its end of November."""
    feed, _ = make("2026-11-17T15:20")
    found = {contract.root: contract.key for contract in asyncio.run(feed.contracts())}
    assert len(found) == 32
    assert (found["ES"], found["6E"], found["GC"]) == ("ESZ2026", "6EZ2026", "GCZ2026")
    assert found["CL"] == "CLZ2026"
    later, _ = make("2026-11-18T15:20")
    assert Contract("CL", 2027, 1) in asyncio.run(later.contracts())
    assert (feed.name, feed.caps.invented, feed.caps.own_clock) == ("simulator", True, True)


def test_a_product_it_does_not_invent_is_refused(make: Make) -> None:
    with pytest.raises(FeedRefused):
        listen(make("2026-11-18T15:20"), Contract("MES", 2026, 12), "2026-11-18T15:21")


def test_a_session_that_is_over_is_let_go(make: Make, reference: Reference) -> None:
    made: list[tuple[SessionKind, weakref.ref[Rows]]] = []

    class Watched(SimulatedMarket):
        def trades(self, contract: Contract, session: Session) -> Rows:
            rows = super().trades(contract, session)
            made.append((session.kind, weakref.ref(rows)))
            return rows

    market = Watched(1, reference.universe.products, reference.calendar)
    hand = SleepClock(at("2026-11-18T15:20"), 60)
    feed = SimulatorFeed(market, reference.universe, reference.calendar, hand, sleep=hand.sleep)

    async def run() -> None:
        stream = cast("AsyncIterator[Event]", feed.open(CL, Cursor(0)))
        async for event in stream:
            del event
            gc.collect(0)
            if len(made) == 3:
                break
        gc.collect()
        assert [kind for kind, _ in made] == [SessionKind.ETH, SessionKind.RTH, SessionKind.ETH]
        assert [rows() is None for _, rows in made] == [True, True, False]

    asyncio.run(run())


# -- faults on demand


GAP = (at("2026-11-18T15:30"), at("2026-11-18T15:31"))


@pytest.mark.parametrize("repair", [False, True])
def test_a_gap_is_said_and_may_be_mended(make: Make, whole: Whole, *, repair: bool) -> None:
    events = listen(make("2026-11-18T15:20", 3, Faults(gap=GAP, repair=repair)), CL, "2026-11-18T15:40")
    expected = whole(CL, DAY, SessionKind.RTH)
    lost = expected[(expected["ts_event"] >= GAP[0]) & (expected["ts_event"] < GAP[1])]
    assert len(lost) > 5
    (gap,) = [event for event in events if isinstance(event, Gap)]
    assert (gap.from_ns, gap.to_ns) == GAP
    sent = rows_of(events)
    assert np.isin(lost["id"], sent["id"]).all() == repair
    assert np.isin(lost["id"], sent["id"]).any() == repair
    assert bool(sent["flags"].any()) == repair
    if repair:
        place = events.index(Repaired(*GAP))
        mended = events[place - 1]
        assert isinstance(mended, Trades)
        assert mended.rows["id"].tolist() == lost["id"].tolist()
        assert (mended.rows["flags"] == int(RowFlag.BACKFILL)).all()


def test_late_trades_are_the_same_trades_in_another_order(make: Make) -> None:
    plain = rows_of(listen(make("2026-11-18T15:20", 20), CL, "2026-11-18T15:40"))
    late = rows_of(listen(make("2026-11-18T15:20", 20, Faults(late_every=7)), CL, "2026-11-18T15:40"))
    assert (late["ts_event"][1:] < late["ts_event"][:-1]).sum() > 10
    assert np.sort(late, order="id").tobytes() == plain.tobytes()


def test_cancelled_trades_are_named(make: Make) -> None:
    events = listen(make("2026-11-18T15:20", 20, Faults(cancel_every=50)), CL, "2026-11-18T15:30")
    sent = rows_of(events)
    named = [event.id for event in events if isinstance(event, Amend)]
    assert named == sent["id"][sent["sequence"] % 50 == 0].tolist()


def test_a_broken_link_loses_nothing(make: Make, whole: Whole) -> None:
    """Opened again two seconds before the newest row, it repeats the overlap and no more."""
    feed, hand = make("2026-11-18T14:29", 5, Faults(lose_after=200))

    async def run() -> list[Rows]:
        events: list[Event] = []
        since = 0

        async def hear(stream: AsyncIterator[Event]) -> None:
            async for event in stream:
                events.append(event)  # noqa: PERF401 - what was heard before the link broke counts

        while hand.now < at("2026-11-18T16:30"):
            stream = cast("AsyncIterator[Event]", feed.open(HE, Cursor(since)))
            with pytest.raises(FeedLost, match="fault requested by the script"):
                await hear(stream)
            since = int(rows_of(events)["ts_event"].max()) - 2 * NANOS_PER_SECOND
        return [event.rows for event in events if isinstance(event, Trades)]

    parts = asyncio.run(run())
    assert len(parts) > 3
    rows = np.concatenate(parts)
    _, first = np.unique(rows["id"], return_index=True)
    assert len(first) < len(rows)
    expected = whole(HE, DAY, SessionKind.RTH)
    assert rows[first].tobytes() == expected[: len(first)].tobytes()
    assert expected["ts_event"][len(first)] > at("2026-11-18T16:00") - 10 * NANOS_PER_MINUTE
