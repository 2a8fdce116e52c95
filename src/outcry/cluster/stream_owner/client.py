"""Client for requests to the process that owns a stream.

If the owner cannot be reached, the caller repeats the request later; by then another process may be the owner.
"""

from dataclasses import dataclass

import msgspec

from outcry.base.errors import StoreUnavailable
from outcry.cluster.calls import BusDown, CallRefused
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.stream_owner.messages import (
    AskReach,
    ForwardedPush,
    Leave,
    Refuse,
    Retire,
    StreamRequest,
    push_name,
    raise_refusal,
    stream_name,
)
from outcry.live.model import StreamKey
from outcry.live.stream_status import StreamProgress
from outcry.market.instruments import Universe
from outcry.trades.push_format import OWNER_WAIT_S, Origin, Push, Usage, write_push

#: An owner reports its progress within this time (s). If it does not, it is gone and the next owner will answer.
PUSH_TIMEOUT_S = OWNER_WAIT_S + 0.5
ASK_TIMEOUT_S = 3.0
_PROGRESS = msgspec.msgpack.Decoder(StreamProgress | None)


class StreamOwnerClient:
    """Call the owners of streams. Every method raises `StoreUnavailable` if the owner cannot be reached."""

    def __init__(self, calls: NatsCalls) -> None:
        self._calls = calls

    async def push(self, owner: int, feed: str, push: Push, origin: Origin) -> int:
        """Send a batch of feed events to a stream's owner; return the number of the first event not accepted."""
        key = StreamKey(owner, feed, push.contract)
        body = msgspec.msgpack.encode(ForwardedPush(owner, feed, origin, write_push(push)))
        return msgspec.msgpack.decode(await self._ask(push_name(key), body, PUSH_TIMEOUT_S), type=int)

    async def progress(self, key: StreamKey) -> StreamProgress | None:
        """Return the position up to which a stream is stored; None if the stream is unknown."""
        return _PROGRESS.decode(await self._about(key, AskReach(*_of(key))))

    async def leave(self, key: StreamKey, session: str) -> None:
        """Tell a stream's owner that this run of the feed (`session`) has ended, so that the next run need not wait."""
        await self._about(key, Leave(*_of(key), session))

    async def refuse(self, key: StreamKey, code: str) -> None:
        """Tell a stream's owner why no feed delivers the stream now. `code`: the reason."""
        await self._about(key, Refuse(*_of(key), code))

    async def retire(self, key: StreamKey) -> None:
        """Ask a stream's owner to remove the stream from display."""
        await self._about(key, Retire(*_of(key)))

    async def _about(self, key: StreamKey, request: StreamRequest) -> bytes:
        return await self._ask(stream_name(key), msgspec.msgpack.encode(request), ASK_TIMEOUT_S)

    async def _ask(self, name: str, body: bytes, timeout_s: float) -> bytes:
        try:
            return await self._calls.ask(name, body, timeout_s)
        except BusDown as problem:
            raise StoreUnavailable("upstream_unavailable") from problem
        except CallRefused as refusal:
            raise_refusal(refusal)


def _of(key: StreamKey) -> tuple[int, str, str]:
    return key.owner, key.feed, key.contract.key


@dataclass(slots=True)
class ForwardingIntake:
    """Forward pushes received over HTTP to the owner of the stream. Implements `Intake`."""

    universe: Universe
    owners: StreamOwnerClient

    async def take(self, owner: int, feed: str, push: Push, origin: Origin = Origin.PROGRAM) -> int:
        """Forward a push to the owner of the stream.

        Raises `StoreUnavailable` while the owner is unavailable.
        """
        return await self.owners.push(owner, feed, push, origin)

    async def usage(self, owner: int) -> Usage | None:
        """Return None, because this process does not count the bytes that a user pushes."""
        return None
