"""Build one process of a cluster: the parts of its roles that communicate over the message bus (NATS).

A process starts even if other processes are unavailable, and restarts each part that fails. The other modules of `app`
build the parts that a service in a single process needs too.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any

from outcry.app.answering import Served, answering
from outcry.app.cluster_feeds import run_feeds
from outcry.app.feeds import brokers_of, parts_of
from outcry.app.installation import Installation
from outcry.app.live import engine_over
from outcry.app.people import people_of
from outcry.app.secret import derived
from outcry.base.log_events import LogEvent, Report, discard
from outcry.base.tasks import BackgroundTasks, is_set_within, repeat
from outcry.cluster.alert_tail import AlertTail
from outcry.cluster.limits.owner import LimitOwner
from outcry.cluster.limits.shared_limiter import SharedLimiter
from outcry.cluster.limits.thread_safe import ThreadSafeLimiter
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.nats.installation import claim_bus
from outcry.cluster.nats.latest import JetStreamLatest
from outcry.cluster.nats.link import Link
from outcry.cluster.nats.log import JetStreamLog
from outcry.cluster.nats.partitions import NatsPartitions
from outcry.cluster.nats.presence import NatsPresence
from outcry.cluster.nats.snapshots import JetStreamSnapshots
from outcry.cluster.nats.thread import LinkThread
from outcry.cluster.partition_worker import PartitionWorker
from outcry.cluster.replica import StateReplica
from outcry.cluster.shared_connections import RemoteConnections
from outcry.cluster.state_publisher import StatePublisher
from outcry.cluster.stream_owner.client import ForwardingIntake, StreamOwnerClient
from outcry.cluster.stream_owner.server import StreamOwnerServer
from outcry.connections.service import BrokerConnections
from outcry.database.errors import StoreBusy
from outcry.feeds.pushed import PushedFeeds
from outcry.live.engine import Engine
from outcry.live.model import Frame, StreamKey
from outcry.live.registry import Registry
from outcry.trades.feed import Feed
from outcry.trades.push_format import OWNER_WAIT_S

#: Pause before a failed part restarts, and how long `/readyz` reports the failure.
_AGAIN_S, _FAULTY_S = 1.0, 10.0
#: Longest wait of a new process until it has joined the cluster.
_JOIN_S = 10.0

Part = Callable[[], Coroutine[Any, Any, object]]


class ClusterSide:
    """What a cluster process does besides answering requests: live streams, feeds, shared limits and replicas.

    The process's roles decide which of them run. Implements `api.app.Background`.
    """

    def __init__(self, installation: Installation, feeds: Sequence[tuple[int, Feed]]) -> None:
        self._installation = installation
        self._feeds = feeds
        self._roles = installation.settings.roles
        self._report: Report = discard
        self.link = Link(installation.settings.cluster, self._say)
        self.calls = NatsCalls(self.link, self._say)
        self.presence = NatsPresence(self.link)
        #: The limiter that all processes share, and its interface for other threads.
        self.limiter = SharedLimiter(self.calls, self.presence, report=self._say)
        self.tries = ThreadSafeLimiter(self.limiter, self._here)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Engine | None = None
        self._log: JetStreamLog | None = None
        #: Reads the logs of streams that other processes own.
        self._distant_log: JetStreamLog | None = None
        universe = installation.reference.universe
        #: Replica of the state that engines report, and the newest alerts of the store.
        self._mirror = StateReplica(
            installation.registry, JetStreamLatest(self.link), self.calls,
            lambda text: StreamKey.read(text, universe), installation.market_clock, self._say, self._read_log,
        )  # fmt: skip
        self._alerts = AlertTail(installation.registry, installation.alerts, self.calls, self._say)
        self._tasks = BackgroundTasks(self._say)
        self._running: asyncio.Task[None] | None = None
        self._faulty_until_s: dict[str, float] = {}
        #: Further parts to run, added by the caller before the start.
        self.beside: list[tuple[str, Part]] = []

    @property
    def faulty(self) -> bool:
        """Whether a part failed within the last `_FAULTY_S` seconds."""
        return any(monotonic() < until_s for until_s in self._faulty_until_s.values())

    @property
    def stuck(self) -> bool:
        """Whether the message bus is connected but does not accept the engine's log entries."""
        return self._log is not None and self._log.stuck

    def _here(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "the shared limiter is used only while the process serves"
        return self._loop

    def _say(self, event: LogEvent, **details: object) -> object:
        return self._report(event, **details)

    # -- background service

    async def start(self, report: Report) -> None:
        """Start all parts on the running event loop. `report(event, **details)` writes to the operator's log.

        A process that applies request limits first waits until it has joined the cluster, so that it accepts no request
        before it knows the others. Without NATS it starts after `_JOIN_S` seconds.
        """
        self._report = report
        self._loop = asyncio.get_running_loop()
        if self._roles & {"web", "deliver"} and not self._installation.settings.public_url:
            report(
                LogEvent.PUBLIC_URL_MISSING,
                links=self._installation.site,
            )
        self._running = self._tasks.start("cluster", self._run())
        if self._roles & {"api", "web"}:
            await is_set_within(self.presence.joined, _JOIN_S)

    @property
    def failed(self) -> bool:
        """Whether the task that runs all parts has ended, for example because it could not join the cluster."""
        return self._running is not None and self._running.done()

    def counted(self) -> Mapping[str, int]:
        """Return the number of rows that feeds sent, by result."""
        return self._engine.counted() if self._engine is not None else {}

    async def stop(self) -> None:
        """Release this process's partitions (its shares of the work) to other processes, then leave the cluster."""
        await self._tasks.stop()
        self._running = None

    async def _run(self) -> None:
        parts = [*self.beside]
        if "engine" in self._roles:
            parts.append(("engine", self._run_engine))
        if "feeds" in self._roles:
            parts.append(("feeds", self._run_feeds))
        if self._roles & {"api", "web", "feeds"}:
            parts.append(("mirror", self._mirror.run))
        if self._roles & {"api", "web"}:
            parts.append(("log reader", self._run_log_reader))
        if self._roles & {"api", "web", "deliver"}:
            parts.append(("alerts", self._alerts.run))
        # partitions announce the roles `engine` and `feeds` themselves, until they are transferred
        counted = sorted(self._roles - {"engine", "feeds"})
        mark = derived(self._installation.secret, "cluster").hex()[:16]
        async with Link(self._installation.settings.cluster, self._say) as link:
            await claim_bus(link, mark, self._say)
        async with self.link, self.presence.announce(counted), asyncio.TaskGroup() as group:
            for name, part in parts:
                group.create_task(repeat(part, _AGAIN_S, partial(self._part_failed, name)), name=name)

    def _part_failed(self, name: str, problem: Exception) -> None:
        """Log the error with which a part of this process failed, such as the engine. The part then restarts."""
        self._faulty_until_s[name] = monotonic() + _FAULTY_S
        self._say(LogEvent.CLUSTER_PART_FAILED, part=name, problem=repr(problem))

    # -- parts of the roles, built again at each restart

    def _complete(self) -> bool:
        """Return whether this process's registry of live sessions lists every stream of the cluster."""
        return self._mirror.complete

    async def _run_log_reader(self) -> None:
        """Keep a connection with which requests read the logs of streams."""
        async with _in_thread(LinkThread(self._installation.settings.cluster, self._say)) as thread:
            self._distant_log = JetStreamLog(thread, self._say)
            try:
                await asyncio.Event().wait()
            finally:
                self._distant_log = None

    def _read_log(self, name: str, first: int) -> Iterator[Frame]:
        """Read the log of a stream that another process writes. Blocks; raises `StoreBusy`."""
        log = self._distant_log
        if log is None:
            raise StoreBusy("this process is not connected to NATS yet")
        log.last(name)  # look up how far its owner has written by now
        return log.read(name, first)

    async def _run_feeds(self) -> None:
        """Run this process's share of users' broker connections, and the operator's feeds of this process."""
        partitions = NatsPartitions(self.link, self.presence, "feeds", self._say)
        await run_feeds(self._installation, self.calls, partitions, self._complete, self._feeds, self._say)

    async def _run_engine(self) -> None:
        """Run the engine of this process, with its own registry and with a separate thread for its log."""
        installation, universe = self._installation, self._installation.reference.universe
        async with _in_thread(LinkThread(installation.settings.cluster, self._say)) as thread:
            log, registry = JetStreamLog(thread, self._say), Registry()
            engine = engine_over(
                installation, log, JetStreamSnapshots(thread), registry, by=self.presence.name
            )
            engine.report = self._say
            self._engine, self._log = engine, log
            pushes = PushedFeeds(
                universe, reserved={feed.name for _, feed in self._feeds}, reserved_of=brokers_of(installation),
                streams_of=engine.streams_of, wait_s=OWNER_WAIT_S,
            )  # fmt: skip
            pushes.subscribe(engine.attach_contract)
            taking = StreamOwnerServer(self.calls, pushes, engine, universe, installation.clock)
            limits = LimitOwner(self.calls, self.presence)
            latest = JetStreamLatest(self.link)
            publisher = StatePublisher(
                registry, engine.runners, log, latest, self.calls, self.presence.name,
                lambda text: engine.taken_over(StreamKey.read(text, universe)),
            )  # fmt: skip

            @asynccontextmanager
            async def serve(partition: int) -> AsyncGenerator[None]:
                async with limits.serve(partition), taking.serve(partition):
                    yield

            partitions = NatsPartitions(self.link, self.presence, "engine", self._say)
            worker = PartitionWorker(engine, log, partitions, publisher, serve)
            # An engine without a publisher is useless, so both restart together.
            async with asyncio.TaskGroup() as group:
                telling = group.create_task(publisher.run(), name="publisher")
                try:
                    await worker.run()
                finally:
                    telling.cancel()


@asynccontextmanager
async def _in_thread(thread: LinkThread) -> AsyncGenerator[LinkThread]:
    """Enter and leave a NATS link's context in a thread, because both block."""
    await asyncio.to_thread(thread.__enter__)
    try:
        yield thread
    finally:
        await asyncio.to_thread(thread.__exit__)


def part_of_cluster(installation: Installation, feeds: Sequence[tuple[int, Feed]]) -> Served:
    """Build the application of one process of a cluster. feeds: the operator's feeds of this process, with owners."""
    roles, side = installation.settings.roles, ClusterSide(installation, feeds)
    degraded = {
        "bus": lambda: not side.link.connected,
        "parts": lambda: side.faulty,
        "log": lambda: side.stuck,
    }
    if roles & {"api", "web"}:
        side.beside.append(("limits", side.limiter.run))
        degraded["limits"] = lambda: side.limiter.degraded
    connections = None
    if "web" in roles:
        distant = RemoteConnections(side.calls)
        connections = BrokerConnections(parts_of(installation), distant, installation.registry)
        side.beside.append(("connections", distant.run))
    people = people_of(installation, side.tries, side.limiter)
    pushes = ForwardingIntake(installation.reference.universe, StreamOwnerClient(side.calls))
    return answering(installation, people, side.limiter, side, pushes, connections, degraded)
