"""Acquiring and releasing streams while their log is unavailable or another process writes to it."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from threading import Event

from tests.contract.outbox_harness import ALERT
from tests.live.engine_harness import ES, MINUTE, SECOND, EngineHarness, ScriptFeed, play_feed, rows, run

from outcry.app.installation import Installation
from outcry.database.errors import StoreBusy
from outcry.live.model import Frame, LogTakenOver, StreamKey
from outcry.recordings.tape_errors import TapeDamaged, TapeInUse
from outcry.trades.feed import CaughtUp, Ended, Trades
from outcry.trades.records import Quality

OPEN = int(datetime(2024, 7, 2, 13, 30, tzinfo=UTC).timestamp()) * SECOND  # 09:30 New York
CAUGHT = CaughtUp(OPEN, Quality.TICKS)
KEY = StreamKey(0, "script", ES)
CLOSE = OPEN + 405 * MINUTE
WHOLE = [CAUGHT, Trades(rows((OPEN, 22_000, 4), (CLOSE - SECOND, 22_000, 4))), Ended(CLOSE + 6 * MINUTE)]
DAY = [CAUGHT, Trades(rows((OPEN, 22_000, 4))), Ended(OPEN + MINUTE)]


def volume(harness: EngineHarness) -> int:
    found = harness.channel().view()
    assert found is not None
    return sum(found.ladder.volume)


def test_a_stream_is_acquired_once_its_unavailable_log_returns(
    installation: Installation,
) -> None:
    """Nothing else would retry it, because later pushes go to the existing run."""

    async def work(harness: EngineHarness) -> int:
        read, asked = harness.log.read, []

        def away(key: str, first: int) -> Iterator[Frame]:
            asked.append(key)
            if len(asked) < 3:
                raise StoreBusy("nats_disconnected")
            return read(key, first)

        harness.log.read = away  # type: ignore[method-assign]
        await harness.engine.attach_contract(0, ScriptFeed([DAY]), ES)
        return volume(harness)

    assert run(installation, work) == 4


def test_a_stream_is_acquired_once_another_process_stops_writing(
    installation: Installation,
) -> None:
    async def first(harness: EngineHarness) -> None:
        await play_feed(harness, DAY)

    async def then(harness: EngineHarness) -> int:
        await harness.engine.release([KEY.text])
        last, tries = harness.log.last, []

        def overtaken(key: str) -> int:
            tries.append(key)
            if len(tries) < 3:
                raise LogTakenOver(key)
            return last(key)

        harness.log.last = overtaken  # type: ignore[method-assign]
        await harness.engine.acquire([KEY.text])
        return volume(harness)

    run(installation, first)
    assert run(installation, then) == 4


def test_releasing_includes_streams_that_are_still_being_acquired(installation: Installation) -> None:
    """Otherwise this process would take the stream from the partition's next owner."""

    async def work(harness: EngineHarness) -> tuple[bool, set[str], dict[str, object]]:
        def away(_key: str) -> int:
            raise StoreBusy("nats_disconnected")

        harness.log.last = away  # type: ignore[method-assign]
        following = harness.engine.attach_contract(0, ScriptFeed([DAY]), ES)
        await asyncio.sleep(0)
        await harness.engine.release(harness.engine.stream_names)
        return following.cancelled(), harness.engine.stream_names, dict(harness.engine.runners)

    assert run(installation, work) == (True, set(), {})


