"""Takes messages from the outbox, has them sent, many at once, and keeps what became of them.

Rules kept: a queue carries one message at a time; what was sent is recorded before its queue is free; when the process
dies in between, the same message goes again under the same id. The store is asked off the event loop, by one thread,
and what happens at about the same time is written together. Who is slow to answer takes no place of who is not.
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
from outcry.database.errors import StoreBusy
from outcry.delivery.announcements import Announcements, Notices
from outcry.delivery.digest_timing import due_now
from outcry.delivery.model import Target
from outcry.delivery.outbox_model import KEPT_NS, SLOW_MS, Entry, Message, Outbox
from outcry.delivery.outcomes import became, expired
from outcry.delivery.result_writer import ResultWriter
from outcry.delivery.sender import Sender, SendResult, Verdict
from outcry.delivery.signing_secrets import opened
from outcry.market.units import NANOS_PER_SECOND

T = TypeVar("T")

#: Parcels on their way at once, of all queues together; and of queues whose last attempt took long.
MOST_UNDER_WAY, MOST_SLOW = 512, 128
#: Claimed at once at least, however slow the store is.
_FEWEST = 8
#: When all places are taken and one is left, others are about to be: they are filled together.
_GATHERING_S = 0.002
#: A lease outlasts the longest attempt and the recording of it, so that nobody else sends the same meanwhile.
LEASE_NS = 60 * NANOS_PER_SECOND
#: How often the outbox is looked at when nobody says that something is due.
TICK_S = 0.25
_RETRY_S = 1.0
#: How long the end of the process waits for what is under way.
_PATIENCE_S = 5.0
_SWEEP_S = 3600.0
#: How often it is said that this worker is there, and seen who is not any more.
_ATTEND_S = 2.0


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of a dispatcher. `worker`: a name unique to this process. `encryptor`: encrypts URLs and secrets."""

    outbox: Outbox
    senders: Mapping[Target, Sender]
    encryptor: Encryptor
    clock: Clock
    notices: Notices
    worker: str


