"""The wire form of what is asked of the owner of a stream's partition: pushes, and what goes with them.

Rules kept: a push travels as it does over HTTP, and is refused in the same words; what is between two processes of ours
says who sent it, which nothing that came over HTTP can say.
"""

from typing import Any, NoReturn

import msgspec

from outcry.base.errors import InvalidRequest, NotFound, Occupied, ServiceError, StoreUnavailable
from outcry.cluster.calls import CallRefused
from outcry.live.model import StreamKey
from outcry.live.partitions import partition_of_stream
from outcry.trades.push_format import Origin


class ForwardedPush(msgspec.Struct, array_like=True, frozen=True):
    """A push on its way. `body`: as `write_push` makes it."""

    owner: int
    feed: str
    origin: Origin
    body: bytes


class _About(msgspec.Struct, array_like=True, frozen=True, tag=True):
    owner: int
    feed: str
    contract: str


class AskReach(_About, frozen=True):
    """How far is the stream? Answered with `StreamProgress`, or None where there is none."""


class Leave(_About, frozen=True):
    """The run of that session is over; whoever comes next need not wait for it."""

    session: str


class Refuse(_About, frozen=True):
    """Nobody brings this stream now: `code` says why."""

    code: str


class Retire(_About, frozen=True):
    """Nobody is to bring this stream any more, and it is not to be shown."""


StreamRequest = AskReach | Leave | Refuse | Retire
#: The refusals there are between processes; any other is a fault over there, and worth trying again.
_REFUSALS: dict[str, tuple[type[ServiceError], str]] = {
    InvalidRequest.code: (InvalidRequest, "invalid_request"),
    Occupied.code: (Occupied, "rate_limited.ingest"),
    NotFound.code: (NotFound, "not_found"),
}


def push_name(key: StreamKey) -> str:
    """Return the call name for pushes of a stream."""
    return f"push.{partition_of_stream(key.text)}"


def stream_name(key: StreamKey) -> str:
    """Return the call name for other requests about a stream."""
    return f"stream.{partition_of_stream(key.text)}"


def refused_call(problem: ServiceError) -> CallRefused:
    """Return an error as a refusal of a call."""
    return CallRefused(problem.code, problem.details)


def raise_refusal(refusal: CallRefused) -> NoReturn:
    """Raise the error that `refused_call` converted."""
    known = _REFUSALS.get(refusal.code)
    if known is None:
        raise StoreUnavailable("upstream_unavailable") from refusal
    kind, message_id = known
    details: dict[str, Any] = refusal.details
    if kind is InvalidRequest and "reason" in details:
        message_id = f"invalid_request.{details['reason']}"
    raise kind(message_id, **details) from refusal
