"""Queue of alerts that streams have fired and that are not in the database yet."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import NamedTuple

from outcry.live.model import AlertRow, LogTakenOver, TradeLog


class FiredAlerts(NamedTuple):
    """Alerts that one entry of a stream's log fired.

    stream: its name. position: the position the stream had reached. persisting: completes once the log has persisted
    everything up to that position; None if it has. It is created as the alerts fire, because a stream that is released
    and acquired again may have another log.
    """

    stream: str
    position: int
    rows: Sequence[AlertRow]
    persisting: asyncio.Future[None] | None

    @property
    def decided(self) -> bool:
        """Whether it is known if the log has persisted the entry that fired the alerts."""
        return self.persisting is None or self.persisting.done()


class AlertQueue:
    """Alerts that are not in the database yet, in the order they fired. For one event loop."""

    def __init__(self, log: TradeLog) -> None:
        self._log = log
        self._fired: list[FiredAlerts] = []
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._fired)

    def add(self, stream: str, position: int, rows: Sequence[AlertRow]) -> None:
        """Queue alerts that the newest entry of a stream fired. position: of the stream after that entry."""
        pending = self._log.pending_write(stream)
        persisting = None if pending is None else asyncio.ensure_future(pending)
        self._fired.append(FiredAlerts(stream, position, rows, persisting))
        if persisting is None:
            self._changed.set()
        else:
            persisting.add_done_callback(lambda _: self._changed.set())

    async def wait(self) -> None:
        """Wait until there may be alerts to record.

        That is when alerts were added, put back or became decided since the last wait.
        """
        await self._changed.wait()
        self._changed.clear()

    def take(self) -> list[FiredAlerts]:
        """Remove and return the alerts whose log entries are persisted, so that they can be recorded now.

        Alerts of one stream are taken in the order they fired, because its position is recorded with them. A stream
        whose log is not persisted yet does not delay the others.
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

    def put_back(self, fired: Sequence[FiredAlerts]) -> None:
        """Put alerts that could not be recorded back at the front of the queue."""
        self._fired = [*fired, *self._fired]
        self._changed.set()


async def is_persisted(persisting: Awaitable[None]) -> bool:
    """Wait until the log has persisted an entry; return False if another process has acquired the stream instead."""
    try:
        await persisting
    except LogTakenOver:
        return False
    return True
