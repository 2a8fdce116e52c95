"""A vendor, two processes that read its feeds and one that folds them, each with its own bus connection.

All run on one event loop, so that a test can end any of them at any point.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.feeds import broker_harness as brokers
from tests.feeds.broker_harness import SPEEDUP, PeerClock
from tests.feeds.memory_vendor import MemoryAdapter, MemoryFeed, MemoryPeer
from tests.timeouts import within

from outcry.agent.feed_runner import MarketContext as Traded
from outcry.app.cluster_feeds import own_spool
from outcry.app.installation import Installation
from outcry.app.live import stores_of
from outcry.cluster.calls import Answerer, BusDown, NobodyServes
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.nats.link import Link
from outcry.cluster.remote_streams import RemoteStreams
from outcry.cluster.shared_connections import RemoteConnections, SharedConnections
from outcry.cluster.stream_owner.client import StreamOwnerClient
from outcry.cluster.stream_owner.server import StreamOwnerServer
from outcry.connections.broker_adapter import AdapterContext, BrokerAdapter
from outcry.connections.feed_factory import ConnectionPolicy, FeedFactory
from outcry.connections.service import BrokerConnections
from outcry.connections.store import SqlConnectionStore
from outcry.connections.supervisor import ConnectionSupervisor
from outcry.feeds.pushed import PushedFeeds
from outcry.live.engine import Engine, Market
from outcry.live.model import FanOut
from outcry.live.partitions import PARTITIONS, Turn
from outcry.market.instruments import Contract
from outcry.trades.feed import Cursor, Event, Feed, Trades


class PunctualFeed(MemoryFeed):
    """Feed whose trades arrive on time, so that the test's speed does not decide which are too old for alerts."""

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        self._peer.asked.append((contract, since.since_ns))  # type: ignore[attr-defined]
        async for event in super().open(contract, since):
            if isinstance(event, Trades):
                event.rows["ts_recv"] = event.rows["ts_event"]
            yield event


class PunctualAdapter(MemoryAdapter):
    def feed(self, given: Mapping[str, str], context: AdapterContext) -> Feed:
        super().feed(given, context)  # the errors of the entries
        return PunctualFeed(self.peer, given["key"], context)


class PunctualPeer(MemoryPeer):
    """Peer of punctual feeds; asked: the contracts opened, each with its start."""

    def __init__(self) -> None:
        super().__init__()
        self.adapter = PunctualAdapter(self)
        self.asked: list[tuple[Contract, int]] = []


class Bus:
    """Message bus shared by the `LocalCalls` of all processes."""

    def __init__(self) -> None:
        self.served: dict[str, tuple[LocalCalls, Answerer]] = {}
        self.listeners: list[tuple[LocalCalls, str, Callable[[bytes], None]]] = []


