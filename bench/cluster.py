"""Several processes on real engines: throughput, recovery from a long log, failover and agreement of replicas.

It measures trades per second through log, fold and answers, and the time to read a long log. It measures the time from
killing an owner to the next answer of its streams. It also compares a replica's answers with those of a single process.

PostgreSQL, one JetStream node, Outcry's processes and the load share the processors of one machine. So each result by
the clock comes with the processor time of the engines, which more machines would multiply.
"""

import asyncio
import os
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from datetime import time as time_of_day
from itertools import cycle, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import aiohttp
import msgspec
import uvloop
from bench import serving
from bench.latency import cpu_ns
from bench.market import write_recording
from bench.measurement import Figure, Size, Unavailable, installed_command
from bench.tape import (
    CAPS,
    DAY,
    DENSITY,
    FEEDS,
    Gate,
    TapeFeed,
    contracts,
    first_hour,
    furnish,
    regular_hours,
    sent,
)
from sim.processes import ProcessCounts, Processes
from support.engines.jetstream import JetStream
from support.engines.ports import free_ports
from support.engines.postgres import Postgres

from outcry.access import key_format as form
from outcry.agent import feed_runner
from outcry.app.cluster_feeds import own_spool
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import read_settings
from outcry.base.log_events import discard
from outcry.cluster.calls import BusDown, CallRefused
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.nats.link import Link
from outcry.cluster.nats.log import JetStreamLog
from outcry.cluster.nats.thread import LinkThread
from outcry.cluster.remote_streams import RemoteStreams
from outcry.cluster.stream_owner.client import StreamOwnerClient
from outcry.cluster.stream_owner.messages import ForwardedPush, push_name
from outcry.live.archive import Archive
from outcry.live.engine import Engine, Market, Stores
from outcry.live.model import StreamKey
from outcry.live.registry import Registry
from outcry.market.instruments import Contract
from outcry.trades.feed import CaughtUp, Event, Trades
from outcry.trades.push_format import Origin, Push, write_push
from outcry.trades.records import Quality, Rows
from outcry.trades.reference_tables import load_reference

#: Rows of an event, and events of a push.
BATCH, EVENTS = 256, 8
LONG_LOG = 5_000_000
READY_S = 180.0
_TIMEOUT_S = 10.0
#: A pause in the changes of answers (s) counts as caused by the kill if it is longer than this.
_PAUSE_S = 0.6


def run(size: Size) -> Iterator[Figure]:
    """Measure the four, each on new engines."""
    yield from _reads(size)
    for engines in size.of((1, 2, 4), (1, 2), (1,)):
        with _cluster_processes(engines) as processes:
            yield from uvloop.run(_throughput(processes, size))
    yield from _recovery(size.of(LONG_LOG, 200_000, 20_000))
    with _cluster_processes(3) as processes:
        yield from uvloop.run(_failover(processes, size.of(5, 1, 1)))


@contextmanager
def _cluster_processes(engines: int) -> Generator[Processes]:
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


def _keys(processes: Processes, count: int) -> list[str]:
    with open_installation(processes.settings) as installation:
        return [
            installation.keys.create(f"bench{n}@example.com", "admin", installation.clock.now_ns())
            for n in range(count)
        ]


# -- pushing


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


@asynccontextmanager
async def _bus(processes: Processes) -> AsyncGenerator[NatsCalls]:
    async with Link(processes.cluster, _say) as link:
        await link.up()
        yield NatsCalls(link, _say)


def _say(event: str, **details: object) -> None:
    print(f"{event} {details}", file=sys.stderr)


