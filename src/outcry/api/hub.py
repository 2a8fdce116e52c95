"""The open event streams of a process, to which the hub sends new events.

A stream that has sent everything before receives new events directly. Any other stream is woken, and sends what is
missing itself. The hub ends streams whose client does not read. It looks for changed answers four times a second, and
sends alerts at once. Nothing is sent while keys, grants and the database revision are older than one second, because
access may have been revoked.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic

from outcry.answers.query import Query
from outcry.answers.streaming import AlertTail, alert_event
from outcry.api.stream_push import EncodedAlert, StreamPush
from outcry.api.stream_reader import StreamReader
from outcry.api.stream_sources import LiveInputs, StreamSources
from outcry.api.tickets import Tickets
from outcry.base.errors import StoreUnavailable
from outcry.base.log_events import LogEvent
from outcry.base.tasks import BackgroundTasks
from outcry.database.errors import StoreBusy
from outcry.http.edge import Edge
from outcry.market.units import NANOS_PER_SECOND

TICK_S = 0.25
KEEP_ALIVE_S = 15.0
WRITE_TIMEOUT_S = 60.0
#: Encoded alerts in memory. A stream further behind reconnects and reads them from the database.
MAX_RECENT = 1000
_BATCH = 256  # streams checked for their data source in one turn of the event loop
_ERROR_DELAY_S = 1.0  # pause after an unexpected error


class Hub:
    """All open event streams of a process, on one event loop. `tickets`: allow pages to open a stream without a key."""

    def __init__(
        self, edge: Edge, query: Query, live: LiveInputs, timeout_s: float, tickets: Tickets
    ) -> None:
        self._edge, self._live, self.tickets = edge, live, tickets
        self.sources = StreamSources(edge, query, live, timeout_s)
        self.tail = AlertTail(live.registry, live.store)
        self.readers: set[StreamReader] = set()
        #: Number of events sent, by name.
        self.sent: dict[str, int] = {}
        self._push = StreamPush(edge, self.sent)
        self.closing = False
        self._recent: deque[EncodedAlert] = deque(maxlen=MAX_RECENT)
        self._seq = self._floor = 0
        self._posted = asyncio.Event()
        self._tasks = BackgroundTasks()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start the hub's background tasks on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._seq = self._floor = self._live.registry.alert_seq
        self._live.registry.on_alerts(self._on_alerts)
        self._tasks.start("stream ticks", self._run_periodically(self._tick, TICK_S))
        self._tasks.start("stream sources", self._run_periodically(self._refresh_readers, TICK_S))
        self._tasks.start("stream alerts", self._run_periodically(self._encode_alerts, 0.0))

    def close(self) -> None:
        """End all streams and reject new ones."""
        self.closing = True
        for reader in list(self.readers):
            reader.end("shutdown")

    async def stop(self) -> None:
        """Stop the hub's background tasks and threads."""
        self.close()
        await self._tasks.stop()
        self._loop = None
        self.sources.close()

    def count(self, name: str, times: int) -> None:
        """Count sent events for the metrics."""
        if times:
            self.sent[name] = self.sent.get(name, 0) + times

    def release(self, reader: StreamReader) -> None:
        """Remove a stream that has ended, given by its reader."""
        self.readers.discard(reader)
        reader.release()

    def is_current(self, reader: StreamReader) -> bool:
        """Return whether the key, the grants and the database revision were checked within the last second."""
        return self._edge.poller.fresh and reader.caller.generation == self._edge.authenticator.generation

    def unsent_alerts(self, reader: StreamReader) -> list[tuple[int, bytes]] | None:
        """Return a stream's unsent alerts as (seq, bytes), oldest first; None if the hub no longer has all of them."""
        if reader.alert_cursor >= self._seq:
            return []
        if reader.alert_cursor < self._floor or reader.alert_filter is None:
            return None
        found: list[tuple[int, bytes]] = []
        for alert in reversed(self._recent):
            if alert.row.seq <= reader.alert_cursor:
                break
            if reader.alert_filter(alert.row):
                found.append((alert.row.seq, alert.data))
        if not found:
            reader.alert_cursor = self._seq
        return found[::-1]

    async def _run_periodically(self, job: Callable[[], Awaitable[None]], each_s: float) -> None:
        """Run a job every `each_s` seconds. The interval does not depend on the job's duration."""
        due_s = monotonic()
        while True:
            try:
                await job()
            except Exception as error:  # noqa: BLE001 - a supervisor: one fault must not end all streams
                self._edge.event_log.error(LogEvent.EVENT_STREAM_FAILED, exc_info=error)
                await asyncio.sleep(_ERROR_DELAY_S)
            due_s = max(due_s + each_s, monotonic() - each_s)
            await asyncio.sleep(max(0.0, due_s - monotonic()))

    async def _tick(self) -> None:
        """Send new events, wake streams that must send a keep-alive, and end streams whose client does not read."""
        updates = await self.sources.refresh()
        now_s = monotonic()
        await self._push.updates(updates, now_s)
        for reader in list(self.readers):
            if reader.blocked_since_s and now_s - reader.blocked_since_s > WRITE_TIMEOUT_S:
                reader.end("stalled")
            elif now_s - reader.last_write_s >= KEEP_ALIVE_S:
                reader.wake.set()

    async def _refresh_readers(self) -> None:
        """Select the data source (live feed or completed session) of streams again, if it may have changed."""
        readers = list(self.readers)
        for first in range(0, len(readers), _BATCH):
            for reader in self.sources.stale(readers[first : first + _BATCH]):
                if not self._edge.poller.fresh:
                    return
                version_now = self.sources.version_now()
                try:
                    await self.sources.resolve(reader)
                except (StoreBusy, StoreUnavailable):
                    reader.resolved_version = version_now
                    reader.refresh_at_ns = self._edge.clock.now_ns() + NANOS_PER_SECOND
                reader.wake.set()
            await asyncio.sleep(0)

    def _on_alerts(self) -> None:
        """Schedule `_encode_alerts` on the event loop. Called when alerts fire, on another thread."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._posted.set)

    async def _encode_alerts(self) -> None:
        """Encode new alerts once for all streams, and send them."""
        await self._posted.wait()
        self._posted.clear()
        rows, _ = self._live.registry.alerts_after(self._seq)
        if not rows:
            return
        newest = rows[-MAX_RECENT:]
        encoded = await self.sources.on_registry_thread(
            lambda: [EncodedAlert(row, alert_event(row)) for row in newest]
        )
        if len(self._recent) + len(rows) > MAX_RECENT:
            seqs = [alert.row.seq for alert in self._recent] + [row.seq for row in rows]
            self._floor = seqs[-MAX_RECENT - 1]
        self._recent.extend(encoded)
        before_seq, self._seq = self._seq, rows[-1].seq
        if len(newest) == len(rows):
            await self._push.alerts(list(self.readers), encoded, before_seq, monotonic())
        else:  # more than are stored here: each stream decides whether it is too far behind
            for reader in self.readers:
                reader.wake.set()
