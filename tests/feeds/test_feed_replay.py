"""Replay: order, clock, gaps and ends.

In winter ES trades from 14:30 to 21:15 UTC (rth), then to 22:00, and again from 23:00.
"""

import asyncio
import json
import math

import numpy as np
import pytest
from tests.recordings.sample_rows import ES, MINUTE, NQ, SECOND, Made, bars, drain, flat, rows_of, trades, utc
from tests.recordings.test_files_lean import between
from tests.timeouts import until, within

from outcry.feeds.replay import ReplayFeed, readings_of
from outcry.feeds.replay_pacing import FreePacer, Pacer, StepPacer, Timeline, WallClockPacer, pacer_for_speed
from outcry.market.instruments import Contract
from outcry.recordings.file_model import FileRefused, ReadOptions
from outcry.recordings.formats.file_library import FileLibrary
from outcry.trades.feed import (
    Backfill,
    Bars,
    CaughtUp,
    Cursor,
    Ended,
    FeedLost,
    FeedRefused,
    Gap,
    Heartbeat,
    Trades,
)
from outcry.trades.records import Quality
from outcry.trades.reference_tables import load_reference

OPEN = utc("2024-01-02 14:30:00")
CLOSE = utc("2024-01-02 21:15:00")
START = Cursor(0)


def feed(*files: Made, pace: Pacer | None = None, **options: object) -> ReplayFeed:
    return ReplayFeed(files, load_reference().calendar, pace or FreePacer(), **options)  # type: ignore[arg-type]


def replayed(*files: Made, contract: Contract = ES, since: int = 0, **options: object) -> list:
    """Return all events of a replay at full speed."""

    async def run() -> list:
        one = feed(*files, **options)
        try:
            return await drain(one.open(contract, Cursor(since)))
        finally:
            await one.close()

    return asyncio.run(run())


def prices(events: list) -> list[float]:
    return [row["price"] / 1e9 for row in rows_of(events)]


def without_beats(events: list) -> list:
    return [event for event in flat(events) if not isinstance(event, Heartbeat)]


# -- order


def test_rows_come_in_order_of_time_whatever_the_order_of_rows_and_files() -> None:
    """Three files: the second part of the day first, then the first part with a late row, then a row between. Rows of
    one time keep their order in the file: 3.25 before 3.5."""
    later = Made((ES, trades((OPEN + 9, 4.0, 1), (OPEN + 10, 5.0, 1))))
    earlier = Made((ES, trades((OPEN + 2, 2.0, 1), (OPEN + 1, 1.0, 1))), (ES, trades((OPEN + 5, 3.25, 1))))
    between_them = Made((ES, trades((OPEN + 5, 3.5, 1))))
    events = replayed(later, earlier, between_them)
    assert prices(events) == [1.0, 2.0, 3.25, 3.5, 4.0, 5.0]


def test_a_row_as_it_is_sent() -> None:
    """Received when it was made; flags of the file (255 here) say nothing about the feed, and it has no numbers."""
    (row,) = rows_of(replayed(Made((ES, trades((OPEN + 7, 4755.25, 3))))))
    assert row.tolist() == (OPEN + 7, OPEN + 7, 4755_250000000, 3, b"B", 0, 0, 0)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 4096])
def test_what_is_sent_does_not_depend_on_the_size_of_batches(size: int) -> None:
    at = [OPEN + n * 7 * SECOND for n in range(40)]
    file = Made((ES, trades(*((when, 4755.25, 1) for when in at for _ in range(2)))))
    events = replayed(file, batch_rows=size)
    assert max(len(e.rows) for e in events if isinstance(e, Trades)) <= size
    assert flat(events) == flat(replayed(file))


def test_prints_alike_are_kept_in_one_file_and_counted_once_over_two() -> None:
    """Two equal prints in a file are two trades; the same two in a second file are the same trades."""
    file = Made((ES, trades((OPEN, 1.0, 1), (OPEN, 1.0, 1))))
    file._batches[0][1]["sequence"] = 7
    assert len(rows_of(replayed(file))) == 2
    assert len(rows_of(replayed(file, file))) == 2


# -- the clock


def test_it_begins_at_the_open_if_the_file_begins_within_five_minutes_of_it() -> None:
    def start(first: int) -> object:
        return replayed(Made((ES, trades((first, 1.0, 1)))))[0]

    assert start(OPEN + 5 * MINUTE) == CaughtUp(OPEN, Quality.TICKS)
    assert start(OPEN + 5 * MINUTE + 1) == CaughtUp(OPEN + 5 * MINUTE + 1, Quality.TICKS)


