"""Stores snapshots of streams in the database, and syncs the log to disk, all off the event loop.

Recovery reads nothing before a snapshot. Therefore a snapshot is stored only after every earlier alert is recorded and
every earlier log entry is persisted.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from outcry.base.log_events import LogEvent, Report
from outcry.database.errors import StoreBusy
from outcry.live.alert_recorder import AlertRecorder, is_persisted
from outcry.live.database_calls import DatabaseCalls
from outcry.live.model import LogDamaged, Snapshots
from outcry.live.runner import Runner
from outcry.live.trade_log import TradeLog

T = TypeVar("T")

SNAPSHOT_S = 5.0
SYNC_S = 1.0
#: How long the process waits at its end for work in progress.
PATIENCE_S = 5.0


class _Taken(NamedTuple):
    """A snapshot that is about to be stored.

    needed_from: the oldest log position that a recovery from it still needs.
    """

    runner: Runner
    needed_from: int
    row: tuple[str, int, bytes]


class SnapshotWriter:
    """Stores snapshots of streams. Call it on the event loop. speedup: divides all pauses, for tests."""

    def __init__(
        self, log: TradeLog, snapshots: Snapshots, alerts: AlertRecorder, calls: DatabaseCalls, report: Report,
        speedup: float,
    ) -> None:  # fmt: skip
        self._log, self._snapshots, self._alerts, self._calls = log, snapshots, alerts, calls
        self._report, self._speedup = report, speedup
        self._sync_thread = ThreadPoolExecutor(1, "outcry-sync")

    async def keep_snapshots(self, runners: Mapping[str, Runner]) -> None:
        """Store a snapshot of each stream regularly. Never ends.

        Snapshots are stored one at a time, so that no stream delays the others.
        """
        while True:
            moved = [r for r in runners.values() if r.saved_position != r.stream.position]
            pause_s = SNAPSHOT_S / self._speedup / (len(moved) + 1)
            taken: list[_Taken] = []
            for runner in moved:
                one = await self._in_thread(lambda runner=runner: self._take(runner))
                if not await is_persisted(runner.stream.persisted()):
                    continue
                taken += [one] if one else []
                await self.store_pending(runner)
                await asyncio.sleep(pause_s)
            await self._save([one for one in taken if runners.get(one.runner.name) is one.runner])
            await asyncio.sleep(pause_s)

    def _take(self, runner: Runner) -> _Taken | None:
        """Take a snapshot of a stream. None if the snapshot needs log entries that cannot be read now."""
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
        """Store pending sessions and snapshots of streams that will be released, within `PATIENCE_S` seconds."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                kept = [runner for runner in runners if await is_persisted(runner.stream.persisted())]
                await self._save([taken for one in kept if (taken := self._take(one))])
        except TimeoutError:
            self._report(LogEvent.ALERTS_PENDING_AT_STOP)

    def close(self) -> None:
        """Stop the thread."""
        self._sync_thread.shutdown()

    async def _save(self, taken: Sequence[_Taken]) -> None:
        await self._alerts.drained()
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
        await self._calls.once(lambda: self._snapshots.save_snapshots([row]))
        runner.saved_position = row[1]
        await self._in_thread(lambda: self._log.drop(runner.name, needed_from))

    async def sync(self) -> bool:
        """Sync the log to disk; return whether that succeeded."""
        try:
            await self._in_thread(self._log.sync)
        except (StoreBusy, OSError) as problem:
            self._report(LogEvent.LOG_WRITE_FAILED, problem=str(problem))
            return False
        return True

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._sync_thread, work)
