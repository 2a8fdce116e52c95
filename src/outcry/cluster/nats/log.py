"""The log of received trades in JetStream: one subject for each live stream, such as `log.17.0.demo.ESZ2026`.

JetStream is the storage of NATS. For each live stream one message is in flight at a time. It names the message before
it, so two processes can never both append. Frames (batches of entries) that arrive in the meantime go into the next
message. The newest message of a stream is never removed.
"""

import asyncio
import errno
import secrets
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from itertools import count
from time import monotonic

from outcry.base.backoff import Backoff
from outcry.base.log_events import LogEvent, Report
from outcry.base.tasks import BackgroundTasks
from outcry.cluster.calls import BusDown
from outcry.cluster.nats import blocking, log_format
from outcry.cluster.nats.blocking import BlockingBus
from outcry.cluster.nats.link import BusRefused
from outcry.cluster.nats.log_reader import LogReader, place_of
from outcry.cluster.nats.log_stream import LogStream
from outcry.cluster.nats.message_store import HEADERS_BYTES, MessageStore, WriteConflict
from outcry.cluster.nats.thread import LinkThread
from outcry.database.errors import StoreBusy
from outcry.live.entries import Day
from outcry.live.log_checks import check_repeat
from outcry.live.model import Frame, LogTakenOver
from outcry.live.partitions import partition_of_stream
from outcry.live.pending_writes import FRAME_BYTES, size_of, size_of_trades, wake

STREAM = {"name": "LOG", "subjects": ["log.>"], "storage": "file", "allow_direct": True}
#: Maximum bytes of unacknowledged entries in all streams together.
MAX_PENDING_BYTES = 64 << 20
_MESSAGE_BYTES = 1 << 20
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


