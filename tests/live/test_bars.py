"""Bars and trades of one session: which of them represents a time, what is stored, and what a feed missed."""

import asyncio
from dataclasses import replace
from datetime import UTC, date, datetime

import numpy as np
from tests.live.engine_harness import (
    ES,
    MINUTE,
    OWN_CLOCK,
    SECOND,
    EngineHarness,
    ScriptFeed,
    play_feed,
    rows,
    run,
)
from tests.timeouts import until

from outcry.app.installation import Installation
from outcry.market.calendar import SessionKind
from outcry.sessions.store_model import SessionRow
from outcry.trades.feed import (
    Backfill,
    Bars,
    CaughtUp,
    Cursor,
    Ended,
    Event,
    FeedLost,
    Gap,
    Heartbeat,
    Replaced,
    Trades,
)
from outcry.trades.records import BAR, Quality, Rows
from outcry.trades.rows import bars_of

OPEN = int(datetime(2024, 7, 2, 13, 30, tzinfo=UTC).timestamp()) * SECOND  # 09:30 New York
CLOSE = OPEN + 405 * MINUTE
QUARTER = 250_000_000
#: Capabilities of a live feed. The clock of the test installation is set to the data it plays.
BY_BARS = replace(OWN_CLOCK, backfill=Backfill.BARS_1M)
KEY = f"0/script/{ES.key}"


def bars(*made: tuple[int, int, int, int, int, int]) -> Rows:
    """Return bars of (start, open, high, low, close in quarter points, volume)."""
    found = np.zeros(len(made), BAR)
    for at, (start, opened, high, low, close, volume) in enumerate(made):
        found[at] = (start, opened * QUARTER, high * QUARTER, low * QUARTER, close * QUARTER, volume)
    return found


def flat(first_minute: int, last_minute: int, volume: int = 10) -> Rows:
    """Return a bar for each minute at 22,000 with a range of two ticks."""
    return bars(
        *(
            (OPEN + n * MINUTE, 22_000, 22_002, 22_000, 22_000, volume)
            for n in range(first_minute, last_minute)
        )
    )


