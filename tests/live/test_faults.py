"""Faults of one stream do not affect others: invalid entries, unreadable snapshots, a store that refuses."""

import asyncio
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
from tests.live.engine_harness import (
    ES,
    MINUTE,
    SECOND,
    EngineHarness,
    ScriptFeed,
    build_harness,
    play_feed,
    rows,
    run,
)

from outcry.app.installation import Installation
from outcry.live import stream_snapshot
from outcry.live.model import Frame
from outcry.market.session_state import VERSION
from outcry.recordings.file_model import FileRefused
from outcry.trades.feed import Amend, CaughtUp, Ended, Gap, Heartbeat, RowFlag, Trades
from outcry.trades.records import Quality

OPEN = int(datetime(2024, 7, 2, 13, 30, tzinfo=UTC).timestamp()) * SECOND  # 09:30 New York
CLOSE = OPEN + 405 * MINUTE
CAUGHT = CaughtUp(OPEN, Quality.TICKS)
KEY = f"0/script/{ES.key}"


def volume(harness: EngineHarness) -> int:
    found = harness.channel().view()
    assert found is not None
    return sum(found.ladder.volume)


def test_a_correction_to_an_impossible_price_degrades_the_session_and_the_stream_goes_on(
    installation: Installation,
) -> None:
    """A hundred thousand ticks away is no auction. The day after is one again, also for a process begun in between."""
    next_open = OPEN + 24 * 60 * MINUTE
    first = [
        CAUGHT,
        Trades(rows((OPEN, 22_000, 4), first_id=5)),
        Amend(5, "correct", 122_000 * 250_000_000, 4),
    ]

    async def poison(harness: EngineHarness) -> str:
        await play_feed(
            harness,
            [*first, Trades(rows((OPEN + 1, 22_000))), Trades(rows((OPEN + 2, 22_000))), Ended(OPEN + 3)],
        )
        return harness.engine.runners[KEY].stream.degraded

    async def after(harness: EngineHarness) -> tuple[str, int]:
        await play_feed(harness, [CAUGHT, Trades(rows((next_open, 22_001, 3))), Ended(next_open + 1)])
        return harness.engine.runners[KEY].stream.degraded, volume(harness)

    assert "span" in run(installation, poison)
    assert run(installation, after) == ("", 3)