class JetStreamLog:
    """The log of received trades in JetStream. Implements `TradeLog`. Thread-safe; needs a running `LinkThread`.

    max_pending_bytes: maximum bytes of entries that JetStream has not acknowledged; above it `append` raises `OSError`.
    """

    def __init__(
        self, thread: LinkThread, report: Report, *, max_pending_bytes: int = MAX_PENDING_BYTES
    ) -> None:
        self._thread, self._report = thread, report
        self._store = MessageStore(thread.link, STREAM)
        self._bus = BlockingBus(thread, "log")
        self._max_pending_bytes = max_pending_bytes
        self._turn = threading.Condition()
        self._streams: dict[str, LogStream] = {}
        self._pending_bytes = 0
        self._ready: list[LogStream] = []
        self._tasks = BackgroundTasks(report)
        self._name, self._numbers = secrets.token_hex(8), count()
        self._stuck = False

    @property
    def stuck(self) -> bool:
        """Whether NATS is connected but does not accept log entries."""
        return self._stuck

    # -- blocking methods

    def keys(self, partitions: Collection[int] | None = None) -> Sequence[str]:
        """Return the keys (`StreamKey.text`) of streams with entries, in `partitions` or in all.

        Raises `StoreBusy`.
        """
        shares = ["*"] if partitions is None else [str(one) for one in sorted(partitions)]
        with self._turn:
            on_the_way = [stream.key for stream in self._streams.values() if stream.writing]
        found = {key for key in on_the_way if partitions is None or partition_of_stream(key) in partitions}
        for share in shares:
            subjects = self._bus(lambda share=share: self._store.subjects(f"log.{share}.>"))
            found.update(map(log_format.key_of, subjects))
        return sorted(found)

    def last(self, key: str) -> int:
        """Wait until this process's entries are acknowledged; return the position after the newest entry.

        Raises `StoreBusy`.
        """
        stream = self._streams.get(key) or LogStream(key, log_format.subject_of("log", key))
        self._settle(stream)
        last, seq = self._bus(lambda: self._look(stream.subject))
        with self._turn:
            stream = self._streams.setdefault(key, stream)
            if not stream.writing:
                stream.last, stream.seq, stream.void = last, seq, False
                stream.cuts.clear()
            return stream.last

    def check_ownership(self, key: str) -> None:
        """Check that no other process has written to the stream. Raises `LogTakenOver`, `StoreBusy`."""
        stream = self._found(key)
        known = stream.seq  # a message acknowledged after this line is recognised by its name
        newest = self._bus(lambda: self._store.newest(stream.subject))
        ours = newest is not None and newest.name.startswith(f"{self._name}.")
        if stream.void or not (ours or (newest.seq if newest is not None else 0) == known):
            raise LogTakenOver(key)

    def read(self, key: str, first: int) -> Iterator[Frame]:
        """Yield the frames (batches of entries) of a stream from a position on.

        Entries that JetStream has not acknowledged yet come from memory.

        Raises `StoreBusy`, also during the iteration.
        """
        stream = self._found(key)
        with self._turn:
            own, until, seq, void = stream.frames(), stream.last, stream.seq, stream.void
        if void:
            until, seq = self._bus(lambda: self._look(stream.subject))
        reading = LogReader(self._store, stream.subject, self._bus, self._thread.submit)
        return reading.frames(first, own[0].first if own else until, seq, own)

    def drop(self, key: str, before: int) -> None:
        """Remove those messages of a stream that contain only entries before a position. Raises `StoreBusy`."""
        stream = self._found(key)
        if before <= stream.dropped:
            return
        self._settle(stream, before)
        seq = stream.seq
        if stream.void or not seq:
            return

        # only messages up to `seq`: another process may have started the stream again
        async def work() -> None:
            place = await place_of(self._store, stream.subject, before, seq)
            await self._store.remove(stream.subject, place)

        self._bus(work)
        stream.dropped = before

    def take_notices(self, key: str) -> Sequence[str]:
        """Return no notices, because this log makes no repairs that it would have to report."""
        return ()

    def salvage(self, key: str, position: int, lost: Callable[[int], bytes]) -> Sequence[str]:
        """Repair nothing, because the NATS servers check stored messages and repair them from each other."""
        return ()

    def quarantine(self, key: str) -> None:
        """Remove a stream's log. Unlike the log in files, it leaves no damaged file for inspection.

        Only an operator's backup of the JetStream stream has the entries then.
        """
        self.forget(key)

    def forget(self, key: str) -> None:
        """Remove a stream's log. Raises `LogTakenOver`, `StoreBusy`."""
        stream = self._found(key)
        self._settle(stream)
        if stream.void:
            raise LogTakenOver(key)
        name = self._fresh_name()

        async def work() -> None:
            last = await self._store.add(stream.subject, log_format.encode([]), stream.seq, name)
            await self._store.remove(stream.subject, last + 1)

        if stream.seq:
            try:
                self._bus(work)
            except WriteConflict:
                self._lose(stream)
                raise LogTakenOver(key) from None
        with self._turn:
            stream.last = stream.seq = stream.dropped = 0
            stream.cuts.clear()

    def sync(self) -> None:
        """Wait until all appended entries are acknowledged. Raises `OSError`."""
        with self._turn:
            goals = [(stream, stream.last) for stream in self._streams.values() if stream.writing]

            def done() -> bool:
                return all(not stream.writing or stream.kept_to >= goal for stream, goal in goals)

            if not self._turn.wait_for(done, blocking.PATIENCE_S):
                raise OSError(errno.ETIMEDOUT, "the NATS server does not acknowledge log entries")

    def _found(self, key: str) -> LogStream:
        """Return the state of a stream; at the first use of the stream read its position from JetStream."""
        stream = self._streams.get(key)
        if stream is None:
            self.last(key)
            stream = self._streams[key]
        return stream

    def _settle(self, stream: LogStream, before: int | None = None) -> None:
        """Wait until JetStream has acknowledged all entries of a stream, or all before a position."""

        def settled() -> bool:
            return not stream.writing or (before is not None and stream.kept_to >= before)

        with self._turn:
            if not self._turn.wait_for(settled, blocking.PATIENCE_S):
                raise StoreBusy("the NATS server does not acknowledge log entries")

    async def _look(self, subject: str) -> tuple[int, int]:
        """Return the position after a stream's newest entry, and the sequence number of its newest message."""
        newest = await self._store.newest(subject)
        if newest is None:
            return 0, 0
        frames = list(log_format.decode(newest.body))
        if frames:
            return frames[-1].first + frames[-1].count, newest.seq
        await self._store.remove(subject, newest.seq + 1)  # a process crashed while it deleted the stream
        return 0, 0

    # -- appending

    def append(self, key: str, first: int, count: int, blob: bytes) -> None:
        """Queue entries for writing.

        JetStream acknowledges them later. Raises `OSError`, `LogTakenOver`, `ValueError`.
        """
        stream = self._appendable(key)
        if count > log_format.MOST_ENTRIES:
            raise ValueError(f"{key}: {count} entries are too many to be appended at once")
        size = len(blob) + FRAME_BYTES
        with self._turn:
            if stream.void:
                raise LogTakenOver(key)
            if first != stream.last or count < 1:
                check_repeat(key, stream.last, first, count)
                return
            self._check_room(key, size)
            stream.pending.append(Frame(first, count, blob))
            stream.last += count
            self._queued(stream, size)

    def append_trades(
        self, key: str, first: int, day: Day, count: int, data: bytes, *, continues: bool
    ) -> None:
        """Queue trades for writing; several calls can share a frame (batch). See `TradeLog.append_trades`."""
        stream = self._appendable(key)
        with self._turn:
            if stream.void:
                raise LogTakenOver(key)
            if first != stream.last:
                check_repeat(key, stream.last, first, count)
                return
            self._check_room(key, size_of_trades(data))
            self._queued(stream, stream.add_trades(day, count, data, continues=continues))

    def _appendable(self, key: str) -> LogStream:
        try:
            return self._found(key)
        except StoreBusy as problem:
            raise OSError(errno.EHOSTUNREACH, str(problem)) from problem

    def _queued(self, stream: LogStream, size: int) -> None:
        """Start to write the entries (`size` bytes) that have just been queued for a stream."""
        self._pending_bytes += size
        if not stream.writing:
            stream.writing, stream.since_s = True, monotonic()
            self._ready.append(stream)
            if len(self._ready) == 1:
                self._thread.loop.call_soon_threadsafe(self._begin)

    def _check_room(self, key: str, size: int) -> None:
        most = self._thread.link.max_bytes - HEADERS_BYTES
        if size > most:
            raise OSError(
                errno.EMSGSIZE,
                f"{key}: an entry of {size} bytes, of {most} that the bus takes: raise its max_payload",
            )
        if self._pending_bytes + size > self._max_pending_bytes:
            raise OSError(
                errno.ENOBUFS,
                "the NATS server does not acknowledge log entries, and the buffer of unacknowledged entries is full",
            )

    def cut(self, key: str) -> None:
        """Put the next entry of a stream into a new message."""
        stream = self._found(key)
        with self._turn:
            if stream.writing:
                stream.cuts.add(stream.last)

    def pending_write(self, key: str) -> Awaitable[None] | None:
        """Return an awaitable that completes once all appended entries are acknowledged; None if they are."""
        stream = self._streams.get(key)
        if stream is None or not (stream.writing or stream.void):
            return None
        with self._turn:
            # the writer may not have ended yet, but it would not wake this waiter
            if not stream.void and stream.kept_to == stream.last:
                return None
            if not stream.void:
                return stream.wait()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiter.set_exception(LogTakenOver(key))
        return waiter

    def stalled(self, key: str) -> str | None:
        """Return why a stream's entries have waited for two seconds without an acknowledgement, or None.

        A lost connection is not a reason here, because other processes then notice the missing heartbeats.
        """
        stream = self._streams.get(key)
        if not self._stuck or stream is None or not stream.stalled(monotonic()):
            return None
        return "the bus does not accept what is logged"

    # -- on the link's thread

    def _begin(self) -> None:
        with self._turn:
            ready, self._ready = self._ready, []
        for stream in ready:
            self._tasks.start(stream.subject, self._write(stream))

    async def _write(self, stream: LogStream) -> None:
        """Write the pending entries of a stream, message by message, until none are left."""
        try:
            while self._take(stream):
                seq = await self._written(stream)
                self._acknowledge(stream, seq)
        except WriteConflict:
            self._lose(stream)
        except Exception as problem:  # noqa: BLE001 - a supervisor: one stream's fault does not affect others
            self._report(LogEvent.NATS_LOG_FAILED, stream=stream.key, problem=repr(problem))
            self._lose(stream)

    def _take(self, stream: LogStream) -> bool:
        """Move queued frames (batches of entries) into the next message; return False if none are queued."""
        most = min(_MESSAGE_BYTES, self._thread.link.max_bytes - HEADERS_BYTES)
        size = number = 0
        with self._turn:
            for frame in stream.pending:
                size += size_of(frame)
                if number and (size > most or frame.first in stream.cuts):
                    break
                number += 1
            stream.flying, stream.pending = stream.pending[:number], stream.pending[number:]
            if not number:
                stream.writing = False
                stream.cuts.clear()
                self._turn.notify_all()
        return bool(number)

    async def _written(self, stream: LogStream) -> int:
        """Write the message in flight, with retries until that succeeds; return its sequence number.

        Raises `WriteConflict`.
        """
        body, name = log_format.encode(stream.flying), self._fresh_name()
        backoff = Backoff(first_s=_PAUSE_S, longest_s=_LONGEST_PAUSE_S)
        while True:
            try:
                await self._thread.link.up()
                seq = await self._store.add(stream.subject, body, stream.seq, name)
            except (BusDown, BusRefused) as problem:
                if not self._stuck and self._thread.link.connected:
                    self._stuck = True
                    self._report(LogEvent.NATS_LOG_STALLED, stream=stream.key, problem=str(problem))
                await backoff.sleep()
            else:
                if self._stuck:
                    self._stuck = False
                    self._report(LogEvent.NATS_LOG_RESUMED)
                return seq

    def _acknowledge(self, stream: LogStream, seq: int) -> None:
        with self._turn:
            self._pending_bytes -= sum(map(size_of, stream.flying))
            stream.seq, stream.flying, stream.since_s = seq, [], monotonic()
            done = stream.reached()
            self._turn.notify_all()
        wake(done, None)

    def _lose(self, stream: LogStream) -> None:
        """Discard the pending entries, because another process has written to the stream."""
        with self._turn:
            self._pending_bytes -= sum(map(size_of, (*stream.flying, *stream.pending)))
            stream.flying, stream.pending, stream.writing, stream.void = [], [], False, True
            waiting, stream.waiting = stream.waiting, []
            self._turn.notify_all()
        wake(waiting, LogTakenOver(stream.key))

    def _fresh_name(self) -> str:
        return f"{self._name}.{next(self._numbers)}"
