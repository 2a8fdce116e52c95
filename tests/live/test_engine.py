"""The live engine in operation: every row of the table of concerns has a test."""

import asyncio
import shutil
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
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

from outcry.access.licences import Grant, Scope
from outcry.app.installation import Installation
from outcry.live.health import NEVER, TRANSITIONS, Phase, Sign
from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract
from outcry.trades.feed import (  # fmt: skip
    Amend,
    Bars,
    CaughtUp,
    Ended,
    Event,
    FeedLost,
    FeedRefused,
    Gap,
    Heartbeat,
    Repaired,
    Resume,
    RowFlag,
    Status,
    Trades,
    VolumeCounter,
)
from outcry.trades.records import BAR, Quality

NIGHT = int(datetime(2024, 7, 1, 22, tzinfo=UTC).timestamp()) * SECOND  # 18:00 New York, trade date 2 July
OPEN = int(datetime(2024, 7, 2, 13, 30, tzinfo=UTC).timestamp()) * SECOND  # 09:30 New York
CLOSE = OPEN + 405 * MINUTE
CAUGHT = CaughtUp(OPEN, Quality.TICKS)
SHARED = Scope(user_id=1, grants=(Grant("everyone", "live", (), None, None),))


def view(harness: EngineHarness):
    found = harness.channel().view()
    assert found is not None
    return found


def reason(harness: EngineHarness) -> str:
    harness.engine.runners[f"0/script/{ES.key}"].update_availability(asyncio.get_running_loop().time())
    return harness.channel().availability.reason


def day(first: int = 22_000) -> list[Trades]:
    """Return a regular session: every five minutes a trade of ten lots, up and down ten ticks."""
    return [
        Trades(rows((OPEN + n * 5 * MINUTE, first + (n % 11), 10), (OPEN + n * 5 * MINUTE + 1, first, 1)))
        for n in range(81)
    ]


