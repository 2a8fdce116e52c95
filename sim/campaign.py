"""One simulation from its start to its verdict."""

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from sim.asking import Askers, Reader
from sim.faults import Faults, Pace
from sim.judging import Outcome, outcome_of, undisturbed
from sim.market import GrowingFile, Play, days_of, growing_files, plays_of, write_past
from sim.pushing import Job, Pushing
from sim.receiving import Receiver
from sim.stage import Company, Stage
from sim.tails import fired, followed
from sim.telling import Teller
from support.engines.ports import free_ports

from outcry.access.licences import OPERATOR
from outcry.app.installation import Installation, open_installation
from outcry.app.people import people_of
from outcry.database.errors import StoreBusy
from outcry.delivery.model import Target
from outcry.delivery.subscriptions import Wish
from outcry.market.units import NANOS_PER_SECOND
from outcry.sessions.datasets import Datasets, Terms

#: Approximate trading time in a recording (s).
_RECORDED_S = 165_000.0
USERS = 3
#: Time limit (s) for all data to be processed after the last fault.
PATIENCE_S = 120.0
_LEASE_S, _COMES_THROUGH_S = 90.0, 6.0


@dataclass(frozen=True)
class Plan:
    """Plan of a simulation. `round_s`: playing time of a round of recordings (s)."""

    seed: int
    pace: Pace
    company: Company
    round_s: float = 40.0


@dataclass
class Verdict:
    """Result of a simulation: a report by line, and every difference."""

    report: list[str]
    faults: list[str]


