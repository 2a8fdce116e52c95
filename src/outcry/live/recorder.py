"""Stores alerts and snapshots in the database, and syncs the log to disk, all off the event loop.

An alert enters the registry only after it is recorded. A snapshot is stored only after every alert and entry before it,
because nothing before a snapshot is read again. An alert does not wait for the sync of the disk.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple, TypeVar

from outcry.base.clock import Clock
from outcry.base.log_events import LogEvent, Report
from outcry.database.errors import StoreBusy
from outcry.live.alert_queue import AlertQueue, FiredAlerts, is_persisted
from outcry.live.model import AlertRow, FanOut, LogDamaged, Snapshots, TradeLog
from outcry.live.registry import Registry
from outcry.live.runner import Runner
from outcry.live.store import LiveStore

T = TypeVar("T")

SNAPSHOT_S = 5.0
SYNC_S = 1.0
RETRY_S = 1.0
#: How long the process waits at its end for work in progress.
PATIENCE_S = 5.0
#: Alerts of earlier processes that are loaded into the registry.
ALERTS_SHOWN = 10_000


#: Returns who receives alerts that are recorded now. It blocks, and may raise `StoreBusy`.
FanOutNow = Callable[[], FanOut | None]


def to_nobody() -> None:
    """Return None as the recipients of alerts, so that alerts are recorded but not sent."""


class _Taken(NamedTuple):
    """A snapshot that is about to be stored. needed_from: the oldest position of the log that it still needs."""

    runner: Runner
    needed_from: int
    row: tuple[str, int, bytes]


class Recorder:
    """Stores alerts and snapshots of streams. Call it on the event loop.

    speedup: divides all pauses, for tests. fan_out: returns who receives alerts, called when they are recorded.
    """

    def __init__(
        self, log: TradeLog, snapshots: Snapshots, live: LiveStore, registry: Registry, alerts: AlertQueue,
        clock: Clock, speedup: float, report: Report, fan_out: FanOutNow = to_nobody,
    ) -> None:  # fmt: skip
        self._log, self._snapshots, self._live = log, snapshots, live
        self._alerts, self._clock = alerts, clock
        self._registry, self._speedup = registry, speedup
        self._report, self._fan_out = report, fan_out
        self._recording = False
        self._store_thread = ThreadPoolExecutor(1, "outcry-store")
        self._sync_thread = ThreadPoolExecutor(1, "outcry-sync")

    # -- alerts

    async def record(self) -> None:
        """Store alerts as they fire, several in one transaction, then add them to the registry. Never ends."""
        while True:
            await self._alerts.wait()
            fired = self._alerts.take()
            self._recording = True
            try:
                await self._record(
                    [one for one in fired if one.persisting is None or await is_persisted(one.persisting)]
                )
            except Exception as problem:  # noqa: BLE001 - a supervisor: no error may lose an alert
                self._report(LogEvent.ALERTS_NOT_RECORDED, problem=repr(problem))
                self._alerts.put_back(fired)
                await asyncio.sleep(RETRY_S / self._speedup)
            finally:
                self._recording = False

    async def _record(self, fired: Sequence[FiredAlerts]) -> None:
        positions = {one.stream: one.position for one in fired}
        if fired:
            new = await self.patiently(
                lambda: self._live.record_alerts(self._stamped(fired), positions, self._fan_out())
            )
            self._registry.post(new)

    def _stamped(self, fired: Sequence[FiredAlerts]) -> list[AlertRow]:
        """Set the recording time of alerts to now, unless their feed has its own clock.

        However long the database was busy, it is the time at which they are stored.
        """
        now_ns = self._clock.now_ns()
        return [
            row if row.recorded_ns is not None else replace(row, recorded_ns=now_ns)
            for one in fired
            for row in one.rows
        ]

    async def drained(self) -> None:
        """Wait until every alert fired so far is recorded and in the registry."""
        while self._alerts or self._recording:
            await asyncio.sleep(0.001)

    async def show_known(self, owners: Sequence[int]) -> None:
        """Add alerts that were recorded before this process started to the registry."""
        known = await self.patiently(lambda: self._live.alerts(owners, limit=ALERTS_SHOWN, newest_first=True))
        await self.drained()
        self._registry.post_known(list(reversed(known)))

    # -- snapshots and the log

    async def keep_snapshots(self, runners: Mapping[str, Runner]) -> None:
        """Store a snapshot of each stream regularly. Never ends.

        One is stored at a time, so that no stream delays the others.
        """
        while True:
            moved = [r for r in runners.values() if r.saved_position != r.stream.position]
            pause_s = SNAPSHOT_S / self._speedup / (len(moved) + 1)
            taken: list[_Taken] = []
            for runner in moved:
                one = await self._in_thread(self._sync_thread, lambda runner=runner: self._take(runner))
                if not await is_persisted(runner.stream.persisted()):
                    continue
                taken += [one] if one else []
                await self.store_pending(runner)
                await asyncio.sleep(pause_s)
            await self._save([one for one in taken if runners.get(one.runner.name) is one.runner])
            await asyncio.sleep(pause_s)

    def _take(self, runner: Runner) -> _Taken | None:
        """Take a snapshot of a stream; None if it needs entries of the log that cannot be read now."""
        needed_from = runner.stream.needed_from
        try:
            return _Taken(runner, needed_from, runner.stream.snapshot())
        except (StoreBusy, OSError, LogDamaged) as problem:
            self._report(LogEvent.SNAPSHOT_FAILED, stream=runner.name, problem=str(problem))
            return None

    async def store_pending(self, runner: Runner) -> None:
        """Store a stream's sessions that could not be stored when they ended, and report a failure."""
        try:
            await runner.store_pending()
        except Exception as problem:  # noqa: BLE001 - a supervisor: an error of one stream must not stop the others
            self._report(LogEvent.SESSION_STORE_FAILED, stream=runner.name, problem=repr(problem))

    async def save(self, runners: Sequence[Runner]) -> None:
        """Store what streams have pending before they are released, as far as possible within `PATIENCE_S`."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                kept = [runner for runner in runners if await is_persisted(runner.stream.persisted())]
                await self._save([taken for one in kept if (taken := self._take(one))])
        except TimeoutError:
            self._report(LogEvent.ALERTS_PENDING_AT_STOP)

    def close(self) -> None:
        """Stop the threads."""
        self._store_thread.shutdown()
        self._sync_thread.shutdown()

    async def _save(self, taken: Sequence[_Taken]) -> None:
        await self.drained()
        if not await self.sync():
            return
        for one in taken:
            try:
                await self._save_one(one)
            except (StoreBusy, OSError) as problem:
                self._report(
                    LogEvent.SNAPSHOT_NOT_STORED,
                    stream=one.runner.name,
                    problem=str(problem),
                )

    async def _save_one(self, taken: _Taken) -> None:
        runner, needed_from, row = taken
        await self._in_thread(self._store_thread, lambda: self._snapshots.save_snapshots([row]))
        runner.saved_position = row[1]
        await self._in_thread(self._sync_thread, lambda: self._log.drop(runner.name, needed_from))

    async def sync(self) -> bool:
        """Sync the log to disk; return whether that succeeded."""
        try:
            await self._in_thread(self._sync_thread, self._log.sync)
        except (StoreBusy, OSError) as problem:
            self._report(LogEvent.LOG_WRITE_FAILED, problem=str(problem))
            return False
        return True

    async def patiently(self, work: Callable[[], T], thread: Executor | None = None) -> T:
        """Run a blocking call to the database on a thread, and repeat it while the database is busy."""
        while True:
            try:
                return await self._in_thread(thread or self._store_thread, work)
            except StoreBusy as problem:
                self._report(LogEvent.STORE_BUSY, problem=str(problem))
                await asyncio.sleep(RETRY_S / self._speedup)

    async def _in_thread(self, thread: Executor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(thread, work)
