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
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, process_time
from typing import cast

import numpy as np
import uvloop
from bench.figures import Figure, Rounds, at_most, shown
from bench.measurement import Size, Unavailable
from bench.vendor import RATES, Ahead

from outcry.app.installation import Installation, open_installation
from outcry.app.live import stores_of
from outcry.app.settings import Settings
from outcry.connections.feed_factory import FeedFactory
from outcry.connections.model import ConnectionPhase, ConnectionRow
from outcry.connections.service import BrokerConnections
from outcry.connections.store import SqlConnectionStore
from outcry.connections.supervisor import ConnectionSupervisor
from outcry.feeds.adapters import adapters
from outcry.http.server import collect_rarely
from outcry.live.engine import Engine, Market
from outcry.live.model import FanOut
from outcry.market.instruments import Contract
from outcry.trades.feed import Cursor, Event, Feed, Trades

#: Wednesday 18 November 2026, 10:05 in New York: the regular session is open.
MARKET_NS = int(datetime(2026, 11, 18, 15, 5, tzinfo=UTC).timestamp()) * 1_000_000_000
VENDORS = ("databento", "tradovate", "massive")
PEOPLE, WARM_S, STRETCH_S, LIMIT_S = 100, 3.0, 3.0, 300.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """Measurements of a span of some seconds: p50 and p99 of the delay of each trade until it is in an answer."""

    p50_ms: float
    p99_ms: float
    trades_s: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Connected:
    """A vendor with all its connections: seconds until all were live, memory, and the spans measured then.

    beside: spans with one more connection, to a vendor that sends nothing.
    """

    live_s: float
    before_bytes: int
    after_bytes: int
    alone: list[Stretch]
    beside: list[Stretch]


class Watch:
    """Records the delay of every batch of trades when its answer is available."""

    def __init__(self, clock: Ahead) -> None:
        self.clock, self.late_ns, self.counting = clock, list[int](), False

    def note(self, event: Event) -> None:
        """Record the delay of an event's trades, if they count now."""
        if self.counting and isinstance(event, Trades):
            self.late_ns += (self.clock.now_ns() - event.rows["ts_event"]).tolist()

    async def stretch(self, seconds: float) -> Stretch:
        self.late_ns, self.counting = [], True
        began_s, used_s = monotonic(), process_time()
        await asyncio.sleep(seconds)
        self.counting = False
        took_s = monotonic() - began_s
        if not self.late_ns:
            raise RuntimeError("no trade was received")
        p50_ms, p99_ms = (float(late_ns) / 1e6 for late_ns in np.percentile(self.late_ns, (50, 99)))
        return Stretch(p50_ms, p99_ms, len(self.late_ns) / took_s, (process_time() - used_s) / took_s)


class WatchedFeed:
    """A feed whose every event is recorded once the engine asks for the next one. Implements `Feed`."""

    def __init__(self, feed: Feed, watch: Watch) -> None:
        self.name, self.caps, self.run = feed.name, feed.caps, feed.run
        self.contracts, self.close = feed.contracts, feed.close
        self._feed, self._watch = feed, watch

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """Stream the events of a contract."""
        async with aclosing(cast("AsyncGenerator[Event]", self._feed.open(contract, since))) as events:
            async for event in events:
                yield event
                self._watch.note(event)


@dataclass(frozen=True, slots=True)
class WatchedFeeds(FeedFactory):
    """Creates feeds that are watched."""

    watch: Watch = field(kw_only=True)

    def feed(self, row: ConnectionRow) -> Feed:
        """Create the feed of a connection."""
        return WatchedFeed(FeedFactory.feed(self, row), self.watch)


def goals(size: Size) -> Iterator[Figure]:
    """Measure the share of a core and the delay of a hundred connections of each vendor."""
    people, stretch_s = size.of((PEOPLE, STRETCH_S), (20, STRETCH_S), (1, 0.5))
    for vendor in size.of(VENDORS, VENDORS, VENDORS[-1:]):
        found = _apart(vendor, people, stretch_s, size.rounds, dead=False)
        name = f"{vendor.capitalize()}, {people} connections of 8 contracts"
        memory = (found.after_bytes - found.before_bytes) / people / 2**20
        note = f"{found.alone[0].trades_s:,.0f} trades/s; all live after {found.live_s:.0f} s; {memory:.1f} MiB each"
        share = Rounds.of([each.cpu for each in found.alone])
        yield Figure.of_rounds(f"{name}: share of a core", share, "×", "one core", at_most(0.6), note)
        late = Rounds.of([each.p99_ms for each in found.alone])
        note = f"p50 {shown(Rounds.of([each.p50_ms for each in found.alone]).median)} ms"
        yield Figure.of_rounds(f"{name}: trade to answer, p99", late, "ms", goal=at_most(100), note=note)


