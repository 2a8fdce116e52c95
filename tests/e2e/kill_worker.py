"""Play recordings in processes that are killed repeatedly, then compare the result.

Run as `python -m tests.e2e.kill_worker SHARED FOLDER KILLS SEED`. It prints a line a round and a summary; exit status 1
if anything differs from an undisturbed run. The parent has all imports, and neither threads nor a database, so that a
worker starts quickly as a fork.

Half of the kills are at a random time, the other half during a particular step. A worker shows its step in memory that
it shares with the parent, one byte per step.
"""

import asyncio
import mmap
import os
import pickle
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.replay_runs import (
    ReplayRecording,
    engine_of,
    feed_of,
    outcome,
    play,
    prepare,
    replay_recordings,
)

from outcry.app.installation import open_installation
from outcry.app.settings import Settings
from outcry.live.archive import Archive
from outcry.live.runner import Runner
from outcry.live.store import LiveStore
from outcry.sessions.completed_sessions import CompletedSessions
from outcry.trades.reference_tables import load_reference

#: Parts of a worker's work, and how many of twelve aimed kills hit each; short parts get more.
AIMED = {"opening": 1, "recovery": 1, "archive": 1, "snapshot": 2, "alerts": 3, "references": 4}
PARTS = (*AIMED, "playing")
AT_FIRST = {"opening", "recovery"}
#: Time limits for the part to begin, and then for a random moment in it.
LONGEST_AIM_S, LONGEST_PART_S = 2.0, 0.003
BATCHES = (4096, 1, 97, 13, 1000)
#: Time (s) after which a worker counts as stalled.
LONGEST_S = 120.0
_MOST_LOG = 4000


class SharedSteps:
    """Current part of a worker's work, in memory shared with its parent."""

    def __init__(self) -> None:
        self._bytes = mmap.mmap(-1, len(PARTS))

    def clear(self) -> None:
        self._bytes[:] = bytes(len(PARTS))

    def set(self, part: str, *, on: bool) -> None:
        self._bytes[PARTS.index(part)] = on

    def now(self) -> list[str]:
        return [part for part, on in zip(PARTS, self._bytes[:], strict=True) if on]

    def watch(self, owner: type, name: str, part: str) -> None:
        """Record whenever a method of an object runs."""
        method = getattr(owner, name)

        if asyncio.iscoroutinefunction(method):

            async def later(*arguments: Any, **more: Any) -> Any:
                self.set(part, on=True)
                try:
                    return await method(*arguments, **more)
                finally:
                    self.set(part, on=False)

            setattr(owner, name, later)
        else:

            def at_once(*arguments: Any, **more: Any) -> Any:
                self.set(part, on=True)
                try:
                    return method(*arguments, **more)
                finally:
                    self.set(part, on=False)

            setattr(owner, name, at_once)


@dataclass(frozen=True)
class Workload:
    """Recordings that are replayed together, and the folder that is copied for them."""

    name: str
    played: tuple[ReplayRecording, ...]
    start: Path | None


def perform(
    folder: Path, workload: Workload, batch_rows: int, steps: SharedSteps, *, only_look: bool = False
) -> None:
    """Replay to the end, or only recover, and write the result to a file."""
    for owner, name, part in (
        (Runner, "recover", "recovery"),
        (LiveStore, "save_snapshots", "snapshot"),
        (LiveStore, "record_alerts", "alerts"),
        (Archive, "store", "archive"),
        (CompletedSessions, "opening", "references"),
    ):
        steps.watch(owner, name, part)

    def report(event: str, **details: object) -> None:
        sys.stderr.write(f"{event} {details}\n")

    steps.set("opening", on=True)
    with open_installation(Settings(data=str(folder))) as installation, installation.log.exclusively():
        steps.set("opening", on=False)

        async def work() -> None:
            engine = engine_of(installation, report)
            steps.set("playing", on=True)
            feeds = (
                [] if only_look else [feed_of(piece, installation, batch_rows) for piece in workload.played]
            )
            await play(engine, feeds)
            await engine.stop()
            found = outcome(installation, engine)
            whole = folder / "outcome.new"
            whole.write_bytes(pickle.dumps(found))
            whole.rename(folder / "outcome")

        asyncio.run(work())