class Dispatcher:
    """Delivers as long as it runs, on the running event loop. `chance`: spreads retries."""

    def __init__(self, parts: Parts, *, chance: Callable[[], float] = random.random) -> None:
        self._parts, self._chance = parts, chance
        self.report: Report = discard
        #: Attempts, by target and code.
        self.counts: Counter[tuple[Target, str]] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken, self._left = asyncio.Event(), asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()
        self._slow_under_way = 0
        #: How many are claimed at once at most: fewer while the store takes too long for so many.
        self._at_once = MOST_UNDER_WAY
        self._store_thread = ThreadPoolExecutor(1, "outcry-outbox")
        self._announcements = Announcements(parts.notices, self._report)
        self._recording = ResultWriter(parts.outbox, self._announcements, self._store_thread, self._report)
        self._missing: set[Target] = set()

    # -- life

    def wake(self) -> None:
        """Something may be due that was not: look at once. From any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)

    async def run(self) -> None:
        """Deliver what is due, as it falls due. Never ends but by a fault, and may then be begun anew: what is under
        way goes on meanwhile, and what became of it is not lost."""
        self._loop = asyncio.get_running_loop()
        turns = (self._claim_on(), self._recording.run(), self._sweep_on(), self._attend_on())
        tasks = [self._loop.create_task(turn) for turn in turns]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        except asyncio.CancelledError:
            tasks[0].cancel()
            await self._finish()
            raise
        finally:
            self._loop = None
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def close(self) -> None:
        """Let the threads end, and others know."""
        self._parts.outbox.leave()
        self._announcements.close()
        self._store_thread.shutdown()

    async def step(self) -> int:
        """Deliver what is due now, record it and have owners told; return how many messages that was. For who keeps
        time itself."""
        await self._claim()
        tasks = list(self._under_way)
        await asyncio.gather(*tasks)
        await self._recording.write()
        self._announcements.settle(_PATIENCE_S)
        return len(tasks)

    # -- out of the outbox

    async def _claim_on(self) -> None:
        while True:
            self._woken.clear()
            if await self._claim():
                await self._wait_for_room()
            else:
                await self._wait_for_more()

    async def _claim(self) -> bool:
        """Claim what is due, as far as there is room; return whether there may be more."""
        parts = self._parts
        room = min(MOST_UNDER_WAY - len(self._under_way), self._at_once)
        slow_room = min(room, max(0, MOST_SLOW - self._slow_under_way))
        try:
            messages = await self._in_thread(
                lambda: parts.outbox.claim(parts.worker, parts.clock.now_ns(), LEASE_NS, room, slow_room)
            )
        except StoreBusy as problem:
            self.report(LogEvent.OUTBOX_UNREADABLE, problem=str(problem))
            self._at_once = max(_FEWEST, self._at_once // 2)  # it may be slow, not away
            await asyncio.sleep(_RETRY_S)
            return False
        self._at_once = min(MOST_UNDER_WAY, self._at_once * 2)
        for message in messages:
            self._begin(message)
        return len(messages) == room

    def _begin(self, message: Message) -> None:
        slow = message.queue.took_ms >= SLOW_MS

        def end(task: asyncio.Task[None]) -> None:
            self._under_way.discard(task)
            self._slow_under_way -= slow
            self._left.set()

        task = asyncio.get_running_loop().create_task(self._deliver(message))
        self._under_way.add(task)
        self._slow_under_way += slow
        task.add_done_callback(end)

    async def _wait_for_room(self) -> None:
        self._left.clear()
        if len(self._under_way) >= MOST_UNDER_WAY:
            await self._left.wait()
        await asyncio.sleep(_GATHERING_S)

    async def _wait_for_more(self) -> None:
        try:
            async with asyncio.timeout(TICK_S):
                await self._woken.wait()
        except TimeoutError:
            return

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
        """A mail with those of its entries whose time has come. The others are put back before anything is sent: what
        goes again after a crash, under the same id, says the same."""
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
        result = expired(message, began_ns)
        if result is None:
            sent = await self._send(message)
            self.counts[target, sent.code] += 1
            result = became(message, sent, began_ns, clock.now_ns(), self._chance)
        else:
            self.counts[target, "expired"] += 1
        self._recording.keep(result)

    async def _send(self, message: Message) -> SendResult:
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
        """What came of a message that nothing here can send: mail, where its server was taken out of the settings."""
        if target not in self._missing:
            self._missing.add(target)
            self.report(LogEvent.MESSAGES_WITHOUT_SENDER, target=target.value)
        return SendResult(Verdict.LATER, "mail_not_set_up")

    # -- beside it

    async def _sweep_on(self) -> None:
        """Forget what is older than it is kept, now and then, by another thread: nothing waits for it."""
        while True:
            before_ns = self._parts.clock.now_ns() - KEPT_NS
            try:
                await asyncio.to_thread(self._parts.outbox.forget_old, before_ns)
            except Exception as problem:  # noqa: BLE001 - a supervisor: delivering does not depend on it
                self.report(LogEvent.DELIVERY_LOG_NOT_CLEANED, problem=str(problem))
            await asyncio.sleep(_SWEEP_S)

    async def _attend_on(self) -> None:
        """Be there, and have the messages of workers that are not any more go on. By another thread: one that waits
        long for the store holds up nothing."""
        parts = self._parts
        while True:
            try:
                freed = await asyncio.to_thread(
                    parts.outbox.report_presence, parts.worker, parts.clock.now_ns()
                )
            except StoreBusy:
                freed = 0
            except Exception as problem:  # noqa: BLE001 - a supervisor: leases run out all the same
                self.report(LogEvent.DELIVERY_WORKERS_UNKNOWN, problem=repr(problem))
                freed = 0
            if freed:
                self.report(LogEvent.MESSAGES_RECLAIMED, messages=freed)
                self._woken.set()
            await asyncio.sleep(_ATTEND_S)

    async def _finish(self) -> None:
        """Let what is under way come to its end, as far as that is soon, record it, and have owners told."""
        self._loop = None
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=_PATIENCE_S)
        for task in self._under_way:
            task.cancel()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._recording.write()
        except TimeoutError:
            self.report(LogEvent.DELIVERY_RESULTS_PENDING_AT_STOP)
        await asyncio.to_thread(self._announcements.settle, _PATIENCE_S)

    def _report(self, event: LogEvent, **details: object) -> None:
        self.report(event, **details)  # whatever that is by then

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._store_thread, work)