def test_trades_are_folded_in_order_and_counted(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        await play_feed(
            harness, [CAUGHT, Trades(rows((OPEN, 22_000, 3), (OPEN + 1, 22_004, 2))), Ended(OPEN + 2)]
        )
        found = view(harness)
        assert (found.profile.low, found.profile.high, found.last_ticks, found.last_ns) == (
            22_000,
            22_004,
            22_004,
            OPEN + 1,
        )
        assert sum(found.ladder.volume) == 5

    run(installation, work)


def test_a_restart_restores_the_log_and_counts_the_overlap_once(
    installation: Installation,
) -> None:
    """Two equal trades of one millisecond are two trades.

    After the restart, the feed repeats the last two seconds and adds another equal trade: three."""
    twin = (OPEN + 10 * SECOND, 22_000, 1)
    first = [CAUGHT, Trades(rows((OPEN, 22_000, 1), twin, twin)), FeedLost("gone")]
    again = [Trades(rows(twin, twin, twin)), CAUGHT, Ended(OPEN + 11 * SECOND)]

    async def before(harness: EngineHarness) -> None:
        harness.engine.attach(0, ScriptFeed([first, [1e9]]))
        while "feed_lost" not in " ".join(harness.reports):
            await asyncio.sleep(0.01)

    async def after(harness: EngineHarness) -> int:
        assert sum(view(harness).ladder.volume) == 3
        assert reason(harness) == "connecting"
        feed = await play_feed(harness, again)
        assert feed.opened[0].since_ns == twin[0] - 2 * SECOND
        return sum(view(harness).ladder.volume)

    run(installation, before)
    assert run(installation, after) == 4


def test_identical_trades_outside_an_overlap_all_count(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        same = (OPEN + SECOND, 22_000, 1)
        await play_feed(
            harness, [CAUGHT, Trades(rows(same)), Trades(rows(same, same)), Ended(OPEN + 2 * SECOND)]
        )
        assert sum(view(harness).ladder.volume) == 3

    run(installation, work)


def test_a_broken_feed_is_reopened_at_its_last_position(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        feed = await play_feed(
            harness,
            [CAUGHT, Trades(rows((OPEN, 22_000), (OPEN + 60 * SECOND, 22_001))), FeedLost("reset")],
            [Trades(rows((OPEN + 60 * SECOND, 22_001), (OPEN + 61 * SECOND, 22_002), flags=RowFlag.BACKFILL)), CAUGHT,
             Ended(OPEN + 62 * SECOND)],
        )  # fmt: skip
        assert [cursor.since_ns for cursor in feed.opened] == [0, OPEN + 58 * SECOND]
        assert sum(view(harness).ladder.volume) == 3

    run(installation, work)


def test_a_feed_that_refuses_is_not_retried(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        feed = await play_feed(harness, [FeedRefused("login_failed")])
        assert len(feed.opened) == 1
        assert reason(harness) == "login_failed"

    run(installation, work)


def test_prices_between_ticks_and_impossible_times_are_quarantined(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        wrong = rows((OPEN, 22_000), (OPEN + 1, 22_001), (OPEN + 2, 22_002))
        wrong["price"][1] += 1
        wrong["ts_event"][2] = wrong["ts_recv"][2] + 2 * 3600 * SECOND
        await play_feed(
            harness, [CAUGHT, Trades(wrong), Trades(rows((CLOSE + 46 * MINUTE, 9))), Ended(OPEN + 1)]
        )
        counts = harness.engine.runners[f"0/script/{ES.key}"].intake.counts
        assert (counts.rows, counts.off_tick, counts.impossible, counts.outside) == (1, 1, 1, 1)

    run(installation, work)


def test_live_requires_a_session_a_prior_and_a_connected_feed(installation: Installation) -> None:
    """Over a day: closed, no trades, no prior; live after a first complete session; then each way to lose it."""

    async def work(harness: EngineHarness) -> list[str]:
        seen: list[str] = []
        channel_reason = lambda: seen.append(reason(harness))  # noqa: E731

        class Watching(ScriptFeed):
            async def open(self, contract, since):
                async for event in super().open(contract, since):
                    yield event
                    channel_reason()

        next_open = OPEN + 24 * 60 * MINUTE
        script = [
            Heartbeat(OPEN - 20 * 3600 * SECOND), CaughtUp(OPEN, Quality.TICKS), *day(), Heartbeat(CLOSE + 5 * MINUTE),
            Heartbeat(next_open), Trades(rows((next_open + SECOND, 22_003))),
            Status(subscribed=False, code="unsubscribed"), Status(subscribed=True, code="subscribed"),
            Heartbeat(next_open + 31 * MINUTE), Ended(next_open + 31 * MINUTE),
        ]  # fmt: skip
        await harness.engine.attach(0, Watching([script]))
        seen.append(reason(harness))
        return seen

    seen = run(installation, work)
    assert seen[0] == "catching_up"
    assert seen[1] == "no_trades"
    assert set(seen[2:83]) == {"no_prior"}
    # The heartbeat at the end of the day, the next open, its first trade, two messages about the subscription, and 30
    # min 59 s without a trade, with no usual trading interval known.
    assert seen[83:] == [
        "no_trades",
        "no_trades",
        "live",
        "unsubscribed",
        "live",
        "stale_market",
        "ended",
    ]


def test_old_trades_sent_as_new_ones_are_not_live(installation: Installation) -> None:
    """A feed reports that it is behind and then sends old trades as new ones. It is not live until its next status."""

    async def work(harness: EngineHarness) -> list[str]:
        seen: list[str] = []

        class Watching(ScriptFeed):
            async def open(self, contract, since):
                async for event in super().open(contract, since):
                    yield event
                    seen.append(reason(harness))

        next_open = OPEN + 24 * 60 * MINUTE
        script = [
            Heartbeat(OPEN - 20 * 3600 * SECOND), CaughtUp(OPEN, Quality.TICKS), *day(), Heartbeat(CLOSE + 5 * MINUTE),
            Status(subscribed=True, code="catching_up"), Heartbeat(next_open),
            Trades(rows((next_open + SECOND, 22_003))), Status(subscribed=True, code="subscribed"),
            Status(subscribed=True, code="catching_up"), FeedLost("disconnected"),
        ]  # fmt: skip
        after = [CaughtUp(next_open + 2 * SECOND, Quality.TICKS), Ended(next_open + MINUTE)]
        await harness.engine.attach(0, Watching([script, after]))
        return seen

    seen = run(installation, work)
    assert seen[83:] == [
        "no_trades", "catching_up", "catching_up", "catching_up", "live", "catching_up",
        # the feed is opened again, and does not report that it is behind
        "live",
    ]  # fmt: skip


def test_an_idle_link_is_stale(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        feed = ScriptFeed([[CAUGHT, Trades(rows((OPEN, 22_000))), 1e9]])
        harness.engine.attach(0, feed)
        while not feed.opened or not harness.engine.runners:
            await asyncio.sleep(0.01)
        runner = harness.engine.runners[f"0/script/{ES.key}"]
        await until(lambda: runner.stream.latest_ns)
        now_s = asyncio.get_running_loop().time()
        runner.update_availability(now_s + 14)
        assert harness.channel().availability.reason == "no_prior"
        runner.update_availability(now_s + 16)
        assert harness.channel().availability.reason == "stale_link"

    run(installation, work)


def test_a_market_is_stale_when_it_is_quieter_than_it_usually_is(installation: Installation) -> None:
    """It trades every second, so sixty usual intervals are a minute. 61 seconds without a trade are too long."""

    async def work(harness: EngineHarness) -> None:
        trades = [Trades(rows((OPEN + n * SECOND, 22_000))) for n in range(60)]
        feed = ScriptFeed(
            [[CAUGHT, *trades, Heartbeat(OPEN + 119 * SECOND), 0.3, Heartbeat(OPEN + 120 * SECOND), 1e9]]
        )
        harness.engine.attach(0, feed)
        name = f"0/script/{ES.key}"

        async def reached(market_ns: int) -> None:
            async with asyncio.timeout(60):
                while (
                    name not in harness.engine.runners or harness.engine.runners[name].market_ns < market_ns
                ):
                    await asyncio.sleep(0.01)

        await reached(OPEN + 119 * SECOND)
        runner = harness.engine.runners[name]
        assert not runner.health.market_stale(OPEN + 119 * SECOND, runner.stream.latest_ns)
        await reached(OPEN + 120 * SECOND)
        assert runner.market_ns == OPEN + 120 * SECOND
        assert runner.health.market_stale(runner.market_ns, runner.stream.latest_ns)

    run(installation, work)


def test_a_completed_session_is_stored_before_anything_after_it_and_becomes_prior(
    installation: Installation,
) -> None:
    """The overnight session after the close uses the previous session's levels for five minutes, then this one's."""

    async def work(harness: EngineHarness) -> None:
        evening = Trades(rows((CLOSE + MINUTE, 22_005)))
        later = Trades(rows((CLOSE + 6 * MINUTE, 22_006)))
        await play_feed(harness, [CAUGHT, *day(), evening, later, Ended(CLOSE + 7 * MINUTE)])
        stored = [row for row in installation.store.sessions([0], "ES") if row.kind is SessionKind.RTH]
        assert [(str(row.trade_date), row.complete, row.volume) for row in stored] == [
            ("2024-07-02", True, 81 * 11)
        ]
        found = view(harness)
        assert found.opening.kind is SessionKind.ETH
        assert found.opening.prior is not None
        assert (str(found.opening.prior.trade_date), found.opening.prior.high) == ("2024-07-02", 22_010)

    run(installation, work)


def test_a_hole_makes_a_session_incomplete_until_it_is_repaired(installation: Installation) -> None:
    async def work(harness: EngineHarness, *more: object) -> list[bool]:
        lost = Gap(OPEN + 60 * MINUTE, OPEN + 90 * MINUTE, "transport")
        await play_feed(harness, [CAUGHT, *day()[:40], lost, *more, *day()[40:], Ended(CLOSE + 6 * MINUTE)])
        return [row.complete for row in installation.store.sessions([0], "ES") if row.kind is SessionKind.RTH]

    assert run(installation, work) == [False]


def test_a_repaired_hole_leaves_a_complete_session(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> list[bool]:
        lost = (OPEN + 60 * MINUTE, OPEN + 90 * MINUTE)
        late = Trades(rows((OPEN + 70 * MINUTE, 22_008), flags=RowFlag.BACKFILL))
        await play_feed(
            harness,
            [
                CAUGHT,
                *day()[:40],
                Gap(*lost, "transport"),
                late,
                Repaired(*lost),
                *day()[40:],
                Ended(CLOSE + 6 * MINUTE),
            ],
        )
        return [row.complete for row in installation.store.sessions([0], "ES") if row.kind is SessionKind.RTH]

    assert run(installation, work) == [True]


def test_a_feed_without_history_leaves_a_hole_while_disconnected(installation: Installation) -> None:
    caps = replace(OWN_CLOCK, resume=Resume.NONE)

    async def work(harness: EngineHarness) -> None:
        await play_feed(
            harness,
            [CAUGHT, Trades(rows((OPEN, 22_000))), FeedLost("reset")],
            [CaughtUp(OPEN + 60 * SECOND, Quality.TICKS), Ended(OPEN + 61 * SECOND)],
            caps=caps,
        )
        assert harness.engine.runners[f"0/script/{ES.key}"].stream.holes == [(OPEN, OPEN + 60 * SECOND)]

    run(installation, work)


def test_the_feeds_count_of_lots_reveals_lost_trades(installation: Installation) -> None:
    """The feed counts 10 lots at 0 s, 13 at 1 s, and 15 at 5 s, but only 13 have arrived by 8 s.

    Trades are missing between the last count that agreed and the one that did not. Neither a count that is always 10 ms
    ahead of its trades nor one that restarts means a loss."""

    async def work(harness: EngineHarness) -> None:
        lost = [VolumeCounter(OPEN + 5 * SECOND, 15), VolumeCounter(OPEN + 8 * SECOND, 15)]
        ahead = [
            event
            for n in range(10, 20)
            for event in (
                VolumeCounter(OPEN + n * SECOND, 15 + n - 9),
                Trades(rows((OPEN + n * SECOND + 10_000_000, 22_000, 1))),
            )
        ]
        await play_feed(
            harness,
            [CAUGHT, Trades(rows((OPEN, 22_000, 10))), VolumeCounter(OPEN, 10),
             Trades(rows((OPEN + SECOND, 22_000, 3))), VolumeCounter(OPEN + SECOND, 13), *lost, *ahead,
             VolumeCounter(OPEN + 30 * SECOND, 2), Ended(OPEN + 31 * SECOND)],
        )  # fmt: skip
        assert harness.engine.runners[f"0/script/{ES.key}"].stream.holes == [
            (OPEN + SECOND, OPEN + 5 * SECOND)
        ]

    run(installation, work)


def test_a_cancelled_trade_is_removed_from_levels_and_recording(installation: Installation) -> None:
    """22,100 was an error and is cancelled: the high is 22,010 again, live and in the store. Fired alerts stay."""

    async def work(harness: EngineHarness) -> None:
        slip = Trades(rows((OPEN + 62 * MINUTE, 22_100, 7), first_id=99))
        fixed = Trades(rows((OPEN + 63 * MINUTE, 22_050, 7), first_id=77))
        await play_feed(
            harness,
            [CAUGHT, *day()[:13], slip, fixed, Amend(99, "cancel"), Amend(77, "correct", 22_001 * 250_000_000, 2),
             *day()[13:], Heartbeat(CLOSE - 1), 0.2, Ended(CLOSE + 6 * MINUTE)],
        )  # fmt: skip
        (stored,) = [row for row in installation.store.sessions([0], "ES") if row.kind is SessionKind.RTH]
        assert stored.volume == 81 * 11 + 2
        alerts = harness.live.alerts([0])
        assert [(row.type, row.price_e9) for row in alerts] == [("ib-break-up", 22_100 * 250_000_000)]

    run(installation, work)


def test_an_amended_session_has_levels_without_the_error(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        slip = Trades(rows((OPEN + 2 * MINUTE, 22_100, 7), first_id=99))
        await play_feed(
            harness,
            [CAUGHT, Trades(rows((OPEN, 22_000))), slip, Amend(99, "cancel"), Ended(OPEN + 3 * MINUTE)],
        )
        assert (view(harness).profile.high, view(harness).revision) == (22_000, 1)

    run(installation, work)


def test_history_before_the_first_catching_up_fires_nothing(installation: Installation) -> None:
    """A break of the initial balance (22,000 to 22,010) in the history fires nothing, and neither does a second one."""

    async def work(harness: EngineHarness, flags: int, caught_first: bool) -> list[str]:
        past = [
            Trades(rows((OPEN, 22_000), (OPEN + MINUTE, 22_010), (OPEN + 61 * MINUTE, 22_011), flags=flags))
        ]
        script = [CAUGHT, *past] if caught_first else [*past, CAUGHT]
        await play_feed(
            harness, [*script, Trades(rows((OPEN + 62 * MINUTE, 22_012))), Ended(OPEN + 63 * MINUTE)]
        )
        return [row.key for row in harness.live.alerts([0])]

    assert run(installation, lambda harness: work(harness, RowFlag.BACKFILL, caught_first=False)) == []


def test_history_after_an_interruption_fires_the_missed_alerts(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> list[str]:
        await play_feed(
            harness,
            [CAUGHT, Trades(rows((OPEN, 22_000), (OPEN + MINUTE, 22_010))), FeedLost("reset")],
            [Trades(rows((OPEN + 61 * MINUTE, 22_011), flags=RowFlag.BACKFILL, delay_ns=600 * SECOND)), CAUGHT,
             Ended(OPEN + 62 * MINUTE)],
        )  # fmt: skip
        return [row.key for row in harness.live.alerts([0])]

    assert run(installation, work) == [f"ES:ib-break-up:{(OPEN + 61 * MINUTE) // 1_000_000}"]


def test_a_late_live_trade_fires_nothing(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> list[str]:
        late = Trades(rows((OPEN + 61 * MINUTE, 22_011), delay_ns=5 * SECOND + 1))
        await play_feed(
            harness,
            [CAUGHT, Trades(rows((OPEN, 22_000), (OPEN + MINUTE, 22_010))), late, Ended(OPEN + 62 * MINUTE)],
        )
        return [row.key for row in harness.live.alerts([0])]

    assert run(installation, work) == []


def test_drift_is_the_minimum_delay(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        await play_feed(
            harness,
            [
                CAUGHT,
                *(
                    Trades(rows((OPEN + n * SECOND, 22_000), delay_ns=(700 + n) * 1_000_000))
                    for n in range(5)
                ),
                Ended(OPEN + 6 * SECOND),
            ],
        )
        runner = harness.engine.runners[f"0/script/{ES.key}"]
        assert runner.health.drift_ns == 700_000_000
        await asyncio.sleep(0.3)  # the next check reports it once
        assert [report for report in harness.reports if "clock" in report] == [
            "clock_drift {'stream': '0/script/ESU2024', 'drift_ms': 700}"
        ]

    run(installation, work)


def test_a_new_run_of_a_feed_restarts_its_stream(installation: Installation) -> None:
    """A new run of a feed restarts its stream. Its alerts have the same keys and are published again."""
    script = [
        CAUGHT,
        Trades(rows((OPEN, 22_000, 4), (OPEN + MINUTE, 22_010), (OPEN + 61 * MINUTE, 22_011))),
        Ended(OPEN + 62 * MINUTE),
    ]

    async def work(harness: EngineHarness) -> None:
        await play_feed(harness, script, run="a")
        await play_feed(harness, script, run="a")
        assert sum(view(harness).ladder.volume) == 6
        (before,) = harness.live.alerts([0])
        assert before.recorded_ns == before.at_ns, "a recording's clock does not run on while it is recorded"
        await play_feed(harness, script, run="b")
        assert sum(view(harness).ladder.volume) == 6
        (after,) = harness.live.alerts([0])
        assert (after.key, after.seq > before.seq) == (before.key, True)
        assert harness.registry.alerts_after(before.seq) == ([after], True)

    run(installation, work)


def test_a_faulty_market_degrades_one_instrument_and_no_other(installation: Installation) -> None:
    """Prices twenty thousand rows apart in one session are in another unit. The stream reports that and is not live."""

    async def work(harness: EngineHarness) -> None:
        await play_feed(harness, [CAUGHT, Trades(rows((OPEN, 22_000), (OPEN + 1, 42_000))), Ended(OPEN + 2)])
        assert "span" in harness.engine.runners[f"0/script/{ES.key}"].stream.degraded

    run(installation, work)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_frames_of_any_size_give_the_same_log_position(installation: Installation, size: int) -> None:
    async def work(harness: EngineHarness) -> int:
        whole = rows(*((OPEN + n * SECOND, 22_000 + n % 5) for n in range(50)))
        await play_feed(
            harness,
            [CAUGHT, *(Trades(whole[a : a + size]) for a in range(0, 50, size)), Ended(OPEN + 60 * SECOND)],
        )
        return harness.log.last(f"0/script/{ES.key}")

    assert run(installation, work) == 54  # start, caught up, opened, file begun, 50 trades


def test_the_front_rolls_by_volume_between_sessions_and_levels_are_the_new_contracts_own(
    installation: Installation,
) -> None:
    """On 1 July September leads by volume; on 2 July December does, at prices 100 points higher.

    From 3 July December answers, with its own levels of 2 July. September no longer answers for ES and fires
    nothing."""
    december, day_ns = Contract("ES", 2024, 12), 24 * 60 * MINUTE
    next_open = OPEN + day_ns

    def session(open_ns: int, first: int, lots: int) -> list[Event | Exception | float]:
        one = [
            Trades(
                rows(
                    (open_ns + n * 5 * MINUTE, first + (n % 11), lots),
                    (open_ns + n * 5 * MINUTE + 1, first, 1),
                )
            )
            for n in range(81)
        ]
        # the pause lets both contracts reach the close, as two contracts on one clock do
        return [*one, Heartbeat(open_ns + 410 * MINUTE), 0.5]

    def script(first: int, lots: int, then: int) -> list[Event | Exception | float]:
        break_out = [
            Trades(rows((next_open + n * MINUTE, price)))
            for n, price in ((1, first), (2, first + 10), (61, first + 11))
        ]
        days = [*session(OPEN - day_ns, first, lots), *session(OPEN, first, then)]
        return [
            CaughtUp(OPEN - day_ns, Quality.TICKS),
            *days,
            *break_out,
            Heartbeat(next_open + 62 * MINUTE),
            1e9,
        ]

    async def work(harness: EngineHarness) -> None:
        feed = ScriptFeed([script(22_000, 20, 10)], others={december: script(22_400, 10, 20)})
        harness.engine.attach(0, feed)
        runners = harness.engine.runners
        while len(runners) < 2 or min(r.market_ns for r in runners.values()) < next_open + 62 * MINUTE:
            await asyncio.sleep(0.01)
        await harness.engine.drained()
        seen = harness.registry.find(SHARED, "ES", None)
        assert seen is not None, [r.channel.availability for r in harness.engine.runners.values()]
        assert seen.channel.key.contract == december
        found = seen.channel.view()
        assert found is not None
        assert found.opening.prior is not None
        assert (found.opening.prior.high, found.opening.rolled_from) == (22_410, "ESU2024")
        assert reason(harness) == "not_front"
        named = harness.registry.find(SHARED, "ES", ES)
        assert named is not None, "a contract that is named answers itself, front or not"
        assert named.channel.key.contract == ES
        assert {
            (row.contract, row.type)
            for row in harness.live.alerts([0])
            if str(row.trade_date) == "2024-07-03"
        } >= {("ESZ2024", "ib-break-up")}
        assert not [
            r
            for r in harness.live.alerts([0])
            if r.contract == "ESU2024" and str(r.trade_date) == "2024-07-03"
        ]

    run(installation, work)


def test_a_missing_log_restarts_the_stream(installation: Installation) -> None:
    """As with a backup without the log: the snapshot is ahead of the log, and the feed sends everything again."""
    script = [CAUGHT, Trades(rows((OPEN, 22_000, 4))), Ended(OPEN + SECOND)]

    async def play(harness: EngineHarness) -> int:
        await play_feed(harness, script)
        return sum(view(harness).ladder.volume)

    assert run(installation, play) == 4
    shutil.rmtree(installation.settings.folder / "live")
    assert run(installation, play) == 4


def test_impossible_times_are_quarantined_and_compute_no_sessions(installation: Installation) -> None:
    """1990 and 2200 are outside the contract's life, and eleven days ago is too late; eight days are accepted."""

    async def work(harness: EngineHarness) -> None:
        far = [at * 365 * 24 * 60 * MINUTE for at in (20, 230)]
        odd = Trades(rows(*((at, 22_000) for at in far)))
        old = Trades(rows((OPEN - 11 * 24 * 60 * MINUTE, 22_000), (OPEN - 8 * 24 * 60 * MINUTE, 22_000)))
        await play_feed(harness, [CAUGHT, odd, Trades(rows((OPEN, 22_000))), old, Ended(OPEN + SECOND)])
        counts = harness.engine.runners[f"0/script/{ES.key}"].intake.counts
        assert (counts.impossible, counts.rows) == (3, 2)

    run(installation, work)


def test_a_fault_of_one_stream_is_reported_and_retried(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        await play_feed(
            harness,
            [CAUGHT, ZeroDivisionError("a bug")],
            [CAUGHT, Trades(rows((OPEN, 22_000))), Ended(OPEN + 1)],
        )
        assert sum(view(harness).ladder.volume) == 1
        assert any("stream_failed" in report for report in harness.reports)

    run(installation, work)


def test_the_connection_table_has_every_pair_of_phase_and_sign() -> None:
    pairs = {(phase, sign) for phase in Phase for sign in Sign}
    assert TRANSITIONS.keys() | NEVER == pairs
    assert not TRANSITIONS.keys() & NEVER


def test_bars_and_then_ticks_of_the_same_minutes_count_once(installation: Installation) -> None:
    """Two minutes arrive as bars of 100 lots. Ticks of the second minute are not added; later ticks count."""
    bars = np.array(
        [
            (OPEN + n * MINUTE, *(price * 250_000_000 for price in (22_000, 22_004, 22_000, 22_002)), 100)
            for n in (0, 1)
        ],
        BAR,
    )

    async def work(harness: EngineHarness) -> None:
        ticks = Trades(rows((OPEN + MINUTE + SECOND, 22_001, 5), (OPEN + 2 * MINUTE, 22_003, 7)))
        history = Bars(bars, Quality.BARS_1M, backfill=True)
        await play_feed(harness, [history, CAUGHT, ticks, Ended(OPEN + 3 * MINUTE)])
        found = view(harness)
        assert (sum(found.ladder.volume), found.last_ticks, found.ladder.source) == (207, 22_003, "bars")
        assert harness.engine.runners[f"0/script/{ES.key}"].intake.counts.repeated == 1

    run(installation, work)


def test_pauses_grow_to_a_minute(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pause is between half of 1, 2, 4 … 60 s and all of it (a thousand times shorter here)."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        task = asyncio.current_task()
        if seconds and task is not None and task.get_name() == f"0/script/{ES.key}":
            pauses.append(seconds * 1000)
        await sleep(seconds)

    async def work(harness: EngineHarness) -> None:
        monkeypatch.setattr("outcry.base.backoff.asyncio.sleep", noted)
        monkeypatch.setattr("outcry.live.feed_supervisor.GOOD_SESSION_S", float("inf"))
        feed = ScriptFeed([[FeedLost("gone")]] * 8 + [[CAUGHT, Ended(OPEN)]])
        await harness.engine.attach_contract(0, feed, ES)
        monkeypatch.undo()

    run(installation, work)
    for pause, longest in zip(pauses, (1, 2, 4, 8, 16, 32, 60, 60), strict=True):
        assert longest / 2 <= pause <= longest


def test_a_replay_uses_the_operators_sessions_visible_at_present(
    installation: Installation,
) -> None:
    """The operator has 2 July, granted a day after its close.

    A user who replays 3 July years later sees it as the prior, although the embargo had not ended at the recorded
    time."""
    next_open = OPEN + 24 * 60 * MINUTE

    async def work(harness: EngineHarness) -> None:
        await play_feed(harness, [CAUGHT, *day(), Ended(CLOSE + 6 * MINUTE)])
        await play_feed(
            harness, [CAUGHT, Trades(rows((next_open, 22_003))), Ended(next_open + 1)], owner=7, name="mine"
        )
        found = harness.channel(feed="mine", owner=7).view()
        assert found is not None
        assert found.opening.prior is not None
        assert str(found.opening.prior.trade_date) == "2024-07-02"

    run(installation, work)
