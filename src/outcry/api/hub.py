"""The hub of all open streams of a process: wakes whoever there is news for, and ends whoever does not read.

Rules kept: answers are looked at four times a second, an alert wakes its readers at once; a reader is told nothing
while keys, grants and the store are not known to be as they were a second ago.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from time import monotonic

from outcry.answers.streaming import AlertTail, alert_event
from outcry.api.follower import Follower
from outcry.api.lookup import LiveSide, Lookup
from outcry.api.query import Query
from outcry.api.tickets import Tickets
from outcry.base.errors import StoreUnavailable
from outcry.base.log_events import LogEvent
from outcry.database.errors import StoreBusy
from outcry.http.edge import Edge
from outcry.live.model import AlertRow
from outcry.market.units import NANOS_PER_SECOND

TICK_S = 0.25
KEEP_ALIVE_S = 15.0
PATIENCE_S = 60.0
#: Alerts kept encoded for all; who is further behind is given them from the registry or the store.
MOST_RECENT = 1000
_AT_ONCE = 32  # readers woken, or looked after, before the loop gets its turn
_REST_S = 1.0  # after a fault of ours


class Hub:
    """All open streams. For one event loop. `tickets`: that open one in a page."""

    def __init__(self, edge: Edge, query: Query, live: LiveSide, timeout_s: float, tickets: Tickets) -> None:
        self._edge, self._live, self.tickets = edge, live, tickets
        self.lookup = Lookup(edge, query, live, timeout_s)
        self.tail = AlertTail(live.registry, live.store)
        self.followers: set[Follower] = set()
        #: Events told, by name.
        self.told: dict[str, int] = {}
        self.closing = False
        self._recent: deque[tuple[int, AlertRow, bytes]] = deque(maxlen=MOST_RECENT)
        self._seq = self._floor = 0
        self._posted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begin to look, on the running loop."""
        loop = self._loop = asyncio.get_running_loop()
        self._seq = self._floor = self._live.registry.alert_seq
        self._live.registry.on_alerts(self._on_alerts)
        jobs = (self._tick, TICK_S), (self._look_after, TICK_S), (self._collect, 0.0)
        self._tasks = [loop.create_task(self._keep_on(job, each_s)) for job, each_s in jobs]

    def close(self) -> None:
        """End every stream at once, and admit no more."""
        self.closing = True
        for follower in list(self.followers):
            follower.end("shutdown")

    async def stop(self) -> None:
        """End the tasks and threads."""
        self.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._loop = None
        self.lookup.close()

    def count(self, name: str, times: int) -> None:
        """Note events told."""
        if times:
            self.told[name] = self.told.get(name, 0) + times

    def leave(self, follower: Follower) -> None:
        """A stream is over."""
        self.followers.discard(follower)
        follower.leave()

    def knows(self, follower: Follower) -> bool:
        """Whether what is known of its key, its grants and the store is less than a second old."""
        return self._edge.poller.fresh and follower.caller.generation == self._edge.authenticator.generation

    def alerts_for(self, follower: Follower) -> list[tuple[int, bytes]] | None:
        """Alerts it has not been told of, in order; None where it has fallen behind what is kept here."""
        if follower.cursor >= self._seq:
            return []
        if follower.cursor < self._floor or follower.wanted is None:
            return None
        found: list[tuple[int, bytes]] = []
        for seq, row, data in reversed(self._recent):
            if seq <= follower.cursor:
                break
            if follower.wanted(row):
                found.append((seq, data))
        if not found:
            follower.cursor = self._seq
        return found[::-1]

    async def _keep_on(self, job: Callable[[], Awaitable[None]], each_s: float) -> None:
        """Do a job so often, however long it takes itself."""
        due_s = monotonic()
        while True:
            try:
                await job()
            except Exception as error:  # noqa: BLE001 - a supervisor: one fault must not end all streams
                self._edge.event_log.error(LogEvent.EVENT_STREAM_FAILED, exc_info=error)
                await asyncio.sleep(_REST_S)
            due_s = max(due_s + each_s, monotonic() - each_s)
            await asyncio.sleep(max(0.0, due_s - monotonic()))

    async def _tick(self) -> None:
        """Wake whoever follows what moved, whose line was quiet for long, and end whoever does not read."""
        woken = await self.lookup.refresh()
        await self._wake(woken)
        now_s = monotonic()
        for follower in list(self.followers):
            if follower.blocked_since_s and now_s - follower.blocked_since_s > PATIENCE_S:
                follower.end("stalled")
            elif now_s - follower.spoke_s >= KEEP_ALIVE_S:
                follower.wake.set()

    async def _look_after(self) -> None:
        """Look up again what has moved, for each stream that it concerns."""
        for count, follower in enumerate(list(self.followers), 1):
            if not self._edge.poller.fresh:
                return
            if not follower.ended and not follower.opening and self.lookup.due(follower):
                marker = self.lookup.marker()
                try:
                    await self.lookup.look_up(follower)
                except (StoreBusy, StoreUnavailable):
                    follower.looked_up = marker
                    follower.look_again_ns = self._edge.clock.now_ns() + NANOS_PER_SECOND
                follower.wake.set()
            if not count % _AT_ONCE:
                await asyncio.sleep(0)

    def _on_alerts(self) -> None:
        """Called on the engine's thread."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody reads any more
                loop.call_soon_threadsafe(self._posted.set)

    async def _collect(self) -> None:
        """Encode what was posted, once for all, and wake everybody."""
        await self._posted.wait()
        self._posted.clear()
        rows, _ = self._live.registry.alerts_after(self._seq)
        if not rows:
            return
        newest = rows[-MOST_RECENT:]
        encoded = await self.lookup.on_registry_thread(lambda: [alert_event(row) for row in newest])
        if len(self._recent) + len(rows) > MOST_RECENT:
            seqs = [seq for seq, _, _ in self._recent] + [row.seq for row in rows]
            self._floor = seqs[-MOST_RECENT - 1]
        self._recent.extend((row.seq, row, data) for row, data in zip(newest, encoded, strict=True))
        self._seq = rows[-1].seq
        await self._wake(self.followers)

    async def _wake(self, followers: Iterable[Follower]) -> None:
        for count, follower in enumerate(list(followers), 1):
            follower.wake.set()
            if not count % _AT_ONCE:
                await asyncio.sleep(0)