class LocalCalls:
    """`NatsCalls` between processes of one event loop. `cut`: simulates a disconnected process."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.stopped = False
        self.away = asyncio.Event()
        self._answering: set[asyncio.Task[bytes]] = set()
        #: Names of the received requests, to detect repeated ones.
        self.asked: list[str] = []

    async def cut(self) -> None:
        """Disconnect this process; its pending calls are never answered."""
        self.stopped = True
        self.away.set()
        for task in self._answering:
            task.cancel()

    async def ask(self, name: str, body: bytes, timeout_s: float) -> bytes:
        self.asked.append(name)
        await asyncio.sleep(0)
        if self.stopped:
            raise BusDown("cut off")
        if name not in self._bus.served:
            raise NobodyServes(name)
        there, answer = self._bus.served[name]
        task = asyncio.ensure_future(answer(body))
        there._answering.add(task)
        away = asyncio.ensure_future(self.away.wait())
        try:
            await asyncio.wait((task, away), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() or task.cancelled() or there.stopped or self.stopped:
                raise BusDown(f"{name} did not answer")
            return task.result()
        finally:
            there._answering.discard(task)
            away.cancel()
            if task.done() and not task.cancelled():
                task.exception()  # no other process handles it

    @asynccontextmanager
    async def serve(self, name: str, answer: Answerer) -> AsyncIterator[None]:
        self._bus.served[name] = (self, answer)
        try:
            yield
        finally:
            if self._bus.served.get(name) == (self, answer):
                del self._bus.served[name]

    async def tell(self, name: str, body: bytes) -> None:
        if not self.stopped:
            for there, listened, listener in list(self._bus.listeners):
                if listened == name and not there.stopped:
                    listener(body)

    @asynccontextmanager
    async def listen(self, name: str, listener: Callable[[bytes], None]) -> AsyncIterator[None]:
        entry = (self, name, listener)
        self._bus.listeners.append(entry)
        try:
            yield
        finally:
            self._bus.listeners.remove(entry)


class WiredCalls:
    """`NatsCalls` over a real NATS server, with a connection for each process."""

    def __init__(self, urls: str, reports: list[str]) -> None:
        def tell(event: str, **details: object) -> None:
            reports.append(f"{event} {details}")

        self.link = Link(urls, tell)
        self._calls = NatsCalls(self.link, tell)
        self._open = False
        self.serve, self.listen, self.tell = self._calls.serve, self._calls.listen, self._calls.tell

    async def open(self) -> Self:
        await self.link.__aenter__()
        self._open = True
        await within(self.link.up(), 60)
        return self

    async def ask(self, name: str, body: bytes, timeout_s: float) -> bytes:
        if not self._open:
            raise BusDown("cut off")
        return await self._calls.ask(name, body, timeout_s)

    async def cut(self) -> None:
        if self._open:
            self._open = False
            await self.link.__aexit__(None, None, None)


class Hand:
    """Assignment of all partitions to one owner at a time. Implements `Partitions` for each process."""

    def __init__(self) -> None:
        self.holder: Seat | None = None

    async def give(self, seat: "Seat") -> None:
        """Assign all partitions to another process; the current owner transfers them if it is alive."""
        before, self.holder = self.holder, seat
        if before is not None and before.turns is not None:
            before.owned = frozenset()
            await asyncio.gather(*(before.turns[1](number) for number in range(PARTITIONS)))
        while seat.turns is None:
            await asyncio.sleep(0)
        await asyncio.gather(*(seat.turns[0](number) for number in range(PARTITIONS)))
        seat.owned = frozenset(range(PARTITIONS))


class Seat:
    """View of a `Hand` by one process."""

    def __init__(self) -> None:
        self.turns: tuple[Turn, Turn] | None = None
        self.owned: frozenset[int] = frozenset()

    async def run(self, gained: Turn, lost: Turn) -> None:
        self.turns = gained, lost
        await asyncio.Event().wait()


class EngineProcess:
    """Process of the role `engine` that owns all partitions."""

    def __init__(
        self, engine: Engine, installation: Installation, calls: NatsCalls, reserved: Mapping[int, set[str]]
    ) -> None:
        self.engine, self.calls = engine, calls
        universe = installation.reference.universe
        self.pushes = PushedFeeds(
            universe, reserved={"scid"}, reserved_of=lambda owner: reserved.get(owner, set())
        )
        self.pushes.subscribe(engine.attach_contract)
        self._taking = StreamOwnerServer(calls, self.pushes, engine, universe, installation.clock)
        self._served = AsyncExitStack()

    async def start(self) -> None:
        await self.engine.start()
        for number in range(PARTITIONS):
            await self._served.enter_async_context(self._taking.serve(number))

    async def stop(self) -> None:
        await self._served.aclose()
        await self.engine.stop()

    async def kill(self) -> None:
        """Kill the process: it sends and saves nothing more."""
        await self.calls.cut()  # type: ignore[attr-defined]
        await asyncio.gather(self.engine._feeds.stop(), self.engine._tasks.stop())
        await self._served.aclose()
        self.engine._snapshots.close()
        self.engine._calls.close()
        self.engine._recovery.close()
        self.engine._session_writer.close()
        self.engine._reference_thread.shutdown()


class FeedsProcess:
    """Process of the role `feeds`."""

    def __init__(
        self,
        installation: Installation,
        calls: NatsCalls,
        parts: FeedFactory,
        reports: list[str],
        spools: Path,
        speedup: float = SPEEDUP,
    ) -> None:
        self.calls, self.seat, self._resources = calls, Seat(), ExitStack()
        self.spool = self._resources.enter_context(own_spool(spools, 1 << 30))
        self.streams = RemoteStreams(
            self.spool, StreamOwnerClient(calls),
            Traded(installation.reference.universe, installation.reference.calendar, installation.clock),
            installation.registry, lambda: True, lambda event, **details: reports.append(f"{event} {details}"), speedup,
        )  # fmt: skip
        self.supervisor = ConnectionSupervisor(self.streams, parts, several=True)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        shared = SharedConnections(self.supervisor, self.seat, self.calls)
        self._tasks = [asyncio.create_task(self.streams.run()), asyncio.create_task(shared.run())]

    async def stop(self) -> None:
        """Stop cleanly, connections first."""
        for task in reversed(self._tasks):
            task.cancel()
            await asyncio.wait([task])
        self.seat.turns = None
        self._resources.close()

    async def kill(self) -> None:
        """Kill the process: none of its later messages is delivered."""
        await self.calls.cut()  # type: ignore[attr-defined]
        await self.stop()


@dataclass
class Cluster(brokers.BrokerHarness):
    """Cluster of several processes with one user and one connection. `feeds`: the processes that run it."""

    bus: Bus = field(default_factory=Bus)
    hand: Hand = field(default_factory=Hand)
    feeds: list[FeedsProcess] = field(default_factory=list[FeedsProcess])
    owner: EngineProcess | None = None
    parts: FeedFactory | None = None
    web: LocalCalls | WiredCalls | None = None
    #: URL of NATS; if empty, the processes communicate through `bus`.
    urls: str = ""
    wired: list[WiredCalls] = field(default_factory=list[WiredCalls])
    reserved: dict[int, set[str]] = field(default_factory=dict[int, set[str]])

    async def calls(self) -> LocalCalls | WiredCalls:
        """Return the calls of a process to the others."""
        if not self.urls:
            return LocalCalls(self.bus)
        self.wired.append(await WiredCalls(self.urls, self.reports).open())
        return self.wired[-1]

    async def begin_engine(self) -> None:
        """Start a process that owns all partitions, over the same log."""
        installation = self.installation
        market = Market(
            installation.reference.universe, installation.reference.calendar, self.clock, installation.licences.of_user,
            lambda: FanOut(installation.licences.audience, self.clock.now_ns()),
        )  # fmt: skip
        stores = stores_of(installation, installation.log, installation.alerts)
        self.engine = Engine(
            stores,
            market,
            installation.registry,
            lambda event, **details: self.reports.append(f"{event} {details}"),
            speedup=SPEEDUP,
        )
        self.owner = EngineProcess(self.engine, installation, await self.calls(), self.reserved)
        await self.owner.start()

    async def kill_engine(self) -> None:
        """Kill the engine; another replaces it a little later."""
        assert self.owner is not None
        await self.owner.kill()
        await asyncio.sleep(0.02)
        await self.begin_engine()

    async def begin_feeds(self) -> FeedsProcess:
        """Start one more process that runs feeds."""
        assert self.parts is not None
        process = FeedsProcess(
            self.installation,
            await self.calls(),
            self.parts,
            self.reports,
            Path(self.installation.settings.data) / "spools",
        )
        self.feeds.append(process)
        process.start()
        return process

    @property
    def bringing(self) -> FeedsProcess:
        """Return the process that runs the connection."""
        return next(one for one in self.feeds if one.seat is self.hand.holder)

    async def move(self) -> None:
        """Move the connection to the other process."""
        await self.hand.give(next(one.seat for one in self.feeds if one.seat is not self.hand.holder))

    async def kill_feeds(self) -> None:
        """Kill the process that runs the connection; the other takes over, and a new one starts."""
        victim = self.bringing
        self.feeds.remove(victim)
        await victim.kill()
        await self.hand.give(self.feeds[0].seat)
        await self.begin_feeds()


@asynccontextmanager
async def clustered(folder: Path, peer: PunctualPeer | None = None, urls: str = "") -> AsyncIterator[Cluster]:
    """Start a vendor with its tape from `BEGIN_NS` on, two feed processes and one engine, without any connection.

    The pages' side of connections is included.
    """
    peer = peer or PunctualPeer()
    async with brokers.opened(folder, peer) as (installation, clock, tapes):
        harness = _build_harness(installation, peer, clock, tapes)
        harness.urls = urls
        harness.web = await harness.calls()
        web = RemoteConnections(harness.web)  # type: ignore[arg-type]
        harness.connections = BrokerConnections(harness.parts, web, installation.registry)  # type: ignore[arg-type]
        await harness.begin_engine()
        for _ in range(2):
            await harness.begin_feeds()
        await harness.hand.give(harness.feeds[0].seat)
        try:
            async with brokers.running(brokers._beat(harness), brokers._watch(harness), web.run()):
                yield harness
        finally:
            for process in harness.feeds:
                with suppress(asyncio.CancelledError):
                    await process.stop()
            assert harness.owner is not None
            await harness.owner.stop()
            for calls in harness.wired:
                await calls.cut()


def _build_harness(installation: Installation, peer: MemoryPeer, clock: PeerClock, tapes: dict) -> Cluster:  # type: ignore[type-arg]
    adapter: BrokerAdapter = peer.adapter
    parts = FeedFactory(
        SqlConnectionStore(installation.database), installation.vault, {adapter.broker.id: adapter},
        installation.reference.universe, clock, {adapter.broker.id: peer.places}, ConnectionPolicy(local=True), SPEEDUP,
    )  # fmt: skip
    user = installation.store.ensure_user("ann@example.com", clock.now_ns())
    bus = Bus()
    return Cluster(
        installation,
        peer,
        clock,
        None,
        None,
        user,
        [],
        tapes,
        bus=bus,
        parts=parts,
        web=LocalCalls(bus),  # type: ignore[arg-type]
    )
