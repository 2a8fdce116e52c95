"""A recording played while the disk is full, the database locked or the clock set: it ends like an undisturbed run.

The comparison covers all of `replay_runs.outcome`: alerts with their keys, sessions, tape, levels, state and position
of every stream. Faults are random from a seed, and each must have happened.
"""

import asyncio
import errno
import os
import random
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tests.e2e.replay_runs import (
    ReplayRecording,
    engine_of,
    feed_of,
    outcome,
    play,
    prepare,
    replay_recordings,
    simulated_recording,
)

from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings
from outcry.base.clock import SystemClock
from outcry.database.database import DATABASE_FILE, Database
from outcry.database.errors import StoreBusy
from outcry.live.file_log import FileLog
from outcry.live.store import LiveStore
from outcry.market.units import NANOS_PER_SECOND
from outcry.recordings.tape import DbnWriter
from outcry.trades.reference_tables import load_reference

BATCH_ROWS = 1000
STEPS_S = (70, -70, 3600, -3600)


class RandomFaults:
    """Decides at random when a fault happens, and counts the faults."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._turn = threading.Lock()
        self.met = 0

    def strikes(self, share: float) -> bool:
        with self._turn:
            struck = self._random.random() < share or not self.met  # always the first one
            self.met += struck
            return struck

    def choose(self, among: tuple[int, ...]) -> int:
        with self._turn:
            return self._random.choice(among)


def _failing(
    owner: type, name: str, chance: RandomFaults, share: float, problem: Callable[[], Exception]
) -> Any:
    """Make a method fail at random before it does anything."""
    method = getattr(owner, name)

    def sometimes(*arguments: Any, **more: Any) -> Any:
        if chance.strikes(share):
            raise problem()
        return method(*arguments, **more)

    return patch.object(owner, name, sometimes)


def _full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _database_full() -> StoreBusy:
    return StoreBusy("database or disk is full")


class SteppedClock:
    """Clock that is stepped forward and back by 70 seconds and an hour."""

    def __init__(self, chance: RandomFaults) -> None:
        self._clock, self._chance, self._off_s = SystemClock(), chance, 0

    def now_ns(self) -> int:
        if self._chance.strikes(0.05):
            self._off_s = self._chance.choose(STEPS_S)
        return self._clock.now_ns() + self._off_s * NANOS_PER_SECOND


@contextmanager
def _locked(folder: Path, chance: RandomFaults) -> Iterator[None]:
    """Lock the database for writing from another process, repeatedly, for a fifth of a second."""
    over = threading.Event()

    def hold() -> None:
        other = sqlite3.connect(folder / DATABASE_FILE, isolation_level=None, timeout=30)
        while not over.wait(0.05):
            chance.strikes(0)
            chance.met += 1
            other.execute("BEGIN IMMEDIATE")
            over.wait(0.2)
            other.execute("ROLLBACK")
        other.close()

    holding = threading.Thread(target=hold)
    holding.start()
    try:
        yield
    finally:
        over.set()
        holding.join()


FAULTS: dict[str, Callable[[Path, RandomFaults], Any]] = {
    "log full": lambda _folder, chance: _failing(FileLog, "append_all", chance, 0.1, _full),
    "tape full": lambda _folder, chance: _failing(DbnWriter, "close", chance, 0.3, _full),
    "snapshot full": lambda _folder, chance: _failing(
        LiveStore, "save_snapshots", chance, 0.5, _database_full
    ),
    "database full": lambda _folder, chance: _failing(Database, "write", chance, 0.1, _database_full),
    "database locked": _locked,
}


def run_under_fault(folder: Path, piece: ReplayRecording, fault: str = "", seed: int = 0) -> dict[str, Any]:
    """Replay a recording under a fault, check that recovery yields the same result, and return it."""
    chance = RandomFaults(seed)

    async def work(installation: Installation, *, only_look: bool) -> dict[str, Any]:
        engine = engine_of(installation, lambda *_args, **_more: None)
        await play(engine, [] if only_look else [feed_of(piece, installation, BATCH_ROWS)])
        await engine.stop()
        return outcome(installation, engine)

    clock = SteppedClock(chance) if fault == "clock stepped" else None
    disturbing = FAULTS[fault](folder, chance) if fault in FAULTS else nullcontext()
    with (
        open_installation(Settings(data=str(folder)), clock) as installation,
        installation.log.exclusively(),
        disturbing,
    ):
        played = asyncio.run(work(installation, only_look=False))
    assert chance.met or not fault
    with open_installation(Settings(data=str(folder))) as installation, installation.log.exclusively():
        recovered = asyncio.run(work(installation, only_look=True))
    assert recovered == played
    return played


def compare(home: Path, piece: ReplayRecording, seeds: range, faults: tuple[str, ...]) -> None:
    prepared = home / "prepared"
    prepare(prepared)
    shutil.copytree(prepared, home / "undisturbed")
    want = run_under_fault(home / "undisturbed", piece)
    assert sum(map(len, want["alerts"].values())) > 0
    for fault in faults:
        for seed in seeds:
            folder = home / f"{fault}-{seed}".replace(" ", "-")
            shutil.copytree(prepared, folder)
            found = run_under_fault(folder, piece, fault, seed)
            for part, expected in want.items():
                assert found[part] == expected, f"{fault}, seed {seed}: {part}"
            shutil.rmtree(folder)


@pytest.mark.parametrize("fault", [*FAULTS, "clock stepped"])
def test_a_disturbed_run_ends_like_an_undisturbed_one(fault: str, tmp_path: Path) -> None:
    compare(tmp_path, simulated_recording(load_reference()), range(1), (fault,))


@pytest.mark.soak
@pytest.mark.parametrize("name", ["made", "es", "gc"])
def test_many_disturbed_runs_end_like_undisturbed_ones(name: str, shared: Path, tmp_path: Path) -> None:
    piece = replay_recordings(shared, load_reference())[name]
    compare(tmp_path, piece, range(1, 9), (*FAULTS, "clock stepped"))