def test_a_heartbeat_a_minute_as_fast_as_it_goes() -> None:
    """Trades at 14:30:10 and 14:32:10: beats at 14:31 and 14:32 before the second. It ends there."""
    last = OPEN + 130 * SECOND
    events = flat(replayed(Made((ES, trades((OPEN + 10 * SECOND, 1.0, 1), (last, 2.0, 1))))))
    beats = [Heartbeat(OPEN + MINUTE), Heartbeat(OPEN + 2 * MINUTE)]
    assert events[0] == CaughtUp(OPEN, Quality.TICKS)
    assert events[2:4] == beats
    assert events[5:] == [Heartbeat(last + 1), Ended(last + 1)]


@pytest.mark.parametrize(("last", "end"), [
    (CLOSE - 5 * MINUTE, CLOSE + 5 * MINUTE + 3 * SECOND),  # near enough to the close
    (CLOSE - 5 * MINUTE - 2, CLOSE - 5 * MINUTE - 1),  # too far from it: the session is not whole
    (CLOSE + 2 * MINUTE, CLOSE + 5 * MINUTE + 3 * SECOND),  # past it, but not by the five minutes
    (CLOSE + 20 * MINUTE, CLOSE + 20 * MINUTE + 1),
])  # fmt: skip
def test_it_goes_on_to_five_minutes_after_a_close(last: int, end: int) -> None:
    events = replayed(Made((ES, trades((CLOSE - 10 * MINUTE, 1.0, 1), (last, 2.0, 1)))))
    assert events[-2:] == [Heartbeat(end), Ended(end)]


def test_a_bar_is_known_at_its_end() -> None:
    """Minute bars of 14:30 and 14:31, stepped: the first is out once 14:31:00 is let go, not a nanosecond earlier."""

    async def run() -> None:
        pace = StepPacer()
        one = feed(Made((ES, bars((OPEN, 1.0, 10), (OPEN + MINUTE, 2.0, 20)))), pace=pace)
        seen: list = []

        async def read() -> None:
            async for event in one.open(ES, START):
                seen.append(event)  # noqa: PERF401 - the test looks at it meanwhile

        reading = asyncio.create_task(read())
        await waiting(pace, 1)
        await pace.advance(OPEN + MINUTE)
        assert seen[0] == CaughtUp(OPEN, Quality.BARS_1M)
        assert seen[1:] == [Heartbeat(OPEN + n * SECOND) for n in range(1, 60)]
        await pace.advance(OPEN + MINUTE + 1)
        assert flat(seen[60:]) == [("Bars", OPEN, *[10**9] * 4, 10), Heartbeat(OPEN + MINUTE)]
        assert isinstance(seen[60], Bars)
        assert (seen[60].quality, seen[60].backfill) == (Quality.BARS_1M, False)
        await pace.advance(CLOSE)
        await reading
        assert one.caps.backfill is Backfill.BARS_1M
        await one.close()

    asyncio.run(run())


def test_stepping_lets_go_of_what_lies_before_and_of_nothing_else() -> None:
    async def run() -> None:
        pace = StepPacer()
        one = feed(
            Made((ES, trades((OPEN, 1.0, 1), (OPEN + 5, 2.0, 1))), (NQ, trades((OPEN + 5, 3.0, 1)))),
            pace=pace,
        )
        seen: dict[Contract, list] = {ES: [], NQ: []}

        async def read(contract: Contract) -> None:
            async for event in one.open(contract, START):
                seen[contract].append(event)

        reading = [asyncio.create_task(read(contract)) for contract in seen]
        await waiting(pace, 2)
        assert seen == {ES: [], NQ: []}
        await pace.advance(OPEN + 5)
        assert (len(seen[ES]), len(seen[NQ])) == (2, 1)
        await pace.advance(OPEN + 6)
        assert (prices(seen[ES]), prices(seen[NQ])) == ([1.0, 2.0], [3.0])
        await pace.advance(OPEN + MINUTE)
        await asyncio.gather(*reading)
        await one.close()

    asyncio.run(run())


async def waiting(pace: StepPacer, streams: int) -> None:
    """Wait until the files have been read and so many streams wait for the next step."""
    await until(lambda: len(pace._held) >= streams, poll_s=0.001)


class SleepClock:
    """Clock that advances only by sleeping."""

    def __init__(self) -> None:
        self.now = 10**18
        self.slept = 0

    def now_ns(self) -> int:
        return self.now

    async def sleep(self, seconds: float) -> None:
        passed = math.ceil(seconds * SECOND)  # a nanosecond at least, or it would never get there
        self.now += passed
        self.slept += passed
        await asyncio.sleep(0)


