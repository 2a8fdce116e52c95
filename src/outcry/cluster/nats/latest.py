"""The latest states of live streams, in a JetStream stream in memory with one message for each live stream.

Each state has an order, which says which of two states is newer. A message contains the order (two u64, big-endian),
then the encoded state. A writer names the message that it replaces, whose order must be smaller. A reader requests
messages in batches, and the server skips messages that were replaced in the meantime. The server delivers in order. So
a reader has all initial states once it has passed the sequence number that was the newest when it started. (The
server's count of pending messages may be too large while states are replaced.)
"""

import asyncio
import json
import struct
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from outcry.cluster.calls import BusDown
from outcry.cluster.latest import RETENTION_S, Latest, Order
from outcry.cluster.nats.link import BusRefused, Link, answered, bus_errors
from outcry.cluster.nats.log_format import key_of, subject_of
from outcry.cluster.nats.message_store import MessageStore
from outcry.market.units import NANOS_PER_SECOND

_STREAM, _PREFIX = "LATEST", "latest"
_PASSED = "Nats-Last-Stream"
_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_ORDER = struct.Struct(">QQ")
_NONE_YET: tuple[int, Order] = (0, (-1, -1))
#: JetStream's error codes: another message is the newest, or is being written.
_ANOTHER = frozenset({10071, 10164})
#: States in one request, its duration (s), and the interval (s) of the server's heartbeats.
_BATCH, _ASK_S, _BEAT_S = 500, 30.0, 1.0
_SILENCE_S = 2.5
#: Number of states put concurrently.
_TOGETHER = 256


class JetStreamLatest:
    """The latest states of all live streams. Used on the event loop of its NATS link."""

    def __init__(self, link: Link) -> None:
        self._link, self._store = link, MessageStore(link, _CONFIG)
        #: Sequence number and order of this process's last message of each stream, until another process writes.
        self._there: dict[str, tuple[int, Order]] = {}

    # -- writing

    async def put(self, states: Sequence[Latest]) -> Mapping[str, Order]:
        """Store one state for each key, unless a newer state of that key is stored.

        Return the keys of the states that were not stored, with the order (version) of the newer state that is stored.
        Another process may have acquired these streams. Raises `BusDown`; the caller then calls `put` again with the
        newest state of each stream.
        """
        await self._ensure()
        refused: dict[str, Order] = {}
        for at in range(0, len(states), _TOGETHER):
            some = states[at : at + _TOGETHER]
            outcomes = await asyncio.gather(*(self._put(state) for state in some), return_exceptions=True)
            for state, there in zip(some, outcomes, strict=True):
                if isinstance(there, BaseException):
                    raise there
                if there is not None:
                    refused[state.key] = there
        return refused

    async def _put(self, state: Latest) -> Order | None:
        """Store one state. If a newer state is stored already, return the order (version) of that one."""
        subject = subject_of(_PREFIX, state.key)
        body = _ORDER.pack(*state.order) + state.body
        while True:
            number, order = self._there.pop(state.key, None) or await self._look(subject)
            if state.order <= order:
                return order
            try:
                answer = answered(await self._link.request(subject, body, headers={_EXPECTED: str(number)}))
            except BusRefused as problem:
                if problem.code not in _ANOTHER:
                    raise BusDown(str(problem)) from problem
            else:
                self._there[state.key] = answer["seq"], state.order
                return None

    async def _look(self, subject: str) -> tuple[int, Order]:
        """Return the sequence number and the order (version) of the state that is stored under a NATS subject."""
        try:
            there = await self._store.newest(subject)
        except BusRefused as problem:
            raise BusDown(str(problem)) from problem
        if there is None:
            return _NONE_YET
        first, count = _ORDER.unpack_from(there.body)
        return there.seq, (first, count)

    # -- reading

    async def watch(self) -> AsyncGenerator[Latest | None]:
        """Yield all current states, then None once, then every change.

        A state that changes before None may be yielded after it. Changes of a stream arrive in order, and a slow reader
        receives only the newest. The iteration ends only with `BusDown`; the caller then starts again.
        """
        await self._ensure()
        try:
            there = (await self._link.api(f"STREAM.INFO.{_STREAM}"))["state"]
            consumer = await self._link.api(f"CONSUMER.CREATE.{_STREAM}", _CONSUMER)
        except BusRefused as problem:
            raise BusDown(str(problem)) from problem
        complete = not there["messages"]
        if complete:
            yield None
        pull = _Pull(self._link, consumer["name"])
        try:
            await pull.begin()
            while True:
                passed, state = await pull.next()
                if state is not None:
                    yield state
                if not complete and passed >= there["last_seq"]:
                    complete = True
                    yield None
        finally:
            await pull.end()

    async def _ensure(self) -> None:
        try:
            await self._link.ensure_stream(_CONFIG)
        except BusRefused as problem:
            raise BusDown(str(problem)) from problem


