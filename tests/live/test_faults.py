"""Faults of one stream do not affect others: invalid entries, unreadable snapshots, a store that refuses."""

import asyncio
import json
import threading
from collections import deque
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


def test_a_correction_to_an_impossible_price_degrades_only_the_session(
    installation: Installation,
) -> None:
    """A price a hundred thousand ticks away is invalid. The next day works, also for a process started in between."""
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


def test_many_amendments_recompute_the_session_once(installation: Installation) -> None:
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


def test_an_unreadable_snapshot_is_ignored(installation: Installation) -> None:
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
    """Return the snapshot in the previous version's format, with its sessions emptied so that reading it would show."""
    found = stream_snapshot.read(snapshot)
    for part in found.sessions:
        state = json.loads(part.data)
        part.data = json.dumps(state | {"version": VERSION - 1, "ladder": None}).encode()
    return msgspec.msgpack.encode(found)


def test_a_snapshot_of_the_previous_version_is_replayed_from_the_log(installation: Installation) -> None:
    """The log of the first day, including the report that the stream had caught up, is dropped.

    On the second day the stream restores the whole session, and the alerts of missed trades fire."""
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


def test_a_session_that_cannot_be_stored_stops_no_other_stream(installation: Installation) -> None:
    """Storing one session fails repeatedly with an unexpected error.

    Another stream still gets snapshots, and after a restart both are present."""
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


def test_a_logged_entry_that_was_not_applied_is_read_again(installation: Installation) -> None:
    """Two trades are in the log, and applying the second one failed.

    The stream is read from its log, which has both, although the reopened feed sends neither."""
    first, second = ((OPEN + n * MINUTE, 22_000 + n, 3) for n in range(2))

    async def work(harness: EngineHarness) -> int:
        script = [CAUGHT, Trades(rows(first)), 0.05, Trades(rows(second)), 1e9]
        harness.engine.attach(0, ScriptFeed([script, [CAUGHT, 1e9]]))
        while KEY not in harness.engine.runners or harness.engine.runners[KEY].stream.latest_ns != OPEN:
            await asyncio.sleep(0.001)
        stream = harness.engine.runners[KEY].stream

        class Failing(deque[tuple[int, bytes]]):
            def append(self, _: object) -> None:
                raise RuntimeError("once")

        stream._recent = (
            Failing()
        )  # a part of the stream, because methods of a compiled stream cannot be replaced
        while harness.engine.runners.get(KEY) is None or harness.engine.runners[KEY].stream is stream:
            await asyncio.sleep(0.001)
        return volume(harness)

    assert run(installation, work) == 6


def test_cancellations_do_not_read_the_log_on_the_event_loop(
    installation: Installation,
) -> None:
    """The log may be on another machine. A thread reads it, so that the event loop can serve other streams."""
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


def test_a_recording_that_the_store_refuses_is_discarded(installation: Installation) -> None:
    """A recording that can never be stored is not retried forever, and its log is not stored forever."""
    day = [Trades(rows((OPEN + n * 5 * MINUTE, 22_000, 1))) for n in range(81)]

    async def work(harness: EngineHarness) -> list[str]:
        def refuse(*_: object) -> None:
            raise FileRefused("its log", "", "no contract of ours")

        harness.engine._stores.archive.store = refuse  # type: ignore[method-assign,assignment]
        await play_feed(harness, [CAUGHT, *day, Ended(CLOSE + 6 * MINUTE)])
        return harness.engine.runners[KEY].stream.pending

    assert run(installation, work) == []


def test_adjacent_holes_and_very_many_holes_are_merged(installation: Installation) -> None:
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


def test_a_new_run_ignores_a_snapshot_of_the_previous_one(installation: Installation) -> None:
    """A snapshot is stored shortly after it is taken. If another run has begun by then, it is discarded."""
    first = rows(*((OPEN + n, 22_000) for n in range(500)))
    second = rows(*((OPEN + n, 22_000) for n in range(50)))

    async def work(harness: EngineHarness) -> None:
        for run_name, trades in (("a", first), ("b", second)):
            await play_feed(harness, [CAUGHT, Trades(trades), 0.05, Ended(OPEN + SECOND)], run=run_name)

    run(installation, work)

    async def look(harness: EngineHarness) -> int:
        return volume(harness)

    assert run(installation, look) == 50
