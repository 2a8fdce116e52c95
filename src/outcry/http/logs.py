"""What is written to the log: JSON lines on standard error, one a request and one an event worth a person's
attention.

Rule kept: no key, digest or secret is ever written: addresses pass through `redaction`, callers go by the
key's prefix. Request lines are gathered for a moment and written together, because a write each would cost
more than the answer.
"""

import asyncio
import logging
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, BinaryIO, Protocol

import msgspec
import structlog

from outcry.http.requests import Asked
from outcry.ports.clock import Clock

_FLUSH_S = 0.1
_MOST_LINES = 5000


class Journal(Protocol):
    """A logger of events."""

    def info(self, event: str, **values: Any) -> None:
        """Worth knowing."""
        ...

    def warning(self, event: str, **values: Any) -> None:
        """Worth a look."""
        ...

    def error(self, event: str, **values: Any) -> None:
        """Worth repairing."""
        ...


def open_journal(stream: BinaryIO, clock: Clock) -> Journal:
    """Return a structlog logger that writes JSON lines to this stream, without touching any global
    configuration."""

    def stamp(_logger: Any, level: str, values: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {"at": instant_text(clock.now_ns()), "level": level, **values}

    return structlog.wrap_logger(
        structlog.BytesLogger(stream),
        processors=[stamp, structlog.processors.format_exc_info, _render],
        wrapper_class=structlog.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _render(_logger: Any, _level: str, values: MutableMapping[str, Any]) -> bytes:
    return msgspec.json.encode(dict(values), enc_hook=repr)


def instant_text(at_ns: int) -> str:
    """Write an instant as ISO 8601 UTC with milliseconds."""
    seconds, rest = divmod(at_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"


class AccessLog:
    """One line a request, in batches. Without a stream it writes nothing."""

    def __init__(self, stream: BinaryIO | None, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self._lines: list[tuple[int, bytes, bytes, int]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.enabled = stream is not None

    def stem(self, asked: Asked, route: str, status: int, tier: str, caller: str) -> bytes:
        """Return the part of a line that is the same for every request of these bytes."""
        path, query = asked.shown
        fields = {
            "event": "request",
            "method": asked.method,
            "path": path,
            "query": query,
            "route": route,
            "status": status,
            "tier": tier,
            "caller": caller,
        }
        return msgspec.json.encode(fields)[:-1]

    def add(self, at_ns: int, stem: bytes, request_id: bytes, took_ns: int) -> None:
        """Note one request; `request_id` is plain enough to stand in JSON as it is."""
        if self._stream is None:
            return
        self._lines.append((at_ns, stem, request_id, took_ns))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_S, self.flush)
        elif len(self._lines) >= _MOST_LINES:
            self.flush()

    def flush(self) -> None:
        """Write all lines noted so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, []
        if not lines or self._stream is None:
            return
        second, text = -1, b""
        written: list[bytes] = []
        for at_ns, stem, request_id, took_ns in lines:
            if at_ns // 1_000_000_000 != second:
                second = at_ns // 1_000_000_000
                text = instant_text(at_ns)[:-5].encode("ascii")
            milliseconds = at_ns // 1_000_000 % 1000
            written.append(
                b'%s,"request_id":"%s","ms":%.3f,"at":"%s.%03dZ"}\n'
                % (stem, request_id, took_ns / 1e6, text, milliseconds)
            )
        try:
            self._stream.write(b"".join(written))
            self._stream.flush()
        except OSError:  # whoever read the log has gone; answering goes on
            self._stream, self.enabled = None, False


class JournalHandler(logging.Handler):
    """Carries what libraries log over to the journal."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.INFO)
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; its traceback goes to the log, never to a client."""
        write = self._journal.error if record.levelno >= logging.ERROR else self._journal.info
        if record.exc_info:
            write(record.getMessage(), logger=record.name, exc_info=record.exc_info)
        else:
            write(record.getMessage(), logger=record.name)
