"""Partition ownership by JetStream's pinned clients: the server assigns each partition to one process.

A set of partitions is a stream with one message and one consumer for each partition. The message is never acknowledged.
The process that receives it owns the partition for as long as it renews its requests with the server's pin id. A
process with more than an even share releases the excess: it stops using those partitions, publishes a new message for
each and removes its pin.
"""

import asyncio
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
from nats.aio.msg import Msg

from outcry.base.log_events import LogEvent, Report
from outcry.base.tasks import BackgroundTasks, repeat
from outcry.cluster.calls import BusDown
from outcry.cluster.nats.link import BusRefused, Link, answered, bus_errors
from outcry.cluster.nats.partition_lease import BEAT_S, PIN_S, LeaseCallbacks, PartitionLease
from outcry.cluster.nats.presence import NatsPresence
from outcry.cluster.nats.subscribing import subscribed
from outcry.live.partitions import PARTITIONS, Turn

_TICK_S = 0.1
#: Duration of a request for a partition that another process owns, and the pause after a failed one.
_ASK_S, _AGAIN_S = 5.0, 0.3
#: Processes first request their own share in order. After this time (s) they request every free partition.
_ORDERLY_S = 0.15
#: A new process first waits for the heartbeats of the others.
_LOOK_S = 0.2
#: Redelivery interval of the message; shorter than a pin, because the next owner receives the same message.
_ANEW_S = 1.2
#: A release needs at least this much time of certain ownership.
_SPARE_S = 0.4
_RETRY_S = 0.5
_GROUP, _WAITS = "own", "waits"
#: Server statuses for a partition we own (no message; other requests come first) and for one we do not.
_STILL_OURS, _WRONG_PIN = frozenset({"404", "408"}), "423"
_NS, _US = 1_000_000_000, 1_000_000


