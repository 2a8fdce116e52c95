"""A cluster on real engines: PostgreSQL, one JetStream node, and Outcry's processes, which share this machine."""

import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.measurement import Unavailable
from bench.tape import furnish
from sim.processes import ProcessCounts, Processes

from outcry.app.installation import open_installation
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.nats.link import Link

READY_S = 180.0


@contextmanager
def cluster_processes(engines: int) -> Generator[Processes]:
    """Start a cluster with this many engines, one API replica, and past sessions for reference levels."""
    with (
        TemporaryDirectory(prefix="outcry-bench-") as place,
        Processes(Path(place), ProcessCounts(engines, 0, 1, 0), nodes=1) as processes,
    ):
        with open_installation(processes.settings) as installation:
            furnish(installation)
        processes.open()
        until = perf_counter() + READY_S
        while unready := processes.unready():
            if perf_counter() > until:
                raise Unavailable(f"{unready[0].name} did not start: {unready[0].output}")
            time.sleep(0.1)
        time.sleep(3)  # until the partitions are distributed
        yield processes


def keys(processes: Processes, count: int) -> list[str]:
    """Create keys of the highest tier."""
    with open_installation(processes.settings) as installation:
        return [
            installation.keys.create(f"bench{n}@example.com", "admin", installation.clock.now_ns())
            for n in range(count)
        ]


@asynccontextmanager
async def bus(processes: Processes) -> AsyncGenerator[NatsCalls]:
    """Connect to the cluster's engines."""
    async with Link(processes.cluster, report) as link:
        await link.up()
        yield NatsCalls(link, report)


def report(event: str, **details: object) -> None:
    """Print a log event."""
    print(f"{event} {details}", file=sys.stderr)
