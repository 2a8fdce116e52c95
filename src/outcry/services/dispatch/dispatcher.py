"""Takes parcels from the outbox, has them sent, many at once, and keeps what became of them.

Rules kept: a lane carries one message at a time; what was sent is recorded before its lane is free; when the process
dies in between, the same message goes again under the same id. The store is asked off the event loop, by one thread,
and what happens at about the same time is written together.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from outcry.core.units import NANOS_PER_DAY, NANOS_PER_HOUR, NANOS_PER_SECOND
from outcry.ports.clock import Clock
from outcry.ports.delivery import Target
from outcry.ports.outbox import Done, Entry, EntryPhase, Outbox, Parcel
from outcry.ports.sender import Sender, Sent, Verdict
from outcry.ports.store import StoreBusy
from outcry.services.dispatch.digests import due_now
from outcry.services.dispatch.lanes import WARNED_AFTER_NS
from outcry.services.dispatch.outcomes import Became, became
from outcry.services.live.recorder import Tell, say_nothing
from outcry.services.sealing import Seal, SealBroken
from outcry.services.signing_secrets import opened

T = TypeVar("T")

#: Parcels on their way at once, of all lanes together.
MOST_UNDER_WAY = 256
#: Parcels are claimed when there is room for so many, or nothing is under way: fewer, larger transactions.
_WORTH_A_CLAIM = 64
#: A lease outlasts the longest attempt and the recording of it, so that nobody else sends the same meanwhile.
LEASE_NS = 60 * NANOS_PER_SECOND
#: How often the outbox is looked at when nobody says that something is due.
TICK_S = 0.25
_RETRY_S = 1.0
#: How long the end of the process waits for what is under way.
_PATIENCE_S = 5.0
KEPT_NS = 30 * NANOS_PER_DAY
_SWEEP_NS = NANOS_PER_HOUR


class Notices(Protocol):
    """Where a subscription's owner is told of it. Called in a thread; never raises."""

    def warned(self, parcel: Parcel, hours: int) -> None:
        """Nothing has arrived for so many hours."""
        ...

    def switched_off(self, parcel: Parcel, reason: str) -> None:
        """Nothing is sent any more."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What a dispatcher works with. `worker`: a name no other process has. `seal`: what addresses and secrets are kept
    under."""

    outbox: Outbox
    senders: Mapping[Target, Sender]
    seal: Seal
    clock: Clock
    notices: Notices
    worker: str