class _Pull:
    """Receive the messages of our JetStream consumer in batches."""

    def __init__(self, link: Link, consumer: str) -> None:
        self._link, self._consumer = link, consumer
        self._came: asyncio.Queue[Msg] = asyncio.Queue()
        self._left = 0
        self._subscription: Subscription | None = None

    async def begin(self) -> None:
        with bus_errors():
            client = self._link.client
            self._inbox = client.new_inbox()
            self._subscription = await client.subscribe(self._inbox, cb=self._came.put)

    async def end(self) -> None:
        with suppress(BusDown), bus_errors():
            if self._subscription is not None:
                await self._subscription.unsubscribe()
            await self._link.client.publish(f"$JS.API.CONSUMER.DELETE.{_STREAM}.{self._consumer}")

    async def next(self) -> tuple[int, Latest | None]:
        """Wait for messages; return the sequence number reached, and the state in the last message, if any.

        The sequence number also counts messages that were replaced meanwhile and are skipped. Raises `BusDown`.
        """
        while True:
            if not self._left:
                with bus_errors():
                    subject = f"$JS.API.CONSUMER.MSG.NEXT.{_STREAM}.{self._consumer}"
                    await self._link.client.publish(subject, _ASK, self._inbox)
                self._left = _BATCH
            message = await self._come()
            status = (message.headers or {}).get("Status") if not message.data else None
            if status is None:
                self._left -= 1
                return message.metadata.sequence.stream, _latest(message)
            if status == "100":
                return int((message.headers or {}).get(_PASSED, 0)), None
            if status != "408":  # the consumer or its leader is gone
                raise BusDown(f"latest states are not delivered any more: {status}")
            self._left = 0

    async def _come(self) -> Msg:
        if not self._came.empty():
            return self._came.get_nowait()
        try:
            async with asyncio.timeout(_SILENCE_S):
                return await self._came.get()
        except TimeoutError:
            raise BusDown("the bus says nothing more of latest states") from None


def _latest(message: Msg) -> Latest:
    first, count = _ORDER.unpack_from(message.data)
    return Latest(key_of(message.subject), (first, count), message.data[_ORDER.size :])


_CONFIG: dict[str, Any] = {
    "name": _STREAM,
    "subjects": [f"{_PREFIX}.>"],
    "storage": "memory",
    "discard": "old",
    "max_msgs_per_subject": 1,
    "max_age": int(RETENTION_S * NANOS_PER_SECOND),
}
_CONSUMER: dict[str, Any] = {
    "stream_name": _STREAM,
    "config": {
        "deliver_policy": "last_per_subject",
        "filter_subject": f"{_PREFIX}.>",
        "ack_policy": "none",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": 10 * NANOS_PER_SECOND,
    },
}
_ASK = json.dumps(
    {
        "batch": _BATCH,
        "expires": int(_ASK_S * NANOS_PER_SECOND),
        "idle_heartbeat": int(_BEAT_S * NANOS_PER_SECOND),
    }
).encode()