class Worker:
    """Forked process that replays a workload."""

    def __init__(self, work: Callable[[], None], log: Path) -> None:
        sys.stdout.flush()
        self.log = log
        self.pid = os.fork()
        if self.pid == 0:
            code = 70
            try:
                handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(handle, 1)
                os.dup2(handle, 2)
                work()
                code = 0
            except BaseException:  # noqa: BLE001 - whatever it was, the parent is told
                import traceback

                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)

    def done(self) -> bool:
        """Return whether the process has ended by itself. Raises if it failed."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return False
        if status:
            raise RuntimeError(f"a worker ended with {status}: {self.log.read_text()[-_MOST_LOG:]}")
        return True

    def finish(self) -> None:
        """Wait for its end."""
        deadline_s = time.monotonic() + LONGEST_S
        while not self.done():
            if time.monotonic() > deadline_s:
                self.kill()
                raise RuntimeError(f"a worker hangs: {self.log.read_text()[-_MOST_LOG:]}")
            time.sleep(0.005)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Campaign:
    """Rounds of kills, with the number of kills by part."""

    def __init__(self, folder: Path, kills: int, seed: int) -> None:
        self.folder, self.wanted = folder, kills
        self.chance = random.Random(seed)
        self.steps = SharedSteps()
        self.kills = self.rounds = 0
        self.hit: Counter[str] = Counter()
        self.expected: dict[str, tuple[dict[str, Any], float]] = {}
        self.wrong: list[str] = []

    def undisturbed(self, workload: Workload) -> None:
        """Replay a workload without kills; store the expected result and the duration."""
        folder = self._folder_of(workload, "undisturbed")
        began_s = time.monotonic()
        Worker(lambda: perform(folder, workload, BATCHES[0], self.steps), folder / "said").finish()
        self.expected[workload.name] = _found(folder), time.monotonic() - began_s

    def round(self, workload: Workload) -> None:
        """Replay a workload to its end with kills, and compare."""
        self.rounds += 1
        # a different one each time the same workload is repeated
        batch = BATCHES[(self.rounds + self.rounds // len(BATCHES)) % len(BATCHES)]
        folder = self._folder_of(workload, f"round-{self.rounds}")
        killed, began_s = 0, time.monotonic()
        while True:
            self.steps.clear()
            worker = Worker(lambda: perform(folder, workload, batch, self.steps), folder / "said")
            if self.kills >= self.wanted:
                worker.finish()
                break
            if not self._strike(worker, self.expected[workload.name][1]):
                break
            killed += 1
        played = _found(folder)
        Worker(lambda: perform(folder, workload, batch, self.steps, only_look=True), folder / "said").finish()
        known = len(self.wrong)
        self._compare(workload, batch, "played", played)
        self._compare(workload, batch, "recovered", _found(folder))
        took_s = time.monotonic() - began_s
        say(f"round {self.rounds}: {workload.name}, batches of {batch}, {killed} kills, {took_s:.1f} s")
        if len(self.wrong) == known:
            shutil.rmtree(folder)

    def _folder_of(self, workload: Workload, name: str) -> Path:
        folder = self.folder / f"{workload.name}-{name}"
        if workload.start is not None:
            shutil.copytree(workload.start, folder)
        else:
            folder.mkdir()
        return folder

    def _strike(self, worker: Worker, whole_s: float) -> bool:
        """Kill a worker at a random moment; return False if it had already ended."""
        chance = self.chance
        aim = chance.choices(list(AIMED), list(AIMED.values()))[0] if chance.random() < 0.5 else ""
        now_s = time.monotonic()
        end_s = now_s + (LONGEST_AIM_S if aim else chance.uniform(0.0, min(1.0, 0.5 * whole_s)))
        from_s = now_s if aim in AT_FIRST else now_s + chance.uniform(0.0, 0.4)
        while (now_s := time.monotonic()) < end_s:
            if worker.done():
                return False
            if now_s > from_s and aim in self.steps.now():
                time.sleep(chance.uniform(0.0, LONGEST_PART_S))
                break
            time.sleep(0.0003)
        if worker.done():
            return False
        now = self.steps.now()
        worker.kill()
        self.kills += 1
        self.hit.update(now or ["starting"])
        return True

    def _compare(self, workload: Workload, batch: int, when: str, found: dict[str, Any]) -> None:
        expected = self.expected[workload.name][0]
        for part, want in expected.items():
            got = found[part]
            if got != want:
                self.wrong.append(
                    f"{workload.name}, batches of {batch}, {when}: {part} differ\n{_difference(want, got)}"
                )


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _found(folder: Path) -> dict[str, Any]:
    return pickle.loads((folder / "outcome").read_bytes())


def _difference(want: Any, got: Any) -> str:
    """Describe the first difference in a few lines."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key in sorted({*want, *got}):
            if want.get(key) != got.get(key):
                return f"  {key}: {_difference(want.get(key), got.get(key))}"
    if isinstance(want, list) and isinstance(got, list):
        for at, (one, other) in enumerate(zip(want, got, strict=False)):
            if one != other:
                return f"  [{at}] of {len(want)}, {len(got)}\n{_difference(one, other)}"
        return f"  {len(want)} and {len(got)}: {want[len(got) :] or got[len(want) :]!r}"[:1500]
    return f"    want {want!r:.1200}\n    got  {got!r:.1200}"


def workloads(folder: Path, all_pieces: dict[str, ReplayRecording]) -> list[Workload]:
    """Return each recording alone, then all together; those without a past start with an empty folder."""
    prepared = folder / "prepared"
    worker = Worker(lambda: prepare(prepared), folder / "prepare")
    worker.finish()
    gc, es, torn, made = (all_pieces[name] for name in ("gc", "es", "torn", "made"))
    return [
        Workload("made", (made,), prepared),
        Workload("es", (es,), None),
        Workload("gc", (gc,), None),
        Workload("torn", (torn,), None),
        Workload("all", (gc, es, made), prepared),
    ]


def main(shared: str, folder: str, kills: int, seed: int, *names: str) -> int:
    began_s = time.monotonic()
    reference = load_reference()
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(home, kills, seed)
    staged = [
        s for s in workloads(home, replay_recordings(Path(shared), reference)) if not names or s.name in names
    ]
    for workload in staged:
        campaign.undisturbed(workload)
        found, took_s = campaign.expected[workload.name]
        types = Counter(row.type.value for rows in found["alerts"].values() for row in rows)
        say(f"{workload.name}: {took_s:.1f} s undisturbed, {dict(sorted(types.items()))}")
    assert threading.active_count() == 1
    at = 0
    while campaign.kills < kills and len(campaign.wrong) < 5:
        campaign.round(staged[at % len(staged)])
        at += 1
    hits = ", ".join(f"{part} {count}" for part, count in campaign.hit.most_common())
    say(
        f"{campaign.kills} kills in {campaign.rounds} rounds, {time.monotonic() - began_s:.0f} s; during: {hits}"
    )
    for line in campaign.wrong:
        say(line)
    return 1 if campaign.wrong else 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:]))
