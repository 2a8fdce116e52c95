"""Crashes between two steps that random kills seldom hit: the engine ends there and a new one starts."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

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
from tests.timeouts import within

from outcry.app.installation import Installation
from outcry.database.errors import StoreBusy
from outcry.live import entries as log
from outcry.market.alerts.machine import AlertType
from outcry.trades.feed import CaughtUp, Ended, Gap, Heartbeat, Trades
from outcry.trades.records import Quality

OPEN = int(datetime(2024, 7, 2, 13, 30, tzinfo=UTC).timestamp()) * SECOND  # 09:30 New York
CLOSE = OPEN + 405 * MINUTE
CAUGHT = CaughtUp(OPEN, Quality.TICKS)
KEY = f"0/script/{ES.key}"
#: An hour between 22,000 and 22,010, and a trade above it a minute later.
BREAK = [
    Trades(rows((OPEN, 22_000), (OPEN + 30 * MINUTE, 22_010), (OPEN + 59 * MINUTE, 22_005))),
    Trades(rows((OPEN + 61 * MINUTE, 22_011))),
]
DAY = [Trades(rows((OPEN + n * 5 * MINUTE, 22_000 + n % 11, 10))) for n in range(81)]


def crash(installation: Installation, work: Callable[[EngineHarness], Awaitable[None]]) -> list[str]:
    """Start an engine, do the work, and cancel all its tasks without stopping it; return its reports."""

    async def whole() -> list[str]:
        harness = build_harness(installation)
        with harness.log.exclusively():
            await harness.engine.start()
            await within(work(harness), 60)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            return harness.reports

    return asyncio.run(whole())


def logged(harness: EngineHarness) -> list[log.LogEntry]:
    return [log.decode(frame) for frame in harness.log.read(KEY, 0)]


def test_a_snapshot_is_stored_only_after_the_alerts_it_contains(installation: Installation) -> None:
    """The store refuses alerts but accepts snapshots.

    The engine stores no snapshot, so after the crash the alerts fire again."""

    async def before(harness: EngineHarness) -> None:
        busy = threading.Event()

        def refuse(*_arguments: object) -> None:
            busy.set()
            raise StoreBusy("no")

        harness.live.record_alerts = refuse  # type: ignore[method-assign,assignment]
        harness.engine.attach(0, ScriptFeed([[CAUGHT, *BREAK, 1e9]]))
        while not busy.is_set():
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.2)  # long enough for dozens of snapshots
        snapshot = harness.live.snapshot(KEY)
        assert snapshot is None or snapshot[0] < harness.log.last(KEY)

    crash(installation, before)

    async def after(harness: EngineHarness) -> list[AlertType]:
        await harness.engine.drained()
        return [row.type for row in harness.live.alerts([0])]

    assert run(installation, after) == [AlertType.IB_BREAK_UP]
    assert run(installation, after) == [AlertType.IB_BREAK_UP]


def test_an_ended_session_is_stored_once_although_a_snapshot_is_due(installation: Installation) -> None:
    """Archiving takes many times as long as the interval of snapshots."""

    async def work(harness: EngineHarness) -> list[str]:
        store = harness.engine._stores.archive.store

        def slow(*arguments: object) -> None:
            threading.Event().wait(0.1)
            store(*arguments)  # type: ignore[arg-type]

        harness.engine._stores.archive.store = slow  # type: ignore[method-assign,assignment]
        await play_feed(harness, [CAUGHT, *DAY, Ended(CLOSE + 60 * MINUTE)])
        return [entry.what for entry in logged(harness) if isinstance(entry, log.Stored)]

    assert run(installation, work) == ["rth 2024-07-02", "day 2024-07-02"]


def test_overnight_references_are_recomputed_after_a_crash(
    installation: Installation,
) -> None:
    """The process ends after it stored the day and while it looks up the new references of the overnight session."""
    evening = [Trades(rows((CLOSE + MINUTE, 22_005))), Trades(rows((CLOSE + 6 * MINUTE, 22_006)))]

    async def before(harness: EngineHarness) -> None:
        reached, completed = threading.Event(), harness.engine._completed
        opening = completed.opening

        def blocked(*arguments: object) -> object:
            if any(row.complete for row in installation.store.sessions([0], "ES")):
                reached.set()
                threading.Event().wait(0.5)
            return opening(*arguments)  # type: ignore[arg-type]

        completed.opening = blocked  # type: ignore[method-assign,assignment]
        harness.engine.attach(0, ScriptFeed([[CAUGHT, *DAY, *evening, 1e9]]))
        while not reached.is_set():
            await asyncio.sleep(0.001)

    crash(installation, before)

    async def after(harness: EngineHarness) -> str:
        found = harness.channel().view()
        assert found is not None
        assert found.opening.prior is not None
        return str(found.opening.prior.trade_date)

    assert run(installation, after) == "2024-07-02"


def test_a_repeated_gap_is_one_gap(installation: Installation) -> None:
    gap = Gap(OPEN + 10 * MINUTE, OPEN + 20 * MINUTE, "transport")
    late = Trades(rows((OPEN + 21 * MINUTE, 22_000)))

    async def work(harness: EngineHarness) -> int:
        await play_feed(
            harness, [CAUGHT, Trades(rows((OPEN, 22_000))), gap, late, gap, Ended(OPEN + 22 * MINUTE)]
        )
        return sum(isinstance(entry, log.Hole) for entry in logged(harness))

    assert run(installation, work) == 1


def test_a_crash_after_an_opening_without_trades_leaves_no_trace(installation: Installation) -> None:
    """The process ends between a session's opening and its first trade; the next one's feed sends heartbeats first.

    Nothing is logged meanwhile, so later entries have the positions they would have had without the crash."""
    trade = Trades(rows((OPEN + 60 * MINUTE, 22_000)))

    async def before(harness: EngineHarness) -> None:
        def failing(*_: object, **__: object) -> None:
            raise OSError("gone")

        harness.log.append_trades = failing  # type: ignore[method-assign]
        harness.engine.attach(0, ScriptFeed([[CAUGHT, trade]]))
        while not any(isinstance(entry, log.Opened) for entry in logged(harness)):
            await asyncio.sleep(0.001)

    crash(installation, before)

    async def after(harness: EngineHarness) -> list[str]:
        beats = [Heartbeat(OPEN + n * MINUTE) for n in range(60)]
        await play_feed(harness, [CAUGHT, *beats, trade, Ended(OPEN + 60 * MINUTE)])
        return [type(entry).__name__ for entry in logged(harness)]

    assert run(installation, after) == ["Began", "Caught", "Opened", "Began", "TradeRows"]
