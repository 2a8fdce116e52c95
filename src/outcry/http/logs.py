"""The log: JSON lines on standard error, one per request and one per event.

No key, digest or secret is written: URLs are redacted, and a caller is named by the first characters of its key.
Request lines are buffered and written together, because a write for each would cost more than answering the request.
"""

import asyncio
import logging
import traceback
from datetime import UTC, datetime
from functools import lru_cache
from threading import Lock
from typing import Any, BinaryIO

import msgspec

from outcry.base.clock import Clock
from outcry.base.log_events import EventLog, LogEvent
from outcry.base.redaction import REDACTED, for_log
from outcry.http.recently_used import RecentlyUsed

_FLUSH_S = 0.1
MOST_LINES = 1000  # few enough to stay in the processor's cache
_QUICK_MS = tuple(b'","ms":0.%03d' % microseconds for microseconds in range(1000))
#: Memory for beginnings of log lines, and of one.
_STEM_BYTES, _STEM = 2**20, 600
_LONGEST_QUERY = 128


class JsonEventLog:
    """The event log: one JSON line per event, written at once. Implements `EventLog`. Any thread may write."""

    def __init__(self, stream: BinaryIO, clock: Clock) -> None:
        self._stream, self._clock, self._lock = stream, clock, Lock()

    def info(self, event: LogEvent, **values: Any) -> None:
        """Write an event that needs no action."""
        self._write("info", event, values)

    def warning(self, event: LogEvent, **values: Any) -> None:
        """Write an event that may need action."""
        self._write("warning", event, values)

    def error(self, event: LogEvent, **values: Any) -> None:
        """Write an event that needs action."""
        self._write("error", event, values)

    def _write(self, level: str, event: LogEvent, values: dict[str, Any]) -> None:
        """Write an event. `exc_info` among the values: an exception, or its tuple as `logging` records it."""
        problem = values.pop("exc_info", None)
        line = {"at": instant_text(self._clock.now_ns()), "level": level, **values, "event": event}
        if problem is not None:
            error: BaseException = problem[1] if isinstance(problem, tuple) else problem
            line["exception"] = "".join(traceback.format_exception(error)).rstrip("\n")
        encoded = msgspec.json.encode(line, enc_hook=repr) + b"\n"
        with self._lock:
            self._stream.write(encoded)
            self._stream.flush()


def instant_text(at_ns: int) -> str:
    """Format a time (ns UTC) as ISO 8601 with milliseconds."""
    seconds, rest = divmod(at_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"


class AccessLog:
    """The access log: one line per request, written in batches. Without a stream it writes nothing."""

    def __init__(self, stream: BinaryIO | None, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        #: Buffered lines. The list is never replaced, so that `responder.c` may append to it.
        self.lines: list[bytes] = []
        self._stems = RecentlyUsed[tuple[str, str, bytes, str, int, str], bytes](
            _STEM_BYTES, lambda _place: _STEM
        )
        self._at_ms = self._at_s = -1
        self._at = self._second = b""
        self._timer: asyncio.TimerHandle | None = None
        self.enabled = stream is not None

    def stem(self, method: str, path: str, query: bytes, route: str, status: int, tier: str) -> bytes:
        """Return the part of a log line that describes a request. It is cached, because clients repeat requests."""
        place = (method, path, query, route, status, tier)
        known = self._stems.get(place)
        if known is None:
            shown_path, shown_query = for_log(path, query)
            fields = {
                "event": LogEvent.REQUEST,
                "method": method,
                "path": shown_path,
                "query": shown_query,
                "route": route,
                "status": status,
                "tier": tier,
            }
            known = msgspec.json.encode(fields)[:-1] + b',"caller":'
            # long or secret parts of requests are not cached
            if len(path) + len(query) <= _LONGEST_QUERY and REDACTED not in {shown_path, shown_query}:
                self._stems.put(place, known)
        return known

    def add(self, at_ns: int, stem: bytes, name: bytes, request_id: bytes, took_ns: int) -> None:
        """Add the log line of a request to the buffer.

        `stem`: from the method `stem`. `name`: the caller's `log_name`. `request_id`: must need no JSON escaping.
        """
        if self._stream is None:
            return
        microseconds = (took_ns + 500) // 1000
        took = _QUICK_MS[microseconds] if microseconds < 1000 else b'","ms":%.3f' % (took_ns / 1e6)
        self.lines.append(b"".join((stem, name, request_id, took, self.ending(at_ns))))
        self.after_line()

    def ending(self, at_ns: int) -> bytes:
        """Return the end of a log line, with the time of the request. at_ns: ns UTC; written in milliseconds."""
        at_ms = at_ns // 1_000_000
        if at_ms != self._at_ms:
            at_s = at_ms // 1000
            if at_s != self._at_s:
                self._at_s = at_s
                self._second = b',"at":"%s' % instant_text(at_ns)[:-4].encode("ascii")
            self._at_ms = at_ms
            self._at = b'%s%03dZ"}\n' % (self._second, at_ms % 1000)
        return self._at

    def after_line(self) -> None:
        """Arrange that the buffered lines are written soon; if there are many, write them now."""
        if self._stream is None:
            self.lines.clear()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_S, self.flush)
        elif len(self.lines) >= MOST_LINES:
            self.flush()

    def flush(self) -> None:
        """Write all buffered log lines."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text = b"".join(self.lines)
        self.lines.clear()
        if not text or self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the reader of the log is gone; serving continues
            self._stream, self.enabled = None, False


@lru_cache(4096)
def log_name(name: str) -> bytes:
    """Encode a caller's name as `AccessLog.add` takes it."""
    return msgspec.json.encode(name) + b',"request_id":"'


class EventLogHandler(logging.Handler):
    """Writes what libraries log with `logging` to the event log."""

    def __init__(self, event_log: EventLog) -> None:
        super().__init__(logging.INFO)
        self._event_log = event_log

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record, with its traceback if it has one."""
        write = self._event_log.error if record.levelno >= logging.ERROR else self._event_log.info
        if record.exc_info:
            write(
                LogEvent.LIBRARY_MESSAGE,
                message=record.getMessage(),
                logger=record.name,
                exc_info=record.exc_info,
            )
        else:
            write(LogEvent.LIBRARY_MESSAGE, message=record.getMessage(), logger=record.name)