def test_many_amendments_fold_the_session_anew_once(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        many = rows(*((OPEN + n, 22_000 + n % 9) for n in range(1000)), first_id=1)
        feed = ScriptFeed(
            [[CAUGHT, Trades(many), *(Amend(n, "cancel") for n in range(1, 501)), Ended(OPEN + SECOND)]]
        )
        read, reads = harness.log.read, []
        harness.log.read = lambda key, first: (reads.append(first), read(key, first))[1]  # type: ignore[method-assign]
        await harness.engine.attach(0, feed)
        assert volume(harness) == 500
        assert len(reads) < 6

    run(installation, work)


def test_a_snapshot_that_cannot_be_read_is_done_without(installation: Installation) -> None:
    script = [CAUGHT, Trades(rows((OPEN, 22_000, 4))), Ended(OPEN + SECOND)]

    async def play(harness: EngineHarness) -> int:
        await play_feed(harness, script)
        return volume(harness)

    assert run(installation, play) == 4

    async def ruin(harness: EngineHarness) -> None:
        position = harness.log.last(KEY)
        harness.live.forget_snapshot(KEY)
        harness.live.forget_stream(KEY)
        harness.live.save_snapshots([(KEY, position, b"of another version")])

    async def look(harness: EngineHarness) -> int:
        return volume(harness)

    async def ruin_after_the_end() -> None:
        harness = build_harness(installation)
        with harness.log.exclusively():
            await ruin(harness)

    asyncio.run(ruin_after_the_end())
    assert run(installation, look) == 4


def older(snapshot: bytes) -> bytes:
    """The same snapshot as the version before wrote it; its sessions are emptied, so that reading it would show."""
    found = stream_snapshot.read(snapshot)
    for part in found.sessions:
        state = json.loads(part.data)
        part.data = json.dumps(state | {"version": VERSION - 1, "ladder": None}).encode()
    return msgspec.msgpack.encode(found)


def test_a_snapshot_of_the_version_before_is_replayed_from_the_log(installation: Installation) -> None:
    """On its second day, when the log of the first, and with it that the stream had caught up, has been dropped: the
    session is whole again, and what was missed meanwhile fires."""
    day = 24 * 60 * MINUTE
    first_day = [Trades(rows((OPEN + n * 5 * MINUTE, 22_000, 1))) for n in range(81)]
    second_day = [Trades(rows((OPEN + day, 22_000, 4), (OPEN + day + MINUTE, 22_010, 3)))]

    async def before(harness: EngineHarness) -> list[str]:
        script = [CAUGHT, *first_day, Heartbeat(OPEN + day - 60 * MINUTE), 0.3, *second_day]
        await play_feed(harness, [*script, Ended(OPEN + day + MINUTE)])
        assert next(harness.log.read(KEY, 0)).first > 0  # dropped
        return [row.key for row in harness.live.alerts([0])]

    async def upgrade() -> None:
        harness = build_harness(installation)
        with harness.log.exclusively():
            found = harness.live.snapshot(KEY)
            assert found is not None
            harness.live.forget_snapshot(KEY)
            harness.live.save_snapshots([(KEY, found[0], older(stream_snapshot.unsealed(KEY, *found)))])

    async def after(harness: EngineHarness) -> tuple[int, list[str]]:
        missed = rows((OPEN + day + 61 * MINUTE, 22_011, 2), flags=RowFlag.BACKFILL, delay_ns=600 * SECOND)
        await play_feed(harness, [Trades(missed), CAUGHT, Ended(OPEN + day + 62 * MINUTE)])
        return volume(harness), [row.key for row in harness.live.alerts([0])]

    fired = run(installation, before)
    asyncio.run(upgrade())
    broken = f"ES:ib-break-up:{(OPEN + day + 61 * MINUTE) // 1_000_000}"
    assert run(installation, after) == (9, [*fired, broken])


def test_what_the_store_cannot_take_stops_no_other_stream(installation: Installation) -> None:
    """Storing one session meets a fault nobody thought of, again and again; another stream is snapshotted, and after a
    restart both are there."""
    day = [Trades(rows((OPEN + n * 5 * MINUTE, 22_000, 1))) for n in range(81)]

    async def work(harness: EngineHarness) -> None:
        def overflow(*_: object) -> None:
            raise OverflowError("too large")

        harness.engine._stores.archive.store = overflow  # type: ignore[method-assign,assignment]
        harness.engine.attach(0, ScriptFeed([[CAUGHT, *day, Heartbeat(CLOSE + 6 * MINUTE), 1e9]]))
        other = ScriptFeed([[CAUGHT, Trades(rows((OPEN, 22_000, 7))), 1e9]], name="other")
        harness.engine.attach(0, other)
        while not harness.live.snapshot(f"0/other/{ES.key}"):
            await asyncio.sleep(0.01)
        while not any(one.startswith(("session_", "stream_failed")) for one in harness.reports):
            await asyncio.sleep(0.01)

    run(installation, work)

    async def again(harness: EngineHarness) -> int:
        found = harness.channel(feed="other").view()
        assert found is not None
        assert KEY in harness.engine.runners
        return sum(found.ladder.volume)

    assert run(installation, again) == 7


def test_an_entry_that_was_logged_and_not_applied_is_read_again(installation: Installation) -> None:
    """Two trades are in the log, and taking the second in met a fault: the stream is read from its log, which has both,
    though the feed, as it is opened again, brings neither."""
    first, second = ((OPEN + n * MINUTE, 22_000 + n, 3) for n in range(2))

    async def work(harness: EngineHarness) -> int:
        script = [CAUGHT, Trades(rows(first)), 0.05, Trades(rows(second)), 1e9]
        harness.engine.attach(0, ScriptFeed([script, [CAUGHT, 1e9]]))
        while KEY not in harness.engine.runners or harness.engine.runners[KEY].stream.latest_ns != OPEN:
            await asyncio.sleep(0.001)
        stream = harness.engine.runners[KEY].stream

        def fails(*_: object) -> None:
            raise RuntimeError("once")

        stream.trades = fails  # type: ignore[method-assign,assignment]
        while harness.engine.runners.get(KEY) is None or harness.engine.runners[KEY].stream is stream:
            await asyncio.sleep(0.001)
        return volume(harness)

    assert run(installation, work) == 6


def test_what_was_taken_back_is_folded_without_the_event_loop_reading_the_log(
    installation: Installation,
) -> None:
    """A log may be on another machine: it is read beside the loop, which has everybody else's trades to take."""
    first = Trades(rows((OPEN, 22_000, 3), (OPEN + 1, 22_010, 4), first_id=1))
    readers: list[int] = []

    async def work(harness: EngineHarness) -> int:
        read, here = harness.log.read, threading.get_ident()

        def watched(key: str, at: int) -> Iterator[Frame]:
            for frame in read(key, at):
                readers.append(threading.get_ident())
                yield frame

        harness.log.read = watched  # type: ignore[method-assign]
        script = [CAUGHT, first, Amend(2, "cancel"), Trades(rows((OPEN + 2 * MINUTE, 22_000, 5))), 1e9]
        harness.engine.attach(0, ScriptFeed([script]))
        while KEY not in harness.engine.runners or harness.engine.runners[KEY].stream.latest_ns <= OPEN + 1:
            await asyncio.sleep(0.001)
        assert readers
        assert here not in readers
        return volume(harness)

    assert run(installation, work) == 8


def test_what_the_store_refuses_is_let_go(installation: Installation) -> None:
    """A recording that can never be stored is not tried for ever, and its log is not kept for ever."""
    day = [Trades(rows((OPEN + n * 5 * MINUTE, 22_000, 1))) for n in range(81)]

    async def work(harness: EngineHarness) -> list[str]:
        def refuse(*_: object) -> None:
            raise FileRefused("its log", "", "no contract of ours")

        harness.engine._stores.archive.store = refuse  # type: ignore[method-assign,assignment]
        await play_feed(harness, [CAUGHT, *day, Ended(CLOSE + 6 * MINUTE)])
        return harness.engine.runners[KEY].stream.pending

    assert run(installation, work) == []


def test_holes_that_touch_are_one_and_very_many_are_one(installation: Installation) -> None:
    gaps = [
        Gap(OPEN, OPEN + 10, "a"),
        Gap(OPEN + 10, OPEN + 20, "b"),
        Gap(OPEN + 5, OPEN + 15, "c"),
        Gap(OPEN + 30, OPEN + 40, "d"),
    ]

    async def some(harness: EngineHarness) -> list[tuple[int, int]]:
        await play_feed(harness, [CAUGHT, *gaps, Ended(OPEN + SECOND)])
        return harness.engine.runners[KEY].stream.holes

    assert run(installation, some) == [(OPEN, OPEN + 20), (OPEN + 30, OPEN + 40)]

    async def many(harness: EngineHarness) -> list[tuple[int, int]]:
        await play_feed(
            harness,
            [Gap(OPEN + n * 100, OPEN + n * 100 + 10, "x") for n in range(1, 400)] + [CAUGHT, Ended(OPEN)],
        )  # type: ignore[operator]
        return harness.engine.runners[KEY].stream.holes

    holes = run(installation, many)
    assert len(holes) <= 256
    assert (holes[0][0], holes[-1][1]) == (OPEN, OPEN + 399 * 100 + 10)


def test_a_new_performance_is_not_hurt_by_a_snapshot_of_the_one_before(installation: Installation) -> None:
    """Snapshots are taken and kept a moment later; meanwhile another run has begun: it keeps nothing of the first."""
    first = rows(*((OPEN + n, 22_000) for n in range(500)))
    second = rows(*((OPEN + n, 22_000) for n in range(50)))

    async def work(harness: EngineHarness) -> None:
        for run_name, trades in (("a", first), ("b", second)):
            await play_feed(harness, [CAUGHT, Trades(trades), 0.05, Ended(OPEN + SECOND)], run=run_name)

    run(installation, work)

    async def look(harness: EngineHarness) -> int:
        return volume(harness)

    assert run(installation, look) == 50
