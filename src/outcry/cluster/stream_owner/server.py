"""Server of the process that owns live streams: it accepts pushes of events and answers questions about the streams.

When this process loses a partition (a share of the streams), it accepts no more pushes for it. The partition's push
feeds end here, and their clients retry at the next owner.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from outcry.base.clock import Clock
from outcry.base.errors import ServiceError, StoreUnavailable
from outcry.cluster.calls import Answerer, CallRefused
from outcry.cluster.nats.calls import NatsCalls
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
from outcry.feeds.pushed import PushedFeeds
from outcry.live.engine import Engine
from outcry.live.model import LogTakenOver, StreamKey
from outcry.market.instruments import Universe, UnknownName
from outcry.trades.push_format import read_push, refused

#: Bodies from this size on are decoded on a thread.
_LARGE_BYTES = 64 * 1024
#: Longest wait (s) for the feed of a retired stream to end.
_LONGEST_END_S = 2.0
#: Status code of a stream between two feeds.
BETWEEN = "disconnected"

T = TypeVar("T")
_FORWARDED = msgspec.msgpack.Decoder(ForwardedPush)
_REQUEST: msgspec.msgpack.Decoder[StreamRequest] = msgspec.msgpack.Decoder(StreamRequest)


class StreamOwnerServer:
    """Answer requests of other processes about the streams of owned partitions.

    inlets: receives the feeds that other programs push. streams: the engine that computes the streams.
    """

    def __init__(
        self, calls: NatsCalls, inlets: PushedFeeds, streams: Engine, universe: Universe, clock: Clock
    ) -> None:
        self._calls, self._inlets, self._streams = calls, inlets, streams
        self._universe, self._clock = universe, clock

    @asynccontextmanager
    async def serve(self, partition: int) -> AsyncGenerator[None]:
        """Answer requests for a partition until the block ends."""
        async with (
            self._calls.serve(f"stream.{partition}", _translate_errors(self._about)),
            self._calls.serve(f"push.{partition}", _translate_errors(self._push)),
        ):
            try:
                yield
            finally:
                self._inlets.end(partition)  # first: pushes in progress receive a refusal

    async def _push(self, body: bytes) -> bytes:
        forwarded = _decoded(_FORWARDED, body)
        now_ns = self._clock.now_ns()
        if len(body) < _LARGE_BYTES:
            push = read_push(forwarded.body, self._universe, now_ns)
        else:
            push = await asyncio.to_thread(read_push, forwarded.body, self._universe, now_ns)
        taken = await self._inlets.take(forwarded.owner, forwarded.feed, push, forwarded.origin)
        if taken > push.first:  # the next owner must have every acknowledged event
            await self._streams.persisted(StreamKey(forwarded.owner, forwarded.feed, push.contract))
        return msgspec.msgpack.encode(taken)

    async def _about(self, body: bytes) -> bytes:
        asked = _decoded(_REQUEST, body)
        try:
            key = StreamKey(asked.owner, asked.feed, self._universe.contract(asked.contract))
        except UnknownName:
            raise refused("unknown_contract") from None
        match asked:
            case AskReach():
                return msgspec.msgpack.encode(await self._streams.progress(key))
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
    """Wrap a request handler so that its errors reach the caller as `CallRefused`."""

    async def answer(body: bytes) -> bytes:
        try:
            return await work(body)
        except ServiceError as problem:
            raise refused_call(problem) from None
        except (StoreBusy, LogTakenOver):  # the caller retries at the next owner
            raise CallRefused(StoreUnavailable.code) from None

    return answer


def _decoded(decoder: msgspec.msgpack.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError):
        raise refused("unreadable") from None