@pytest.mark.parametrize("speed", [1.0, 0.5, 20.0])
def test_as_it_happened(speed: float) -> None:
    """Rows 0, 1.5 and 4 s after the start come 0, 1.5 and 4 s later by the clock, divided by the speed; and a sign of
    life each second of the replay, in these four seconds at least four."""

    async def run() -> None:
        clock = SleepClock()
        at = [OPEN, OPEN + 1_500_000_000, OPEN + 4 * SECOND]
        file = Made((ES, trades(*((when, 1.0, 1) for when in at))))
        one = feed(file, pace=WallClockPacer(clock, speed, clock.sleep))
        begun, when = clock.now, []
        beats = 0
        async for event in one.open(ES, START):
            beats += isinstance(event, Heartbeat)
            if isinstance(event, Trades):
                when += [clock.now - begun] * len(event.rows)
        assert when == pytest.approx([0, 1.5e9 / speed, 4e9 / speed], abs=2000)
        assert speed > 10 or beats >= 4
        await one.close()

    asyncio.run(run())


def test_contracts_share_one_clock() -> None:
    """NQ is opened two seconds of the replay after ES: what it missed comes at once, the rest beside ES."""

    async def run() -> None:
        clock = SleepClock()
        rows = trades(*((OPEN + n * SECOND, float(n), 1) for n in range(5)))
        one = feed(Made((ES, rows), (NQ, rows)), pace=WallClockPacer(clock, 1.0, clock.sleep))
        begun = clock.now
        first = one.open(ES, START)
        while not (isinstance(event := await anext(first), Trades) and event.rows["price"][-1] == 2e9):
            pass
        when: dict[float, int] = {}
        async for event in one.open(NQ, START):
            if isinstance(event, Trades):
                when |= {row["price"] / 1e9: clock.now - begun for row in event.rows}
        assert [round(when[n] / SECOND) for n in range(5)] == [2, 2, 2, 3, 4]
        await first.aclose()
        await one.close()

    asyncio.run(run())


def test_a_clock_that_is_set_back_stops_nothing() -> None:
    async def run() -> None:
        clock = SleepClock()
        one = feed(Made((ES, trades((OPEN, 1.0, 1), (OPEN + 9 * SECOND, 2.0, 1)))),
                   pace=WallClockPacer(clock, 1.0, clock.sleep))  # fmt: skip
        seen = 0
        async for event in one.open(ES, START):
            if isinstance(event, Heartbeat) and not seen:
                clock.now -= 3600 * SECOND
                seen = clock.slept
        assert 8 * SECOND <= clock.slept <= 10 * SECOND
        await one.close()

    asyncio.run(run())


def test_nights_and_weekends_are_not_waited_for() -> None:
    """Friday's last trade at 21:59:50 and Sunday's first at 23:00:10 (UTC): Friday is played to five minutes and three
    seconds after its close, then comes Sunday's open. 10 + 303 + 10 seconds and not two days; and no gap."""

    async def run() -> None:
        clock = SleepClock()
        friday, sunday = utc("2024-01-05 21:59:50"), utc("2024-01-07 23:00:10")
        files = [Made((ES, trades((at, 1.0, 1)))) for at in (friday, sunday)]
        one = feed(*files, pace=WallClockPacer(clock, 1.0, clock.sleep))
        begun, when, others = clock.now, [], []
        async for event in one.open(ES, START):
            if isinstance(event, Trades):
                when.append(round((clock.now - begun) / SECOND))
            else:
                others.append(event)
        assert when == [0, 10 + 303 + 10]
        assert Heartbeat(friday + 313 * SECOND) in others
        assert Heartbeat(sunday - 10 * SECOND) in others
        assert not any(isinstance(event, Gap) for event in others)
        await one.close()

    asyncio.run(run())


def test_beats_of_a_timeline() -> None:
    """Stretches 5 to 25 and 40 to 50, a beat every 10: 10, 20 and the end 25; the start 40, which is a multiple too,
    and the end 50; then nothing until 60, which is asked for."""
    timeline = Timeline(((5, 25), (40, 50)))
    assert list(timeline.beats(5, 60, 10)) == [10, 20, 25, 40, 50, 60]
    assert list(timeline.beats(10, 45, 10)) == [20, 25, 40, 45]
    assert list(timeline.beats(30, 40, 10)) == [40]
    assert list(timeline.beats(50, 50, 10)) == []
    assert [timeline.played(at) for at in (5, 10, 25, 30, 40, 45, 99)] == [0, 5, 20, 20, 20, 25, 30]
    assert [timeline.at(played) for played in (0, 5, 19, 20, 25)] == [5, 10, 24, 40, 45]


