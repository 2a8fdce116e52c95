"""Contract of partition sets: in a single process, and shared by several over real NATS servers.

Worker processes record their ownership with the machine's monotonic time, so that overlaps can be measured.
"""

import asyncio
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from support.engines.jetstream import JetStream
from tests.contract.every_partition import EveryPartition
from tests.timeouts import until, wait_until, within

from outcry.cluster.nats.link import Link
from outcry.cluster.nats.partitions import NatsPartitions
from outcry.cluster.nats.presence import NatsPresence
from outcry.live.partitions import PARTITIONS, Partitions

ALL = frozenset(range(PARTITIONS))
#: Apparent overlap (s) of two owners that may result from reading the clock twice.
SEEN_LATE_NS = 200_000_000
#: Time (s) after which a resumed child has checked its ownership, also on a busy machine.
NOTICED_NS = 2_000_000_000


class Member:
    """Participant in this process."""

    def __init__(self, partitions: Partitions) -> None:
        self.partitions = partitions
        self.reports: list[tuple[str, dict[str, object]]] = []
        self.calls: dict[int, list[str]] = defaultdict(list)
        self.wrong: list[str] = []
        self.running: asyncio.Task[None] | None = None

    @property
    def owned(self) -> frozenset[int]:
        return self.partitions.owned

    async def gained(self, number: int) -> None:
        self._turn(number, "gained", before={"", "lost"})
        await asyncio.sleep(0)
        if number in self.owned:
            self.wrong.append(f"{number} is owned before it was taken up")

    async def lost(self, number: int) -> None:
        self._turn(number, "lost", before={"gained"})
        if number in self.owned:
            self.wrong.append(f"{number} is owned as it is let go")

    def _turn(self, number: int, word: str, before: set[str]) -> None:
        if (self.calls[number] or [""])[-1] not in before:
            self.wrong.append(f"{number}: {word} out of turn")
        self.calls[number].append(word)

    def start(self) -> None:
        self.running = asyncio.create_task(self.partitions.run(self.gained, self.lost))

    async def end(self) -> None:
        assert self.running is not None
        self.running.cancel()
        with suppress(asyncio.CancelledError):
            await self.running


@asynccontextmanager
async def member(server: JetStream) -> AsyncIterator[Member]:
    """Create a participant that has not joined yet."""
    reports: list[tuple[str, dict[str, object]]] = []

    def tell(event: str, **details: object) -> None:
        reports.append((event, details))

    async with Link(server.urls, tell) as link:
        await within(link.up(), 60)
        made = Member(NatsPartitions(link, NatsPresence(link), "engine", tell))
        made.reports = reports
        yield made
        if made.running is not None:
            await made.end()


def evenly(members: list[Member]) -> bool:
    sizes = sorted(len(each.owned) for each in members)
    every = frozenset().union(*(each.owned for each in members))
    return sum(sizes) == PARTITIONS and sizes[-1] - sizes[0] <= 1 and every == ALL


def test_who_is_alone_has_all_until_it_ends() -> None:
    async def main() -> None:
        alone = Member(EveryPartition())
        alone.start()
        await until(lambda: alone.owned == ALL, "it has all")
        await alone.end()
        assert alone.owned == frozenset()
        assert set(map(tuple, alone.calls.values())) == {("gained", "lost")}
        assert alone.wrong == []

    asyncio.run(within(main(), 60))


def test_several_have_every_partition_once_and_spread_as_they_come_and_go(jetstream: JetStream) -> None:
    async def main() -> None:
        async with member(jetstream) as one, member(jetstream) as two, member(jetstream) as three:
            for each in (one, two):
                each.start()
            await until(lambda: evenly([one, two]), "two share them")
            for _ in range(3):
                three.start()
                await until(lambda: evenly([one, two, three]), "a third has its share")
                await three.end()
                assert three.owned == frozenset()
                await until(lambda: evenly([one, two]), "the others have its partitions")
            await asyncio.gather(one.end(), two.end())
            for each in (one, two, three):
                assert each.wrong == []
                assert {calls[-1] for calls in each.calls.values()} == {"lost"}
                assert each.reports == []

    asyncio.run(within(main(), 180))


