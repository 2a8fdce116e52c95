"""Copy new alerts from the database to the memory of a process that answers requests, in the order recorded.

`AlertTail` polls the database. Notifications from other processes only shorten the delay.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from outcry.base.log_events import LogEvent, Report, discard
from outcry.base.tasks import is_set_within
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.state_publisher import ALERTS
from outcry.database.errors import StoreBusy
from outcry.live.alert_recorder import ALERTS_SHOWN
from outcry.live.model import AlertRow, StreamKey
from outcry.live.registry import Registry
from outcry.live.store import LiveStore

T = TypeVar("T")

#: Interval at which the store is read without a notification.
POLL_S = 1.0
_PAGE = 1000


class AlertTail:
    """Copy new alerts from the database to the registry (live streams in memory), on one event loop."""

    def __init__(
        self, registry: Registry, store: LiveStore, calls: NatsCalls, report: Report = discard
    ) -> None:
        self._registry, self._store, self._calls, self._report = registry, store, calls, report
        self._thread: ThreadPoolExecutor | None = None
        self._some = asyncio.Event()
        self._seq = 0
        self._busy = False
        #: Streams that left the registry, and streams that returned. The registry drops alerts of absent streams.
        self._removed: set[StreamKey] = set()
        self._back: set[StreamKey] = set()
        registry.on_channels(self._moved)

    async def run(self) -> None:
        """Load the newest alerts, then poll for new ones until cancelled."""
        thread = self._thread = ThreadPoolExecutor(1, "outcry-alerts")
        try:
            async with self._calls.listen(ALERTS, lambda _: self._some.set()):
                known = await self._asked(
                    lambda: self._store.alerts(None, limit=ALERTS_SHOWN, newest_first=True)
                )
                self._seq = known[0].seq if known else 0
                self._registry.post_known(known[::-1])
                while True:
                    await is_set_within(self._some, POLL_S)
                    self._some.clear()
                    await self._look()
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    async def _look(self) -> None:
        while True:
            rows = await self._asked(lambda: self._store.alerts(None, after_seq=self._seq, limit=_PAGE))
            if rows:
                self._seq = rows[-1].seq
                self._registry.post(rows)
            if len(rows) < _PAGE:
                break
        if self._back:
            back, self._back = self._back, set()
            owners = sorted({key.owner for key in back})
            rows = await self._asked(
                lambda: self._store.alerts(owners, limit=ALERTS_SHOWN, newest_first=True)
            )
            names = {(key.owner, key.feed, key.contract.key) for key in back}
            mine = [
                row for row in rows if (row.owner, row.feed, row.contract) in names and row.seq <= self._seq
            ]
            self._registry.post_known(mine[::-1])

    def _moved(self, key: StreamKey) -> None:
        """Note that a live stream was added to the registry or removed. Called on the event loop."""
        if not self._registry.shows(key):
            self._removed.add(key)
        elif key in self._removed:
            self._removed.discard(key)
            self._back.add(key)
            self._some.set()

    async def _asked(self, work: Callable[[], Sequence[AlertRow]]) -> Sequence[AlertRow]:
        """Run a database query (`work`) in a thread, and repeat the query while the database is busy."""
        while True:
            try:
                found = await asyncio.get_running_loop().run_in_executor(self._thread, work)
            except StoreBusy as problem:
                if not self._busy:
                    self._busy = True
                    self._report(LogEvent.ALERTS_DELAYED, problem=str(problem))
                await asyncio.sleep(POLL_S)
            else:
                self._busy = False
                return found
