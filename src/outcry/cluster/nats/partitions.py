"""Partition ownership by JetStream's pinned clients: the server assigns each partition to one process.

A set of partitions is a JetStream stream with one message and one consumer for each partition. No process acknowledges
the message. The process that receives it owns the partition as long as it repeats its requests with its *pin*, the id
under which the server has assigned the consumer to it. A process that owns more than an even share of the partitions
releases the excess ones: it stops its work on them, publishes a new message for each, and removes its pins.
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
from outcry.cluster.nats.partition_lease import PIN_S, RENEWAL_INTERVAL_S, LeaseCallbacks, PartitionLease
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
    """Acquires and releases partitions (shares of the work) over NATS. Implements `Partitions`.

    name: name of the set of partitions, and the role under which `run` announces this process to the others.
    """

    def __init__(
        self, link: Link, presence: NatsPresence, name: str, report: Report, count: int = PARTITIONS
    ) -> None:
        self._link, self._presence, self._name, self._report = link, presence, name, report
        self._stream, self._subject = f"OWN_{name.upper()}", f"own.{name}"
        self._leases = [PartitionLease(number) for number in range(count)]
        self._inbox = f"_INBOX.{secrets.token_hex(11)}"
        self._to_prepare = asyncio.Event()
        self._lacking_s = math.inf
        self._ended = False
        self._duties: LeaseCallbacks | None = None
        self._tasks = BackgroundTasks(report)

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that this process owns, as far as it knows."""
        return frozenset(lease.number for lease in self._leases if lease.owned)

    async def run(self, gained: Turn, lost: Turn) -> None:
        """Acquire a share of the partitions until cancelled; call `gained` and `lost` for each partition.

        `lost` is also called if `gained` raised or was cancelled. Errors of both are logged.
        """
        self._duties = LeaseCallbacks(gained, lost, self._give_back, self._report, self._tasks)
        self._ended = False
        self._to_prepare.set()
        self._link.on_back.append(self._back)
        async with subscribed(self._link, f"{self._inbox}.>", self._take), BackgroundTasks() as tasks:
            tasks.start("stream of partitions", self._keep_prepared())
            tasks.start("partition leases", self._keep_leases())
            try:
                async with self._presence.announce([self._name]):
                    await tasks.wait()
            finally:
                self._link.on_back.remove(self._back)
                await self._end()

    def _back(self) -> None:
        """Create the stream and the consumers again after a reconnect, because the server may have lost them."""
        self._to_prepare.set()
        for lease in self._leases:
            lease.renewal_pending_until_s = -math.inf

    async def _end(self) -> None:
        """Release every partition at the end of `run`.

        Other processes already request the partitions, because they no longer count this process.
        """
        self._ended = True
        for lease in self._leases:
            if lease.task is not None:
                lease.leave()
        await self._tasks.settle()

    async def _keep_leases(self) -> None:
        await self._link.up()
        balance_from_s = time.monotonic() + _LOOK_S
        await repeat(lambda: self._keep_leases_once(balance_from_s), _TICK_S)

    async def _keep_leases_once(self, balance_from_s: float) -> None:
        now_s = time.monotonic()
        for lease in self._leases:
            if lease.lapsed():
                lease.lose()
        for lease in self._leases:
            if lease.pin and not lease.given_back and now_s - lease.beaten_s >= RENEWAL_INTERVAL_S:
                await self._renew(lease)
        if not self._ended and now_s >= balance_from_s:
            await self._balance(now_s)

    # -- an even share

    def _ours(self) -> Sequence[PartitionLease]:
        """Return the leases of the partitions that this process should own: an even share of all."""
        members = self._presence.members(self._name)
        if self._ended or self._presence.name not in members:
            return ()
        at, (each, over) = members.index(self._presence.name), divmod(len(self._leases), len(members))
        first = at * each + min(at, over)
        return self._leases[first : first + each + (at < over)]

    def _active(self) -> Sequence[PartitionLease]:
        return [lease for lease in self._leases if lease.active]

    async def _balance(self, now_s: float) -> None:
        """Request partitions up to this process's even share, or release those above it."""
        ours, active = self._ours(), self._active()
        if len(active) >= len(ours):
            self._lacking_s = math.inf
            others_first = sorted(active, key=lambda lease: lease in ours)
            for lease in others_first[: len(active) - len(ours)]:
                lease.leave()
            return
        self._lacking_s = min(self._lacking_s, now_s)
        asked = ours if now_s - self._lacking_s < _ORDERLY_S else self._leases
        for lease in asked:
            if not lease.pin and now_s >= max(
                lease.renewal_pending_until_s, lease.renewal_sent_s + _AGAIN_S, lease.barred_until_s
            ):
                lease.renewal_sent_s = now_s
                lease.renewal_pending_until_s = now_s + _ASK_S if self._link.connected else -math.inf
                await self._ask(lease, f"{_WAITS}.{int(now_s * _US)}", {"expires": int(_ASK_S * _NS)})

    # -- requests and replies

    async def _renew(self, lease: PartitionLease) -> None:
        """Renew this process's ownership of a partition.

        If the server accepts the pin (id of its assignment to us), ownership lasts for the lifetime of a pin.
        """
        lease.beaten_s = time.monotonic()
        token = f"{lease.pin}.{int(lease.beaten_s * _US)}"
        await self._ask(lease, token, {"id": lease.pin, "no_wait": True})

    async def _ask(self, lease: PartitionLease, token: str, ask: Mapping[str, object]) -> None:
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{lease.number}"
        body = msgspec.json.encode({"batch": 1, "group": _GROUP, **ask})
        with suppress(BusDown), bus_errors():
            await self._link.client.publish(subject, body, f"{self._inbox}.{lease.number}.{token}")

    async def _take(self, message: Msg) -> None:
        """Handle the server's reply to a request for a partition: its message, or a status."""
        headers = message.headers or {}
        if (pin := headers.get("Nats-Pin-Id")) is not None and message.reply:
            lease = self._leases[int(message.subject.rpartition(".")[2])]
            if pin != lease.pin:
                lease.pinned(pin, left=message.metadata.num_delivered == 1)
            if not lease.given_back:
                await self._renew(lease)  # the answer confirms a request sent after this message
            return
        number, asked, at_us = message.subject.split(".")[2:]
        lease, status = self._leases[int(number)], headers.get("Status")
        if asked == _WAITS:
            if int(at_us) == int(lease.renewal_sent_s * _US):
                lease.renewal_pending_until_s = -math.inf  # the request has ended
        elif asked == lease.pin and status == _WRONG_PIN:
            lease.lose()
        elif asked == lease.pin and status in _STILL_OURS:
            lease.confirmed(int(at_us) / _US)
            self._on_acquired(lease)

    def _on_acquired(self, lease: PartitionLease) -> None:
        if lease.task is None and self._duties is not None:
            if len(self._active()) >= len(self._ours()):
                lease.leaving = True
            lease.start(self._duties)

    async def _give_back(self, lease: PartitionLease) -> None:
        """Release a partition: publish a new message for it, and remove our pin (the server's assignment to us).

        The next owner learns from the message that this process has stopped using the partition. The server would
        remove any pin of the partition, even another owner's. So this process removes its pin only while it certainly
        owns the partition; otherwise the pin expires by itself.
        """
        with suppress(BusDown, BusRefused):
            if lease.sure_for_s > _SPARE_S:
                answered(await self._link.request(f"{self._subject}.{lease.number}", timeout_s=_SPARE_S))
            if lease.sure_for_s > _SPARE_S:
                await self._link.api(
                    f"CONSUMER.UNPIN.{self._stream}.{lease.number}", {"group": _GROUP}, _SPARE_S
                )

    # -- the stream

    async def _keep_prepared(self) -> None:
        """Create the stream, messages and consumers now and after each reconnect. Never ends."""
        reported = ""
        while True:
            await self._to_prepare.wait()
            self._to_prepare.clear()
            try:
                await self._link.up()
                await self._prepare()
                reported = ""
            except (BusDown, BusRefused) as problem:
                if reported != str(problem):
                    reported = str(problem)
                    self._report(LogEvent.PARTITIONS_NOT_ASSIGNED, role=self._name, problem=reported)
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
        every = range(len(self._leases))
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