def test_who_hands_over_is_waited_for_however_long_it_takes(jetstream: JetStream) -> None:
    """The new owner waits for `lost`, although it takes longer than an unrenewed lease."""

    async def main() -> None:
        ended_s: dict[int, float] = {}
        begun_s: dict[int, float] = {}

        async def lost(number: int) -> None:
            await asyncio.sleep(2.5)
            ended_s[number] = time.monotonic()

        async def gained(number: int) -> None:
            begun_s[number] = time.monotonic()

        async with member(jetstream) as one, member(jetstream) as two:
            one.lost, two.gained, two.lost = lost, gained, _nothing  # type: ignore[method-assign]
            one.start()
            await until(lambda: one.owned == ALL, "it has all")
            two.start()
            await until(lambda: evenly([one, two]), "two share them")
            assert begun_s.keys() == ended_s.keys() == two.owned
            assert all(begun_s[number] > ended_s[number] for number in begun_s)

    asyncio.run(within(main(), 180))


def test_all_are_taken_up_beside_each_other_and_one_that_cannot_be_is_tried_again(
    jetstream: JetStream,
) -> None:
    async def main() -> None:
        under_way, tries = set[int](), 0
        together = asyncio.Event()

        async def gained(number: int) -> None:
            nonlocal tries
            under_way.add(number)
            if under_way == ALL:
                together.set()
            await together.wait()
            if number == 17:
                tries += 1
                if tries == 1:
                    raise OSError("the disk is full")

        async with member(jetstream) as one:
            one.gained, one.lost = gained, _nothing  # type: ignore[method-assign]
            one.start()
            await until(lambda: one.owned == ALL - {17}, "all but one are taken up")
            assert [event for event, _ in one.reports] == ["partition_not_acquired"]
            assert one.reports[0][1]["partition"] == 17
            began_s = time.monotonic()
            await until(lambda: one.owned == ALL, "it is, after a moment")
            assert time.monotonic() - began_s > 0.5
            assert tries == 2

    asyncio.run(within(main(), 180))


def test_with_the_bus_away_nothing_is_owned_after_a_pin_s_time_and_all_is_when_it_is_back(
    jetstream: JetStream,
) -> None:
    async def main() -> None:
        cut_short: list[int] = []

        async def gained(number: int) -> None:
            if number == 5:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cut_short.append(number)
                    raise

        async with member(jetstream) as one:
            one.gained, one.lost = gained, _nothing  # type: ignore[method-assign]
            one.start()
            await until(lambda: one.owned == ALL - {5}, "all but one are taken up")
            jetstream.kill(0)
            await until(lambda: not one.owned, "none is owned", 4)
            await until(lambda: cut_short == [5], "what was being taken up is given up")
            jetstream.start(0)
            await until(lambda: one.owned == ALL - {5}, "they are taken up again")

    asyncio.run(within(main(), 180))


async def _nothing(_: int) -> None:
    pass


