"""Failover: the time from killing the process that owns streams to the next answer of each."""

import asyncio
import statistics
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from datetime import time as time_of_day
from itertools import cycle, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import aiohttp
import uvloop
from bench.cluster_processes import bus, cluster_processes, keys
from bench.figures import Figure, at_most
from bench.measurement import Size
from bench.tape import DAY, Gate, TapeFeed, contracts, regular_hours
from sim.processes import Processes

from outcry.agent import feed_runner
from outcry.app.cluster_feeds import own_spool
from outcry.base.log_events import discard
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.remote_streams import RemoteStreams
from outcry.cluster.stream_owner.client import StreamOwnerClient
from outcry.live.registry import Registry
from outcry.trades.reference_tables import load_reference

#: A pause in the changes of answers (s) counts as caused by the kill if it is longer than this.
_PAUSE_S = 0.6


def more(size: Size) -> Iterator[Figure]:
    """Kill owners among three engines."""
    with cluster_processes(3) as processes:
        yield uvloop.run(_failover(processes, size.of(5, 1, 1)))


async def _failover(processes: Processes, kills: int) -> Figure:
    reference = load_reference()
    rows = {c: regular_hours(reference, c) for c in contracts(reference)}
    gate = Gate(len(rows))
    gate.opened.set()
    feed = TapeFeed("left", rows, 1, gate, pace_s=0.1)
    made = keys(processes, 2 * len(rows))
    changed: dict[str, list[float]] = {contract.root: [] for contract in rows}
    gone: list[float] = []
    async with bus(processes) as calls, aiohttp.ClientSession() as session:
        tasks = [asyncio.create_task(_brought(calls, feed))]
        tasks += [
            asyncio.create_task(_watched(session, processes, root, made[2 * at : 2 * at + 2], times))
            for at, (root, times) in enumerate(changed.items())
        ]
        for number in range(kills):
            await asyncio.sleep(8)
            for task in tasks:
                if task.done():
                    task.result()  # raises the error of the task
            worker = processes.of("engine")[number % 3]
            worker.kill()
            killed_s = perf_counter()
            await asyncio.sleep(10)
            gone += [_ends_s(times, killed_s) for times in changed.values()]
            worker.start()
            while not worker.is_ready():
                await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    hit = [seconds for seconds in gone if seconds]
    spread = (
        f"{kills} kills of one of three, {len(hit)} streams were its; median {statistics.median(hit):.2f}"
    )
    return Figure("owner killed: until the next answer, at worst", max(hit), "s", spread, goal=at_most(3))


def _ends_s(times: Sequence[float], killed_s: float) -> float:
    """Return when the longest pause of a stream's answers around a kill ended, in seconds after it.

    Return 0 if there was no pause.
    """
    near = [killed_s - 0.3, *(at for at in times if killed_s - 0.3 <= at <= killed_s + 10), killed_s + 10]
    pause_s, end_s = max((after - before, after) for before, after in pairwise(near))
    return end_s - killed_s if pause_s > _PAUSE_S else 0.0


class _Closing:
    """Stays at the end of the tape's day, because trades from the future are refused. Implements `Clock`."""

    def now_ns(self) -> int:
        """Return the end of the tape's day (ns UTC)."""
        return int(datetime.combine(DAY, time_of_day(21), UTC).timestamp()) * 10**9


async def _brought(calls: NatsCalls, feed: TapeFeed) -> None:
    """Send a feed to its owners as a process of the role `feeds` does."""
    reference = load_reference()
    market = feed_runner.MarketContext(reference.universe, reference.calendar, _Closing())
    with TemporaryDirectory(prefix="outcry-bench-") as place, own_spool(Path(place)) as spool:
        streams = RemoteStreams(spool, StreamOwnerClient(calls), market, Registry(), lambda: False, discard)
        streams.attach(0, feed)
        await streams.run()


async def _watched(
    session: aiohttp.ClientSession, processes: Processes, root: str, keys: Sequence[str], times: list[float]
) -> None:
    """Record the time of each change of an answer, polling ten times a second."""
    api, seen = processes.of("api")[0], ""
    for key in cycle(keys):
        url = f"http://127.0.0.1:{api.port}/api/levels?symbol={root}"
        async with session.get(url, headers={"x-api-key": key}) as answer:
            said = str((await answer.json()).get("updatedAt"))
        if answer.status == 200 and said not in {seen, "None"}:
            seen = said
            times.append(perf_counter())
        await asyncio.sleep(0.1)
