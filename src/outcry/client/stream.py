"""The event stream as Python objects. It reconnects, and yields each alert once.

Permanent errors (wrong key, unknown symbol) end the stream at once. Temporary errors (no network, a restart, too many
streams) are retried with exponential backoff; the delay that the service asks for takes precedence.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Protocol

import msgspec

from outcry.base.backoff import Backoff
from outcry.client.errors import ApiError, NotOutcry, Unauthorized, Unreachable
from outcry.client.retrying import TEMPORARY
from outcry.wire.alerts import AlertEntry
from outcry.wire.answers import Answer, LevelsAnswer
from outcry.wire.stream import Quote, State

#: Read time-out. The service sends a comment at least every 15 seconds.
IDLE_TIMEOUT_S = 45.0
MAX_DELAY_S = 60.0
_FIRST_DELAY_S = 2.0
_MAX_LINE_BYTES = 16 * 2**20
#: Errors that end a connection, after which another may be tried.
NETWORK_ERRORS = (ApiError, Unreachable, OSError, HTTPException)
STREAM = "/api/stream"


class Snapshot(Answer, frozen=True, kw_only=True):
    """Current state of all requested symbols: the first event of each connection. The server's `Snapshot`, decoded.

    `resumed`: the missed alerts came before this event, so `alerts` is empty. `missed`: too many alerts were missed,
    and the server sent only the newest.
    """

    updated_at: str
    resumed: bool
    missed: bool
    levels: list[LevelsAnswer]
    states: list[State]
    alerts: list[AlertEntry]


StreamEvent = Snapshot | LevelsAnswer | Quote | AlertEntry | State

_TYPES: dict[str, type[StreamEvent]] = {
    "snapshot": Snapshot, "levels": LevelsAnswer, "quote": Quote, "alert": AlertEntry, "state": State,
}  # fmt: skip


@dataclass(slots=True)
class Position:
    """Where a client is in the event stream, and its delays before a reconnect.

    last_id: id of the last event. backoff: the delays, of which the service may set the first.
    """

    last_id: str = ""
    backoff: Backoff = field(default_factory=lambda: Backoff(first_s=_FIRST_DELAY_S, longest_s=MAX_DELAY_S))


class Lines(Protocol):
    """The lines of a stream."""

    def readline(self, most: int, /) -> bytes:
        """Return the next line with its line end, at most `most` bytes; empty at the end of the stream."""
        ...


class OpenLines(Lines, Protocol):
    """The lines of a stream, in a `with` block that closes it."""

    def __enter__(self) -> "OpenLines": ...

    def __exit__(self, *_: object) -> None: ...


class Reconnects:
    """The reconnects of one stream: the position to resume at, and how long to wait first.

    last_id: id of the last event of an earlier stream, to resume after it; empty for none.
    """

    def __init__(self, last_id: str = "") -> None:
        self.position = Position(last_id)
        self._started = False

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the next request."""
        after = self.position.last_id
        return {"accept": "text/event-stream"} | ({"last-event-id": after} if after else {})

    def succeeded(self) -> None:
        """Note that an event arrived, so that the next reconnect waits only briefly."""
        self.position.backoff.reset()
        self._started = True

    def pause_s(self, error: Exception | None) -> float:
        """Return how long to wait before the next connection. error: why the last one ended; None if it was closed.

        Raises the error if it is permanent, or if no event has arrived yet; errors of the network as `Unreachable`.
        """
        if isinstance(error, ApiError):
            if not self._started or error.status not in TEMPORARY:
                raise error
            return max(error.retry_after_s or 0.0, self.position.backoff.next_s())
        if isinstance(error, NotOutcry):
            raise error  # another version or another service: a retry cannot help
        if error is not None and not self._started:
            raise error if isinstance(error, Unreachable) else Unreachable(str(error)) from error
        return self.position.backoff.next_s()


def stream_query(symbols: Sequence[str]) -> dict[str, str]:
    """Return the query parameters that request the event stream of some symbols; none request all symbols."""
    return {"symbols": ",".join(symbols)} if symbols else {}


def follow(
    connect: Callable[[Mapping[str, str]], OpenLines],
    reconnects: Reconnects,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[StreamEvent]:
    """Yield events forever, reconnecting after temporary errors.

    connect: opens the stream with the headers of a request; raises `ApiError` and `Unreachable`. Raises as
    `Reconnects.pause_s` does.
    """
    while True:
        problem: Exception | None = None
        try:
            with connect(reconnects.headers) as lines:
                for event in read_events(lines, reconnects.position):
                    reconnects.succeeded()
                    yield event
        except NETWORK_ERRORS as error:
            problem = error
        sleep(reconnects.pause_s(problem))


def read_events(lines: Lines, position: Position) -> Iterator[StreamEvent]:
    """Yield the events of one connection; skip unknown events.

    Event ids and retry delays are recorded in `position`. Raises `ApiError` if the service ends the stream with an
    error, and `NotOutcry` for data that is not its stream.
    """
    name, event_id, data = "", None, list[bytes]()
    while line := lines.readline(_MAX_LINE_BYTES):
        if not line.endswith(b"\n"):  # truncated, or longer than any event
            return
        field, _, value = line.rstrip(b"\r\n").partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            name = value.decode("utf-8", "replace")
        elif field == b"data":
            data.append(value)
        elif field == b"id":
            event_id = value.decode("utf-8", "replace")
        elif field == b"retry" and value.isdigit():
            position.backoff.first_s = int(value[:9]) / 1000
        elif line in (b"\n", b"\r\n") and (name or data):
            event = _event(name, b"\n".join(data))
            position.last_id = position.last_id if event_id is None else event_id
            name, event_id, data = "", None, []
            if event is not None:
                yield event


def _event(name: str, data: bytes) -> StreamEvent | None:
    try:
        if name == "error":
            code = msgspec.json.decode(data, type=dict[str, str]).get("code", "")
            raise Unauthorized(code, 401, "the service ended the stream", "", {"code": code})
        kind = _TYPES.get(name)
        return None if kind is None else msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise NotOutcry(f"the server sent an invalid event: {error}") from error
