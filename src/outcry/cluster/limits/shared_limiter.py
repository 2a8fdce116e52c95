"""A request limiter for one of several processes (a replica) that together apply one limit to each subject.

A subject is what a limit applies to, such as an API key. While the replica has a lease (requests it may allow by
itself), a request passes at once. Otherwise the request waits up to `PATIENCE_S` seconds for the owner, the process
that counts the subject. All requests of one event-loop turn share one message to the owner. If the owner did not
respond to the previous message, requests do not wait. The replica then allows its share of the limit, less the passes
it knows of at other replicas.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import count, islice
from time import monotonic_ns

import msgspec

from outcry.access.limiter import Verdict
from outcry.access.sliding_window import PASSED, Subjects, passed
from outcry.base.log_events import LogEvent, Report, discard
from outcry.base.tasks import BackgroundTasks, repeat
from outcry.cluster.calls import BusDown, CallRefused, NobodyServes
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
from outcry.cluster.limits.peers import Division, Peers
from outcry.cluster.limits.subject import PendingLine, SubjectState, Waiter
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.nats.presence import NatsPresence
from outcry.live.partitions import PARTITIONS

#: Longest wait for an owner, and attempts to reach one in that time.
PATIENCE_S = 0.1
_TRIES = 3
#: Longest wait for a decision while owners change; afterwards the request is refused.
_UNDECIDED_S = 1.0
#: Interval at which low leases are renewed together, and at which unavailable owners are tried.
_RENEWING_S, _BEAT_S = 0.02, 0.25
#: Leases are renewed this long before they end.
_EARLY_NS = 1_000_000_000
_RETURN_S = 0.3
#: Most subjects in one message: more would delay the owner's other answers.
_LINES = 200
_PREPARED = len(PASSED)
#: A process that has not joined the cluster does not know how many others there are, and allows this part of a limit.
_UNJOINED = 10
#: Interval at which a process that is cut off from the others logs this.
_REPORT_NS = 10_000_000_000


class SharedLimiter:
    """Implements `Limiter` by asking the owners of limits (`LimitOwner`). Used on one event loop, while `run` runs.

    roles: the roles of processes that apply limits. now_ns: a monotonic clock. max_subjects: maximum number of subjects
    in memory; see `Subjects`. report: logs that this process is cut off from the others.
    """

    def __init__(
        self, calls: NatsCalls, presence: NatsPresence, roles: Sequence[str] = ROLES, *,
        now_ns: Callable[[], int] = monotonic_ns, max_subjects: int = 50_000, report: Report = discard,
    ) -> None:  # fmt: skip
        self._calls, self._presence, self._now_ns, self.report = calls, presence, now_ns, report
        self._by_partition: list[dict[str, SubjectState]] = [{} for _ in range(PARTITIONS)]
        self._subjects = Subjects(self._make, max_subjects)
        self._young = self._subjects.young
        self._epochs = OwnerEpochs()
        self._peers = Peers(calls, presence, roles, self._subjects.find, self._reached, now_ns)
        self._numbers = count(1)
        self._queued: dict[str, SubjectState] = {}
        self._leases: deque[tuple[int, SubjectState]] = deque()
        self._flush_at: asyncio.Handle | None = None
        self._flush_soon = False
        self._sending = BackgroundTasks()
        #: The partition whose owner is probed next.
        self._probed = 0
        #: Number of verdicts given without an owner.
        self.alone = 0
        self._reported_ns = -_REPORT_NS

    @property
    def degraded(self) -> bool:
        """Whether the owner of some API keys does not respond, so that only a share of their limits is allowed here."""
        return bool(self._epochs.lost) or not self._presence.connected

    @property
    def subjects(self) -> int:
        """Number of subjects (API keys and client addresses) in memory."""
        return len(self._subjects)

    def take(self, subject: str, limit: int) -> Verdict | None:
        """Count a request against this replica's lease, or repeat the owner's last refusal while that applies.

        Return None if the owner must decide.
        """
        state = self._young.get(subject)
        if state is None or state.limit != limit:
            return None
        now_ns = self._now_ns()
        left = state.left
        if left and now_ns < state.until_ns:
            state.left = left - 1
            state.unreported.append(now_ns)
            state.remaining = remaining = state.remaining - 1
            if left == state.low:
                self._enqueue(state)
            return PASSED[remaining] if remaining < _PREPARED else passed(remaining)
        return state.refusal(now_ns) if now_ns < state.refused_until_ns else None

    async def ask(self, subject: str, limit: int) -> Verdict:
        """Ask the subject's owner whether one request may pass. Decide here if the owner is unavailable."""
        state = self._of(subject)
        if state.limit != limit:  # the lease belongs to the previous limit
            state.drop(next(self._numbers))
            state.limit, state.refused_until_ns = limit, 0
        loop = asyncio.get_running_loop()
        until_s = loop.time() + _UNDECIDED_S
        while loop.time() < until_s:
            verdict = self.take(state.subject, limit)
            if verdict is None and state.partition not in self._epochs.lost and self._presence.connected:
                waiter: Waiter = loop.create_future()
                state.waiting.append(waiter)
                self._enqueue(state, soon=True)
                verdict = await waiter
            if verdict is not None:
                return verdict
            if await self._decides_alone(state):
                self.alone += 1
                return state.alone(limit, self._share(limit), self._now_ns())
        return state.undecided(self._now_ns())

    async def _decides_alone(self, state: SubjectState) -> bool:
        """Divide the limit of an API key with the other replicas; return whether this replica then decides alone.

        It does not if an owner counts the requests: one that another replica reaches, or one that began meanwhile.
        """
        if not self._presence.connected:
            self._report_cut_off()
            return True
        division = await self._peers.divide(state)
        if division is Division.OWNED:
            return not await self._reached({state.partition}) and not self._presence.connected
        return division is not Division.RELEASED and state.partition in self._epochs.lost

    def _report_cut_off(self) -> None:
        now_ns = self._now_ns()
        if now_ns - self._reported_ns >= _REPORT_NS:
            self._reported_ns = now_ns
            self.report(LogEvent.LIMITS_CUT_OFF)

    def recent(self, prefix: str) -> Mapping[str, int]:
        """Return the time (ns) since the last allowed request, by subject.

        Contains the subjects whose name starts with `prefix`, if this process has allowed one of their requests in the
        last 60 seconds.
        """
        now_ns = self._now_ns()
        found = ((name, state.own(now_ns)) for name, state in self._subjects if name.startswith(prefix))
        return {name: now_ns - own[-1] for name, own in found if own}

    def refusal(self, subject: str, limit: int) -> Verdict | None:
        """Return the owner's last refusal if it still applies, else None. Nothing is counted."""
        state, now_ns = self._young.get(subject), self._now_ns()
        if state is None or state.limit != limit or now_ns >= state.refused_until_ns:
            return None
        return state.refusal(now_ns)

    def peek(self, subject: str, limit: int) -> Verdict:
        """Return how much of a limit is left, as far as this process knows, without counting a request."""
        state = self._subjects.find(subject)
        if state is None:
            return Verdict(allowed=limit > 0, remaining=limit, reset_ms=0, retry_after_ms=0)
        return state.standing(limit, self._now_ns())

    async def run(self) -> None:
        """Renew leases, retry unavailable owners and answer recalls until cancelled; then give back all leases."""
        try:
            async with (
                self._calls.serve(replica_name(self._presence.name), self._recalled),
                self._calls.serve(peer_name(self._presence.name), self._peers.answer),
            ):
                await asyncio.sleep(_BEAT_S)
                await repeat(self._renew_and_probe, _BEAT_S)
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(_RETURN_S):
                    await self._return_leases()
            await self._sending.stop()

    # -- subjects

    def _make(self, subject: str) -> SubjectState:
        state = SubjectState(subject)
        self._by_partition[state.partition][subject] = state
        return state

    def _of(self, subject: str) -> SubjectState:
        if self._subjects.turn(self._now_ns()):
            self._young = self._subjects.young
            for states in self._by_partition:
                states.clear()
            for name, state in self._subjects:
                self._by_partition[state.partition][name] = state
        return self._subjects.of(subject)

    def _share(self, limit: int) -> int:
        processes = len(self._peers.names) if self._presence.joined.is_set() else _UNJOINED
        return min(limit, max(1, limit // processes))

    # -- messages

    def _enqueue(self, state: SubjectState, *, soon: bool = False) -> None:
        """Queue a report on a subject for the end of this event-loop turn (`soon`) or for the next renewal."""
        self._queued[state.subject] = state
        if soon and not self._flush_soon:
            if self._flush_at is not None:
                self._flush_at.cancel()
            self._flush_soon, self._flush_at = True, asyncio.get_running_loop().call_soon(self._flush)
        elif self._flush_at is None:
            self._flush_at = asyncio.get_running_loop().call_later(_RENEWING_S, self._flush)

    def _flush(self) -> None:
        self._flush_soon, self._flush_at = False, None
        gathered, self._queued = self._queued, {}
        asking, due = list[SubjectState](), list[SubjectState]()
        for state in gathered.values():
            if not state.in_flight:
                (asking if state.waiting else due).append(state)
        for state in due[_LINES:]:  # no request waits for these, and other replicas need the owner too
            self._enqueue(state)
        self._send_grouped([*asking, *due[:_LINES]], self._deadline_s(), _TRIES)

    def _send_grouped(self, subjects: Sequence[SubjectState], deadline_s: float, tries: int) -> None:
        """Send reports on subjects, one message for each owner process."""
        groups: dict[int | str, list[SubjectState]] = {}
        for state in subjects:
            if state.partition in self._epochs.lost:
                state.in_flight = False
                state.settle(None)
            else:
                groups.setdefault(self._epochs.home(state.partition), []).append(state)
        for group in groups.values():
            for state in group:
                state.in_flight = True
            for begin in range(0, len(group), _LINES):
                part = group[begin : begin + _LINES]
                partitions = {state.partition for state in part}
                self._sending.start("limits", self._send(part, partitions, deadline_s, tries))

    @staticmethod
    def _deadline_s() -> float:
        return asyncio.get_running_loop().time() + PATIENCE_S

    async def _send(
        self, subjects: Sequence[SubjectState], partitions: set[int], deadline_s: float, tries: int = 1
    ) -> None:
        """Send one message to an owner and apply its answer.

        For partitions whose epoch (ownership term) is unknown, the message includes the requests that this replica has
        allowed.
        """
        sent_ns, number = self._now_ns(), next(self._numbers)
        unknown = partitions - self._epochs.known.keys()
        histories = {partition: self._history(partition, number) for partition in unknown}
        epochs = {partition: self._epochs.known.get(partition, "") for partition in partitions}
        pending = [PendingLine(state, number, sent_ns) for state in subjects]
        lines, lost = [one.line for one in pending], partitions & self._epochs.lost
        batch = Batch(self._presence.name, sent_ns, number, epochs, histories, lines, [*lost])
        answer, retry = None, False
        try:
            async with asyncio.timeout_at(deadline_s):
                name = owner_name(subjects[0].partition if subjects else min(partitions))
                answer = read_answer(await self._calls.ask(name, encode(batch), PATIENCE_S))
        except NobodyServes:  # the message's first partition has no owner; the others may have one
            retry = len(partitions) > 1
        except (TimeoutError, BusDown, CallRefused, msgspec.DecodeError):
            pass
        finally:
            owner_epochs = {} if answer is None else answer.epochs
            starting = set[int]() if answer is None else {*answer.starting}
            owner = "" if answer is None else answer.owner
            holding = {
                one
                for one in partitions
                if self._epochs.holds(one, owner_epochs.get(one, ""), owner, with_history=one in unknown)
            }
            decisions = [None] * len(pending) if answer is None else answer.decisions
            again = self._land(pending, decisions, holding)
            # of a partition that got another owner meanwhile, a failed call to the previous one says nothing
            missed = {
                one
                for one in partitions - holding - starting
                if self._epochs.known.get(one, "") == epochs[one]
            }
            self._epochs.leave(missed)
            if answer is not None:
                self._epochs.forget(missed)
                self._recovered(partitions & holding)
            if (retry or answer is not None) and tries > 1:
                self._send_grouped(again, deadline_s, tries - 1)
            else:
                self._epochs.lose(missed)
                for state in again:
                    state.in_flight = False
                    state.settle(None)

    def _land(
        self, pending: Sequence[PendingLine], decisions: Sequence[LimitDecision | None], holding: set[int]
    ) -> list[SubjectState]:
        """Apply an owner's decisions for the partitions that it owns; return the subjects that still need a decision.

        `pending`: the reports that were sent, in the order of `decisions`. `holding`: the partitions that the sender
        of the decisions really owns.
        """
        now_ns, without = self._now_ns(), list[SubjectState]()
        for one, decision in zip(pending, decisions, strict=True):
            state = one.state
            if decision is None or state.partition not in holding:
                state.waiting[:0] = one.waiting
                without.append(state)
                continue
            one.land(decision, now_ns)
            if state.left or state.unreported:
                self._leases.append((state.until_ns, state))
            self._serve_waiting(state)
        return without

    def _unreported(self, partition: int) -> list[SubjectState]:
        """Return subjects with allowed requests that their owner has not received, because it does not respond.

        Return none if the owner responds, else at most as many as fit in one message.
        """
        if partition not in self._epochs.lost:
            return []
        state = (
            state
            for state in self._by_partition[partition].values()
            if state.unreported and not state.in_flight
        )
        return list(islice(state, _LINES))

    def _recovered(self, partitions: set[int]) -> None:
        """Note that the owners of these partitions respond again, and report the requests allowed meanwhile."""
        for partition in partitions & self._epochs.lost:
            for state in self._unreported(partition):
                self._enqueue(state)
            self._epochs.lost.discard(partition)
            for state in self._by_partition[partition].values():
                state.undivided()

    def _serve_waiting(self, state: SubjectState) -> None:
        """Decide requests that arrived while a message was in flight, as far as the owner's answer allows."""
        waiting, state.waiting = state.waiting, []
        for waiter in waiting:
            verdict = self.take(state.subject, state.limit)
            if verdict is None:
                state.waiting.append(waiter)
            elif not waiter.done():
                waiter.set_result(verdict)
        if state.waiting:
            self._enqueue(state, soon=True)

    def _history(self, partition: int, number: int) -> list[PassHistory]:
        """Return the requests that this process allowed in a partition, by API key, and give up the keys' leases."""
        now_ns = self._now_ns()
        for state in self._by_partition[partition].values():
            state.drop(number)
            state.undivided()
        histories = (state.history(now_ns, whole=True) for state in self._by_partition[partition].values())
        return [history for history in histories if history.known or history.unreported]

    async def _recalled(self, body: bytes) -> bytes:
        """Answer a recall: give back leases, or report to a new owner the requests that this process allowed."""
        recall, number = read_recall(body), next(self._numbers)
        if recall.epoch:
            self._epochs.accept(recall.partition, recall.epoch, recall.owner)
            self._epochs.lost.discard(recall.partition)
            return encode(RecallReply(self._now_ns(), number, self._history(recall.partition, number)))
        now_ns, histories = self._now_ns(), list[PassHistory]()
        for subject in recall.subjects:
            state = self._subjects.find(subject)
            if state is not None:
                state.drop(number)
                histories.append(state.history(now_ns, whole=False))
        return encode(RecallReply(now_ns, number, histories))

    # -- leases

    async def _renew_and_probe(self) -> None:
        """Renew leases, and try unavailable owners.

        Each call also sends a message for one partition in turn, so that an unavailable owner is noticed even without
        requests.
        """
        self._renew_leases()
        self._probed = (self._probed + 1) % PARTITIONS
        for one in {self._probed, *self._epochs.lost}:
            self._sending.start("limits", self._send(self._unreported(one), {one}, self._deadline_s()))

    async def _reached(self, partitions: Collection[int]) -> Collection[int]:
        """Send each of these partitions' owners a message; return the partitions whose owner responds."""
        probes = (self._send(self._unreported(one), {one}, self._deadline_s()) for one in partitions)
        await asyncio.gather(*probes)
        return set(partitions) - self._epochs.lost

    def _renew_leases(self) -> None:
        """Report on API keys whose lease ends soon; the owner renews a lease if it was used since the last report."""
        horizon_ns = self._now_ns() + _EARLY_NS
        while self._leases and self._leases[0][0] <= horizon_ns:
            until_ns, state = self._leases.popleft()
            if state.until_ns == until_ns and (state.left or state.unreported):
                self._enqueue(state)

    async def _return_leases(self) -> None:
        """Return every lease to its owner, and report every request allowed here."""
        subjects = [
            state for _, state in self._subjects if (state.left or state.unreported) and not state.in_flight
        ]
        homes: dict[str | int, list[SubjectState]] = {}
        for state in subjects:
            state.until_ns = state.limit = 0  # the owner grants no new lease
            if state.partition in self._epochs.known:
                homes.setdefault(self._epochs.home(state.partition), []).append(state)
        sent = (
            self._send(group, {state.partition for state in group}, self._deadline_s())
            for group in homes.values()
        )
        await asyncio.gather(*sent)
