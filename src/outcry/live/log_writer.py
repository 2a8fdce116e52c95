"""The thread that writes the log of a single process to files."""

import threading
from collections.abc import Callable, Iterable
from time import monotonic

from outcry.live.file_log import FileLog
from outcry.live.pending_writes import PendingWrites, size_of, wake

#: How long entries gather before they are written, unless somebody waits for them.
_GATHER_S = 0.05
#: Approximate size of a write.
_BATCH_BYTES = 1 << 20
#: Pause before a failed write is repeated.
_PAUSE_S = 0.25


class LogWriter:
    """Writes queued entries to files on its own thread, and retries entries that the disk refuses.

    Its methods only queue entries or wake the thread; only `stop` waits for the disk. lock: guards the queues of all
    streams. turn: a condition on that lock, notified when queues change. unwritten_bytes: size of all queued entries.
    now_s: a monotonic clock.
    """

    def __init__(self, files: FileLog, now_s: Callable[[], float]) -> None:
        self._files, self._now_s = files, now_s
        self.lock = threading.RLock()
        self.turn = threading.Condition(self.lock)
        self.unwritten_bytes = 0
        self._ready: list[PendingWrites] = []
        #: When the oldest of them is due (s, monotonic).
        self._due_s = 0.0
        self._problem = ""
        self._closing = False
        self._worker: threading.Thread | None = None

    @property
    def trouble(self) -> str:
        """Why queued entries are not written; empty if there is no problem."""
        return self._problem or "the disk does not respond"

    def start(self) -> None:
        """Start the thread."""
        self._closing = False
        self._worker = threading.Thread(target=self._run, name="outcry-log", daemon=True)
        self._worker.start()

    def stop(self, patience_s: float) -> None:
        """Write the queued entries for at most `patience_s` seconds, drop the rest, and stop the thread."""
        with self.turn:
            self._closing = True
            self.turn.notify_all()
        if self._worker is not None:
            self._worker.join(patience_s)
        with self.turn:
            self._ready, self.unwritten_bytes = [], 0

    def begin(self, stream: PendingWrites, size: int) -> None:
        """Wake the thread, because a stream has queued `size` more bytes. Call it with `turn` locked."""
        self.unwritten_bytes += size
        if not stream.writing:
            stream.writing, stream.since_s = True, self._now_s()
            self._ready.append(stream)
            if len(self._ready) == 1:
                self._due_s = monotonic() + _GATHER_S
                self.turn.notify_all()

    def hurry(self, streams: Iterable[PendingWrites]) -> None:
        """Make the thread write these streams' queues at once, because a task waits for them.

        Call it with `turn` locked.
        """
        for stream in streams:
            stream.is_awaited = True
        self.turn.notify_all()

    # -- on the thread

    def _run(self) -> None:
        while True:
            ready = self._next()
            if not ready:
                return
            refused = [stream for stream in ready if not self._written(stream)]
            with self.turn:
                self._ready += refused
                if refused and self._closing:
                    return
                if refused:
                    self.turn.wait_for(lambda: self._closing, _PAUSE_S)
                else:
                    self._problem = ""

    def _next(self) -> list[PendingWrites]:
        """Wait until there are queued entries, and return the streams to write now.

        Returns an empty list once the log is closed.
        """
        with self.turn:
            self.turn.wait_for(lambda: self._ready or self._closing)
            if self.turn.wait_for(self._is_urgent, self._due_s - monotonic()) and not self._closing:
                ready = [stream for stream in self._ready if stream.is_awaited]
                self._ready = [stream for stream in self._ready if not stream.is_awaited]
            else:
                ready, self._ready = self._ready, []
            return ready

    def _is_urgent(self) -> bool:
        return self._closing or any(stream.is_awaited for stream in self._ready)

    def _written(self, stream: PendingWrites) -> bool:
        """Write the queued entries of a stream in batches; return False if the disk refuses them."""
        try:
            while self._take(stream):
                if stream.flying:
                    self._files.append_all(stream.key, stream.flying)
                with self.turn:
                    self.unwritten_bytes -= sum(map(size_of, stream.flying))
                    stream.flying, stream.since_s = [], self._now_s()
                    done = stream.reached()
                    self.turn.notify_all()
                wake(done, None)
        except Exception as problem:  # noqa: BLE001 - a supervisor: after any error entries stay and are retried
            self._problem = (
                problem.strerror or str(problem) if isinstance(problem, OSError) else repr(problem)
            )
            return False
        return True

    def _take(self, stream: PendingWrites) -> bool:
        """Move the next batch of queued entries to the entries being written; return False if none are queued.

        If a new file was requested, start it before the batch.
        """
        with self.turn:
            at = stream.kept_to
            due = not stream.flying and at in stream.cuts
        if due:
            self._files.cut(stream.key)
        with self.turn:
            if due:
                stream.cuts.discard(at)
            if stream.flying:  # a write that failed before
                return True
            size = number = 0
            for frame in stream.pending:
                if number and (size > _BATCH_BYTES or frame.first in stream.cuts):
                    break
                size += size_of(frame)
                number += 1
            stream.flying, stream.pending = stream.pending[:number], stream.pending[number:]
            if not number and not stream.cuts:
                stream.writing = stream.is_awaited = False
                self.turn.notify_all()
            return stream.writing