class Child:
    """Participant in a separate process."""

    def __init__(self, server: JetStream, path: Path) -> None:
        self._path = path
        path.touch()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.partition_worker", server.urls, path]
        )
        #: When it was stopped, and when it ended.
        self.stood: list[tuple[int, int]] = []
        self.ended_ns: int | None = None

    @property
    def owned(self) -> frozenset[int]:
        return self.beliefs[-1][2] if self.beliefs else frozenset()

    @property
    def beliefs(self) -> list[tuple[int, int, frozenset[int]]]:
        """Return when (ns) each change of its ownership was seen, from when it applied, and the owned partitions."""
        lines = [
            line.split() for line in self._path.read_text().splitlines(keepends=True) if line[-1] == "\n"
        ]
        owned = [line for line in lines if line[1] == "owned"]
        return [
            (
                int(line[2]),
                int(line[0]),
                frozenset(map(int, "".join(line[3:]).split(",") if line[3:] else ())),
            )
            for line in owned
        ]

    def kill(self) -> None:
        self.ended_ns = time.monotonic_ns()
        self.process.kill()
        self.process.wait(60)

    def had(self) -> Iterator[tuple[int, int, int]]:
        """Return the span in which it believed to own each partition, without those in which it was stopped."""
        end_ns = self.ended_ns or time.monotonic_ns()
        beliefs = [*self.beliefs, (end_ns, end_ns, frozenset[int]())]
        for (_, begin_ns, owned), (still_ns, other_ns, _) in pairwise(beliefs):
            for stood_ns, went_on_ns in self.stood:
                if begin_ns < stood_ns < other_ns:
                    assert other_ns < went_on_ns + NOTICED_NS, "it did not notice that it stood still"
                    still_ns = min(still_ns, stood_ns)  # noqa: PLW2901
            for number in owned:
                yield number, begin_ns, still_ns


def never_two(children: list[Child]) -> None:
    """Assert that no two processes believed to own the same partition at once."""
    of = [list(child.had()) for child in children]
    for ones, others in combinations(of, 2):
        theirs: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, begin_ns, end_ns in others:
            theirs[number].append((begin_ns, end_ns))
        for number, begin_ns, end_ns in ones:
            for since_ns, until_ns in theirs[number]:
                both_ns = min(end_ns, until_ns) - max(begin_ns, since_ns)
                assert both_ns <= SEEN_LATE_NS, f"two had {number} for {both_ns / 1e9:.3f} s"


def shared_out(children: list[Child]) -> bool:
    sizes = sorted(len(child.owned) for child in children)
    return (
        sizes[-1] - sizes[0] <= 1
        and sum(sizes) == PARTITIONS
        and frozenset().union(*(child.owned for child in children)) == ALL
    )


@pytest.fixture
def children() -> Iterator[list[Child]]:
    """Collect the started processes; end the remaining ones."""
    started: list[Child] = []
    yield started
    for child in started:
        child.process.kill()
        child.process.wait(60)


def test_killed_stood_still_or_ended_its_partitions_are_others_and_never_of_two(
    jetstream: JetStream, tmp_path: Path, children: list[Child]
) -> None:
    one, two, three = (Child(jetstream, tmp_path / str(number)) for number in range(3))
    children += one, two, three
    wait_until(lambda: shared_out([one, two, three]), "three share them")

    three.kill()
    wait_until(lambda: shared_out([one, two]), "what the killed one had is others'")

    two.process.send_signal(signal.SIGSTOP)
    stood_ns = time.monotonic_ns()
    wait_until(lambda: one.owned == ALL, "what the one that stands still had is another's")
    two.process.send_signal(signal.SIGCONT)
    two.stood.append((stood_ns, time.monotonic_ns()))
    wait_until(lambda: not two.owned, "it notices")
    wait_until(lambda: shared_out([one, two]), "it has its share again")

    one.process.send_signal(signal.SIGTERM)
    wait_until(lambda: two.owned == ALL, "what one that ends had is the other's at once")
    assert one.process.wait(60) == 0
    never_two(children)


def test_a_server_of_three_that_is_killed_takes_no_partition_with_it(
    jetstream_cluster: JetStream, tmp_path: Path, children: list[Child]
) -> None:
    children += (Child(jetstream_cluster, tmp_path / str(number)) for number in range(3))
    wait_until(lambda: shared_out(children), "three share them", 60)
    jetstream_cluster.kill(0)
    wait_until(lambda: frozenset().union(*(child.owned for child in children)) != ALL, "some are nobody's")
    wait_until(lambda: shared_out(children), "all are somebody's again", 60)
    jetstream_cluster.start(0)
    jetstream_cluster.ready()
    wait_until(lambda: shared_out(children), "all are somebody's still")
    never_two(children)
