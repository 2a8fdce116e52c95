"""Records the alerts that streams fire in the database, then adds them to the registry.

An alert enters the registry, and so becomes visible, only after the database has recorded it. The alert need not wait
until the log is synced to disk.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from outcry.base.clock import Clock
from outcry.base.log_events import LogEvent, Report
from outcry.live.database_calls import RETRY_S, DatabaseCalls
from outcry.live.model import AlertRow, FanOut, LogTakenOver
from outcry.live.registry import Registry
from outcry.live.store import LiveStore
from outcry.live.trade_log import TradeLog

#: Alerts of earlier processes that are loaded into the registry.
ALERTS_SHOWN = 10_000

#: Returns who receives alerts that are recorded now. It blocks, and may raise `StoreBusy`.
FanOutNow = Callable[[], FanOut | None]


def to_nobody() -> None:
    """Return no recipients (None), so that alerts are recorded but not sent."""


class FiredAlerts(NamedTuple):
    """Alerts that one entry of a stream's log fired.

    stream: name of the stream. position: number of the log entry after the one that fired. persisting: completes once
    the log has persisted everything before that position; None if it already has. A later log of the same stream, after
    the stream was released and acquired again, does not affect it.
    """

    stream: str
    position: int
    rows: Sequence[AlertRow]
    persisting: asyncio.Future[None] | None

    @property
    def decided(self) -> bool:
        """Whether it is known what became of the log entry that fired the alerts: persisted or lost."""
        return self.persisting is None or self.persisting.done()


class AlertRecorder:
    """Queues alerts in the order they fired, and records them in the database.

    fan_out: called when alerts are recorded; returns who receives them. speedup: divides all pauses, for tests. Not
    thread-safe: use it on one event loop.
    """

    def __init__(
        self, log: TradeLog, live: LiveStore, calls: DatabaseCalls, registry: Registry, clock: Clock, report: Report,
        speedup: float, fan_out: FanOutNow = to_nobody,
    ) -> None:  # fmt: skip
        self._log, self._live, self._calls, self._registry = log, live, calls, registry
        self._clock, self._report, self._speedup, self._fan_out = clock, report, speedup, fan_out
        self._fired: list[FiredAlerts] = []
        self._recording = False
        self._changed = asyncio.Event()

    def add(self, stream: str, position: int, rows: Sequence[AlertRow]) -> None:
        """Queue alerts that the newest entry of a stream's log fired. position: the log's position after that entry."""
        pending = self._log.pending_write(stream)
        persisting = None if pending is None else asyncio.ensure_future(pending)
        self._fired.append(FiredAlerts(stream, position, rows, persisting))
        if persisting is None:
            self._changed.set()
        else:
            persisting.add_done_callback(lambda _: self._changed.set())

    async def record(self) -> None:
        """Record alerts once their log entries are persisted, several in one transaction. Never ends."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            fired = self._take()
            self._recording = True
            try:
                await self._record(
                    [one for one in fired if one.persisting is None or await is_persisted(one.persisting)]
                )
            except Exception as problem:  # noqa: BLE001 - a supervisor: no error may lose an alert
                self._report(LogEvent.ALERTS_NOT_RECORDED, problem=repr(problem))
                self._fired = [*fired, *self._fired]
                self._changed.set()
                await asyncio.sleep(RETRY_S / self._speedup)
            finally:
                self._recording = False

    def _take(self) -> list[FiredAlerts]:
        """Remove and return the alerts whose log entries are persisted, so that they can be recorded now.

        Alerts of one stream are taken in the order they fired, because the stream's position is recorded with them. A
        stream whose log is not persisted yet does not delay the others.
        """
        ready: list[FiredAlerts] = []
        later: list[FiredAlerts] = []
        waiting: set[str] = set()
        for one in self._fired:
            if one.decided and one.stream not in waiting:
                ready.append(one)
            else:
                waiting.add(one.stream)
                later.append(one)
        self._fired = later
        return ready

    async def _record(self, fired: Sequence[FiredAlerts]) -> None:
        positions = {one.stream: one.position for one in fired}
        if fired:
            new = await self._calls.patiently(
                lambda: self._live.record_alerts(self._stamped(fired), positions, self._fan_out())
            )
            self._registry.post(new)

    def _stamped(self, fired: Sequence[FiredAlerts]) -> list[AlertRow]:
        """Set the recording time of alerts to now, unless their feed has its own clock.

        The time is set right before the alerts are stored, so it is correct even if the database was busy for long.
        """
        now_ns = self._clock.now_ns()
        return [
            row if row.recorded_ns is not None else replace(row, recorded_ns=now_ns)
            for one in fired
            for row in one.rows
        ]

    async def drained(self) -> None:
        """Wait until every alert fired so far is recorded and in the registry."""
        while self._fired or self._recording:
            await asyncio.sleep(0.001)

    async def show_known(self, owners: Sequence[int]) -> None:
        """Add to the registry the alerts that were recorded before this process started."""
        known = await self._calls.patiently(
            lambda: self._live.alerts(owners, limit=ALERTS_SHOWN, newest_first=True)
        )
        await self.drained()
        self._registry.post_known(list(reversed(known)))


async def is_persisted(persisting: Awaitable[None]) -> bool:
    """Wait until the log has persisted an entry.

    Return False if another process took over the stream, so that the entry is lost.
    """
    try:
        await persisting
    except LogTakenOver:
        return False
    return True
