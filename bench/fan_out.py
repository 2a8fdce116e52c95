"""One alert to a hundred thousand subscriptions, from one outbox in PostgreSQL, by one, two and four processes.

It measures the time to record the alert for all subscriptions, and then the time until the last message is recorded as
delivered. PostgreSQL (with fsync), the workers and the endpoints share the processors of one machine. So each result by
the clock comes with the processor time per message, which more machines would multiply. For comparison, a bare client
posts bytes signed beforehand to the same endpoints.

A worker is `python -m bench.fan_out DATABASE PORT FOLDER`; it delivers until its standard input ends.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, sleep
from typing import Any, cast

import uvloop
from bench.delivery import bare_client, bare_round
from bench.endpoints import CERTIFICATE
from bench.figures import Figure
from bench.measurement import Size
from bench.outbound import Endpoints, Worker, endpoints
from bench.processes import cpu_ns
from support.engines.postgres import Postgres

HOSTS = 20
#: Subscriptions in total, and for the symbol of the runs with fewer workers, because these take minutes too.
ALL, FEW, QUICK = 100_000, 10_000, 1_000
BARE = 3_000
#: Settings for production, except for memory.
_OPTIONS = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "256MB"}
_LIMIT_S = 600.0


def more(size: Size) -> Iterator[Figure]:
    """Measure with increasing numbers of workers."""
    few, everyone = size.of((FEW, ALL), (QUICK, 2 * QUICK), (50, 100))
    with (
        TemporaryDirectory(prefix="outcry-bench-") as place,
        endpoints(Path(place), HOSTS) as there,
        Postgres(_OPTIONS) as server,
    ):
        folder, url = Path(place), server.url(server.database())
        bare_s, bare_cpu_s = uvloop.run(_bare(there, size.of(BARE, few, few)))
        yield Figure("bare client", 1 / bare_s, "posts/s", f"{1 / bare_cpu_s:,.0f} posts/CPU-s")
        parent = Worker(folder / "parent", there, HOSTS, url)
        addresses = [there.url(number % HOSTS, f"ok/{number}") for number in range(everyone)]
        parent.subscribe(addresses, [""] * few + ["NQ"] * (everyone - few))
        rounds = ((1, "ES", few), (2, "ES", few), (4, "ES", few), (4, "NQ", everyone))
        for count, symbol, messages in size.of(rounds, rounds, ((2, "NQ", everyone),)):
            with _workers(url, there, folder, count) as pids:
                yield from _round(parent, server, there, pids, symbol, messages, bare_cpu_s)
        parent.dispatcher.close()
        parent.database.close()


async def _bare(there: Endpoints, count: int) -> tuple[float, float]:
    """Return the seconds per post, by the clock and of the processor, once connections are open."""
    addresses = [there.url(number % HOSTS, "ok") for number in range(count)]
    async with bare_client(there) as client:
        await bare_round(client, addresses)
        wall_s, cpu_s = await bare_round(client, addresses)
    there.taken()
    return wall_s / count, cpu_s / count


@contextmanager
def _workers(url: str, there: Endpoints, folder: Path, count: int) -> Generator[Sequence[int]]:
    """Run this many delivering processes for the duration of the context."""
    call = [sys.executable, "-m", "bench.fan_out", url, str(there.port), str(folder)]
    running = [subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for worker in running:
            assert worker.stdout is not None
            assert worker.stdout.readline(), "a worker did not start"
        yield [worker.pid for worker in running]
    finally:
        for worker in running:
            worker.communicate(timeout=60)


def _round(
    parent: Worker, server: Postgres, there: Endpoints, pids: Sequence[int], symbol: str, messages: int,
    bare_cpu_s: float,
) -> Iterator[Figure]:  # fmt: skip
    sleep(1.5)  # the queue collects messages for a second
    before_s, base_s = _used_s(pids), _database_s(server)
    began = perf_counter()
    parent.fire(symbol)
    entered_s = perf_counter() - began
    deadline = monotonic() + _LIMIT_S
    while left := parent.waiting():
        if monotonic() > deadline:
            raise RuntimeError(f"{left} of {messages} messages still wait")
        sleep(0.05 if messages < ALL else 0.5)
    took_s = perf_counter() - began
    came = len(there.taken())
    if came != messages:
        raise RuntimeError(f"{came} messages came, {messages} were due")
    worker_us = (_used_s(pids) - before_s) / messages * 1e6
    title = f"{len(pids)} worker{'s' * (len(pids) > 1)}, {messages:,} subscriptions"
    if symbol == "NQ":
        yield Figure(f"{title}: entered in the outbox", entered_s, "s")
        yield Figure(f"{title}: to the last delivery", took_s, "s")
    base_us = (_database_s(server) - base_s) / messages * 1e6
    spread = f"a message: worker {worker_us:.0f} µs, database {base_us:.0f} µs; "
    spread += f"bare client {bare_cpu_s * 1e6:.0f} µs, {bare_cpu_s * 1e8 / worker_us:.0f} % of the worker's"
    yield Figure(f"{title}: by the clock", messages / took_s, "messages/s", spread)


def _used_s(pids: Sequence[int]) -> float:
    return sum(cpu_ns(pid) for pid in pids) / 1e9


def _database_s(server: Postgres) -> float:
    """Return the processor seconds of the server and all its processes, including ended ones."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    ended = (int(fields[13]) + int(fields[14])) / 100
    return ended + cpu_ns(server.pid) / 1e9


# -- a worker


async def _deliver(url: str, port: int, folder: Path) -> None:
    there = Endpoints(cast("Any", None), port, folder / CERTIFICATE)
    worker = Worker(folder / f"worker{os.getpid()}", there, HOSTS, url)
    running = await worker.run()
    print("delivers", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await worker.end(running)


if __name__ == "__main__":
    uvloop.run(_deliver(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
