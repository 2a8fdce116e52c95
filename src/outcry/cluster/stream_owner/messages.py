"""Wire format of requests to the owner of a stream: pushed batches of feed events, and messages about a stream.

A push has the same encoding as over HTTP and is refused with the same codes. Between our processes it also names its
origin, which a client cannot set over HTTP.
"""

from typing import Any, NoReturn

import msgspec

from outcry.base.errors import InvalidRequest, NotFound, Occupied, ServiceError, StoreUnavailable
from outcry.cluster.calls import CallRefused
from outcry.live.model import StreamKey
from outcry.live.partitions import partition_of_stream
from outcry.trades.push_format import Origin


class ForwardedPush(msgspec.Struct, array_like=True, frozen=True):
    """A pushed batch of feed events, on its way to the owner of its stream. `body`: as `write_push` encodes it."""

    owner: int
    feed: str
    origin: Origin
    body: bytes


class _About(msgspec.Struct, array_like=True, frozen=True, tag=True):
    owner: int
    feed: str
    contract: str


class AskReach(_About, frozen=True):
    """Request the stored position of a stream; answered with `StreamProgress`, or None for an unknown stream."""


class Leave(_About, frozen=True):
    """Report that a feed's run has ended, so the next run need not wait for it. `session` identifies the run."""

    session: str


class Refuse(_About, frozen=True):
    """Report that no feed delivers this stream now; `code` is the reason."""

    code: str


class Retire(_About, frozen=True):
    """Report that no feed will deliver this stream any more, and remove it from display."""


StreamRequest = AskReach | Leave | Refuse | Retire
#: The refusals between processes. Any other code is a fault of the owner, and the caller may retry.
_REFUSALS: dict[str, tuple[type[ServiceError], str]] = {
    InvalidRequest.code: (InvalidRequest, "invalid_request"),
    Occupied.code: (Occupied, "rate_limited.ingest"),
    NotFound.code: (NotFound, "not_found"),
}


def push_name(key: StreamKey) -> str:
    """Return the name that processes call to push events to a stream's owner."""
    return f"push.{partition_of_stream(key.text)}"


def stream_name(key: StreamKey) -> str:
    """Return the name that processes call for requests to a stream's owner other than pushed events."""
    return f"stream.{partition_of_stream(key.text)}"


def refused_call(problem: ServiceError) -> CallRefused:
    """Convert an error to a `CallRefused`, which the caller's process receives."""
    return CallRefused(problem.code, problem.details)


def raise_refusal(refusal: CallRefused) -> NoReturn:
    """Convert a `CallRefused` back to the original error, and raise it."""
    known = _REFUSALS.get(refusal.code)
    if known is None:
        raise StoreUnavailable("upstream_unavailable") from refusal
    kind, message_id = known
    details: dict[str, Any] = refusal.details
    if kind is InvalidRequest and "reason" in details:
        message_id = f"invalid_request.{details['reason']}"
    raise kind(message_id, **details) from refusal
