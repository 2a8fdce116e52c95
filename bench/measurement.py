"""Measurement methods of the benches: alternatives in turn, so that disturbances affect all; children by rusage.

A rate is of the best round, because noise only adds time. The spread of the rounds is printed beside it.
"""

import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TypeVar

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


class Size(Enum):
    """Size of a bench: full, quick, or the minimum that shows that it runs."""

    WHOLE, QUICK, SMOKE = range(3)

    def of(self, whole: T, quick: T, smoke: T) -> T:
        """Return the amount for this size."""
        return (whole, quick, smoke)[self.value]


class Unavailable(Exception):
    """A bench cannot run here. The message states what is missing and how to install it."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of results. `target` None: a figure for comparison only."""

    name: str
    value: float
    unit: str
    spread: str = ""
    target: float | None = None
    at_least: bool = True

    @property
    def reached(self) -> bool:
        """Return whether the target was reached; True without a target."""
        if self.target is None:
            return True
        return self.value >= self.target if self.at_least else self.value <= self.target

    def __str__(self) -> str:
        line = f"{self.name:<58} {_shown(self.value):>8} {self.unit:<14}"
        if self.target is not None:
            sign = "≥" if self.at_least else "≤"
            line += f" target {sign} {_shown(self.target)}: {'reached' if self.reached else 'MISSED'}"
        return line + (f"  ({self.spread})" if self.spread else "")


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of the rounds of one alternative."""

    rounds: tuple[float, ...]

    @property
    def best(self) -> float:
        """Return the fastest round."""
        return min(self.rounds)

    @property
    def median(self) -> float:
        """Return the median round."""
        return statistics.median(self.rounds)

    def rates(self, count: int, scale: float = 1e6) -> str:
        """Return median and worst round as text, as rates of `count` items times 1 / `scale`."""
        middle, worst = (count / t / scale for t in (self.median, max(self.rounds)))
        return f"median {_shown(middle)}, worst {_shown(worst)}, {len(self.rounds)} rounds"

    def __str__(self) -> str:
        return f"best {self.best:.3f} s, median {self.median:.3f}, worst {max(self.rounds):.3f}"


async def within(work: Awaitable[T], limit_s: float) -> T:
    """Wait for a coroutine, cancelled after `limit_s` seconds. Raises `TimeoutError`."""
    async with asyncio.timeout(limit_s):
        return await work


def in_turn(rounds: int, **alternatives: Callable[[], object]) -> dict[str, Times]:
    """Time alternatives in turn, once each round, after one uncounted warm-up round."""
    taken: dict[str, list[float]] = {name: [] for name in alternatives}
    for number in range(rounds + 1):
        for name, work in alternatives.items():
            began = perf_counter()
            work()
            if number:
                taken[name].append(perf_counter() - began)
    return {name: Times(tuple(times)) for name, times in taken.items()}


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
    wall, cpu, peak, status, said = json.loads(done.stdout)
    if status:
        raise RuntimeError(f"{' '.join(command)[:80]} ended with {status}:\n{said}")
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
    """Return the `outcry` command beside this interpreter."""
    path = Path(sys.executable).parent / "outcry"
    if not path.exists():
        raise Unavailable(f"{path} is not there: make install")
    return str(path)


def machine() -> list[str]:
    """Describe the machine of the measurements."""
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    memory = next((int(line.split()[1]) >> 20 for line in _lines("/proc/meminfo")), 0)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return [
        f"{os.cpu_count()} × {cpu}, {memory} GiB, {platform.system()} {platform.release()}; load before: {load}",
        f"{platform.python_implementation()} {platform.python_version()}; "
        + ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
    ]


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []
