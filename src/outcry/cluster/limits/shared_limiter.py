"""A replica's side of limits that several processes share: what it may let pass by itself, and whom it asks.

Rules kept: a request waits for nobody as long as something is held of its subject, and otherwise for one message that
all requests of a turn share; none waits long, and none for an owner that did not answer the last one. Without an owner
a replica lets its share of the limit pass, less what it knows that others did.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from itertools import count, islice
from time import monotonic_ns
from typing import Any

import msgspec

from outcry.access.limiter import Verdict
from outcry.access.sliding_window import PASSED, Subjects, passed
from outcry.cluster.calls import BusDown, CallRefused, Calls, NobodyServes
from outcry.cluster.limits.epochs import OwnerEpochs
from outcry.cluster.limits.messages import (
    ROLES,
    Batch,
    LimitDecision,
    PassHistory,
    RecallReply,
    encode,
    owner_name,
    peer_name,
    read_answer,
    read_recall,
    replica_name,
)
from outcry.cluster.limits.peers import Peers
from outcry.cluster.limits.subject import PendingLine, SubjectState, Waiter
from outcry.cluster.presence import Presence
from outcry.live.partitions import PARTITIONS

#: How long an owner is waited for, and how often another is looked for meanwhile.
PATIENCE_S = 0.1
_TRIES = 3
#: Leases that run low are renewed together, so often; owners that do not answer are tried so often.
_RENEWING_S, _BEAT_S = 0.02, 0.25
#: Leases are renewed so long before they end.
_EARLY_NS = 1_000_000_000
_GIVING_BACK_S = 0.3
#: Subjects in one message: more would keep an owner from answering anybody else.
_LINES = 200
_PREPARED = len(PASSED)


class SharedLimiter:
    """Implements `Limiter` together with the owners of its subjects (`LimitOwner`); for one event loop,
    while `run` does. `roles`: those of processes that let requests pass. `now_ns`: a clock that is never set."""

    def __init__(
        self, calls: Calls, presence: Presence, roles: Sequence[str] = ROLES, *,
        now_ns: Callable[[], int] = monotonic_ns, max_subjects: int = 50_000,
    ) -> None:  # fmt: skip
        self._calls, self._presence, self._now_ns = calls, presence, now_ns
        self._shelves: list[dict[str, SubjectState]] = [{} for _ in range(PARTITIONS)]
        self._subjects = Subjects(self._make, max_subjects)
        self._young = self._subjects.young
        self._reigns = OwnerEpochs()
        self._peers = Peers(calls, presence, roles, self._subjects.find, now_ns)
        self._numbers = count(1)
        self._gathered: dict[str, SubjectState] = {}
        self._leases: deque[tuple[int, SubjectState]] = deque()
        self._flush_at: asyncio.Handle | None = None
        self._flush_soon = False
        self._sending = set[asyncio.Task[None]]()
        #: Verdicts given without an owner.
        self.alone = 0

    @property
    def degraded(self) -> bool:
        """Whether some subjects have no owner that answers: then only a share of their limits passes here."""
        return bool(self._reigns.lost) or not self._presence.connected

    @property
    def subjects(self) -> int:
        """How many subjects are held in memory."""
        return len(self._subjects)

    def take(self, subject: str, limit: int) -> Verdict | None:
        """See `Limiter`."""
        kept = self._young.get(subject)
        if kept is None or kept.limit != limit:
            return None
        now_ns = self._now_ns()
        left = kept.left
        if left and now_ns < kept.until_ns:
            kept.left = left - 1
            kept.untold.append(now_ns)
            kept.remaining = remaining = kept.remaining - 1
            if left == kept.low:
                self._gather(kept)
            return PASSED[remaining] if remaining < _PREPARED else passed(remaining)
        return kept.refusal(now_ns) if now_ns < kept.refused_until_ns else None

    async def ask(self, subject: str, limit: int) -> Verdict:
        """See `Limiter`."""
        kept = self._of(subject)
        if kept.limit != limit:  # what is held was lent under another
            kept.drop(next(self._numbers))
            kept.limit, kept.refused_until_ns = limit, 0
        verdict = self.take(kept.subject, limit)
        if verdict is None and kept.partition not in self._reigns.lost and self._presence.connected:
            waiter: Waiter = asyncio.get_running_loop().create_future()
            kept.waiting.append(waiter)
            self._gather(kept, soon=True)
            verdict = await waiter
        if verdict is None:
            self.alone += 1
            if self._presence.connected:
                await self._peers.divide(kept)
            verdict = kept.alone(limit, self._share(limit), self._now_ns())
        return verdict

    def recent(self, prefix: str) -> Mapping[str, int]:
        """See `Limiter`."""
        now_ns = self._now_ns()
        found = ((name, kept.own(now_ns)) for name, kept in self._subjects if name.startswith(prefix))
        return {name: now_ns - own[-1] for name, own in found if own}

    def peek(self, subject: str, limit: int) -> Verdict:
        """See `Limiter`."""
        kept = self._subjects.find(subject)
        if kept is None:
            return Verdict(allowed=limit > 0, remaining=limit, reset_ms=0, retry_after_ms=0)
        return kept.standing(limit, self._now_ns())

    async def run(self) -> None:
        """Renew leases, look for owners that do not answer, and hand over what is asked for, until cancelled; then all
        that is held is handed back."""
        partition = 0
        try:
            async with (
                self._calls.serve(replica_name(self._presence.name), self._summoned),
                self._calls.serve(peer_name(self._presence.name), self._peers.answer),
            ):
                while True:
                    await asyncio.sleep(_BEAT_S)
                    self._renew_leases()
                    partition = (partition + 1) % PARTITIONS  # so that it is known though nothing is asked
                    for one in {partition, *self._reigns.lost}:
                        self._spawn(self._send(self._untold(one), {one}, self._deadline_s()))
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GIVING_BACK_S):
                    await self._give_back()
            for sending in self._sending:
                sending.cancel()

    # -- subjects

    def _make(self, subject: str) -> SubjectState:
        kept = SubjectState(subject)
        self._shelves[kept.partition][subject] = kept
        return kept

    def _of(self, subject: str) -> SubjectState:
        if self._subjects.turn(self._now_ns()):
            self._young = self._subjects.young
            for shelf in self._shelves:
                shelf.clear()
            for name, kept in self._subjects:
                self._shelves[kept.partition][name] = kept
        return self._subjects.of(subject)

    def _share(self, limit: int) -> int:
        return min(limit, max(1, limit // len(self._peers.names)))

    # -- messages

    def _gather(self, kept: SubjectState, *, soon: bool = False) -> None:
        """Say something of a subject: with all of this turn, or soon enough."""
        self._gathered[kept.subject] = kept
        if soon and not self._flush_soon:
            if self._flush_at is not None:
                self._flush_at.cancel()
            self._flush_soon, self._flush_at = True, asyncio.get_running_loop().call_soon(self._flush)
        elif self._flush_at is None:
            self._flush_at = asyncio.get_running_loop().call_later(_RENEWING_S, self._flush)

    def _flush(self) -> None:
        self._flush_soon, self._flush_at = False, None
        gathered, self._gathered = self._gathered, {}
        asking, due = list[SubjectState](), list[SubjectState]()
        for kept in gathered.values():
            if not kept.flying:
                (asking if kept.waiting else due).append(kept)
        for kept in due[_LINES:]:  # nobody waits for these, and an owner has others to answer
            self._gather(kept)
        self._launch([*asking, *due[:_LINES]], self._deadline_s(), _TRIES)

    def _launch(self, subjects: Sequence[SubjectState], deadline_s: float, tries: int) -> None:
        """Send word of subjects, one message for each owner there is."""
        groups: dict[int | str, list[SubjectState]] = {}
        for kept in subjects:
            if kept.partition in self._reigns.lost:
                kept.flying = False
                kept.settle(None)
            else:
                groups.setdefault(self._reigns.home(kept.partition), []).append(kept)
        for group in groups.values():
            for kept in group:
                kept.flying = True
            for begin in range(0, len(group), _LINES):
                part = group[begin : begin + _LINES]
                self._spawn(self._send(part, {kept.partition for kept in part}, deadline_s, tries))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    @staticmethod
    def _deadline_s() -> float:
        return asyncio.get_running_loop().time() + PATIENCE_S

    async def _send(
        self, subjects: Sequence[SubjectState], partitions: set[int], deadline_s: float, tries: int = 1
    ) -> None:
        """Send one message, and take in the answer. Where the reign is not known the past goes with it."""
        sent_ns, number = self._now_ns(), next(self._numbers)
        unknown = partitions - self._reigns.known.keys()
        pasts = {partition: self._past(partition, number) for partition in unknown}
        reigns = {partition: self._reigns.known.get(partition, "") for partition in partitions}
        flights = [PendingLine(kept, number, sent_ns) for kept in subjects]
        batch = Batch(
            self._presence.name, sent_ns, number, reigns, pasts, [flight.line for flight in flights]
        )
        answer, retry = None, False
        try:
            async with asyncio.timeout_at(deadline_s):
                name = owner_name(subjects[0].partition if subjects else min(partitions))
                answer = read_answer(await self._calls.ask(name, encode(batch), PATIENCE_S))
        except NobodyServes:  # of that one: the others may be well
            retry = len(partitions) > 1
        except (TimeoutError, BusDown, CallRefused, msgspec.DecodeError):
            pass
        finally:
            said = {} if answer is None else answer.reigns
            owner = "" if answer is None else answer.owner
            holding = {
                one
                for one in partitions
                if self._reigns.holds(one, said.get(one, ""), owner, told=one in unknown)
            }
            rulings = [None] * len(flights) if answer is None else answer.rulings
            again = self._land(flights, rulings, holding)
            self._reigns.leave(partitions - holding)
            if answer is not None:
                self._reigns.forget(partitions - holding)
                self._found(partitions & holding)
            if (retry or answer is not None) and tries > 1:
                self._launch(again, deadline_s, tries - 1)
            else:
                self._reigns.lose(partitions - holding)
                for kept in again:
                    kept.flying = False
                    kept.settle(None)

    def _land(
        self, flights: Sequence[PendingLine], rulings: Sequence[LimitDecision | None], holding: set[int]
    ) -> list[SubjectState]:
        """Take in the rulings of owners that reign; return the subjects that have none."""
        now_ns, without = self._now_ns(), list[SubjectState]()
        for flight, ruling in zip(flights, rulings, strict=True):
            kept = flight.kept
            if ruling is None or kept.partition not in holding:
                kept.waiting[:0] = flight.waiting
                without.append(kept)
                continue
            flight.land(ruling, now_ns)
            if kept.left or kept.untold:
                self._leases.append((kept.until_ns, kept))
            self._serve_waiting(kept)
        return without

    def _untold(self, partition: int) -> list[SubjectState]:
        """Of which subjects an owner that was lost has something to hear, as far as it goes in one message."""
        if partition not in self._reigns.lost:
            return []
        kept = (kept for kept in self._shelves[partition].values() if kept.untold and not kept.flying)
        return list(islice(kept, _LINES))

    def _found(self, partitions: set[int]) -> None:
        """Their owners answer; of those that did not, the rest of what passed here meanwhile is told."""
        for partition in partitions & self._reigns.lost:
            for kept in self._untold(partition):
                self._gather(kept)
            self._reigns.lost.discard(partition)
            for kept in self._shelves[partition].values():
                kept.undivided()

    def _serve_waiting(self, kept: SubjectState) -> None:
        """Those who came while a message was under way: now something may be held, or it is known that nothing is."""
        waiting, kept.waiting = kept.waiting, []
        for waiter in waiting:
            verdict = self.take(kept.subject, kept.limit)
            if verdict is None:
                kept.waiting.append(waiter)
            elif not waiter.done():
                waiter.set_result(verdict)
        if kept.waiting:
            self._gather(kept, soon=True)

    def _past(self, partition: int, number: int) -> list[PassHistory]:
        """All that passed here of a partition's subjects; what is held of them is held no more."""
        now_ns = self._now_ns()
        for kept in self._shelves[partition].values():
            kept.drop(number)
            kept.undivided()
        pasts = (kept.past(now_ns, whole=True) for kept in self._shelves[partition].values())
        return [past for past in pasts if past.known or past.untold]

    async def _summoned(self, body: bytes) -> bytes:
        """An owner wants something back, or is new."""
        summons, number = read_recall(body), next(self._numbers)
        if summons.reign:
            self._reigns.crown(summons.partition, summons.reign, summons.owner)
            self._reigns.lost.discard(summons.partition)
            return encode(RecallReply(self._now_ns(), number, self._past(summons.partition, number)))
        now_ns, pasts = self._now_ns(), list[PassHistory]()
        for subject in summons.subjects:
            kept = self._subjects.find(subject)
            if kept is not None:
                kept.drop(number)
                pasts.append(kept.past(now_ns, whole=False))
        return encode(RecallReply(now_ns, number, pasts))

    # -- leases

    def _renew_leases(self) -> None:
        """Say something of what is held before its lease ends: whoever was there meanwhile is lent anew."""
        horizon_ns = self._now_ns() + _EARLY_NS
        while self._leases and self._leases[0][0] <= horizon_ns:
            until_ns, kept = self._leases.popleft()
            if kept.until_ns == until_ns and (kept.left or kept.untold):
                self._gather(kept)

    async def _give_back(self) -> None:
        """Hand everything back."""
        subjects = [kept for _, kept in self._subjects if (kept.left or kept.untold) and not kept.flying]
        homes: dict[str | int, list[SubjectState]] = {}
        for kept in subjects:
            kept.until_ns = kept.limit = 0  # nothing is lent anew
            if kept.partition in self._reigns.known:
                homes.setdefault(self._reigns.home(kept.partition), []).append(kept)
        sent = (
            self._send(group, {kept.partition for kept in group}, self._deadline_s())
            for group in homes.values()
        )
        await asyncio.gather(*sent)
