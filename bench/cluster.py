"""Trades per second through the log, the fold and the answers of several engine processes.

PostgreSQL, one JetStream node, Outcry's processes and the load share the processors of one machine. So each result by
the clock comes with the processor time of the engines, which more machines would multiply.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter

import aiohttp
import msgspec
import uvloop
from bench.cluster_processes import READY_S, bus, cluster_processes, keys
from bench.figures import Figure
from bench.measurement import Scale, Size
from bench.processes import cpu_ns
from bench.tape import CAPS, DENSITY, FEEDS, contracts, first_hour, regular_hours
from sim.processes import Processes

from outcry.cluster.calls import BusDown, CallRefused
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.stream_owner.messages import ForwardedPush, push_name
from outcry.live.model import StreamKey
from outcry.market.instruments import Contract
from outcry.trades.feed import CaughtUp, Event, Trades
from outcry.trades.push_format import Origin, Push, write_push
from outcry.trades.records import Quality, Rows
from outcry.trades.reference_tables import load_reference

#: Rows of an event, and events of a push.
BATCH, EVENTS = 256, 8
_TIMEOUT_S = 10.0


def more(size: Size) -> Iterator[Figure]:
    """Measure increasing numbers of engines, each on a new cluster."""
    for engines in size.of((1, 2, 4), (1, 2), (1,)):
        with cluster_processes(engines) as processes:
            yield from uvloop.run(_throughput(processes, size))


@dataclass
class Line:
    """One stream on its way to its owner: the events of each push, and the number already pushed."""

    key: StreamKey
    pushes: list[tuple[Event, ...]]
    sent: int = 0

    async def push(self, calls: NatsCalls, number: int) -> None:
        """Push until all events are taken, even if the owner changes."""
        events = self.pushes[number]
        push = Push("0" * 32, self.key.contract, CAPS, self.sent, events)
        body = msgspec.msgpack.encode(
            ForwardedPush(self.key.owner, self.key.feed, Origin.RUNNER, write_push(push))
        )
        self.sent += len(events)
        taken = 0
        while taken < self.sent:
            try:
                taken = msgspec.msgpack.decode(
                    await calls.ask(push_name(self.key), body, _TIMEOUT_S), type=int
                )
            except BusDown:
                await asyncio.sleep(0.02)
            except CallRefused as refusal:
                if refusal.details.get("reason") != "occupied":
                    raise RuntimeError(f"{self.key.text}: {refusal.code} {refusal.details}") from refusal
                await asyncio.sleep(0.02)


def _line(feed: str, contract: Contract, rows: Rows) -> Line:
    """Return a stream whose first push has the first hour; later pushes have `EVENTS` events of `BATCH` rows."""
    head = first_hour(rows)
    opening = (CaughtUp(int(rows["ts_event"][0]) - 1, Quality.TICKS), Trades(rows[:head]))
    each = [Trades(rows[at : at + BATCH]) for at in range(head, len(rows), BATCH)]
    pushes = [tuple(each[at : at + EVENTS]) for at in range(0, len(each), EVENTS)]
    return Line(StreamKey(0, feed, contract), [opening, *pushes])


async def _throughput(processes: Processes, size: Size) -> list[Figure]:
    reference = load_reference()
    rows = {c: regular_hours(reference, c, size.of(DENSITY, 1, 1)) for c in contracts(reference)}
    if size.scale is not Scale.WHOLE:
        more = size.of(0, 2_000, 200)
        rows = {c: each[: first_hour(each) + more] for c, each in rows.items()}
    lines = [_line(feed, c, each) for feed in FEEDS for c, each in rows.items()]
    key = keys(processes, 1)[0]
    async with bus(processes) as calls:
        await asyncio.gather(*(line.push(calls, 0) for line in lines))
        engines = processes.of("engine")
        before, began = [cpu_ns(worker.pid) / 1e9 for worker in engines], perf_counter()

        async def whole(line: Line) -> None:
            for number in range(1, len(line.pushes)):
                await line.push(calls, number)

        await asyncio.gather(*(whole(line) for line in lines))
        taken_s = perf_counter() - began
        last = {c.root: int(each["ts_event"][-1]) for c, each in rows.items()}
        await _answered(processes, key, last)
        answered_s = perf_counter() - began
        used = [cpu_ns(worker.pid) / 1e9 - one for worker, one in zip(engines, before, strict=True)]
    count = sum(len(each) - first_hour(each) for each in rows.values()) * len(FEEDS)
    title = f"{len(engines)} engine{'s' * (len(engines) > 1)}, {len(lines)} streams"
    spread = f"{count:,} trades in {answered_s:.1f} s, taken after {taken_s:.1f} s; engines' processor time "
    spread += ", ".join(f"{seconds:.1f}" for seconds in used) + " s"
    return [
        Figure(f"{title}: log, fold, answers, by the clock", count / answered_s / 1e6, "M trades/s", spread),
        Figure(f"{title}: of an engine's processor", count / sum(used) / 1e6, "M trades/CPU-s"),
    ]


async def _answered(processes: Processes, key: str, last_ns: Mapping[str, int]) -> None:
    """Wait until a replica's answers include the last trade of each root."""
    api = processes.of("api")[0]
    async with aiohttp.ClientSession(headers={"x-api-key": key}) as session:
        for root, at_ns in last_ns.items():
            until = perf_counter() + READY_S
            while (said := await _updated(session, api.port, root)) is None or said < at_ns // 10**6:
                if perf_counter() > until:
                    raise RuntimeError(f"{root} is answered as of {said}, not {at_ns // 10**6}")
                await asyncio.sleep(0.02)


async def _updated(session: aiohttp.ClientSession, port: int, root: str) -> int | None:
    """Return the `updatedAt` of a root's live answer, in ms UTC."""
    async with session.get(f"http://127.0.0.1:{port}/api/levels?symbol={root}") as answer:
        said = (await answer.json()).get("updatedAt")
    return round(datetime.fromisoformat(said).timestamp() * 1000) if said else None
