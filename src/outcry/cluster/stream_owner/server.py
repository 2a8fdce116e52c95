"""The server side: the owner of partitions accepts pushes of their streams and answers requests about them.

After a partition is lost nothing is accepted for it: its push feeds end, and the pusher turns to the next owner.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

import msgspec

from outcry.base.clock import Clock
from outcry.base.errors import ServiceError, StoreUnavailable
from outcry.cluster.calls import Answerer, CallRefused, Calls
from outcry.cluster.stream_owner.messages import (
    AskReach,
    ForwardedPush,
    Leave,
    Refuse,
    Retire,
    StreamRequest,
    refused_call,
)
from outcry.database.errors import StoreBusy
from outcry.live.model import LogTakenOver, StreamKey
from outcry.live.stream_status import StreamProgress
from outcry.market.instruments import Universe, UnknownName
from outcry.trades.push_format import Intake, read_push, refused

#: A body that takes longer to read than to hand to a thread.
_LARGE_BYTES = 64 * 1024
#: How long a stream that is to be shown no more is waited for until nobody follows it.
_LONGEST_END_S = 2.0
#: What streams say that nobody brings now, though somebody will.
BETWEEN = "disconnected"

T = TypeVar("T")
_CARRIED = msgspec.msgpack.Decoder(ForwardedPush)
_ASKED: msgspec.msgpack.Decoder[StreamRequest] = msgspec.msgpack.Decoder(StreamRequest)


class PushIntake(Intake, Protocol):
    """Pushed feeds, as their owner has them."""

    def leave(self, key: StreamKey, code: str, session: str = "") -> bool:
        """End what is pushed of a stream by a process of ours, if it is that session's or none is named: `code` says
        why. False where nothing was."""
        ...

    def end(self, partition: int) -> None:
        """End what is pushed of a partition's streams: somebody else takes it."""
        ...


class OwnedStreams(Protocol):
    """Streams, as the engine has them."""

    async def reach(self, key: StreamKey) -> StreamProgress | None:
        """How far a stream is with what survives. Raises `LogTakenOver`."""
        ...

    async def persisted(self, key: StreamKey) -> None:
        """Wait until all that a stream was given survives. Raises `LogTakenOver`."""
        ...

    def follows(self, key: StreamKey) -> bool:
        """Whether anybody follows a stream."""
        ...

    def refuse(self, key: StreamKey, code: str) -> None:
        """Say of a stream that nobody follows why."""
        ...

    def retire(self, key: StreamKey) -> None:
        """Show a stream no more, if nobody follows it."""
        ...


class StreamOwnerServer:
    """Serves partitions. `streams`: the engine they are folded on."""

    def __init__(
        self, calls: Calls, inlets: PushIntake, streams: OwnedStreams, universe: Universe, clock: Clock
    ) -> None:
        self._calls, self._inlets, self._streams = calls, inlets, streams
        self._universe, self._clock = universe, clock

    @asynccontextmanager
    async def serve(self, partition: int) -> AsyncGenerator[None]:
        """Serve a partition until the block ends."""
        async with (
            self._calls.serve(f"stream.{partition}", _translate_errors(self._about)),
            self._calls.serve(f"push.{partition}", _translate_errors(self._push)),
        ):
            try:
                yield
            finally:
                self._inlets.end(partition)  # first: pushes under way are refused, not cut off

    async def _push(self, body: bytes) -> bytes:
        carried = _decoded(_CARRIED, body)
        now_ns = self._clock.now_ns()
        if len(body) < _LARGE_BYTES:
            push = read_push(carried.body, self._universe, now_ns)
        else:
            push = await asyncio.to_thread(read_push, carried.body, self._universe, now_ns)
        taken = await self._inlets.take(carried.owner, carried.feed, push, carried.origin)
        if taken > push.first:  # what is acknowledged must be had again by whoever owns the stream next
            await self._streams.persisted(StreamKey(carried.owner, carried.feed, push.contract))
        return msgspec.msgpack.encode(taken)

    async def _about(self, body: bytes) -> bytes:
        asked = _decoded(_ASKED, body)
        try:
            key = StreamKey(asked.owner, asked.feed, self._universe.contract(asked.contract))
        except UnknownName:
            raise refused("unknown_contract") from None
        match asked:
            case AskReach():
                return msgspec.msgpack.encode(await self._streams.reach(key))
            case Leave():
                self._inlets.leave(key, BETWEEN, asked.session)
            case Refuse():
                if not self._inlets.leave(key, asked.code):
                    self._streams.refuse(key, asked.code)
            case Retire():
                self._inlets.leave(key, BETWEEN)
                end_s = asyncio.get_running_loop().time() + _LONGEST_END_S
                while self._streams.follows(key) and asyncio.get_running_loop().time() < end_s:
                    await asyncio.sleep(0.01)
                self._streams.retire(key)
        return b""


def _translate_errors(work: Answerer) -> Answerer:
    """Let what is refused travel."""

    async def answer(body: bytes) -> bytes:
        try:
            return await work(body)
        except ServiceError as problem:
            raise refused_call(problem) from None
        except (StoreBusy, LogTakenOver):  # whoever has the stream now is to be asked
            raise CallRefused(StoreUnavailable.code) from None

    return answer


def _decoded(decoder: msgspec.msgpack.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError):
        raise refused("unreadable") from None
