"""The owner of limits: the one log of each subject's passes, and what of the limit is lent to replicas.

Rules kept: what has passed within 60 seconds and what is lent never come to more than the limit, and nothing is refused
before what is lent was asked back. A pass is noted no earlier than it was. What a silent replica was lent counts as
passed when the lease ends.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from time import monotonic_ns

import msgspec

from outcry.access.limiter import WINDOW_NS
from outcry.access.sliding_window import SlidingWindowLog, Subjects, heard
from outcry.cluster.calls import BusDown, CallRefused, Calls
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
from outcry.cluster.presence import Presence
from outcry.live.partitions import partition_of

#: How much longer than a replica an owner counts a lease: word of what became of it may take so long.
_GRACE_NS = 1_500_000_000
_RECALL_S = 0.05
#: How long replicas are given to tell a new owner what they let pass, and how long their requests wait for that.
_HEARING_S = 1.0
_ADMISSION_S = 0.06
_MOST_SUBJECTS = 1 << 40  # replicas see to it that there are not too many
#: A lease is a tenth of the limit, while that is a quarter of what is left: so many are lost to a replica that dies.
_OF_LIMIT, _OF_REST = 10, 4
#: Once somebody asked for more than was left, for so long nobody is lent anything: they would take it in turns.
_SCARCE_NS = 1_000_000_000
_SILENT = (BusDown, CallRefused, msgspec.DecodeError)


class _Lease:
    """What one replica holds of a subject. number: its newest message; seen: passes it told of; deaf: it did not
    answer."""

    __slots__ = ("deaf", "keeps", "number", "seen", "until_ns")

    def __init__(self) -> None:
        self.keeps = self.number = self.seen = self.until_ns = 0
        self.deaf = False


class _SubjectLog:
    """One subject: what passed, and who holds what. scarce_until_ns: until then nothing of it is lent."""

    __slots__ = ("holders", "passes", "scarce_until_ns")

    def __init__(self, _subject: str) -> None:
        self.passes = SlidingWindowLog()
        self.holders: dict[str, _Lease] = {}
        self.scarce_until_ns = 0

    def advance(self, now_ns: int) -> None:
        """Drop what left the window; what was lent to somebody silent has passed, as far as anybody knows."""
        self.passes.expire(now_ns)
        for holder in self.holders.values():
            if holder.keeps and holder.until_ns <= now_ns:
                self.passes.note([holder.until_ns] * holder.keeps)
                holder.keeps = 0

    def hear(self, replica: str, number: int, first: int, untold: bytes, later_ns: int) -> _Lease:
        """Enter passes that a replica tells of, unless it did before. Return what is known of it."""
        holder = self.holders.get(replica)
        if holder is None:
            holder = self.holders[replica] = _Lease()
        if untold:
            stamps = heard(untold, later_ns)
            self.passes.note(stamps[max(0, holder.seen - first) :])
            holder.seen = max(holder.seen, first + len(stamps))
        holder.deaf = holder.deaf and number <= holder.number
        return holder

    def forget(self, now_ns: int) -> None:
        """Forget replicas that hold nothing and have not been heard of for a window."""
        gone = [
            name for name, one in self.holders.items() if not one.keeps and one.until_ns < now_ns - WINDOW_NS
        ]
        for name in gone:
            del self.holders[name]

    @property
    def lent(self) -> int:
        """How many requests replicas hold."""
        return sum(holder.keeps for holder in self.holders.values())

    def lenders(self, replica: str) -> list[str]:
        """Who else holds something and may be asked for it."""
        return [
            name
            for name, holder in self.holders.items()
            if holder.keeps and not holder.deaf and name != replica
        ]


class _Epoch:
    """One partition while it is this owner's. heard: replicas that told what they let pass before."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.subjects = Subjects(_SubjectLog, _MOST_SUBJECTS)
        self.heard = set[str]()
        self.ready = asyncio.Event()

    def of(self, subject: str, now_ns: int) -> _SubjectLog:
        """A subject as it stands now."""
        if self.subjects.turn(now_ns):
            for _, one in self.subjects:
                one.forget(now_ns)
        counted = self.subjects.of(subject)
        counted.advance(now_ns)
        return counted

    def admit(
        self, replica: str, number: int, pasts: Sequence[PassHistory], now_ns: int, later_ns: int
    ) -> None:
        """Hear what a replica let pass before this reign; what it held it does not hold any more."""
        known = replica in self.heard
        for past in pasts:
            counted = self.of(past.subject, now_ns)
            if not known:
                counted.passes.note(heard(past.known, later_ns))
            holder = counted.hear(replica, number, past.first, past.untold, later_ns)
            if number > holder.number:
                holder.number, holder.keeps = number, 0
        self.heard.add(replica)