def test_a_feed_reports_that_another_process_owns_its_stream(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> list[StreamKey]:
        def overtaken(key: str) -> int:
            raise LogTakenOver(key)

        lost: list[StreamKey] = []
        harness.engine.on_taken_over = lost.append
        harness.log.last = overtaken  # type: ignore[method-assign]
        await harness.engine.attach_contract(0, ScriptFeed([DAY]), ES)
        return lost

    assert run(installation, work) == [KEY]


def test_a_stalled_process_stores_nothing_of_a_stream_it_lost(
    installation: Installation,
) -> None:
    """The former owner checks ownership under the tape's lock, so its successor's recording stays unchanged."""

    async def work(harness: EngineHarness) -> tuple[list[StreamKey], int, list[bool]]:
        lost: list[StreamKey] = []
        asked: list[bool] = []
        harness.engine.on_taken_over = lost.append

        def overtaken(key: str) -> None:
            try:
                with installation.importer._context.tape.changes.exclusively(installation.store.tape_named):
                    asked.append(False)
            except TapeInUse:
                asked.append(True)
            raise LogTakenOver(key)

        harness.log.check_ownership = overtaken  # type: ignore[method-assign]
        await harness.engine.attach_contract(0, ScriptFeed([WHOLE]), ES)
        return lost, len(installation.store.sessions([0], "ES")), asked

    assert run(installation, work) == ([KEY], 0, [True])


def test_a_position_is_reported_once_it_is_durable(installation: Installation) -> None:
    """Feeds resume at that position. A crash would lose later entries that are not yet in the log."""

    async def work(harness: EngineHarness) -> tuple[bool, int]:
        await play_feed(harness, DAY)
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        harness.log.pending_write = lambda _key: written  # type: ignore[method-assign]
        asking = asyncio.create_task(harness.engine.progress(KEY))
        await asyncio.sleep(0.01)
        early = asking.done()
        written.set_result(None)
        reach = await asking
        assert reach is not None
        return early, reach.latest_ns

    assert run(installation, work) == (False, OPEN)


def test_an_alert_whose_trades_were_not_logged_is_not_recorded(
    installation: Installation,
) -> None:
    """The engine acquires the stream again before it records the alert, and the log then lacks the alert's trades."""

    async def work(harness: EngineHarness) -> list[str]:
        loop, alerts = asyncio.get_running_loop(), harness.engine.alerts
        await harness.engine.attach_contract(0, ScriptFeed([DAY]), ES)
        runner = harness.engine.runners[KEY.text]
        overtaken, written = loop.create_future(), loop.create_future()
        overtaken.set_exception(LogTakenOver(KEY.text))
        written.set_result(None)
        before = harness.live.last_seq()
        for row, keeping in (
            (replace(ALERT, key="overtaken"), overtaken),
            (replace(ALERT, key="kept"), written),
        ):
            harness.log.pending_write = lambda _key, keeping=keeping: keeping  # type: ignore[method-assign]
            alerts.add(runner.name, runner.stream.position, [row])
        harness.log.pending_write = lambda _key: None  # type: ignore[method-assign]
        await harness.engine.drained()
        found = harness.live.alerts(None, after_seq=before)
        return [row.key for row in found]

    assert run(installation, work) == ["kept"]


def test_a_stalled_log_delays_only_its_own_alerts_and_keeps_their_order(
    installation: Installation,
) -> None:
    async def work(harness: EngineHarness) -> tuple[list[str], list[str]]:
        loop, alerts = asyncio.get_running_loop(), harness.engine.alerts
        await harness.engine.attach_contract(0, ScriptFeed([DAY]), ES)
        await harness.engine.attach_contract(1, ScriptFeed([DAY]), ES)
        stuck, other = (harness.engine.runners[f"{owner}/script/{ES.key}"] for owner in (0, 1))
        keeping = loop.create_future()
        before = harness.live.last_seq()

        def recorded() -> list[str]:
            return [row.key for row in harness.live.alerts(None, after_seq=before)]

        for key, runner, unkept in (
            ("first", stuck, keeping),
            ("second", stuck, None),
            ("other", other, None),
        ):
            harness.log.pending_write = lambda _key, unkept=unkept: unkept  # type: ignore[method-assign]
            alerts.add(runner.name, runner.stream.position, [replace(ALERT, key=key)])
        async with asyncio.timeout(20):
            while not recorded():
                await asyncio.sleep(0.01)
        early = recorded()
        keeping.set_result(None)
        await harness.engine.drained()
        return early, recorded()

    assert run(installation, work) == (["other"], ["other", "first", "second"])


def test_snapshots_continue_after_a_failed_one(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> int:
        tries: list[int] = []
        await harness.engine.attach_contract(0, ScriptFeed([DAY]), ES)
        runner = harness.engine.runners[KEY.text]
        read = harness.log.read

        def away(key: str, first: int) -> Iterator[Frame]:
            tries.append(1)
            if len(tries) < 3:
                raise StoreBusy("nats_disconnected")
            return read(key, first)

        runner.saved_position = 0
        harness.live.forget_snapshot(KEY.text)
        harness.log.read = away
        runner.stream.amended = True  # so that a snapshot reads the log
        while len(tries) < 3 or runner.saved_position != runner.stream.position:
            if not tries:  # a snapshot in progress may have been saved in the meantime
                runner.saved_position = 0
            await asyncio.sleep(0.01)
        found = harness.live.snapshot(KEY.text)
        assert found is not None
        return found[0] - runner.stream.position

    assert run(installation, work) == 0


def test_acquiring_a_stream_does_not_block_others_on_the_store(installation: Installation) -> None:
    """An ended session is stored once its turn in the store comes."""

    async def work(harness: EngineHarness) -> None:
        archive, turn = harness.engine._session_writer._archive, Event()
        store = archive.store

        def refuse(*_: object) -> None:
            raise TapeDamaged("away")

        archive.store = refuse  # type: ignore[method-assign]
        await play_feed(harness, [CAUGHT, Trades(rows((OPEN, 22_000, 4))), Ended(OPEN + 24 * 60 * MINUTE)])
        await harness.engine.release([KEY.text])
        archive.store = lambda *all_of_it: (turn.wait(20), store(*all_of_it))[1]  # type: ignore[method-assign]
        await harness.engine.acquire([KEY.text])
        stream = harness.engine.runners[KEY.text].stream
        assert stream.pending
        turn.set()
        while stream.pending:
            await asyncio.sleep(0.01)

    run(installation, work)