class Campaign:
    """A simulation, run on the event loop of its process beside the processes that it kills."""

    def __init__(self, plan: Plan, folder: Path, tell: Teller) -> None:
        self._plan, self._folder, self._tell = plan, folder, tell
        self._chance = random.Random(plan.seed)
        self._receiver = Receiver(free_ports(1)[0])
        self._plays: list[Play] = []
        self._owners: dict[str, int] = {"operator": OPERATOR}
        self._taken: list[dict[str, Any]] = []
        self._some_taken = asyncio.Event()
        self._stage: Stage
        self._house: Installation
        self._days: list[date] = []
        self._files: list[GrowingFile] = []

    async def run(self) -> Verdict:
        """Run the simulation and return its verdict."""
        began_s = time.monotonic()
        loop = asyncio.get_running_loop()

        def taken(said: dict[str, Any]) -> None:
            self._taken.append(said)
            loop.call_soon_threadsafe(self._some_taken.set)

        with Stage(self._folder, self._plan.company, self._receiver.port) as stage:
            self._stage = stage
            await self._receiver.serve(stage.certificate.server)
            with open_installation(stage.settings) as installation, Pushing(taken) as pushing:
                self._house = installation
                await asyncio.to_thread(self._furnish)
                stage.open()
                return await self._simulate(pushing, began_s)

    def _furnish(self) -> None:
        """Create licences, past sessions and growing files before any process starts."""
        installation = self._house
        now_ns = installation.clock.now_ns()
        today = datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC).date()
        self._days = days_of(installation.reference, today)
        self._files = growing_files(self._folder, installation.reference, now_ns, self._plan.seed)
        self._stage.tails = [file.path for file in self._files]
        write_past(
            installation.store, installation.reference, [file.contract for file in self._files], today, now_ns
        )
        datasets = Datasets(installation.store, installation.reference.universe.products)
        terms = Terms("everyone", "", "live", (), None, None, 24, "public")
        datasets.grant(terms, now_ns, "sim")
        for file in self._files:
            file.add(now_ns, 300)

    async def _simulate(self, pushing: Pushing, began_s: float) -> Verdict:
        stage = self._stage
        faults = Faults(stage, self._plan.pace, self._chance, self._tell.line)
        askers = Askers(self._house, stage.of("api"), self._chance, lambda: faults.steady)
        beside = [asyncio.create_task(work) for work in (self._look(), self._grow(), self._examine())]
        try:
            ready_s = await self._ready()
            beside.append(asyncio.create_task(askers.run()))
            self._tell.line(f"all {len(stage.workers)} processes are ready after {ready_s:.1f} s")
            breaking = asyncio.create_task(faults.run())
            rounds = 0
            while not rounds or not breaking.done():
                await self._round(rounds, pushing, askers)
                rounds += 1
                await self._all_taken(beside)
            await breaking
            self._tell.line("nothing goes wrong any more")
            again_s = await self._ready()
            beside[1].cancel()
            differences = await self._followed(askers)
            expected = asyncio.create_task(asyncio.to_thread(self._expected))
            differences += await self._drained(expected, askers)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
        seconds = time.monotonic() - began_s
        return Verdict(
            list(self._report(faults, askers, rounds, again_s, seconds)),
            differences + self._judge(faults, askers),
        )

    # -- background work

    async def _look(self) -> None:
        while True:
            self._stage.look()
            await asyncio.sleep(0.1)

    async def _examine(self) -> None:
        """Check the readiness of each process in turn; repeat for a process that just started."""
        while True:
            for worker in self._stage.workers:
                if worker.wanted and not worker.well and not worker.paused:
                    number = worker.pid
                    ready = await asyncio.to_thread(worker.is_ready)
                    worker.well = ready and worker.wanted and not worker.paused and worker.pid == number
            await asyncio.sleep(0.1)

    async def _grow(self) -> None:
        """Append to the files as Sierra Chart does."""
        while True:
            await asyncio.sleep(self._chance.uniform(0.2, 1.5))
            for file in self._files:
                await asyncio.to_thread(file.add, self._house.clock.now_ns(), self._chance.randrange(1, 40))

    async def _ready(self) -> float:
        """Wait until every process is ready; return the time this took (s)."""
        began_s = time.monotonic()
        while unready := await asyncio.to_thread(self._stage.unready):
            if time.monotonic() - began_s > PATIENCE_S:
                said = "\n".join(f"{one.name}: {one.ask('/readyz')} {one.said}" for one in unready)
                raise RuntimeError(f"not ready after {PATIENCE_S:.0f} s: {said}")
            await asyncio.sleep(0.2)
        return time.monotonic() - began_s

    async def _round(self, number: int, pushing: Pushing, askers: Askers) -> None:
        """Begin a round: create its users, subscribe them, and push."""
        jobs: list[Job] = []
        url, days = f"http://127.0.0.1:{self._stage.spread_port}", tuple(map(str, self._days))
        for play in plays_of(number, self._plan.seed, USERS):
            role = "ingest-operator" if play.owner == "operator" else "ingest"
            pushed_by = await askers.make(play.owner, "free", role=role)
            if play.owner != "operator":
                await self._come(play, askers)
            jobs.append(Job(play, days, url, pushed_by, _RECORDED_S / self._plan.round_s))
            self._plays.append(play)
        pushing.push(jobs)
        self._tell.line(f"round {number + 1}: {len(jobs)} recordings are pushed")

    async def _come(self, play: Play, askers: Askers) -> None:
        installation = self._house
        key = await askers.make(play.owner, "admin")
        askers.good.append(key)

        def subscribe() -> int:
            now_ns = installation.clock.now_ns()
            user = installation.store.ensure_user(play.owner, now_ns)
            address = f"https://127.0.0.1:{self._receiver.port}/in/{play.owner}"
            wish = Wish(Target.HTTPS, address, "sim", (), "info")
            people_of(installation).subscriptions.add(user, wish, now_ns)
            return user

        self._owners[play.owner] = await askers.in_store(subscribe)
        shared = tuple(file.contract.root for file in self._files)
        askers.readers.append(Reader(play.owner, key, (*play.roots, *shared)))

    async def _all_taken(self, beside: Sequence[asyncio.Task[None]]) -> None:
        """Wait until every recording was pushed completely."""
        while len(self._taken) < len(self._plays):
            self._some_taken.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await self._some_taken.wait()
            for task in beside:
                if task.done():
                    task.result()

    # -- the end

    async def _followed(self, askers: Askers) -> list[str]:
        """Wait until every replica has all trades of the files; return what is missing.

        A market without trades does not stay live. So each attempt adds a trade and waits until it arrives.
        """
        began_s = time.monotonic()
        while True:
            for file in self._files:
                file.add(self._house.clock.now_ns(), 1)
            await asyncio.sleep(_COMES_THROUGH_S)
            found = await followed(self._files, self._stage, self._house, askers.readers[0].key)
            if not found or time.monotonic() - began_s > PATIENCE_S:
                return found
            self._tell.line(f"{len(found)} differences, still: {found[0][:150]}")

    def _expected(self) -> tuple[Outcome, dict[tuple[str, str, str], Any]]:
        return undisturbed(self._folder / "undisturbed", self._plays, self._days)

    async def _drained(self, expecting: asyncio.Task[tuple[Outcome, Any]], askers: Askers) -> list[str]:
        """Wait until all results are complete; return what is missing."""
        expected, profiles = await expecting
        began_s = time.monotonic()
        while True:
            try:
                found = await asyncio.to_thread(outcome_of, self._house, self._owners)
            except StoreBusy as problem:
                differences = [f"the store: {problem}"]
            else:
                keys = {owner: found.keys(owner) for owner in self._owners if owner != "operator"}
                shared = found.keys("operator")
                differences = [*found.faults(expected), *self._receiver.faults(keys, shared)]
            if not differences or time.monotonic() - began_s > PATIENCE_S:
                break
            self._tell.line(f"{len(differences)} differences, still: {differences[0][:150]}")
            await asyncio.sleep(2)
        self._expected_alerts = sum(map(len, expected.alerts.values()))
        differences += await asyncio.to_thread(fired, self._files, self._stage, self._house)
        differences += await askers.check_answers(profiles)
        differences += await askers.check()
        return differences

    def _judge(self, faults: Faults, askers: Askers) -> list[str]:
        asked = askers.asked
        found = list(asked.faults)
        found += [
            f"{worker.name} did not end {worker.stuck} times that it was told to"
            for worker in self._stage.workers
            if worker.stuck
        ]
        found += [f"{one['owner']}'s recording: {one['problem']}" for one in self._taken if "problem" in one]
        if (more := asked.over_limit(faults.replica_s)) > 0:
            found.append(f"{more} more requests passed in 60 s than a key may make")
        strange = [
            at for at in self._receiver.repeats if not any(0 <= at - s <= _LEASE_S for s in faults.delivery_s)
        ]
        if strange:
            found.append(f"{len(strange)} messages came again though nothing disturbed their delivery")
        return found

    def _report(
        self, faults: Faults, askers: Askers, rounds: int, again_s: float, seconds: float
    ) -> Iterator[str]:
        asked = askers.asked
        rows = sum(one.get("rows", 0) for one in self._taken)
        grown = sum(len(file.rows) for file in self._files)
        yield f"seed {self._plan.seed}, {seconds:.0f} s, {rounds} rounds, {len(self._stage.workers)} processes"
        yield "went wrong: " + ", ".join(f"{what} {count}" for what, count in sorted(faults.done.items()))
        yield f"pushed: {rows:,} trades of {len(self._plays)} recordings"
        yield f"followed: {grown:,} trades of {len(self._files)} files"
        yield f"alerts: {self._expected_alerts} of recordings, each recorded once"
        ids = len(self._receiver.messages)
        yield f"deliveries: {ids} messages, {len(self._receiver.repeats)} came again under the same id"
        yield "answers: " + ", ".join(
            f"{status}: {count:,}" for status, count in asked.statuses.most_common()
        )
        yield "longest: " + ", ".join(f"{status} {s:.2f} s" for status, s in sorted(asked.longest_s.items()))
        known, refused = _spread("known", asked.made_s), _spread("refused", asked.revoked_s)
        yield f"keys: {len(askers.good)} in force, {len(askers.revoked)} revoked; {known}; {refused}"
        yield f"limit: {len(asked.passed)} requests passed, {asked.limited} were told to wait"
        yield f"all ready {again_s:.1f} s after the last fault"
        yield from (f"ended by itself: {said}" for said in self._stage.ended())


def _spread(what: str, seconds: Sequence[float]) -> str:
    if not seconds:
        return f"{what}: never measured"
    return f"{what} everywhere after {sorted(seconds)[len(seconds) // 2]:.2f} s, at most {max(seconds):.2f} s"