class Dispatcher:
    """Delivers as long as it runs, on the running event loop. `chance`: spreads retries."""

    def __init__(self, parts: Parts, *, chance: Callable[[], float] = random.random) -> None:
        self._parts, self._chance = parts, chance
        self.tell: Tell = say_nothing
        #: Attempts, by target and code.
        self.counts: Counter[tuple[Target, str]] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()
        self._done: list[Became] = []
        self._some_done = asyncio.Event()
        #: One writes at a time, so that who takes this after the last attempt knows that all are recorded.
        self._writing = asyncio.Lock()
        self._store_thread = ThreadPoolExecutor(1, "outcry-outbox")
        self._swept_ns: int | None = None

    # -- life

    def wake(self) -> None:
        """Something may be due that was not: look at once. From any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)

    async def run(self) -> None:
        """Deliver what is due, as it falls due. Never ends."""
        self._loop = asyncio.get_running_loop()
        recording = self._loop.create_task(self._record())
        try:
            while True:
                self._woken.clear()
                more = await self._claim()
                await self._pause(more=more)
                await self._sweep()
        finally:
            await self._finish()
            recording.cancel()
            await asyncio.wait([recording])

    def close(self) -> None:
        """Let the thread end."""
        self._store_thread.shutdown()

    async def step(self) -> int:
        """Deliver what is due now and record it; return how many parcels that was. For who keeps time itself."""
        await self._claim()
        tasks = list(self._under_way)
        await asyncio.gather(*tasks)
        await self._write(self._taken())
        return len(tasks)

    # -- out of the outbox

    async def _claim(self) -> bool:
        """Claim what is due, as far as there is room; return whether there may be more."""
        room = MOST_UNDER_WAY - len(self._under_way)
        parts = self._parts
        try:
            parcels = await self._in_thread(
                lambda: parts.outbox.claim(parts.worker, parts.clock.now_ns(), LEASE_NS, room)
            )
        except StoreBusy as problem:
            self.tell("the outbox cannot be read", problem=str(problem))
            await asyncio.sleep(_RETRY_S)
            return False
        for parcel in parcels:
            task = asyncio.get_running_loop().create_task(self._deliver(parcel))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        return len(parcels) == room

    async def _pause(self, *, more: bool) -> None:
        """Wait until claiming is of use: for room where there is more, else for something to fall due."""
        if more:
            while len(self._under_way) > MOST_UNDER_WAY - _WORTH_A_CLAIM:
                await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
            return
        try:
            await asyncio.wait_for(self._woken.wait(), TICK_S)
        except TimeoutError:
            return

    # -- one parcel

    async def _deliver(self, parcel: Parcel) -> None:
        began_ns = self._parts.clock.now_ns()
        rest, rest_due_ns = (), 0
        if parcel.subscription.target is Target.EMAIL:
            parcel, rest, rest_due_ns = _split(parcel, began_ns)
        if parcel.entries:
            sent = await self._send(parcel)
            self.counts[parcel.subscription.target, sent.code] += 1
            result = became(parcel, sent, began_ns, self._parts.clock.now_ns(), self._chance)
        else:  # a mail whose time has not come
            result = Became(Done(parcel, EntryPhase.WAITING, began_ns, parcel.lane, None), 0)
        if rest:
            done = replace(result.done, put_back=rest, put_back_due_ns=rest_due_ns)
            result = replace(result, done=done)
        self._keep(result)

    async def _send(self, parcel: Parcel) -> Sent:
        try:
            address, secrets = opened(self._parts.seal, parcel.subscription, self._parts.clock.now_ns())
        except SealBroken:
            return Sent(Verdict.GONE, "address_lost")
        try:
            return await self._parts.senders[parcel.subscription.target].send(parcel, address, secrets)
        except Exception as problem:  # noqa: BLE001 - a supervisor: one message's fault stops no other
            self.tell("a sender broke", target=parcel.subscription.target.value, problem=repr(problem))
            return Sent(Verdict.LATER, "our_fault")

    # -- into the outbox

    def _keep(self, result: Became) -> None:
        self._done.append(result)
        self._some_done.set()

    def _taken(self) -> Sequence[Became]:
        taken, self._done = self._done, []
        self._some_done.clear()
        return taken

    async def _record(self) -> None:
        while True:
            await self._some_done.wait()
            await self._write(self._taken())

    async def _write(self, results: Sequence[Became]) -> None:
        """Record results, however long the store is busy: a lease that runs out meanwhile costs a repeat, no more."""
        parts = self._parts
        done = [result.done for result in results]
        async with self._writing:
            while done:
                try:
                    await self._in_thread(lambda: parts.outbox.record(parts.worker, done))
                    break
                except StoreBusy as problem:
                    self.tell("the outbox cannot be written", problem=str(problem))
                    await asyncio.sleep(_RETRY_S)
            for result in results:
                await self._give_notice(result)

    async def _give_notice(self, result: Became) -> None:
        done, notices = result.done, self._parts.notices
        if done.disable:
            await self._in_thread(lambda: notices.switched_off(done.parcel, done.disable))
        elif result.warn:
            hours = WARNED_AFTER_NS[result.warn - 1] // NANOS_PER_HOUR
            await self._in_thread(lambda: notices.warned(done.parcel, hours))

    async def _sweep(self) -> None:
        """Forget what is older than it is kept, now and then."""
        now_ns = self._parts.clock.now_ns()
        if self._swept_ns is not None and abs(now_ns - self._swept_ns) < _SWEEP_NS:
            return
        self._swept_ns = now_ns
        try:
            await self._in_thread(lambda: self._parts.outbox.forget_old(now_ns - KEPT_NS))
        except StoreBusy as problem:
            self.tell("the log of deliveries cannot be cleared", problem=str(problem))

    async def _finish(self) -> None:
        """Let what is under way come to its end, as far as that is soon, and record it."""
        self._loop = None
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=_PATIENCE_S)
        for task in self._under_way:
            task.cancel()
        try:
            await asyncio.wait_for(self._write(self._taken()), _PATIENCE_S)
        except TimeoutError:
            self.tell("what was delivered last is not recorded; it goes again under the same ids")

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._store_thread, work)


def _split(parcel: Parcel, now_ns: int) -> tuple[Parcel, tuple[Entry, ...], int]:
    """A mail with those of its entries whose time has come; the others, and when theirs comes."""
    now, rest_due_ns = due_now(parcel, now_ns)
    chosen = {entry.id for entry in now}
    rest = tuple(entry for entry in parcel.entries if entry.id not in chosen)
    return replace(parcel, entries=tuple(now)), rest, rest_due_ns or 0
