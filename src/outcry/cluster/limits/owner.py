"""The owner of request limits: it counts each subject's requests and grants leases to replicas.

A subject is what a limit applies to, such as an API key. A pass is an allowed request. A lease lets a replica allow
some requests without asking.

The passes of the last 60 seconds and the leased requests together never exceed the limit. The owner recalls leases
before it refuses a request. A pass never counts as older than it is, so it does not expire early. If a lease expires
without a report, the owner counts all of its requests as used.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from time import monotonic_ns

import msgspec

from outcry.access.limiter import WINDOW_NS
from outcry.access.sliding_window import SlidingWindowLog, Subjects, decode_entries
from outcry.base.tasks import BackgroundTasks, is_set_within
from outcry.cluster.calls import BusDown, CallRefused
from outcry.cluster.limits.messages import (
    LEASE_NS,
    ROLES,
    Answer,
    Batch,
    LeaseRecall,
    LimitDecision,
    PassHistory,
    SubjectReport,
    encode,
    owner_name,
    read_batch,
    read_recall_reply,
    replica_name,
)
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.nats.presence import NatsPresence
from outcry.live.partitions import partition_of

#: Grace period after a lease: the replica's last report may take this long.
_GRACE_NS = 1_500_000_000
_RECALL_S = 0.05
#: Longest wait (s) of a new owner for the history of one replica and of all, and of a request until the owner has them.
#: A replica that has ended is no longer announced well before the second ends.
_HISTORY_S, _HISTORIES_S = 1.0, 5.0
_ADMISSION_S = 0.06
_AGAIN_S = 0.05
_MOST_SUBJECTS = 1 << 40  # replicas limit the number of subjects
#: A lease is a tenth of the limit and at most a quarter of the remainder. A crashed replica's lease counts as used.
_OF_LIMIT, _OF_REST = 10, 4
#: No leases are granted for this long after a refusal: replicas would recall them from each other in turn.
_SCARCE_NS = 1_000_000_000
_SILENT = (BusDown, CallRefused, msgspec.DecodeError)


class _Lease:
    """The number of requests of a subject (such as an API key) that a replica may allow without asking the owner.

    number: number of the replica's newest message. seen: how many passes (allowed requests) the replica has reported.
    unresponsive: whether the replica did not answer the last recall of its lease.
    """

    __slots__ = ("leased", "number", "seen", "unresponsive", "until_ns")

    def __init__(self) -> None:
        self.leased = self.number = self.seen = self.until_ns = 0
        self.unresponsive = False


class _SubjectLog:
    """The allowed requests (passes) and the leases of one subject (API key or client address).

    `scarce_until_ns`: the owner grants no lease before this time, because it has just refused a request.
    """

    __slots__ = ("holders", "passes", "scarce_until_ns")

    def __init__(self, _subject: str) -> None:
        self.passes = SlidingWindowLog()
        self.holders: dict[str, _Lease] = {}
        self.scarce_until_ns = 0

    def advance(self, now_ns: int) -> None:
        """Drop passes older than the window. Count all requests of a lease that expired without a report as used."""
        self.passes.expire(now_ns)
        for holder in self.holders.values():
            if holder.leased and holder.until_ns <= now_ns:
                self.passes.note([holder.until_ns] * holder.leased)
                holder.leased = 0

    def hear(self, replica: str, number: int, first: int, unreported: bytes, later_ns: int) -> _Lease:
        """Count the passes that a replica reports for the first time; return the replica's lease.

        `number`: number of the replica's message. `first`, `unreported`: as in `SubjectReport`. `later_ns`: what to add
        to the replica's times to convert them to this process's clock.
        """
        holder = self.holders.get(replica)
        if holder is None:
            holder = self.holders[replica] = _Lease()
        if unreported:
            stamps = decode_entries(unreported, later_ns)
            self.passes.note(stamps[max(0, holder.seen - first) :])
            holder.seen = max(holder.seen, first + len(stamps))
        holder.unresponsive = holder.unresponsive and number <= holder.number
        return holder

    def forget(self, now_ns: int) -> None:
        """Forget replicas that have no lease and have sent no report for a whole window (60 seconds)."""
        gone = [
            name for name, one in self.holders.items() if not one.leased and one.until_ns < now_ns - WINDOW_NS
        ]
        for name in gone:
            del self.holders[name]

    @property
    def leased(self) -> int:
        """Number of requests that replicas may allow without asking (their leases)."""
        return sum(holder.leased for holder in self.holders.values())

    def other_holders(self, replica: str) -> list[str]:
        """Return the names of other replicas than `replica` that have a lease which the owner may recall."""
        return [
            name
            for name, holder in self.holders.items()
            if holder.leased and not holder.unresponsive and name != replica
        ]


class _Epoch:
    """One ownership term of a partition at this process.

    reported: replicas that have sent their allowed requests. tasks: the tasks of the partition.
    """

    def __init__(self, name: str, tasks: BackgroundTasks) -> None:
        self.name, self.tasks = name, tasks
        self.subjects = Subjects(_SubjectLog, _MOST_SUBJECTS)
        self.reported = set[str]()
        self.ready = asyncio.Event()

    def of(self, subject: str, now_ns: int) -> _SubjectLog:
        """Return the log of a subject (such as an API key), without requests that are older than the window."""
        if self.subjects.turn(now_ns):
            for _, one in self.subjects:
                one.forget(now_ns)
        counted = self.subjects.of(subject)
        counted.advance(now_ns)
        return counted

    def admit(
        self, replica: str, number: int, histories: Sequence[PassHistory], now_ns: int, later_ns: int
    ) -> None:
        """Count the requests that a replica allowed before this ownership term. Its earlier leases have ended."""
        known = replica in self.reported
        for history in histories:
            counted = self.of(history.subject, now_ns)
            if not known:
                counted.passes.note(decode_entries(history.known, later_ns))
            holder = counted.hear(replica, number, history.first, history.unreported, later_ns)
            if number > holder.number:
                holder.number, holder.leased = number, 0
        self.reported.add(replica)


class LimitOwner:
    """Count the requests that all replicas receive, for the partitions that this process owns.

    Used on one event loop. roles: the roles of processes that are replicas, that is, apply limits. now_ns: a monotonic
    clock.
    """

    def __init__(
        self, calls: NatsCalls, presence: NatsPresence, roles: Sequence[str] = ROLES, *,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:  # fmt: skip
        self._calls, self._presence, self._roles = calls, presence, roles
        self._now_ns = now_ns
        self._epochs: dict[int, _Epoch] = {}
        self._count = count(1)

    @asynccontextmanager
    async def serve(self, partition: int) -> AsyncGenerator[None]:
        """Count the requests of a partition (a share of the API keys) until the block ends.

        First ask all replicas, which apply the limits, what they have allowed, until each has answered or is no longer
        announced. A replica that does not respond within five seconds reports it with its next message.
        """
        tasks = BackgroundTasks()
        try:
            async with self._calls.serve(owner_name(partition), self._answer), tasks:
                self._begin_epoch(partition, tasks)
                yield
        finally:
            epoch = self._epochs.get(partition)
            if epoch is not None and epoch.tasks is tasks:
                del self._epochs[partition]

    def _begin_epoch(self, partition: int, tasks: BackgroundTasks) -> None:
        epoch = _Epoch(f"{self._presence.name}#{next(self._count)}", tasks)
        self._epochs[partition] = epoch
        tasks.start("limit histories", self._collect_histories(partition, epoch))

    def _begin_again(self, batch: Batch) -> None:
        """Begin a new epoch of partitions that a replica did not reach: without the owner, replicas divided limits.

        This process was stalled, or the bus was. Until it has all histories again, its counts may be too low.
        """
        for partition in batch.lost:
            epoch = self._epochs.get(partition)
            if epoch is not None and epoch.name == batch.epochs[partition]:
                self._begin_epoch(partition, epoch.tasks)

    async def _collect_histories(self, partition: int, epoch: _Epoch) -> None:
        names = dict.fromkeys(name for role in self._roles for name in self._presence.members(role))
        try:
            async with asyncio.timeout(_HISTORIES_S):
                await asyncio.gather(*(self._collect_history(name, partition, epoch) for name in names))
        except TimeoutError:
            pass  # the replica sends its history with its next request
        finally:
            epoch.ready.set()

    async def _collect_history(self, name: str, partition: int, epoch: _Epoch) -> None:
        recall = encode(LeaseRecall(self._presence.name, partition, epoch.name, []))
        while any(name in self._presence.members(role) for role in self._roles):
            try:
                returned = read_recall_reply(await self._calls.ask(replica_name(name), recall, _HISTORY_S))
            except _SILENT:
                await asyncio.sleep(_AGAIN_S)
            else:
                now_ns = self._now_ns()
                epoch.admit(name, returned.number, returned.histories, now_ns, now_ns - returned.now_ns)
                return

    async def _answer(self, body: bytes) -> bytes:
        batch = read_batch(body)
        self._begin_again(batch)
        epochs = {partition: self._epochs.get(partition) for partition in batch.epochs}
        for epoch in epochs.values():
            if epoch is not None and not epoch.ready.is_set():
                await is_set_within(epoch.ready, _ADMISSION_S)
        known = self._admitted(batch, epochs)
        now_ns = self._now_ns()
        decisions: list[LimitDecision | None] = []
        short: dict[int, _SubjectLog] = {}
        for line in batch.lines:
            epoch = known.get(partition_of(line.subject))
            if epoch is None:
                decisions.append(None)
                continue
            counted = epoch.of(line.subject, now_ns)
            decision = self._rule(counted, batch, line, now_ns)
            if decision.passed < line.asks:
                counted.scarce_until_ns = now_ns + _SCARCE_NS
                if counted.other_holders(batch.replica):
                    short[len(decisions)] = counted
            decisions.append(decision)
        if short:
            await self._recall(batch, short)
            now_ns = self._now_ns()
            for at, counted in short.items():
                counted.advance(now_ns)
                decisions[at] = _grant_more(counted, batch.lines[at], decisions[at], now_ns)
        names = {partition: known[partition].name if partition in known else "" for partition in epochs}
        starting = [
            partition for partition, one in epochs.items() if one is not None and not one.ready.is_set()
        ]
        return encode(Answer(self._presence.name, names, decisions, starting))

    def _admitted(self, batch: Batch, epochs: dict[int, _Epoch | None]) -> dict[int, _Epoch]:
        """Return the partitions whose reports in this batch the owner can decide.

        The replica must know the current epoch (ownership term) of the partition, and must have sent its history for
        that epoch.
        """
        known: dict[int, _Epoch] = {}
        for partition, epoch in epochs.items():
            if epoch is None or not epoch.ready.is_set():
                continue
            if partition in batch.histories:
                now_ns, histories = self._now_ns(), batch.histories[partition]
                epoch.admit(batch.replica, batch.number, histories, now_ns, now_ns - batch.now_ns)
                known[partition] = epoch
            elif batch.epochs[partition] == epoch.name and batch.replica in epoch.reported:
                known[partition] = epoch
        return known

    def _rule(self, counted: _SubjectLog, batch: Batch, line: SubjectReport, now_ns: int) -> LimitDecision:
        """Count the allowed requests in a report (`line`); decide on its waiting ones without recalling leases."""
        holder = counted.hear(batch.replica, batch.number, line.first, line.unreported, now_ns - batch.now_ns)
        newest = batch.number > holder.number
        if newest:
            holder.number, holder.leased, holder.until_ns = (
                batch.number,
                line.leased,
                now_ns + LEASE_NS + _GRACE_NS,
            )
        known = counted.passes.live(now_ns)
        spare = max(0, line.limit - known - counted.leased)
        passed = min(line.asks, spare)
        counted.passes.note([now_ns] * passed)
        lease_added = 0
        # a first request gets no lease: most subjects never send a second
        if newest and line.wants_lease and known and now_ns >= counted.scarce_until_ns:
            lease_added = max(0, min(line.limit // _OF_LIMIT, (spare - passed) // _OF_REST) - line.leased)
            holder.leased += lease_added
        return _decision(counted, line, passed, lease_added, now_ns)

    async def _recall(self, batch: Batch, short: dict[int, _SubjectLog]) -> None:
        """Recall other replicas' leases of API keys that have too few requests left for this batch.

        A replica that does not answer keeps its lease.
        """
        wanted: dict[str, dict[str, _SubjectLog]] = {}
        for at, counted in short.items():
            for name in counted.other_holders(batch.replica):
                wanted.setdefault(name, {})[batch.lines[at].subject] = counted
        await asyncio.gather(*(self._recall_from(name, subjects) for name, subjects in wanted.items()))

    async def _recall_from(self, name: str, subjects: dict[str, _SubjectLog]) -> None:
        recall = LeaseRecall(self._presence.name, -1, "", list(subjects))
        try:
            returned = read_recall_reply(await self._calls.ask(replica_name(name), encode(recall), _RECALL_S))
        except _SILENT:
            for counted in subjects.values():
                counted.holders[name].unresponsive = True
            return
        later_ns = self._now_ns() - returned.now_ns
        for history in returned.histories:
            counted = subjects[history.subject]
            holder = counted.hear(name, returned.number, history.first, history.unreported, later_ns)
            if returned.number > holder.number:
                holder.number, holder.leased = returned.number, 0


def _grant_more(
    counted: _SubjectLog, line: SubjectReport, decision: LimitDecision | None, now_ns: int
) -> LimitDecision | None:
    """Allow more of a report's waiting requests after other replicas have returned their leases."""
    if decision is None:
        return None
    spare = max(0, line.limit - counted.passes.live(now_ns) - counted.leased)
    more = min(line.asks - decision.passed, spare)
    counted.passes.note([now_ns] * more)
    return _decision(counted, line, decision.passed + more, decision.lease_added, now_ns)


def _decision(
    counted: _SubjectLog, line: SubjectReport, passed: int, lease_added: int, now_ns: int
) -> LimitDecision:
    passes = counted.passes
    live = passes.live(now_ns)
    reset_ns = passes[-1] + WINDOW_NS - now_ns if live else 0
    if passed == line.asks:
        retry_ns = 0
    elif line.limit == 0 and not live:
        retry_ns = WINDOW_NS
    elif live >= line.limit:
        retry_ns = passes[-line.limit if line.limit else -1] + WINDOW_NS - now_ns
    else:  # an unresponsive replica has leased the remaining requests
        retry_ns = min(_SCARCE_NS, passes[-live] + WINDOW_NS - now_ns if live else _SCARCE_NS)
    return LimitDecision(passed, lease_added, max(0, line.limit - live), reset_ns, retry_ns)
