"""The event stream as Python objects. It reconnects, and yields each alert once.

Permanent errors (wrong key, unknown symbol) end the stream at once. Temporary errors (no network, a restart, too many
streams) are retried with exponential backoff; the delay that the service asks for takes precedence.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import IO

import msgspec

from outcry.base.backoff import Backoff
from outcry.client.errors import ApiError, NotOutcry, Unreachable
from outcry.wire.alerts import AlertEntry
from outcry.wire.answers import Answer, LevelsAnswer
from outcry.wire.stream import Quote, State

#: Read time-out. The service sends a comment at least every 15 seconds.
IDLE_TIMEOUT_S = 45.0
MAX_DELAY_S = 60.0
_FIRST_DELAY_S = 2.0
_MAX_LINE_BYTES = 16 * 2**20
#: HTTP statuses to retry: too many requests or streams, database or service unavailable.
_TEMPORARY = frozenset({429, 502, 503})


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

    last_id: id of the last event. backoff: the delays; the service may ask for another first one.
    """

    last_id: str = ""
    backoff: Backoff = field(default_factory=lambda: Backoff(first_s=_FIRST_DELAY_S, longest_s=MAX_DELAY_S))


#: Opens the stream after the event with an id, as a stream of lines. Raises `ApiError` and `Unreachable`.
Connect = Callable[[str], IO[bytes]]


def follow(connect: Connect, sleep: Callable[[float], None] = time.sleep) -> Iterator[StreamEvent]:
    """Yield events forever, reconnecting after temporary errors.

    Raises `ApiError` and `Unreachable` on a permanent error, and on any error before the first event.
    """
    position = Position()
    started = False
    while True:
        try:
            with connect(position.last_id) as lines:
                for event in read_events(lines, position):
                    position.backoff.reset()
                    started = True
                    yield event
        except ApiError as error:
            if not started or error.status not in _TEMPORARY:
                raise
            server_delay_s = error.body.get("retry_after_ms", 0) / 1000
        except NotOutcry:
            raise  # another version or another service: a retry cannot help
        except (Unreachable, OSError, HTTPException) as error:
            if not started:
                raise error if isinstance(error, Unreachable) else Unreachable(str(error)) from error
            server_delay_s = 0.0
        else:
            server_delay_s = 0.0
        sleep(max(server_delay_s, position.backoff.next_s()))


def read_events(lines: IO[bytes], position: Position) -> Iterator[StreamEvent]:
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
            raise ApiError(code, 401, "the service ended the stream", "", {"code": code})
        kind = _TYPES.get(name)
        return None if kind is None else msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise NotOutcry(f"the server sent an invalid event: {error}") from error