async def _throughput(processes: Processes, size: Size) -> list[Figure]:
    reference = load_reference()
    rows = {c: regular_hours(reference, c, size.of(DENSITY, 1, 1)) for c in contracts(reference)}
    if size is not Size.WHOLE:
        more = size.of(0, 2_000, 200)
        rows = {c: each[: first_hour(each) + more] for c, each in rows.items()}
    lines = [_line(feed, c, each) for feed in FEEDS for c, each in rows.items()]
    key = _keys(processes, 1)[0]
    async with _bus(processes) as calls:
        await asyncio.gather(*(line.push(calls, 0) for line in lines))
        engines = processes.of("engine")
        before, began = [_cpu_s(worker.pid) for worker in engines], perf_counter()

        async def whole(line: Line) -> None:
            for number in range(1, len(line.pushes)):
                await line.push(calls, number)

        await asyncio.gather(*(whole(line) for line in lines))
        taken_s = perf_counter() - began
        last = {c.root: int(each["ts_event"][-1]) for c, each in rows.items()}
        await _answered(processes, key, last)
        answered_s = perf_counter() - began
        used = [_cpu_s(worker.pid) - one for worker, one in zip(engines, before, strict=True)]
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


def _cpu_s(pid: int) -> float:
    return cpu_ns(pid) / 1e9


# -- a long log


class _NoSnapshots:
    """Stores no snapshots, so that every log is read from its beginning. Implements `Snapshots`."""

    def save_snapshots(self, rows: Sequence[tuple[str, int, bytes]]) -> None:
        """Do nothing."""

    def snapshot(self, key: str) -> tuple[int, bytes] | None:
        """Return None, because no snapshot is stored."""

    def forget_snapshot(self, key: str) -> None:
        """Do nothing."""


def _recovery(count: int) -> Iterator[Figure]:
    """Fill a log through an engine, then read all of it with another."""
    with TemporaryDirectory(prefix="outcry-bench-") as place, JetStream(1) as server:
        settings = read_settings({}, data=place)
        with open_installation(settings) as installation, LinkThread(server.urls, _say) as thread:
            furnish(installation)
            log = JetStreamLog(thread, _say)
            fold_s, played, kept = uvloop.run(_filled(_engine(installation, log), installation, count))
            yield Figure(
                "one engine alone, into the log", played / fold_s / 1e6, "M trades/s", f"{played:,} trades"
            )
            log = JetStreamLog(thread, _say)
            began = perf_counter()
            size = sum(len(frame.blob) for name in log.keys() for frame in log.read(name, 0))  # noqa: SIM118
            read_s = perf_counter() - began
            yield Figure(
                "the log read, nothing done with it",
                kept / read_s / 1e6,
                "M trades/s",
                f"{size / 1e6:.0f} MB",
            )
        with open_installation(settings) as installation, LinkThread(server.urls, _say) as thread:
            engine = _engine(installation, JetStreamLog(thread, _say))
            began = perf_counter()
            uvloop.run(_started(engine))
            took_s = perf_counter() - began
            yield Figure(
                "recovery: the log read and folded",
                kept / took_s / 1e6,
                "M trades/s",
                f"{kept:,} trades in {took_s:.1f} s",
            )


def _engine(installation: Installation, log: JetStreamLog) -> Engine:
    archive = Archive(lambda: installation.importer, installation.reference.calendar.session_at)
    stores = Stores(log, _NoSnapshots(), installation.alerts, installation.store, archive)
    market = Market(
        installation.reference.universe,
        installation.reference.calendar,
        installation.clock,
        installation.licences.of_user,
    )
    return Engine(stores, market, installation.registry, _say)