class NatsPartitions:
    """Implements `Partitions` over a link.

    name: name of the set, and the role under which `run` announces this process.
    """

    def __init__(
        self, link: Link, presence: NatsPresence, name: str, report: Report, count: int = PARTITIONS
    ) -> None:
        self._link, self._presence, self._name, self._report = link, presence, name, report
        self._stream, self._subject = f"OWN_{name.upper()}", f"own.{name}"
        self._seats = [PartitionLease(number) for number in range(count)]
        self._inbox = f"_INBOX.{secrets.token_hex(11)}"
        self._to_prepare = asyncio.Event()
        self._lacking_s = math.inf
        self._ended = False
        self._duties: LeaseCallbacks | None = None
        self._tenures = BackgroundTasks(report)

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that this process owns, as far as it knows."""
        return frozenset(seat.number for seat in self._seats if seat.owned)

    async def run(self, gained: Turn, lost: Turn) -> None:
        """Acquire a share of the partitions until cancelled; call `gained` and `lost` for each partition.

        `lost` is also called if `gained` raised or was cancelled; their errors are logged.
        """
        self._duties = LeaseCallbacks(gained, lost, self._give_back, self._report, self._tenures)
        self._ended = False
        self._to_prepare.set()
        self._link.on_back.append(self._back)
        async with subscribed(self._link, f"{self._inbox}.>", self._take), BackgroundTasks() as tasks:
            tasks.start("stream of partitions", self._keep_prepared())
            tasks.start("partition leases", self._keep_seats())
            try:
                async with self._presence.here([self._name]):
                    await tasks.wait()
            finally:
                self._link.on_back.remove(self._back)
                await self._end()

    def _back(self) -> None:
        """Create the stream and the consumers again after a reconnect, because the server may have lost its state."""
        self._to_prepare.set()
        for seat in self._seats:
            seat.asked_until_s = -math.inf

    async def _end(self) -> None:
        """Release every partition at the end of `run`.

        Other processes request them already, because this one is no longer counted.
        """
        self._ended = True
        for seat in self._seats:
            if seat.tenure is not None:
                seat.leave()
        await self._tenures.settle()

    async def _keep_seats(self) -> None:
        await self._link.up()
        balance_from_s = time.monotonic() + _LOOK_S
        await repeat(lambda: self._keep_seats_once(balance_from_s), _TICK_S)

    async def _keep_seats_once(self, balance_from_s: float) -> None:
        now_s = time.monotonic()
        for seat in self._seats:
            if seat.lapsed():
                seat.lose()
        for seat in self._seats:
            if seat.pin and not seat.given_back and now_s - seat.beaten_s >= BEAT_S:
                await self._beat(seat)
        if not self._ended and now_s >= balance_from_s:
            await self._balance(now_s)

    # -- an even share

    def _ours(self) -> Sequence[PartitionLease]:
        """Return the partitions of this process's even share; their number is its quota."""
        members = self._presence.members(self._name)
        if self._ended or self._presence.name not in members:
            return ()
        at, (each, over) = members.index(self._presence.name), divmod(len(self._seats), len(members))
        first = at * each + min(at, over)
        return self._seats[first : first + each + (at < over)]

    def _held(self) -> Sequence[PartitionLease]:
        return [seat for seat in self._seats if seat.held]

    async def _balance(self, now_s: float) -> None:
        """Request partitions up to this process's quota, or release those above it."""
        ours, held = self._ours(), self._held()
        if len(held) >= len(ours):
            self._lacking_s = math.inf
            others_first = sorted(held, key=lambda seat: seat in ours)
            for seat in others_first[: len(held) - len(ours)]:
                seat.leave()
            return
        self._lacking_s = min(self._lacking_s, now_s)
        asked = ours if now_s - self._lacking_s < _ORDERLY_S else self._seats
        for seat in asked:
            if not seat.pin and now_s >= max(
                seat.asked_until_s, seat.asked_s + _AGAIN_S, seat.barred_until_s
            ):
                seat.asked_s = now_s
                seat.asked_until_s = now_s + _ASK_S if self._link.connected else -math.inf
                await self._ask(seat, f"{_WAITS}.{int(now_s * _US)}", {"expires": int(_ASK_S * _NS)})

    # -- requests and replies

    async def _beat(self, seat: PartitionLease) -> None:
        """Renew a partition. If the server accepts the pin, this process owns it for the duration of a pin."""
        seat.beaten_s = time.monotonic()
        token = f"{seat.pin}.{int(seat.beaten_s * _US)}"
        await self._ask(seat, token, {"id": seat.pin, "no_wait": True})

    async def _ask(self, seat: PartitionLease, token: str, ask: Mapping[str, object]) -> None:
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{seat.number}"
        body = msgspec.json.encode({"batch": 1, "group": _GROUP, **ask})
        with suppress(BusDown), bus_errors():
            await self._link.client.publish(subject, body, f"{self._inbox}.{seat.number}.{token}")

    async def _take(self, message: Msg) -> None:
        """Handle the server's reply to a request for a partition: its message, or a status."""
        headers = message.headers or {}
        if (pin := headers.get("Nats-Pin-Id")) is not None and message.reply:
            seat = self._seats[int(message.subject.rpartition(".")[2])]
            if pin != seat.pin:
                seat.pinned(pin, left=message.metadata.num_delivered == 1)
            if not seat.given_back:
                await self._beat(seat)  # the answer confirms a request sent after this message
            return
        number, asked, at_us = message.subject.split(".")[2:]
        seat, status = self._seats[int(number)], headers.get("Status")
        if asked == _WAITS:
            if int(at_us) == int(seat.asked_s * _US):
                seat.asked_until_s = -math.inf  # the request has ended
        elif asked == seat.pin and status == _WRONG_PIN:
            seat.lose()
        elif asked == seat.pin and status in _STILL_OURS:
            seat.confirmed(int(at_us) / _US)
            self._seated(seat)

    def _seated(self, seat: PartitionLease) -> None:
        if seat.tenure is None and self._duties is not None:
            if len(self._held()) >= len(self._ours()):
                seat.leaving = True
            seat.sit(self._duties)

    async def _give_back(self, seat: PartitionLease) -> None:
        """Release a partition: publish a new message for it and remove our pin.

        The next owner learns from the message that this process has stopped using the partition. Removing a pin would
        also remove another owner's. So this is done only while our ownership is certain; otherwise the pin expires.
        """
        with suppress(BusDown, BusRefused):
            if seat.sure_for_s > _SPARE_S:
                answered(await self._link.request(f"{self._subject}.{seat.number}", timeout_s=_SPARE_S))
            if seat.sure_for_s > _SPARE_S:
                await self._link.api(
                    f"CONSUMER.UNPIN.{self._stream}.{seat.number}", {"group": _GROUP}, _SPARE_S
                )

    # -- the stream

    async def _keep_prepared(self) -> None:
        """Create the stream, messages and consumers now and after each reconnect. Never ends."""
        told = ""
        while True:
            await self._to_prepare.wait()
            self._to_prepare.clear()
            try:
                await self._link.up()
                await self._prepare()
                told = ""
            except (BusDown, BusRefused) as problem:
                if told != str(problem):
                    told = str(problem)
                    self._report(LogEvent.PARTITIONS_NOT_ASSIGNED, role=self._name, problem=told)
                self._to_prepare.set()
                await asyncio.sleep(_RETRY_S)

    async def _prepare(self) -> None:
        await self._link.ensure_stream(
            {
                "name": self._stream,
                "subjects": [f"{self._subject}.*"],
                "max_msgs_per_subject": 1,
                "storage": "file",
            }
        )
        known = await self._link.api(f"STREAM.INFO.{self._stream}", {"subjects_filter": ">"})
        subjects = known["state"].get("subjects") or {}
        consumers = (await self._link.api(f"CONSUMER.NAMES.{self._stream}", {"offset": 0})).get(
            "consumers"
        ) or ()
        every = range(len(self._seats))
        await asyncio.gather(
            *(self._put(number) for number in every if f"{self._subject}.{number}" not in subjects),
            *(self._make_consumer(number) for number in every if str(number) not in consumers),
        )

    async def _put(self, number: int) -> None:
        with suppress(BusRefused):  # another process has published one
            none_yet = {"Nats-Expected-Last-Subject-Sequence": "0"}
            answered(await self._link.request(f"{self._subject}.{number}", headers=none_yet))

    async def _make_consumer(self, number: int) -> None:
        config = {
            "name": str(number),
            "durable_name": str(number),
            "filter_subject": f"{self._subject}.{number}",
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": int(_ANEW_S * _NS),
            "max_deliver": -1,
            "max_waiting": 1024,
            "priority_groups": [_GROUP],
            "priority_policy": "pinned_client",
            "priority_timeout": int(PIN_S * _NS),
        }
        await self._link.api(
            f"CONSUMER.CREATE.{self._stream}.{number}.{self._subject}.{number}",
            {"stream_name": self._stream, "config": config},
            20.0,
        )
