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

from sim.clients import Clients, Reader
from sim.comparison import Outcome, read_outcome, undisturbed_outcome
from sim.faults import Faults, Pace
from sim.growing_files import alert_differences, profile_differences
from sim.market import GrowingFile, PushedRecording, days_of, growing_files, recordings_of, write_past
from sim.processes import ProcessCounts, Processes
from sim.progress import Progress
from sim.pusher import Job, Pusher
from sim.receiver import Receiver
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
    counts: ProcessCounts
    round_s: float = 40.0


@dataclass
class Verdict:
    """Result of a simulation: a report by line, and every difference."""

    report: list[str]
    faults: list[str]


class Campaign:
    """A simulation, run on the event loop of its process beside the processes that it kills."""

    def __init__(self, plan: Plan, folder: Path, progress: Progress) -> None:
        self._plan, self._folder, self._progress = plan, folder, progress
        self._chance = random.Random(plan.seed)
        self._receiver = Receiver(free_ports(1)[0])
        self._recordings: list[PushedRecording] = []
        self._owners: dict[str, int] = {"operator": OPERATOR}
        self._pushed: list[dict[str, Any]] = []
        self._some_pushed = asyncio.Event()
        self._processes: Processes
        self._installation: Installation
        self._days: list[date] = []
        self._files: list[GrowingFile] = []

    async def run(self) -> Verdict:
        """Run the simulation and return its verdict."""
        began_s = time.monotonic()
        loop = asyncio.get_running_loop()

        def pushed(result: dict[str, Any]) -> None:
            self._pushed.append(result)
            loop.call_soon_threadsafe(self._some_pushed.set)

        with Processes(self._folder, self._plan.counts, self._receiver.port) as processes:
            self._processes = processes
            await self._receiver.serve(processes.certificate.server)
            with open_installation(processes.settings) as installation, Pusher(pushed) as pusher:
                self._installation = installation
                await asyncio.to_thread(self._prepare)
                processes.open()
                return await self._simulate(pusher, began_s)

    def _prepare(self) -> None:
        """Create licences, past sessions and growing files before any process starts."""
        installation = self._installation
        now_ns = installation.clock.now_ns()
        today = datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC).date()
        self._days = days_of(installation.reference, today)
        self._files = growing_files(self._folder, installation.reference, now_ns, self._plan.seed)
        self._processes.tails = [file.path for file in self._files]
        write_past(
            installation.store, installation.reference, [file.contract for file in self._files], today, now_ns
        )
        datasets = Datasets(installation.store, installation.reference.universe.products)
        terms = Terms("everyone", "", "live", (), None, None, 24, "public")
        datasets.grant(terms, now_ns, "sim")
        for file in self._files:
            file.add(now_ns, 300)

    async def _simulate(self, pusher: Pusher, began_s: float) -> Verdict:
        processes = self._processes
        faults = Faults(processes, self._plan.pace, self._chance, self._progress.line)
        clients = Clients(self._installation, processes.of("api"), self._chance, lambda: faults.steady)
        beside = [asyncio.create_task(work) for work in (self._look(), self._grow(), self._examine())]
        try:
            ready_s = await self._ready()
            beside.append(asyncio.create_task(clients.run()))
            self._progress.line(f"all {len(processes.workers)} processes are ready after {ready_s:.1f} s")
            breaking = asyncio.create_task(faults.run())
            rounds = 0
            while not rounds or not breaking.done():
                await self._round(rounds, pusher, clients)
                rounds += 1
                await self._all_pushed(beside)
            await breaking
            self._progress.line("nothing goes wrong any more")
            again_s = await self._ready()
            beside[1].cancel()
            differences = await self._file_differences(clients)
            expected = asyncio.create_task(asyncio.to_thread(self._expected))
            differences += await self._differences(expected, clients)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
        seconds = time.monotonic() - began_s
        return Verdict(
            list(self._report(faults, clients, rounds, again_s, seconds)),
            differences + self._judge(faults, clients),
        )

    # -- background work

    async def _look(self) -> None:
        while True:
            self._processes.restart_ended()
            await asyncio.sleep(0.1)

    async def _examine(self) -> None:
        """Check the readiness of each process in turn; repeat for a process that just started."""
        while True:
            for worker in self._processes.workers:
                if worker.wanted and not worker.ready and not worker.paused:
                    number = worker.pid
                    ready = await asyncio.to_thread(worker.is_ready)
                    worker.ready = ready and worker.wanted and not worker.paused and worker.pid == number
            await asyncio.sleep(0.1)

    async def _grow(self) -> None:
        """Append to the files as Sierra Chart does."""
        while True:
            await asyncio.sleep(self._chance.uniform(0.2, 1.5))
            for file in self._files:
                await asyncio.to_thread(
                    file.add, self._installation.clock.now_ns(), self._chance.randrange(1, 40)
                )

    async def _ready(self) -> float:
        """Wait until every process is ready; return the time this took (s)."""
        began_s = time.monotonic()
        while unready := await asyncio.to_thread(self._processes.unready):
            if time.monotonic() - began_s > PATIENCE_S:
                states = "\n".join(f"{one.name}: {one.get('/readyz')} {one.output}" for one in unready)
                raise RuntimeError(f"not ready after {PATIENCE_S:.0f} s: {states}")
            await asyncio.sleep(0.2)
        return time.monotonic() - began_s

    async def _round(self, number: int, pusher: Pusher, clients: Clients) -> None:
        """Begin a round: create its users, subscribe them, and push."""
        jobs: list[Job] = []
        url, days = f"http://127.0.0.1:{self._processes.balanced_port}", tuple(map(str, self._days))
        for recording in recordings_of(number, self._plan.seed, USERS):
            role = "ingest-operator" if recording.owner == "operator" else "ingest"
            pushed_by = await clients.create_key(recording.owner, "free", role=role)
            if recording.owner != "operator":
                await self._add_user(recording, clients)
            jobs.append(Job(recording, days, url, pushed_by, _RECORDED_S / self._plan.round_s))
            self._recordings.append(recording)
        pusher.push(jobs)
        self._progress.line(f"round {number + 1}: {len(jobs)} recordings are pushed")

    async def _add_user(self, recording: PushedRecording, clients: Clients) -> None:
        installation = self._installation
        key = await clients.create_key(recording.owner, "admin")
        clients.valid.append(key)

        def subscribe() -> int:
            now_ns = installation.clock.now_ns()
            user = installation.store.ensure_user(recording.owner, now_ns)
            address = f"https://127.0.0.1:{self._receiver.port}/in/{recording.owner}"
            wish = Wish(Target.HTTPS, address, "sim", (), "info")
            people_of(installation).subscriptions.add(user, wish, now_ns)
            return user

        self._owners[recording.owner] = await clients.in_store(subscribe)
        shared = tuple(file.contract.root for file in self._files)
        clients.readers.append(Reader(recording.owner, key, (*recording.roots, *shared)))

    async def _all_pushed(self, beside: Sequence[asyncio.Task[None]]) -> None:
        """Wait until every recording was pushed completely."""
        while len(self._pushed) < len(self._recordings):
            self._some_pushed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await self._some_pushed.wait()
            for task in beside:
                if task.done():
                    task.result()

    # -- the end

    async def _file_differences(self, clients: Clients) -> list[str]:
        """Wait until every replica has all trades of the files; return what is missing.

        A market without trades does not stay live. So each attempt adds a trade and waits until it arrives.
        """
        began_s = time.monotonic()
        while True:
            for file in self._files:
                file.add(self._installation.clock.now_ns(), 1)
            await asyncio.sleep(_COMES_THROUGH_S)
            found = await profile_differences(
                self._files, self._processes, self._installation, clients.readers[0].key
            )
            if not found or time.monotonic() - began_s > PATIENCE_S:
                return found
            self._progress.line(f"{len(found)} differences, still: {found[0][:150]}")

    def _expected(self) -> tuple[Outcome, dict[tuple[str, str, str], Any]]:
        return undisturbed_outcome(self._folder / "undisturbed", self._recordings, self._days)

    async def _differences(self, expecting: asyncio.Task[tuple[Outcome, Any]], clients: Clients) -> list[str]:
        """Wait until all results are complete; return what is missing."""
        expected, profiles = await expecting
        began_s = time.monotonic()
        while True:
            try:
                found = await asyncio.to_thread(read_outcome, self._installation, self._owners)
            except StoreBusy as problem:
                differences = [f"the store: {problem}"]
            else:
                keys = {owner: found.keys(owner) for owner in self._owners if owner != "operator"}
                shared = found.keys("operator")
                differences = [*found.faults(expected), *self._receiver.faults(keys, shared)]
            if not differences or time.monotonic() - began_s > PATIENCE_S:
                break
            self._progress.line(f"{len(differences)} differences, still: {differences[0][:150]}")
            await asyncio.sleep(2)
        self._expected_alerts = sum(map(len, expected.alerts.values()))
        differences += await asyncio.to_thread(
            alert_differences, self._files, self._processes, self._installation
        )
        differences += await clients.check_answers(profiles)
        differences += await clients.check()
        return differences

    def _judge(self, faults: Faults, clients: Clients) -> list[str]:
        results = clients.results
        found = list(results.faults)
        found += [
            f"{worker.name} did not end {worker.unresponsive} times when requested"
            for worker in self._processes.workers
            if worker.unresponsive
        ]
        found += [f"{one['owner']}'s recording: {one['problem']}" for one in self._pushed if "problem" in one]
        # A process that is cut off from the others allows its share of a limit, whatever they have allowed.
        cut_off_s = [at for api in self._processes.of("api") for at in api.times_of("limits_cut_off")]
        if (more := results.over_limit([*faults.replica_s, *cut_off_s])) > 0:
            found.append(f"{more} more requests passed in 60 s than a key may make")
        strange = [
            at for at in self._receiver.repeats if not any(0 <= at - s <= _LEASE_S for s in faults.delivery_s)
        ]
        if strange:
            found.append(f"{len(strange)} messages came again though nothing disturbed their delivery")
        return found

    def _report(
        self, faults: Faults, clients: Clients, rounds: int, again_s: float, seconds: float
    ) -> Iterator[str]:
        results = clients.results
        rows = sum(one.get("rows", 0) for one in self._pushed)
        grown = sum(len(file.rows) for file in self._files)
        yield f"seed {self._plan.seed}, {seconds:.0f} s, {rounds} rounds, {len(self._processes.workers)} processes"
        yield "went wrong: " + ", ".join(f"{what} {count}" for what, count in sorted(faults.done.items()))
        yield f"pushed: {rows:,} trades of {len(self._recordings)} recordings"
        yield f"followed: {grown:,} trades of {len(self._files)} files"
        yield f"alerts: {self._expected_alerts} of recordings, each recorded once"
        ids = len(self._receiver.messages)
        yield f"deliveries: {ids} messages, {len(self._receiver.repeats)} came again under the same id"
        yield "answers: " + ", ".join(
            f"{status}: {count:,}" for status, count in results.statuses.most_common()
        )
        yield "longest: " + ", ".join(
            f"{status} {s:.2f} s" for status, s in sorted(results.longest_s.items())
        )
        known, refused = _spread("known", results.created_s), _spread("refused", results.revoked_s)
        yield f"keys: {len(clients.valid)} in force, {len(clients.revoked)} revoked; {known}; {refused}"
        yield f"limit: {len(results.passed)} requests passed, {results.limited} were rejected with 429"
        yield f"all ready {again_s:.1f} s after the last fault"
        yield from (f"ended by itself: {line}" for line in self._processes.ended())


def _spread(what: str, seconds: Sequence[float]) -> str:
    if not seconds:
        return f"{what}: never measured"
    return f"{what} everywhere after {sorted(seconds)[len(seconds) // 2]:.2f} s, at most {max(seconds):.2f} s"
