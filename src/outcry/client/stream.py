"""The event stream as Python objects: it mends its own connection, and tells every alert once.

Rules kept: what the service will not have (a wrong key, an unknown symbol) ends it at once; what passes (no network, a
restart, too many streams) is waited out, longer each time; the service's own advice on waiting goes first.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from typing import IO, Protocol

import msgspec

from outcry.answers.alerts import AlertEntry
from outcry.answers.streaming import Quote, State
from outcry.client.errors import ApiError, NotOurs, Unreachable
from outcry.wire.answers import Answer, LevelsAnswer

#: The service says something at least every 15 seconds; a link silent for longer than this is dead.
SILENCE_S = 45.0
LONGEST_WAIT_S = 60.0
_FIRST_WAIT_S = 2.0
_MOST_LINE_BYTES = 16 * 2**20
#: Statuses that pass: too many requests or streams, the store or the service not there.
_PASSING = frozenset({429, 502, 503})


class Snapshot(Answer, frozen=True, kw_only=True):
    """Everything asked for as it stands: the first thing of each connection. `resumed`: alerts go on from those told
    before, and `alerts` is empty; `missed`: some in between are not told, being too many."""

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
class Place:
    """Where a reader stands: the id of the last event it saw, and how long the service asks it to wait."""

    last_id: str = ""
    wait_s: float = _FIRST_WAIT_S


class Opener(Protocol):
    """Opens the stream, given the id of the last event seen. Raises `ApiError` and `Unreachable`."""

    def __call__(self, last_id: str) -> IO[bytes]:
        """Return what the service says, as it says it."""
        ...


def follow(connect: Opener, sleep: Callable[[float], None] = time.sleep) -> Iterator[StreamEvent]:
    """Yield what the stream says, for ever. Raises what cannot pass, and at the start whatever goes wrong."""
    place = Place()
    failures = 0
    begun = False
    while True:
        try:
            with connect(place.last_id) as lines:
                for found in read_events(lines, place):
                    failures, begun = 0, True
                    yield found
        except ApiError as error:
            if not begun or error.status not in _PASSING:
                raise
            advised_s = error.body.get("retry_after_ms", 0) / 1000
        except NotOurs:
            raise  # another version, or no service of ours: it would say the same again
        except (Unreachable, OSError, HTTPException) as error:
            if not begun:
                raise error if isinstance(error, Unreachable) else Unreachable(str(error)) from error
            advised_s = 0.0
        else:
            advised_s = 0.0
        sleep(max(advised_s, _wait_s(place.wait_s, failures)))
        failures += 1


def read_events(lines: IO[bytes], place: Place) -> Iterator[StreamEvent]:
    """Read one connection to its end, noting ids and advice. Raises `ApiError` where the service ends it with an
    error, and `NotOurs` for what is no stream of this service; events of kinds unknown here are passed over."""
    name, mark, data = "", None, list[bytes]()
    while line := lines.readline(_MOST_LINE_BYTES):
        if not line.endswith(b"\n"):  # cut off, or longer than anything the service says
            return
        field, _, value = line.rstrip(b"\r\n").partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            name = value.decode("utf-8", "replace")
        elif field == b"data":
            data.append(value)
        elif field == b"id":
            mark = value.decode("utf-8", "replace")
        elif field == b"retry" and value.isdigit():
            place.wait_s = min(int(value[:9]) / 1000, LONGEST_WAIT_S)
        elif line in (b"\n", b"\r\n") and (name or data):
            found = _event(name, b"\n".join(data))
            place.last_id = place.last_id if mark is None else mark
            name, mark, data = "", None, []
            if found is not None:
                yield found


def _event(name: str, data: bytes) -> StreamEvent | None:
    try:
        if name == "error":
            code = msgspec.json.decode(data, type=dict[str, str]).get("code", "")
            raise ApiError(code, 401, "the service ended the stream", "", {"code": code})
        kind = _TYPES.get(name)
        return None if kind is None else msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise NotOurs(f"what came is no event of this service: {error}") from error


def _wait_s(advised_s: float, failures: int) -> float:
    """Longer each time, and never the same for all who lost the service at once."""
    most_s = min(advised_s * 2 ** min(failures, 10), LONGEST_WAIT_S)
    return most_s * random.uniform(0.5, 1.0)  # noqa: S311 - nothing rests on its being hard to guess