async def _filled(engine: Engine, installation: Installation, count: int) -> tuple[float, int, int]:
    """Play at least this many trades; return the seconds, the number of trades, and the number in the log."""
    rows = {c: regular_hours(installation.reference, c) for c in contracts(installation.reference)}
    density = -(-count // (len(FEEDS) * sent(list(rows.values()))))
    rows = {c: regular_hours(installation.reference, c, density) for c in rows}
    gate = Gate(len(FEEDS) * len(rows))
    await engine.start()
    feeds = [engine.attach(0, TapeFeed(name, rows, BATCH, gate)) for name in FEEDS]
    await gate.all_there.wait()
    began = perf_counter()
    gate.opened.set()
    await asyncio.gather(*feeds)
    await engine.drained()
    took_s = perf_counter() - began
    await engine.stop()
    each = list(rows.values())
    return took_s, len(FEEDS) * sent(each), len(FEEDS) * sum(map(len, each))


async def _started(engine: Engine) -> None:
    await engine.start()
    await engine.stop()


# -- killing an owner


async def _failover(processes: Processes, kills: int) -> list[Figure]:
    reference = load_reference()
    rows = {c: regular_hours(reference, c) for c in contracts(reference)}
    gate = Gate(len(rows))
    gate.opened.set()
    feed = TapeFeed("left", rows, 1, gate, pace_s=0.1)
    keys = _keys(processes, 2 * len(rows))
    changed: dict[str, list[float]] = {contract.root: [] for contract in rows}
    gone: list[float] = []
    async with _bus(processes) as calls, aiohttp.ClientSession() as session:
        tasks = [asyncio.create_task(_brought(calls, feed))]
        tasks += [
            asyncio.create_task(_watched(session, processes, root, keys[2 * at : 2 * at + 2], times))
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
    return [Figure("owner killed: until the next answer, at worst", max(hit), "s", spread, 3, at_least=False)]


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


# -- a replica's answers


def _reads(size: Size) -> Iterator[Figure]:
    """Measure completed sessions from a single process and from a replica with external limits, in turn."""
    serving.need("wrk", "taskset")
    rounds, seconds = size.of((5, 4), (1, 1), (1, 1))
    count = size.of(serving.KEYS, serving.KEYS, 400)
    keys = [form.compose(secrets.randbits(form.SECRET_BITS)) for _ in range(count)]
    with TemporaryDirectory(prefix="outcry-bench-") as place, ExitStack() as stack:
        folder = Path(place)
        nodes, postgres = stack.enter_context(JetStream(1)), stack.enter_context(Postgres())
        write_recording(folder / "es.dbn", 100_000)
        serving.write_load(folder, keys)
        secret = secrets.token_hex(16)
        shared = {"OUTCRY_DATABASE_URL": postgres.url(postgres.database()), "OUTCRY_SECRET": secret}
        for name, environment in (("alone", {}), ("shared", shared)):
            with open_installation(read_settings(environment, data=str(folder / name))) as installation:
                serving.furnish(installation, folder / "es.dbn", keys)
        shared |= {"OUTCRY_CLUSTER": nodes.urls, "OUTCRY_VAULT_KEYS": f"k1:{secrets.token_hex(32)}"}
        command = [
            installed_command(),
            "serve",
            "--port",
            "0",
            "--data",
            str(folder / "shared"),
            "--role",
            "engine",
        ]
        engine = subprocess.Popen(
            ["taskset", "-c", str(serving.LOAD_CPU), *command],
            env=os.environ | shared, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        stack.callback(engine.wait)
        stack.callback(engine.terminate)
        servers = {
            "one process": stack.enter_context(_serving(folder / "alone", keys[0], {})),
            "replica": stack.enter_context(
                _serving(folder / "shared", keys[0], shared | {"OUTCRY_ROLE": "api"})
            ),
        }
        loads: dict[str, list[float]] = {name: [] for name in servers}
        for number in range(rounds + 1):
            for name, server in servers.items():
                done = serving.load(server, folder, seconds)
                if number or rounds == 1:  # the first round is a warm-up
                    loads[name].append(done.per_cpu_s)
    for name, each in loads.items():
        spread = f"{min(each) / 1e3:.1f}–{max(each) / 1e3:.1f}, {len(each)} rounds"
        yield Figure(f"/api/levels, {name}", statistics.median(each) / 1e3, "k req/CPU-s", spread)
    ratio = statistics.median(loads["replica"]) / statistics.median(loads["one process"])
    yield Figure("/api/levels, replica ÷ one process", ratio, "times", "medians", 0.95)


def _serving(data: Path, key: str, more: Mapping[str, str]) -> AbstractContextManager[serving.Running]:
    (port,) = free_ports(1)
    command = [installed_command(), "serve", "--port", str(port), "--data", str(data)]
    return serving.served(command, port, serving.PATH, key, dict(more))
