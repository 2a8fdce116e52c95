"""Processor time and memory of other processes, from `/proc`."""

from collections.abc import Iterator
from pathlib import Path


def cpu_ns(pid: int) -> int:
    """Return the processor time of a process, its threads and its children (ns)."""
    used = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        used += int((task / "schedstat").read_text().split()[0])
        used += sum(cpu_ns(int(child)) for child in (task / "children").read_text().split())
    return used


def waited_ns(pid: int) -> int:
    """Return how long the threads of a process were ready but waited for a processor (ns)."""
    return sum(int(line.split()[1]) for line in _schedules(pid))


def pss_bytes(pid: int) -> int:
    """Return the proportional share of memory of a process (PSS)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _schedules(pid: int) -> Iterator[str]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        yield (task / "schedstat").read_text()
