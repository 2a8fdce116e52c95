"""Methods of measurement: alternatives in turn within each round, so that other load affects all alike.

A figure is the median of the rounds. The best round is printed beside it, because noise only adds cost.
"""

import asyncio
import json
import os
import platform
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import TypeVar

from bench.figures import Rounds

LIBRARIES = ("numpy", "databento-dbn", "zstandard", "uvicorn", "uvloop", "starlette", "msgspec")

#: Runs between us and the child, because a child's peak memory starts at that of the process that forked it.
_LAUNCHER = """
import json, os, resource, subprocess, sys, time
began = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
wall = time.perf_counter() - began
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, done.returncode, done.stderr]))
"""


T = TypeVar("T")


class Scale(Enum):
    """Size of the inputs: full, quick, or the minimum that shows that a bench runs."""

    WHOLE, QUICK, SMOKE = range(3)


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the inputs of a bench, and the number of rounds of its ratios."""

    scale: Scale
    rounds: int

    def of(self, whole: T, quick: T, smoke: T) -> T:
        """Return the amount for this size."""
        return (whole, quick, smoke)[self.scale.value]


#: Rounds of each scale, unless the command names a number.
ROUNDS = {Scale.WHOLE: 7, Scale.QUICK: 3, Scale.SMOKE: 1}


class Unavailable(Exception):
    """A bench cannot run here. The message states what is missing and how to install it."""


async def within(work: Awaitable[T], limit_s: float) -> T:
    """Wait for a coroutine, cancelled after `limit_s` seconds. Raises `TimeoutError`."""
    async with asyncio.timeout(limit_s):
        return await work


def in_turn(rounds: int, **alternatives: Callable[[], object]) -> dict[str, Rounds]:
    """Measure alternatives in turn, once each round, after one uncounted warm-up round: processor seconds of each."""
    taken: dict[str, list[float]] = {name: [] for name in alternatives}
    for number in range(rounds + 1):
        for name, work in alternatives.items():
            began = process_time()
            work()
            if number:
                taken[name].append(process_time() - began)
    return {name: Rounds.of(costs) for name, costs in taken.items()}


@dataclass(frozen=True, slots=True)
class Child:
    """Cost of a child process: seconds by the clock, seconds of processor, peak memory in bytes."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def run_child(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Child:
    """Run a command to its end. Raises `RuntimeError` with its output if it fails."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", _LAUNCHER, *command],
        env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    wall, cpu, peak, status, errors = json.loads(done.stdout)
    if status:
        raise RuntimeError(f"{' '.join(command)[:80]} ended with {status}:\n{errors}")
    return Child(wall, cpu, peak)


@contextmanager
def pinned() -> Generator[None]:
    """Pin this process to its last processor for the duration of the context."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def installed_command() -> str:
    """Return the `outcry` command beside this interpreter, so that both are of one form."""
    path = Path(sys.executable).parent / "outcry"
    if not path.exists():
        raise Unavailable(f"{path} is not there: make install")
    return str(path)


def machine() -> list[str]:
    """Describe the machine, the libraries and the form of the program under test."""
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    memory = next((int(line.split()[1]) >> 20 for line in _lines("/proc/meminfo")), 0)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    form = subprocess.run([installed_command(), "--version"], stdout=subprocess.PIPE, text=True, check=True)
    return [
        f"{os.cpu_count()} × {cpu}, {memory} GiB, {platform.system()} {platform.release()}; load before: {load}",
        f"{platform.python_implementation()} {platform.python_version()}; "
        + ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
        f"Outcry {' '.join(form.stdout.split())}",
    ]


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []
