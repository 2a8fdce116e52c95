"""Claim due messages from the outbox, send many at once, and record the results.

A queue holds the alerts of one subscription and sends one message at a time. A result is recorded before its queue is
released. If the process stops before that, the message is sent again with the same id. A separate thread accesses the
outbox, so that the event loop does not wait for the database. Results that arrive at about the same time are written
together. Only a part of the messages in flight may belong to slow receivers.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from outcry.base.clock import Clock
from outcry.base.encryption import DecryptionFailed, Encryptor
from outcry.base.log_events import LogEvent, Report, discard
from outcry.base.tasks import BackgroundTasks, is_set_within
from outcry.database.errors import StoreBusy
from outcry.delivery.announcements import Announcements
from outcry.delivery.digest_timing import due_now, is_expired
from outcry.delivery.model import Target
from outcry.delivery.notices import OwnerNotices
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outbox_model import RETENTION_NS, SLOW_MS, Entry, Message
from outcry.delivery.outcomes import became
from outcry.delivery.result_writer import ResultWriter
from outcry.delivery.sender import Sender, SendResult, Verdict
from outcry.delivery.signing_secrets import opened
from outcry.market.units import NANOS_PER_SECOND

T = TypeVar("T")

#: Messages in flight: in all, and of queues whose last attempt was slow.
MOST_UNDER_WAY, MOST_SLOW = 512, 128
#: Smallest claim, however slow the database is.
_FEWEST = 8
#: When all slots are in use and one becomes free, more follow shortly. They are filled together.
_GATHERING_S = 0.002
#: A lease outlasts the longest attempt and its recording, so that no other worker sends the message meanwhile.
LEASE_NS = 60 * NANOS_PER_SECOND
#: Interval of checks for due messages while `wake` is not called.
TICK_S = 0.25
_RETRY_S = 1.0
#: How long a stopping process waits for messages in flight.
_PATIENCE_S = 5.0
_SWEEP_S = 3600.0
#: Interval of presence reports and of the check for workers that ended.
_ATTEND_S = 2.0


@dataclass(frozen=True, slots=True)
class Parts:
    """The objects a dispatcher works with.

    `worker`: a name unique to this process. `encryptor`: encrypts URLs and secrets.
    """

    outbox: SqlOutbox
    senders: Mapping[Target, Sender]
    encryptor: Encryptor
    clock: Clock
    notices: OwnerNotices
    worker: str


class Dispatcher:
    """Deliver due messages, on the running event loop. `chance` randomises the times of retries.

    A slot is the permission for one more message in flight.
    """

    def __init__(self, parts: Parts, *, chance: Callable[[], float] = random.random) -> None:
        self._parts, self._chance = parts, chance
        self.report: Report = discard
        #: Attempts by target and code.
        self.counts: Counter[tuple[Target, str]] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken, self._left = asyncio.Event(), asyncio.Event()
        self._under_way = BackgroundTasks(self._report)
        self._slow_under_way = 0
        #: Largest claim; smaller while the database is slow.
        self._at_once = MOST_UNDER_WAY
        self._store_thread = ThreadPoolExecutor(1, "outcry-outbox")
        self._announcements = Announcements(parts.notices, self._report)
        self._recording = ResultWriter(parts.outbox, self._announcements, self._store_thread, self._report)
        self._missing: set[Target] = set()

    # -- life

    def wake(self) -> None:
        """Check for due messages at once. Thread-safe."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)

    async def run(self) -> None:
        """Deliver due messages until cancelled.

        An exception is raised only after an unexpected error. Then call this method again: messages in flight continue,
        and no result is lost.
        """
        self._loop = asyncio.get_running_loop()
        async with BackgroundTasks() as tasks:
            claiming = tasks.start("claims", self._claim_on())
            tasks.start("results", self._recording.run())
            tasks.every(_SWEEP_S, "cleaning", self._sweep, self._not_cleaned)
            tasks.every(_ATTEND_S, "presence", self._report_presence, self._presence_not_reported)
            try:
                await tasks.wait()
            except asyncio.CancelledError:
                claiming.cancel()
                await self._finish()
                raise
            finally:
                self._loop = None

    def close(self) -> None:
        """End the threads, and record that this worker has ended."""
        self._parts.outbox.leave()
        self._announcements.close()
        self._store_thread.shutdown()

    async def step(self) -> int:
        """Deliver the messages due now, record the results and notify owners; return the number of messages.

        For tests and benchmarks.
        """
        await self._claim()
        messages = len(self._under_way)
        await self._under_way.settle()
        await self._recording.write()
        self._announcements.settle(_PATIENCE_S)
        return messages

    # -- claiming

    async def _claim_on(self) -> None:
        while True:
            self._woken.clear()
            if await self._claim():
                await self._wait_for_room()
            else:
                await self._wait_until_due()

    async def _wait_until_due(self) -> None:
        """Wait until `wake` is called or a message may be due."""
        outbox, clock = self._parts.outbox, self._parts.clock
        while not await is_set_within(self._woken, TICK_S):
            try:
                if await self._in_thread(lambda: outbox.has_due(clock.now_ns())):
                    return
            except StoreBusy:  # the next claim reports it
                return

    async def _claim(self) -> bool:
        """Claim as many messages as there are free slots; return whether there may be more."""
        parts = self._parts
        room = min(MOST_UNDER_WAY - len(self._under_way), self._at_once)
        slow_room = min(room, max(0, MOST_SLOW - self._slow_under_way))
        try:
            messages = await self._in_thread(
                lambda: parts.outbox.claim(parts.worker, parts.clock.now_ns(), LEASE_NS, room, slow_room)
            )
        except StoreBusy as problem:
            self.report(LogEvent.OUTBOX_UNREADABLE, problem=str(problem))
            self._at_once = max(_FEWEST, self._at_once // 2)  # it may be slow, not unavailable
            await asyncio.sleep(_RETRY_S)
            return False
        self._at_once = min(MOST_UNDER_WAY, self._at_once * 2)
        for message in messages:
            self._begin(message)
        return len(messages) == room

    def _begin(self, message: Message) -> None:
        slow = message.queue.took_ms >= SLOW_MS
        self._slow_under_way += slow

        def end(_: asyncio.Task[None]) -> None:
            self._slow_under_way -= slow
            self._left.set()

        self._under_way.start(message.message_id, self._deliver(message)).add_done_callback(end)

    async def _wait_for_room(self) -> None:
        self._left.clear()
        if len(self._under_way) >= MOST_UNDER_WAY:
            await self._left.wait()
        await asyncio.sleep(_GATHERING_S)

    # -- one message

    async def _deliver(self, message: Message) -> None:
        try:
            if message.subscription.target is Target.EMAIL:
                message = await self._without_rest(message)
            if message.entries:
                await self._attempt(message)
        except Exception as problem:  # noqa: BLE001 - a supervisor: its lease runs out, and it is tried again
            self.report(LogEvent.MESSAGE_FAILED, message_id=message.message_id, problem=repr(problem))

    async def _without_rest(self, message: Message) -> Message:
        """Return a digest with only the alerts that are due, after returning the others to the queue.

        The others are returned before the digest is sent, so that a resend after a crash has the same content and the
        same id.
        """
        now, rest_due_ns = due_now(message, self._parts.clock.now_ns())
        chosen = {entry.id for entry in now}
        rest: tuple[Entry, ...] = tuple(entry for entry in message.entries if entry.id not in chosen)
        if rest and rest_due_ns is not None:
            due_ns = rest_due_ns
            await self._in_thread(lambda: self._parts.outbox.return_entries(message, rest, due_ns))
        return replace(message, entries=tuple(now))

    async def _attempt(self, message: Message) -> None:
        clock, target = self._parts.clock, message.subscription.target
        began_ns = clock.now_ns()
        sent = await self._send(message, began_ns)
        self.counts[target, sent.code] += 1
        self._recording.keep(became(message, sent, began_ns, clock.now_ns(), self._chance))

    async def _send(self, message: Message, now_ns: int) -> SendResult:
        """Send a message, unless it expired while its queue was closed, paused or overloaded."""
        if is_expired(message, now_ns):
            return SendResult(Verdict.EXPIRED, "expired")
        target = message.subscription.target
        sender = self._parts.senders.get(target)
        if sender is None:
            return self._unsendable(target)
        try:
            address, secrets = opened(self._parts.encryptor, message.subscription, self._parts.clock.now_ns())
        except DecryptionFailed:
            return SendResult(Verdict.GONE, "address_lost")
        try:
            return await sender.send(message, address, secrets)
        except Exception as problem:  # noqa: BLE001 - a supervisor: one message's fault stops no other
            self.report(LogEvent.SENDER_FAILED, target=target.value, problem=repr(problem))
            return SendResult(Verdict.LATER, "our_fault")

    def _unsendable(self, target: Target) -> SendResult:
        """Return the result for a target that cannot be sent to: email, after the operator removed the email server."""
        if target not in self._missing:
            self._missing.add(target)
            self.report(LogEvent.MESSAGES_WITHOUT_SENDER, target=target.value)
        return SendResult(Verdict.LATER, "mail_not_set_up")

    # -- background work

    async def _sweep(self) -> None:
        """Delete expired outbox rows, in another thread."""
        before_ns = self._parts.clock.now_ns() - RETENTION_NS
        await asyncio.to_thread(self._parts.outbox.forget_old, before_ns)

    def _not_cleaned(self, problem: Exception) -> None:
        self.report(LogEvent.DELIVERY_LOG_NOT_CLEANED, problem=str(problem))

    async def _report_presence(self) -> None:
        """Record that this worker is alive, and release queues of workers that ended.

        This happens in another thread, so that a slow database delays no delivery.
        """
        parts = self._parts
        try:
            freed = await asyncio.to_thread(parts.outbox.report_presence, parts.worker, parts.clock.now_ns())
        except StoreBusy:
            return
        if freed:
            self.report(LogEvent.MESSAGES_RECLAIMED, messages=freed)
            self._woken.set()

    def _presence_not_reported(self, problem: Exception) -> None:
        """Log that presence could not be recorded.

        Deliveries continue, because the leases of workers that ended expire.
        """
        self.report(LogEvent.DELIVERY_WORKERS_UNKNOWN, problem=repr(problem))

    async def _finish(self) -> None:
        """At shutdown, wait a short time for messages in flight, record their results and notify owners."""
        self._loop = None
        await self._under_way.settle(_PATIENCE_S)
        await self._under_way.stop()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._recording.write()
        except TimeoutError:
            self.report(LogEvent.DELIVERY_RESULTS_PENDING_AT_STOP)
        await asyncio.to_thread(self._announcements.settle, _PATIENCE_S)

    def _report(self, event: LogEvent, **details: object) -> None:
        self.report(event, **details)  # the current reporter

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._store_thread, work)