@pytest.mark.parametrize(("speed", "seconds"), [
    (0.05, 0.05), (0.5, 0.5), (1, 1), (10, 1), (20, 2), (600, 60), (10_000, 60)
])  # fmt: skip
def test_how_often_it_beats(speed: float, seconds: float) -> None:
    """In replayed seconds: never less than one a second of ours, never more than ten, nor less than one a minute."""
    assert pacer_for_speed(speed, SleepClock()).step_ns == round(seconds * SECOND)
    assert pacer_for_speed(None, SleepClock()).step_ns == MINUTE


@pytest.mark.parametrize("speed", [0, -1, float("inf"), float("nan")])
def test_speeds_that_are_none(speed: float) -> None:
    with pytest.raises(ValueError, match="speed"):
        pacer_for_speed(speed, SleepClock())


# -- resuming, holes


def test_it_resumes_where_it_is_told() -> None:
    """From the time of the third row on; the two rows of that time both come again."""
    at = [OPEN, OPEN + 1, OPEN + 2, OPEN + 2, OPEN + 3]
    events = replayed(Made((ES, trades(*((when, float(n), 1) for n, when in enumerate(at))))), since=OPEN + 2)
    assert events[0] == CaughtUp(OPEN + 2, Quality.TICKS)
    assert prices(events) == [2.0, 3.0, 4.0]


def test_a_cursor_past_the_end_finds_the_end() -> None:
    assert replayed(Made((ES, trades((OPEN, 1.0, 1)))), since=CLOSE) == [
        CaughtUp(CLOSE, Quality.TICKS), Ended(CLOSE)
    ]  # fmt: skip


def test_what_was_not_recorded_before_is_a_gap() -> None:
    """Asked from 14:30 and recorded from 15:00. Asked from the weekend and recorded from its end: no hole."""
    late = OPEN + 30 * MINUTE
    assert replayed(Made((ES, trades((late, 1.0, 1)))), since=OPEN)[:2] == [
        Gap(OPEN, late, "not_recorded"), CaughtUp(late, Quality.TICKS)
    ]  # fmt: skip
    sunday = utc("2024-01-07 23:00:00")
    weekend = replayed(Made((ES, trades((sunday, 1.0, 1)))), since=sunday - 24 * 60 * MINUTE)
    assert weekend[0] == CaughtUp(sunday, Quality.TICKS)


def test_a_hole_between_two_files_is_a_gap_of_the_hours_of_trading() -> None:
    """To 21:05 and from 23:30: missing are 21:05 to 22:00, and 23:00 to 23:30; the break between them is none. The
    first ends at the close of rth, 21:15, which parts nothing: it is the same hole."""
    first, second = utc("2024-01-02 21:05:00"), utc("2024-01-02 23:30:00")
    events = replayed(Made((ES, trades((first, 1.0, 1)))), Made((ES, trades((second, 2.0, 1)))))
    assert without_beats(events)[2:-2] == [
        Gap(first + 1, utc("2024-01-02 22:00:00"), "not_recorded"),
        Gap(utc("2024-01-02 23:00:00"), second, "not_recorded"),
    ]


def test_of_a_contract_that_was_over_for_a_year_nothing_more_is_said() -> None:
    """Its last row is of 2 January 2024; 365 days later, in a leap year, is 1 January 2025. The other contract goes on
    to five minutes after its last row, or the end of that day's hours."""
    later, on = Contract("ES", 2026, 3), utc("2026-01-02 15:00:00")
    file = Made((ES, trades((OPEN + 1, 4755.25, 1))), (later, trades((on, 6900.25, 1))))
    events = replayed(file)
    assert events[-1] == Ended(utc("2025-01-01 00:00:00"))
    assert prices(events) == [4755.25]
    assert all(event.at_ns <= utc("2025-01-01 00:00:00") for event in events if isinstance(event, Heartbeat))
    assert all(event.to_ns <= utc("2025-01-01 00:00:00") for event in events if isinstance(event, Gap))
    other = replayed(file, contract=later)
    assert prices(other) == [6900.25]
    assert other[-1].at_ns > on


def test_a_product_recorded_later_than_another_has_a_gap_till_then() -> None:
    later = OPEN + 20 * MINUTE
    files = [Made((ES, trades((OPEN, 1.0, 1)))), Made((NQ, trades((later, 2.0, 1))))]
    events = without_beats(replayed(*files, contract=NQ))
    assert events[:2] == [CaughtUp(OPEN, Quality.TICKS), Gap(OPEN, later, "not_recorded")]


