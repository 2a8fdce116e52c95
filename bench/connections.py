"""Feeds of a hundred users in one process: the delay from a trade to its answer, and the cost of a connection.

The fake vendor is a separate process that plays in real time. Each user has a connection of five products, created as
by the page. Then one more connects to a vendor that accepts connections and sends nothing; this must not affect the
others.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, process_time

import numpy as np
import uvloop
from bench.measurement import Figure, Size, Unavailable
from bench.vendor import RATES, Ahead

from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings
from outcry.connections.feed_factory import FeedFactory
from outcry.connections.model import ConnectionPhase
from outcry.connections.service import BrokerConnections
from outcry.connections.store import SqlConnectionStore
from outcry.connections.supervisor import ConnectionSupervisor
from outcry.feeds.adapters import adapters
from outcry.http.server import collect_rarely
from outcry.live.archive import Archive
from outcry.live.columns import Columns
from outcry.live.engine import Engine, Market, Stores
from outcry.live.entries import Day
from outcry.live.logged import LoggedStream
from outcry.live.model import FanOut
from outcry.live.stream import SessionAlert
from outcry.trades.records import Rows

#: Wednesday 18 November 2026, 10:05 in New York: the regular session is open.
MARKET_NS = int(datetime(2026, 11, 18, 15, 5, tzinfo=UTC).timestamp()) * 1_000_000_000
VENDORS = ("databento", "tradovate", "massive")
PEOPLE, WARM_S, STRETCH_S, LIMIT_S = 100, 3.0, 20.0, 240.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """Measurements of a span of some seconds. `late_ms`: delay of each trade until it is in an answer."""

    late_ms: np.ndarray
    trades: int
    seconds: float
    cpu: float

    def at(self, percent: float) -> float:
        """Return a percentile of the delays."""
        return float(np.percentile(self.late_ms, percent))


class Watch:
    """Records the delay of every batch of trades when its answer is available."""

    def __init__(self, clock: Ahead) -> None:
        self.clock, self.late_ns, self.counting = clock, list[int](), False
        watch, usual = self, LoggedStream.log_trades

        def timed(self: LoggedStream, day: Day, rows: Rows, columns: Columns) -> Sequence[SessionAlert]:
            outcome = usual(self, day, rows, columns)
            if watch.counting:
                watch.late_ns += (watch.clock.now_ns() - rows["ts_event"]).tolist()
            return outcome

        LoggedStream.log_trades = timed
        self._usual = usual

    def end(self) -> None:
        LoggedStream.log_trades = self._usual

    async def stretch(self, seconds: float) -> Stretch:
        self.late_ns, self.counting = [], True
        began_s, used_s = monotonic(), process_time()
        await asyncio.sleep(seconds)
        self.counting = False
        took_s = monotonic() - began_s
        late_ms = np.array(self.late_ns) / 1e6
        return Stretch(late_ms, len(self.late_ns), took_s, (process_time() - used_s) / took_s)


def run(size: Size) -> Iterator[Figure]:
    people, stretch_s = size.of((PEOPLE, STRETCH_S), (10, 3.0), (2, 1.0))
    for vendor in VENDORS:
        # so that memory is that of one vendor's connections
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:
            found = alone.submit(_of_vendor, vendor, people, stretch_s).result()
        yield from _figures(vendor, people, *found)


def _of_vendor(vendor: str, people: int, stretch_s: float) -> tuple[float, tuple[int, int], Stretch, Stretch]:
    """Measure one vendor."""
    ahead_ns = MARKET_NS - time.time_ns()  # noqa: TID251 - the bench's own clock
    with (
        _vendor(vendor, ahead_ns) as said,
        TemporaryDirectory() as folder,
        open_installation(Settings(data=folder), Ahead(ahead_ns)) as installation,
        installation.log.exclusively(),
    ):
        collect_rarely()
        return uvloop.run(_measured(installation, vendor, said, people, stretch_s))


def _figures(
    vendor: str, people: int, live_s: float, memory: tuple[int, int], alone: Stretch, beside: Stretch
) -> Iterator[Figure]:
    name = f"{vendor}, {people} × {len(RATES)}"
    before, after = memory
    yield Figure(f"{name}: all live after", live_s, "s")
    yield Figure(f"{name}: trades a second", alone.trades / alone.seconds, "trades/s")
    yield Figure(f"{name}: trade to answer, p50", alone.at(50), "ms", target=20, at_least=False)
    yield Figure(f"{name}: trade to answer, p99", alone.at(99), "ms", target=100, at_least=False)
    yield Figure(f"{name}: of one core", alone.cpu, "x", target=1, at_least=False)
    yield Figure(f"{name}: memory a connection", (after - before) / people / 2**20, "MiB")
    yield Figure(f"{name}: memory in all", after / 2**20, "MiB")
    yield Figure(
        f"{name}: p99 beside one dead vendor, to without", beside.at(99) / alone.at(99), "x",
        target=1.25, at_least=False,
    )  # fmt: skip


async def _measured(
    installation: Installation, vendor: str, said: dict[str, dict[str, str]], people: int, stretch_s: float
) -> tuple[float, tuple[int, int], Stretch, Stretch]:
    clock = installation.clock
    assert isinstance(clock, Ahead)
    dead = await asyncio.start_server(_say_nothing, "127.0.0.1", 0)
    port = dead.sockets[0].getsockname()[1]
    other = next(name for name in VENDORS if name != vendor)
    nowhere = {name: f"{scheme}127.0.0.1:{port}" for name, scheme in _PLACES[other].items()}
    engine, parts = _parts(installation, clock, {vendor: said["places"], other: nowhere})
    supervisor = ConnectionSupervisor(engine, parts)
    connections = BrokerConnections(parts, supervisor, installation.registry)
    watch = Watch(clock)
    await engine.start()
    await supervisor.start()
    try:
        before, began_s = _resident(), monotonic()
        users = [installation.store.ensure_user(f"{n}@example.com", clock.now_ns()) for n in range(people)]
        for user in users:
            connections.connect(user, vendor, "", said["given"], list(RATES), clock.now_ns())
        while not all(row.phase is ConnectionPhase.LIVE for row in parts.store.rows()):
            if monotonic() - began_s > LIMIT_S:
                phases = sorted({f"{row.phase} {row.code}" for row in parts.store.rows()})
                raise Unavailable(f"not all of {people} connections came live: {', '.join(phases)}")
            await asyncio.sleep(0.2)
        live_s = monotonic() - began_s
        await asyncio.sleep(min(WARM_S, stretch_s))
        alone = await watch.stretch(stretch_s)
        memory = before, _resident()
        # in a thread, as pages do, because it loads the vendor's library
        await asyncio.to_thread(
            connections.connect, users[0], other, "", _GIVEN[other], list(RATES), clock.now_ns()
        )
        await asyncio.sleep(min(WARM_S, stretch_s))
        beside = await watch.stretch(stretch_s)
    finally:
        watch.end()
        await supervisor.stop()
        await engine.stop()
        dead.close()
    return live_s, memory, alone, beside


#: Endpoints of each vendor by the adapter's names, and plausible entries; a peer without responses checks none.
_PLACES = {
    "databento": {"gateway": "", "historical": "http://"},
    "tradovate": {"api": "http://", "md": "ws://"},
    "massive": {"socket": "ws://", "rest": "http://"},
}
_GIVEN = {
    "databento": {"key": "db-0123456789abcdefghijklmnopqrs"},
    "tradovate": {"user": "ada", "password": "analytical engine", "cid": "4711", "secret": "f00d-cafe-sec",
                  "app": "Outcry", "environment": "demo"},
    "massive": {"key": "0123456789abcdefghijklmnopqrstuv"},
}  # fmt: skip


def _parts(
    installation: Installation, clock: Ahead, places: dict[str, dict[str, str]]
) -> tuple[Engine, FeedFactory]:
    reference = installation.reference
    market = Market(
        reference.universe, reference.calendar, clock, installation.licences.of_user,
        lambda: FanOut(installation.licences.audience, clock.now_ns()),
    )  # fmt: skip
    archive = Archive(lambda: installation.importer, reference.calendar.session_at)
    stores = Stores(installation.log, installation.alerts, installation.alerts, installation.store, archive)
    engine = Engine(stores, market, installation.registry, _report)
    store = SqlConnectionStore(installation.database)
    return engine, FeedFactory(store, installation.vault, adapters(), reference.universe, clock, places)


def _report(event: str, **details: object) -> None:
    if os.environ.get("BENCH_TELLS"):
        print(event, details, file=sys.stderr)


async def _say_nothing(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    # asyncio.streams reports a cancelled connection as an error
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(LIMIT_S)


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


@contextmanager
def _vendor(name: str, ahead_ns: int) -> Generator[dict[str, dict[str, str]]]:
    """Run a fake vendor for the duration of the context."""
    command = [sys.executable, "-m", "bench.vendor", name, str(ahead_ns), str(LIMIT_S + 4 * STRETCH_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            if not said:
                raise Unavailable(f"the fake vendor {name} did not start")
            yield json.loads(said)
        finally:
            process.kill()