def trades(first_minute: int, last_minute: int) -> Trades:
    """Return two trades for each minute at 22,001, of three and four lots."""
    return Trades(
        rows(
            *(
                (OPEN + n * MINUTE + offset * SECOND, 22_001, 3 + offset // 30)
                for n in range(first_minute, last_minute)
                for offset in (1, 31)
            )
        )
    )


def stored(installation: Installation) -> SessionRow:
    (found,) = [row for row in installation.store.sessions([0], "ES") if row.kind is SessionKind.RTH]
    return found


def ladder(harness: EngineHarness):
    found = harness.channel().view()
    assert found is not None
    return found.ladder


def test_a_session_that_began_as_bars_is_stored_entirely_as_bars(installation: Installation) -> None:
    """90 bars of 10 lots, then 315 minutes of 7 lots: the session is complete, of bars, with every lot."""

    async def work(harness: EngineHarness) -> None:
        await play_feed(
            harness,
            [Bars(flat(0, 90), Quality.BARS_1M, backfill=True), CaughtUp(OPEN + 90 * MINUTE, Quality.BARS_1M),
             trades(90, 405), Heartbeat(CLOSE), Ended(CLOSE + 6 * MINUTE)],
            caps=BY_BARS,
        )  # fmt: skip
        found = stored(installation)
        assert (found.quality, found.complete, found.volume) == (Quality.BARS_1M, True, 90 * 10 + 315 * 7)

    run(installation, work)


def test_trades_of_a_minute_that_arrive_separately_are_one_bar(installation: Installation) -> None:
    """As above, but the two trades of a minute arrive separately, as from a live feed."""

    async def work(harness: EngineHarness) -> None:
        whole = trades(90, 405).rows
        await play_feed(
            harness,
            [Bars(flat(0, 90), Quality.BARS_1M, backfill=True), CaughtUp(OPEN + 90 * MINUTE, Quality.BARS_1M),
             *(Trades(whole[at : at + 1]) for at in range(len(whole))), Heartbeat(CLOSE), Ended(CLOSE + 6 * MINUTE)],
            caps=BY_BARS,
        )  # fmt: skip
        found = stored(installation)
        assert (found.quality, found.complete, found.volume) == (Quality.BARS_1M, True, 90 * 10 + 315 * 7)

    run(installation, work)


def test_trades_replace_bars_live_and_in_the_store(installation: Installation) -> None:
    """The bars had 10 lots a minute over three ticks; the trades have 7 lots at one price."""

    async def work(harness: EngineHarness) -> None:
        report = [
            Bars(flat(0, 90), Quality.BARS_1M, backfill=True),
            CaughtUp(OPEN + 90 * MINUTE, Quality.BARS_1M),
            trades(90, 120),
        ]
        replaced: list[Event] = [
            Replaced(OPEN + a * MINUTE, OPEN + (a + 45) * MINUTE, trades(a, a + 45).rows) for a in (0, 45)
        ]
        gate = ScriptFeed([[*report, *replaced, trades(120, 405), Heartbeat(CLOSE), Ended(CLOSE + 6 * MINUTE)]],
                          caps=BY_BARS)  # fmt: skip
        await harness.engine.attach(0, gate)
        await harness.engine.drained()
        found = stored(installation)
        assert (found.quality, found.complete, found.volume) == (Quality.TICKS, True, 405 * 7)

    run(installation, work)


def test_bars_without_replacement_stay_bars(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        await play_feed(
            harness,
            [Bars(flat(0, 90), Quality.BARS_1M, backfill=True), CaughtUp(OPEN + 90 * MINUTE, Quality.BARS_1M),
             Replaced(OPEN, OPEN + 60 * MINUTE, trades(0, 60).rows), trades(90, 91), Ended(OPEN + 92 * MINUTE)],
            caps=BY_BARS,
        )  # fmt: skip
        found = ladder(harness)
        assert (sum(found.volume), found.source) == (60 * 7 + 30 * 10 + 7, "bars")

    run(installation, work)


def test_replaced_trades_survive_a_restart(installation: Installation) -> None:
    async def first(harness: EngineHarness) -> None:
        await play_feed(
            harness,
            [Bars(flat(0, 10), Quality.BARS_1M, backfill=True), CaughtUp(OPEN + 10 * MINUTE, Quality.BARS_1M),
             Replaced(OPEN, OPEN + 10 * MINUTE, trades(0, 10).rows), Ended(OPEN + 10 * MINUTE)],
            caps=BY_BARS,
        )  # fmt: skip

    async def again(harness: EngineHarness) -> None:
        found = ladder(harness)
        assert (sum(found.volume), found.source) == (70, "trades")

    run(installation, first)
    run(installation, again)


def test_a_replacement_without_trades_leaves_the_bars(installation: Installation) -> None:
    """A vendor whose history no longer has the trades of a time does not erase the stored bars of it."""

    async def work(harness: EngineHarness) -> None:
        await play_feed(
            harness,
            [Bars(flat(0, 10), Quality.BARS_1M, backfill=True), CaughtUp(OPEN + 10 * MINUTE, Quality.BARS_1M),
             Replaced(OPEN, OPEN + 10 * MINUTE, trades(0, 0).rows), Ended(OPEN + 10 * MINUTE)],
            caps=BY_BARS,
        )  # fmt: skip
        assert sum(ladder(harness).volume) == 100

    run(installation, work)


def test_a_bar_replaces_a_partly_received_minute(installation: Installation) -> None:
    """The link broke half a minute in. The vendor sends the missed minutes as bars, and the first lots count once."""

    async def work(harness: EngineHarness) -> None:
        feed = ScriptFeed(
            [[CaughtUp(OPEN, Quality.TICKS), trades(0, 5), Trades(rows((OPEN + 5 * MINUTE + SECOND, 22_001, 3))),
              FeedLost("disconnected")],
             [Bars(flat(5, 8, 7), Quality.BARS_1M, backfill=True), CaughtUp(OPEN + 8 * MINUTE, Quality.BARS_1M),
              trades(8, 405), Heartbeat(CLOSE), Ended(CLOSE + 6 * MINUTE)]],
            caps=BY_BARS,
        )  # fmt: skip
        await harness.engine.attach(0, feed)
        await harness.engine.drained()
        found = stored(installation)
        assert (found.quality, found.complete, found.volume) == (Quality.BARS_1M, True, 405 * 7)

    run(installation, work)


def test_bars_of_trades_by_hand() -> None:
    made = rows((OPEN + 5, 4, 1), (OPEN + 1, 7, 2), (OPEN + MINUTE, 2, 3), (OPEN + 3 * MINUTE + 9, 9, 4))
    found = bars_of(made, Quality.BARS_1M)
    assert [tuple(row) for row in found.tolist()] == [
        (OPEN, 7 * QUARTER, 7 * QUARTER, 4 * QUARTER, 4 * QUARTER, 3),
        (OPEN + MINUTE, 2 * QUARTER, 2 * QUARTER, 2 * QUARTER, 2 * QUARTER, 3),
        (OPEN + 3 * MINUTE, 9 * QUARTER, 9 * QUARTER, 9 * QUARTER, 9 * QUARTER, 4),
    ]
    assert not len(bars_of(made[:0], Quality.BARS_1S))


class SettableClock:
    """A clock that a test sets."""

    def __init__(self, now_ns: int) -> None:
        self.at_ns = now_ns

    def now_ns(self) -> int:
        return self.at_ns


PRESENT = replace(OWN_CLOCK, own_clock=False, reach_ns=4 * 86_400 * SECOND)


def test_a_detached_feed_leaves_a_hole_that_its_return_repairs(
    installation: Installation,
) -> None:
    """After a disconnect at noon, the close stores an incomplete session.

    Once reconnected, the vendor sends the rest, and at the end of the trade date the session is complete."""
    clock = SettableClock(OPEN + 120 * MINUTE)
    installation = replace(installation, clock=clock)

    async def work(harness: EngineHarness) -> None:
        caught = CaughtUp(OPEN, Quality.TICKS)
        feed = ScriptFeed(
            [[caught, trades(0, 120), Heartbeat(OPEN + 120 * MINUTE), 60.0],
             [trades(119, 405), CaughtUp(CLOSE + 7 * MINUTE, Quality.TICKS), Heartbeat(CLOSE + 7 * MINUTE),
              0.2, Heartbeat(CLOSE + 60 * MINUTE), 60.0]],
            caps=PRESENT,
        )  # fmt: skip
        await followed_for_two_hours(harness, feed)
        clock.at_ns = CLOSE + 6 * MINUTE
        await until(lambda: bool(installation.store.sessions([0], "ES")))
        assert (stored(installation).complete, stored(installation).volume) == (False, 120 * 7)
        assert harness.engine.runners[KEY].stream.holes == [(OPEN + 120 * MINUTE, CLOSE + 5 * MINUTE)]

        clock.at_ns = CLOSE + 60 * MINUTE
        task = harness.engine.attach(0, feed)
        await until(lambda: bool(installation.store.sessions([0], "ES")) and stored(installation).complete)
        assert stored(installation).volume == 405 * 7
        assert harness.engine.runners[KEY].stream.holes == []
        task.cancel()
        await asyncio.wait([task])

    run(installation, work)


def test_a_feed_that_returns_the_next_day_completes_the_previous_session(installation: Installation) -> None:
    """Session and trade date were stored without the afternoon. The next morning's feed begins with it."""
    clock = SettableClock(OPEN + 120 * MINUTE)
    installation = replace(installation, clock=clock)
    next_day = 24 * 60

    async def work(harness: EngineHarness) -> None:
        feed = ScriptFeed(
            [[CaughtUp(OPEN, Quality.TICKS), trades(0, 120), Heartbeat(OPEN + 120 * MINUTE), 60.0],
             [trades(119, 405), trades(next_day, next_day + 30),
              CaughtUp(OPEN + (next_day + 30) * MINUTE, Quality.TICKS), 60.0]],
            caps=PRESENT,
        )  # fmt: skip
        await followed_for_two_hours(harness, feed)
        clock.at_ns = CLOSE + 70 * MINUTE
        await until(lambda: not harness.engine.runners[KEY].stream.days)
        assert (stored(installation).complete, stored(installation).volume) == (False, 120 * 7)
        clock.at_ns = OPEN + (next_day + 30) * MINUTE
        task = harness.engine.attach(0, feed)
        await until(lambda: stored(installation).complete)
        assert stored(installation).volume == 405 * 7
        task.cancel()
        await asyncio.wait([task])

    run(installation, work)


def test_a_hole_that_the_vendor_cannot_fill_remains(installation: Installation) -> None:
    clock = SettableClock(OPEN + 120 * MINUTE)
    installation = replace(installation, clock=clock)

    async def work(harness: EngineHarness) -> None:
        feed = ScriptFeed(
            [[CaughtUp(OPEN, Quality.TICKS), trades(0, 120), Heartbeat(OPEN + 120 * MINUTE), 60.0],
             [Gap(OPEN + 130 * MINUTE, OPEN + 140 * MINUTE, "aged_out"), trades(150, 405),
              CaughtUp(CLOSE + 7 * MINUTE, Quality.TICKS), Heartbeat(CLOSE + 7 * MINUTE), 60.0]],
            caps=PRESENT,
        )  # fmt: skip
        await followed_for_two_hours(harness, feed)
        clock.at_ns = CLOSE + 6 * MINUTE
        await until(lambda: bool(installation.store.sessions([0], "ES")))
        task = harness.engine.attach(0, feed)
        await until(lambda: harness.engine.runners[KEY].stream.latest_ns > OPEN + 400 * MINUTE)
        await until(lambda: harness.engine.runners[KEY].health.phase == "current")
        assert harness.engine.runners[KEY].stream.holes != []
        task.cancel()
        await asyncio.wait([task])

    run(installation, work)


def test_a_first_connection_requests_a_missing_previous_session(
    installation: Installation,
) -> None:
    """Nothing is stored and nothing granted, so history begins with the overnight of the last regular session.

    The answer then has prior levels with their overnight range. July 1 2024 was a Monday."""
    clock = SettableClock(OPEN + 30 * MINUTE)
    installation = replace(installation, clock=clock)

    async def work(harness: EngineHarness) -> None:
        feed = ScriptFeed([[CaughtUp(OPEN, Quality.TICKS), 60.0]], caps=PRESENT)
        task = harness.engine.attach(0, feed)
        await until(lambda: bool(feed.opened))
        before = installation.reference.calendar.session("ES", date(2024, 7, 1), SessionKind.ETH)
        answered = installation.reference.calendar.session("ES", date(2024, 7, 2), SessionKind.ETH)
        assert before is not None
        assert answered is not None
        assert feed.opened == [Cursor(before.open_ns, answered_ns=answered.open_ns)]
        task.cancel()
        await asyncio.wait([task])

    run(installation, work)


def test_an_impossible_time_ends_no_session(installation: Installation) -> None:
    """A vendor claims that its history is complete up to the year 2100.

    The engine ignores that: it neither stores the open session nor marks it complete."""
    clock = SettableClock(OPEN + 30 * MINUTE)
    installation = replace(installation, clock=clock)

    async def work(harness: EngineHarness) -> None:
        feed = ScriptFeed([[trades(0, 30), CaughtUp(at_2100, Quality.TICKS), 60.0]], caps=PRESENT)
        task = harness.engine.attach(0, feed)
        await until(lambda: any("protocol" in report for report in harness.reports))
        stream = harness.engine.runners[KEY].stream
        assert stream.time_ns < OPEN + 31 * MINUTE
        assert not installation.store.sessions([0], "ES")
        task.cancel()
        await asyncio.wait([task])

    at_2100 = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp()) * SECOND
    run(installation, work)


async def followed_for_two_hours(harness: EngineHarness, feed: ScriptFeed) -> None:
    """Detach a feed after its first two hours have arrived."""
    task = harness.engine.attach(0, feed)
    last_ns = OPEN + 119 * MINUTE + 31 * SECOND
    runners = harness.engine.runners
    await until(lambda: KEY in runners and runners[KEY].stream.latest_ns == last_ns)
    task.cancel()
    await asyncio.wait([task])