def test_trades_go_before_bars_of_the_same_time() -> None:
    """Bars of 14:30 to 14:33 and trades from 14:31:30 to 14:32:10: the bars of 14:31 and 14:32 hold those trades."""
    file = Made((ES, bars(*((OPEN + n * MINUTE, float(n), 10) for n in range(4)))))
    ticks = Made((ES, trades((OPEN + 90 * SECOND, 7.0, 1), (OPEN + 130 * SECOND, 8.0, 1))))
    events = replayed(file, ticks)
    assert events[0] == CaughtUp(OPEN, Quality.BARS_1M)
    prices = [(e.rows["price" if isinstance(e, Trades) else "close"] / 1e9).tolist() for e in events
            if isinstance(e, Trades | Bars)]  # fmt: skip
    assert [price for part in prices for price in part] == [0.0, 7.0, 8.0, 3.0]


# -- what cannot be replayed


def test_refusals() -> None:
    def why(*files: Made, contract: Contract = ES) -> str:
        with pytest.raises(FeedRefused) as caught:
            replayed(*files, contract=contract)
        return caught.value.code

    one = Made((ES, trades((OPEN, 1.0, 1))))
    assert why(one, Made((ES, trades((OPEN, 1.0, 1))), source="another")) == "mixed_sources"
    assert why(one, contract=NQ) == "unknown_contract"
    assert why() == "nothing_recorded"

    class Bad(Made):
        def batches(self):
            raise FileRefused("made", "row 7", "it is bad")

    assert why(one, Bad()) == "file_refused"


def test_closing_ends_the_streams() -> None:
    async def run() -> None:
        pace = StepPacer()
        one = feed(Made((ES, trades((OPEN, 1.0, 1), (CLOSE, 2.0, 1)))), pace=pace)
        reading = asyncio.create_task(drain(one.open(ES, START)))
        await waiting(pace, 1)
        await one.close()
        assert await within(reading, 60) == []
        closed = feed(Made((ES, trades((OPEN, 1.0, 1)))))
        await closed.close()
        with pytest.raises(FeedLost, match="closed"):
            await closed.contracts()

    asyncio.run(run())


# -- real files


def test_gold_ticks_as_fast_as_they_go(shared, universe) -> None:
    """Counts of the worked session; the file is of one UTC day, so it ends in the evening's session: an hour of it."""
    worked = json.loads((shared / "vectors/worked_sessions.json").read_text())
    session = worked["GC_PIT_trades_0820_1330_ET"]["sessions"]["2013-10-07"]
    files = [shared / "data/lean/comex/tick/gc/20131007_trade.zip"]
    readings = readings_of(FileLibrary(), universe, files, ReadOptions())

    async def run() -> None:
        one = ReplayFeed(readings, load_reference().calendar, FreePacer())
        gold = Contract("GC", 2013, 12)
        assert gold in await one.contracts()
        events = await drain(one.open(gold, START))
        await one.close()
        rows = rows_of(events)
        assert (np.diff(rows["ts_event"]) >= 0).all()
        pit = between(rows, "2013-10-07T08:20", "2013-10-07T13:30")
        assert (len(pit), int(pit["size"].sum())) == (24_468, 32_389)
        assert pit["price"].max() == round(session["high"] * 10) * 10**8
        assert not any(isinstance(event, Gap) for event in events)
        assert isinstance(events[-1], Ended)

    asyncio.run(run())


def test_es_minutes_of_four_days(shared, universe) -> None:
    """Files of UTC days that follow one another: no gap between them, and each session as it was worked by hand."""
    worked = json.loads((shared / "vectors/worked_sessions.json").read_text())["ES_RTH_0930_1600_ET"][
        "sessions"
    ]
    readings = readings_of(FileLibrary(), universe, [shared / "data/lean/cme/minute/es"], ReadOptions())

    async def run() -> None:
        one = ReplayFeed(readings, load_reference().calendar, FreePacer())
        events = await drain(one.open(Contract("ES", 2013, 12), START))
        assert one.caps.backfill is Backfill.BARS_1M
        await one.close()
        rows = rows_of(events)
        assert events[0] == CaughtUp(utc("2013-10-06 22:00:00"), Quality.BARS_1M)
        assert not any(isinstance(event, Gap) for event in events)
        for day in ("2013-10-07", "2013-10-08"):
            regular = between(rows, f"{day}T09:30", f"{day}T16:00")
            assert (len(regular), int(regular["volume"].sum())) == (
                worked[day]["bars"],
                worked[day]["volume"],
            )

    asyncio.run(run())