class LimitOwner:
    """Counts for all replicas, of the partitions it serves; for one event loop. `roles`: those of processes that ask.
    `now_ns`: a clock that is never set."""

    def __init__(
        self, calls: Calls, presence: Presence, roles: Sequence[str] = ROLES, *,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:  # fmt: skip
        self._calls, self._presence, self._roles = calls, presence, roles
        self._now_ns = now_ns
        self._reigns: dict[int, _Epoch] = {}
        self._count = count(1)

    @asynccontextmanager
    async def serve(self, partition: int) -> AsyncGenerator[None]:
        """Count for a partition until the block ends. The replicas there are tell first what they let pass; those that
        do not within a second do when they are heard of."""
        reign = _Epoch(f"{self._presence.name}#{next(self._count)}")
        self._reigns[partition] = reign
        try:
            async with self._calls.serve(owner_name(partition), self._answer):
                hearing = asyncio.get_running_loop().create_task(self._hear_all(partition, reign))
                try:
                    yield
                finally:
                    hearing.cancel()
        finally:
            if self._reigns.get(partition) is reign:
                del self._reigns[partition]

    async def _hear_all(self, partition: int, reign: _Epoch) -> None:
        names = {name for role in self._roles for name in self._presence.members(role)}
        try:
            async with asyncio.timeout(_HEARING_S):
                await asyncio.gather(*(self._hear(name, partition, reign) for name in names))
        except TimeoutError:
            pass  # it is heard when it asks for something
        finally:
            reign.ready.set()

    async def _hear(self, name: str, partition: int, reign: _Epoch) -> None:
        summons = LeaseRecall(self._presence.name, partition, reign.name, [])
        try:
            said = await self._calls.ask(replica_name(name), encode(summons), _HEARING_S)
            returned = read_recall_reply(said)
        except _SILENT:
            return
        now_ns = self._now_ns()
        reign.admit(name, returned.number, returned.pasts, now_ns, now_ns - returned.now_ns)

    async def _answer(self, body: bytes) -> bytes:
        batch = read_batch(body)
        reigns = {partition: self._reigns.get(partition) for partition in batch.reigns}
        for reign in reigns.values():
            if reign is not None and not reign.ready.is_set():
                await _wait_briefly(reign.ready)
        known = self._admitted(batch, reigns)
        now_ns = self._now_ns()
        rulings: list[LimitDecision | None] = []
        short: dict[int, _SubjectLog] = {}
        for line in batch.lines:
            reign = known.get(partition_of(line.subject))
            if reign is None:
                rulings.append(None)
                continue
            counted = reign.of(line.subject, now_ns)
            ruling = self._rule(counted, batch, line, now_ns)
            if ruling.passed < line.asks:
                counted.scarce_until_ns = now_ns + _SCARCE_NS
                if counted.lenders(batch.replica):
                    short[len(rulings)] = counted
            rulings.append(ruling)
        if short:
            await self._recall(batch, short)
            now_ns = self._now_ns()
            for at, counted in short.items():
                counted.advance(now_ns)
                rulings[at] = _grant_more(counted, batch.lines[at], rulings[at], now_ns)
        said = {partition: known[partition].name if partition in known else "" for partition in reigns}
        return encode(Answer(self._presence.name, said, rulings))

    def _admitted(self, batch: Batch, reigns: dict[int, _Epoch | None]) -> dict[int, _Epoch]:
        """Of which partitions this replica may be ruled on: where it knows the reign, and the reign its past."""
        known: dict[int, _Epoch] = {}
        for partition, reign in reigns.items():
            if reign is None or not reign.ready.is_set():
                continue
            if partition in batch.pasts:
                now_ns, pasts = self._now_ns(), batch.pasts[partition]
                reign.admit(batch.replica, batch.number, pasts, now_ns, now_ns - batch.now_ns)
                known[partition] = reign
            elif batch.reigns[partition] == reign.name and batch.replica in reign.heard:
                known[partition] = reign
        return known

    def _rule(self, counted: _SubjectLog, batch: Batch, line: SubjectReport, now_ns: int) -> LimitDecision:
        """Hear one line and answer it, with what is there."""
        holder = counted.hear(batch.replica, batch.number, line.first, line.untold, now_ns - batch.now_ns)
        newest = batch.number > holder.number
        if newest:
            holder.number, holder.keeps, holder.until_ns = (
                batch.number,
                line.keeps,
                now_ns + LEASE_NS + _GRACE_NS,
            )
        known = counted.passes.live(now_ns)
        spare = max(0, line.limit - known - counted.lent)
        passed = min(line.asks, spare)
        counted.passes.note([now_ns] * passed)
        lent = 0
        # Who comes once is lent nothing: most never come again.
        if newest and line.lend and known and now_ns >= counted.scarce_until_ns:
            lent = max(0, min(line.limit // _OF_LIMIT, (spare - passed) // _OF_REST) - line.keeps)
            holder.keeps += lent
        return _decision(counted, line, passed, lent, now_ns)

    async def _recall(self, batch: Batch, short: dict[int, _SubjectLog]) -> None:
        """Ask for what others hold of subjects that have too little left. Who does not answer keeps it."""
        wanted: dict[str, dict[str, _SubjectLog]] = {}
        for at, counted in short.items():
            for name in counted.lenders(batch.replica):
                wanted.setdefault(name, {})[batch.lines[at].subject] = counted
        await asyncio.gather(*(self._recall_from(name, subjects) for name, subjects in wanted.items()))

    async def _recall_from(self, name: str, subjects: dict[str, _SubjectLog]) -> None:
        summons = LeaseRecall(self._presence.name, -1, "", list(subjects))
        try:
            returned = read_recall_reply(
                await self._calls.ask(replica_name(name), encode(summons), _RECALL_S)
            )
        except _SILENT:
            for counted in subjects.values():
                counted.holders[name].deaf = True
            return
        later_ns = self._now_ns() - returned.now_ns
        for past in returned.pasts:
            counted = subjects[past.subject]
            holder = counted.hear(name, returned.number, past.first, past.untold, later_ns)
            if returned.number > holder.number:
                holder.number, holder.keeps = returned.number, 0


def _grant_more(
    counted: _SubjectLog, line: SubjectReport, ruling: LimitDecision | None, now_ns: int
) -> LimitDecision | None:
    """Let more of a line's requests pass, now that there is more."""
    if ruling is None:
        return None
    spare = max(0, line.limit - counted.passes.live(now_ns) - counted.lent)
    more = min(line.asks - ruling.passed, spare)
    counted.passes.note([now_ns] * more)
    return _decision(counted, line, ruling.passed + more, ruling.lent, now_ns)


def _decision(
    counted: _SubjectLog, line: SubjectReport, passed: int, lent: int, now_ns: int
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
    else:  # somebody holds the rest and does not answer
        retry_ns = min(_SCARCE_NS, passes[-live] + WINDOW_NS - now_ns if live else _SCARCE_NS)
    return LimitDecision(passed, lent, max(0, line.limit - live), reset_ns, retry_ns)


async def _wait_briefly(event: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(_ADMISSION_S):
            await event.wait()
    except TimeoutError:
        pass