def more(size: Size) -> Iterator[Figure]:
    """Measure the delay beside a vendor that accepts connections and sends nothing, against that without it."""
    people, stretch_s = size.of((20, STRETCH_S), (5, STRETCH_S), (1, 0.5))
    for vendor in size.of(VENDORS, VENDORS, VENDORS[:1]):
        found = _apart(vendor, people, stretch_s, size.rounds, dead=True)
        alone, beside = (Rounds.of([each.p99_ms for each in spans]) for spans in (found.alone, found.beside))
        note = f"{shown(beside.median)} to {shown(alone.median)} ms"
        name = f"{vendor.capitalize()}, {people} connections: p99 beside a dead vendor"
        yield Figure.ratio(name, beside, alone, "that without it", at_most(1.25), note)


def _apart(vendor: str, people: int, stretch_s: float, rounds: int, *, dead: bool) -> Connected:
    """Measure one vendor in a process of its own, so that the memory is that of its connections."""
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        return alone.submit(_of_vendor, vendor, people, stretch_s, rounds, dead=dead).result()


def _of_vendor(vendor: str, people: int, stretch_s: float, rounds: int, *, dead: bool) -> Connected:
    ahead_ns = MARKET_NS - time.time_ns()  # noqa: TID251 - the bench's own clock
    with (
        _vendor(vendor, ahead_ns, 2 * rounds * stretch_s) as given,
        TemporaryDirectory() as folder,
        open_installation(Settings(data=folder), Ahead(ahead_ns)) as installation,
        installation.log.exclusively(),
    ):
        collect_rarely()
        return uvloop.run(_measured(installation, vendor, given, people, stretch_s, rounds, dead=dead))


async def _measured(
    installation: Installation, vendor: str, given: dict[str, dict[str, str]], people: int, stretch_s: float,
    rounds: int, *, dead: bool,
) -> Connected:  # fmt: skip
    clock = installation.clock
    assert isinstance(clock, Ahead)
    nobody = await asyncio.start_server(_say_nothing, "127.0.0.1", 0)
    port = nobody.sockets[0].getsockname()[1]
    other = next(name for name in VENDORS if name != vendor)
    nowhere = {name: f"{scheme}127.0.0.1:{port}" for name, scheme in _PLACES[other].items()}
    watch = Watch(clock)
    engine, parts = _parts(installation, watch, {vendor: given["places"], other: nowhere})
    supervisor = ConnectionSupervisor(engine, parts)
    connections = BrokerConnections(parts, supervisor, installation.registry)
    await engine.start()
    await supervisor.start()
    try:
        before, began_s = _resident(), monotonic()
        users = [installation.store.ensure_user(f"{n}@example.com", clock.now_ns()) for n in range(people)]
        for user in users:
            connections.connect(user, vendor, "", given["given"], list(RATES), clock.now_ns())
        while not all(row.phase is ConnectionPhase.LIVE for row in parts.store.rows()):
            if monotonic() - began_s > LIMIT_S:
                phases = sorted({f"{row.phase} {row.code}" for row in parts.store.rows()})
                raise Unavailable(f"not all of {people} connections came live: {', '.join(phases)}")
            await asyncio.sleep(0.2)
        live_s = monotonic() - began_s
        await asyncio.sleep(min(WARM_S, stretch_s))
        alone = [await watch.stretch(stretch_s) for _ in range(rounds)]
        after, beside = _resident(), list[Stretch]()
        if dead:
            # in a thread, as pages do, because it loads the vendor's library
            await asyncio.to_thread(
                connections.connect, users[0], other, "", _GIVEN[other], list(RATES), clock.now_ns()
            )
            await asyncio.sleep(min(WARM_S, stretch_s))
            beside = [await watch.stretch(stretch_s) for _ in range(rounds)]
    finally:
        await supervisor.stop()
        await engine.stop()
        nobody.close()
    return Connected(live_s, before, after, alone, beside)


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
    installation: Installation, watch: Watch, places: dict[str, dict[str, str]]
) -> tuple[Engine, FeedFactory]:
    reference, clock = installation.reference, watch.clock
    market = Market(
        reference.universe, reference.calendar, clock, installation.licences.of_user,
        lambda: FanOut(installation.licences.audience, clock.now_ns()),
    )  # fmt: skip
    stores = stores_of(installation, installation.log, installation.alerts)
    engine = Engine(stores, market, installation.registry, _report)
    store = SqlConnectionStore(installation.database)
    parts = store, installation.vault, adapters(), reference.universe, clock, places
    return engine, WatchedFeeds(*parts, watch=watch)


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
def _vendor(name: str, ahead_ns: int, lasts_s: float) -> Generator[dict[str, dict[str, str]]]:
    """Run a fake vendor for the duration of the context."""
    command = [sys.executable, "-m", "bench.vendor", name, str(ahead_ns), str(LIMIT_S + 4 * WARM_S + lasts_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            if not said:
                raise Unavailable(f"the fake vendor {name} did not start")
            yield json.loads(said)
        finally:
            process.kill()
