"""Write log lines in a thread, so that a stalled disk or pipe behind standard error does not block requests.

Lines keep their order. Lines that do not fit in memory are dropped, and their number is logged.
"""

import threading
from collections import deque
from typing import BinaryIO

from outcry.base.log_events import LogEvent

#: Maximum number of buffered bytes.
MOST_WAITING_BYTES = 8 << 20
#: How long the process waits at its end for buffered lines.
PATIENCE_S = 2.0


class LogWriter:
    """Writes log lines, on its own thread, to a stream that may block, such as standard error. Thread-safe.

    It has the methods of `BinaryIO` that loggers use. Callers never wait: `write` queues lines, and drops them if too
    many are queued. Dropped lines are counted and reported.
    """

    def __init__(self, stream: BinaryIO, most_waiting_bytes: int = MOST_WAITING_BYTES) -> None:
        self._stream, self._most = stream, most_waiting_bytes
        self._turn = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = self._dropped = 0
        self._writing = False
        self._thread: threading.Thread | None = None

    def write(self, data: bytes) -> int:
        """Queue lines for writing, without waiting; drop them if the queue is full."""
        with self._turn:
            if self._waiting_bytes + len(data) > self._most:
                self._dropped += data.count(b"\n")
                return len(data)
            self._waiting.append(data)
            self._waiting_bytes += len(data)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="outcry-log-lines", daemon=True)
                self._thread.start()
            self._turn.notify_all()
        return len(data)

    def flush(self) -> None:
        """Do nothing: the thread flushes each write."""

    def close(self) -> None:
        """Wait until every line is written, for at most `PATIENCE_S` seconds."""
        with self._turn:
            self._turn.wait_for(lambda: not (self._waiting or self._writing), PATIENCE_S)

    def _run(self) -> None:
        while True:
            with self._turn:
                self._writing = False
                self._turn.notify_all()
                self._turn.wait_for(lambda: self._waiting)
                data, dropped = b"".join(self._waiting), self._dropped
                self._waiting.clear()
                self._waiting_bytes = self._dropped = 0
                self._writing = True
            if dropped:
                data += b'{"level":"warning","event":"%b","lines":%d}\n' % (
                    LogEvent.LOG_LINES_DROPPED.encode(),
                    dropped,
                )
            try:
                self._stream.write(data)
                self._stream.flush()
            except (OSError, ValueError):  # a full disk, a broken pipe, or closed at the end
                continue
