"""The web application of a process.

The dispatcher answers `/api`, and `/page` for browsers. Starlette answers all other paths. The edge (`http.edge`) adds
the common headers, the request log and the metrics to all of them. All dependencies are passed in.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from secrets import token_bytes
from typing import Any, BinaryIO, Protocol

from outcry.access.keys import ApiKeys
from outcry.access.licences import Licences
from outcry.access.limiter import Limiter
from outcry.answers.query import Query
from outcry.api.dispatch import Dispatcher
from outcry.api.hub import Hub
from outcry.api.ingest import PATH as INGEST_PATH
from outcry.api.ingest import Ingest
from outcry.api.last_used import LastUsedWriter
from outcry.api.probes import PROBES, build_probes
from outcry.api.stream_sources import LiveInputs
from outcry.api.tickets import Tickets
from outcry.base.clock import Clock
from outcry.base.log_events import EventLog, LogEvent, report_to_writer
from outcry.http.auth import Authenticator, PageAuthenticator
from outcry.http.edge import AsgiApp, Edge, Receive, Reply, Send
from outcry.http.fastpath import FastPathCache
from outcry.http.logs import AccessLog, JsonEventLog
from outcry.http.messages import load_catalogue
from outcry.http.metrics import Metrics
from outcry.http.requests import Request, RequestIds
from outcry.http.revision_poller import RevisionPoller
from outcry.http.strict_protocol import MOST_HEAD_BYTES
from outcry.live.registry import Registry
from outcry.live.store import LiveStore
from outcry.market.instruments import Universe
from outcry.trades.push_format import MOST_BODY_BYTES, Intake


class Background(Protocol):
    """Interface of a service that runs on the application's event loop, from its start to its stop."""

    async def start(self, report: Callable[..., object]) -> None:
        """Start the service. `report(event, **details)` writes to the operator's log."""
        ...

    @property
    def failed(self) -> bool:
        """Whether the start failed."""
        ...

    def counted(self) -> Mapping[str, int]:
        """Return the number of processed items, such as rows, by result; a metric shows them."""
        ...

    async def stop(self) -> None:
        """Finish pending work and stop the service."""
        ...


#: States of a stream (docs/guides/live.md) that a fault causes, and not the market's hours or an operator's choice.
INTERRUPTIONS = frozenset({"disconnected", "stale_link", "log_stalled", "degraded"})


@dataclass(frozen=True, slots=True)
class Services:
    """The objects that the application is built from.

    `registry`: live streams of the products in `universe`. `alerts`: the alert store. `pushes`: the receiver of pushed
    feeds; None if pushes are not accepted. `live`, `delivery`: background services. `page_authenticator`, `pages`: the
    authenticator of browsers, and the pages. `checks`: readiness checks, each repeated until it raises no error.
    `degraded`: functions by name of a component; each returns whether that component works only partly while requests
    are still answered. `frozen`: whether the database's disk is stalled. `ticket_secret`: encrypts stream tickets; the
    same in every process.
    """

    query: Query
    keys: ApiKeys
    licences: Licences
    limiter: Limiter
    clock: Clock
    registry: Registry = field(default_factory=Registry)
    universe: Universe = field(default_factory=lambda: Universe({}))
    alerts: LiveStore | None = None
    pushes: Intake | None = None
    live: Background | None = None
    delivery: Background | None = None
    page_authenticator: PageAuthenticator | None = None
    pages: Callable[[EventLog], AsgiApp] | None = None
    checks: Mapping[str, Callable[[], None]] = field(default_factory=dict[str, Callable[[], None]])
    degraded: Mapping[str, Callable[[], bool]] = field(default_factory=dict[str, Callable[[], bool]])
    frozen: Callable[[], bool] = lambda: False
    ticket_secret: bytes = field(default_factory=partial(token_bytes, 32), repr=False)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the web application: logging, time limits, and which parts it serves."""

    log: BinaryIO = field(default_factory=lambda: sys.stderr.buffer)
    access_log: bool = True
    query_timeout_s: float = 2.0
    open_metrics: bool = False
    api: bool = True
    shares_store: bool = False


class Application:
    """The ASGI application that `http.server` runs, with its `edge` (steps common to all requests) and fast path."""

    def __init__(
        self, edge: Edge, fast_path: FastPathCache, hub: Hub, dispatchers: Mapping[str, Dispatcher], probes: AsgiApp,
        pages: AsgiApp, beside: Sequence[Background], last_used: LastUsedWriter,
    ) -> None:  # fmt: skip
        self._beside = beside
        self._last_used = last_used
        self.edge = edge
        self.fast_path = fast_path
        self.hub = hub
        self._dispatchers = dispatchers
        self._probes, self._pages = probes, pages

    @property
    def asgi(self) -> AsgiApp:
        """The ASGI application."""
        return self.__call__

    def answer_at_once(self, request: Request) -> Reply | None:
        """Answer a request under `/api` from memory; None if that is not possible. See `Dispatcher.answer_at_once`."""
        dispatcher = self._dispatchers.get("api")
        return dispatcher.answer_at_once(request) if dispatcher is not None else None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request; the first part of its path selects the application."""
        if scope["type"] == "http":
            path: str = scope["path"]
            dispatcher = self._dispatchers.get(path[1:].partition("/")[0])
            app = dispatcher or (self._probes if path in PROBES else self._pages)
            await app(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    async def start(self) -> None:
        """Start polling the store, and wait up to a second for it. Until it responds, requests fail with `starting`."""
        self.edge.poller.start()
        await self.edge.poller.ensure(1.0)
        self.hub.start()
        self._last_used.start()
        for background in self._beside:
            await background.start(report_to_writer(self.edge.event_log))

    def drain(self) -> None:
        """End the streams, because a stopping server would wait for them."""
        self.hub.close()

    async def stop(self) -> None:
        """Stop the background services and threads, and flush the log."""
        await self._last_used.stop()
        await self.hub.stop()
        for background in self._beside:
            await background.stop()
        await self.edge.poller.stop()
        for dispatcher in self._dispatchers.values():
            dispatcher.close()
        self.edge.access_log.flush()

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


def create_app(services: Services, options: Options | None = None) -> Application:
    """Build the application from its services."""
    options = options or Options()
    edge = _edge(services, options)
    fast_path = FastPathCache(edge)
    live = LiveInputs(services.registry, services.universe, services.alerts)
    tickets = Tickets(services.ticket_secret, services.clock)
    hub = Hub(edge, services.query, live, options.query_timeout_s, tickets)
    ingest = Ingest(edge, services.pushes) if services.pushes is not None else None
    timeout_s = options.query_timeout_s
    dispatchers: dict[str, Dispatcher] = {}
    if options.api:
        dispatchers["api"] = Dispatcher(edge, services.query, hub, timeout_s, ingest)
    if services.page_authenticator is not None:
        dispatchers["page"] = Dispatcher(edge, services.query, hub, timeout_s, pages=True)
    _measure(edge, services, fast_path, hub)
    _measure_feeds(edge.metrics, services)
    probes = edge.around(
        build_probes(
            edge,
            open_metrics=options.open_metrics,
            shares_store=options.shares_store,
            live=_could_start(services),
            degraded=services.degraded,
        )
    )
    pages = edge.around(services.pages(edge.event_log)) if services.pages is not None else probes
    beside = [one for one in (services.live, services.delivery) if one is not None]
    return Application(
        edge, fast_path, hub, dispatchers, probes, pages, beside, _last_used(services, hub, edge)
    )


def _edge(services: Services, options: Options) -> Edge:
    clock, event_log = services.clock, JsonEventLog(options.log, services.clock)
    return Edge(
        authenticator=Authenticator(services.keys, services.licences, services.page_authenticator),
        limiter=services.limiter,
        poller=_poller(services, event_log),
        clock=clock,
        catalogue=load_catalogue(),
        metrics=Metrics(),
        access_log=AccessLog(options.log if options.access_log else None, clock),
        event_log=event_log,
        ids=RequestIds(),
        roomy={INGEST_PATH: MOST_HEAD_BYTES + MOST_BODY_BYTES},
    )


def _last_used(services: Services, hub: Hub, edge: Edge) -> LastUsedWriter:
    def streaming() -> list[str]:
        return [reader.caller.subject for reader in hub.readers]

    browser_sessions = (
        services.page_authenticator.browser_sessions if services.page_authenticator is not None else None
    )
    report = report_to_writer(edge.event_log)
    return LastUsedWriter(services.limiter, streaming, services.keys, browser_sessions, report)


def _poller(services: Services, event_log: EventLog) -> RevisionPoller:
    """Build the poller, which first runs the readiness checks and then watches the database for changes."""
    checks = dict(services.checks)

    def look(now_ns: int) -> int:
        for name in list(checks):
            checks[name]()
            del checks[name]
        # Each query holds the interpreter's lock, which delays requests: read the revision once for all.
        revision = services.query.revision()
        services.keys.refresh(now_ns, revision=revision)
        services.licences.refresh(now_ns, revision=revision)
        if services.page_authenticator is not None:  # sign-ins have a revision of their own
            services.page_authenticator.browser_sessions.refresh(now_ns, force=True)
        return revision

    def on_change(error: BaseException | None) -> None:
        if error is None:
            event_log.info(LogEvent.DATABASE_AVAILABLE)
        else:
            event_log.error(LogEvent.DATABASE_UNAVAILABLE, exc_info=error)

    poller = RevisionPoller(look, services.clock, on_change, services.registry, services.frozen)
    services.keys.on_change(poller.freshness.end)
    services.licences.on_change(poller.freshness.end)
    if services.page_authenticator is not None:
        services.page_authenticator.browser_sessions.on_change(poller.freshness.end)
    services.query.watch_store(lambda: poller.store_revision if poller.fresh else None, services.frozen)
    return poller


def _measure(edge: Edge, services: Services, fast_path: FastPathCache, hub: Hub) -> None:
    """Register metrics of the database, the keys, the fast path and the event streams."""
    metrics, poller = edge.metrics, edge.poller
    metrics.gauge("outcry_keys_live", "API keys that are good.", lambda: services.keys.live_count)
    metrics.gauge("outcry_store_revision", "The store's revision last seen.", lambda: poller.store_revision)
    metrics.gauge("outcry_store_age_seconds", "Time since the store last answered.", lambda: poller.age_s)
    metrics.gauge("outcry_fastpath_entries", "Requests the fast path knows.", lambda: len(fast_path))
    metrics.gauge("outcry_streams_open", "Event streams open.", lambda: len(hub.readers))
    metrics.counter("outcry_stream_events", "Events told to streams.", "event", lambda: hub.sent)


def _measure_feeds(metrics: Metrics, services: Services) -> None:
    """Register metrics of feeds, the rows they sent, and deliveries of alerts."""
    registry, live = services.registry, services.live
    metrics.gauge(
        "outcry_feeds_live",
        "Streams of feeds that answer live.",
        lambda: registry.reason_counts().get("live", 0),
    )
    metrics.gauge(
        "outcry_feeds_interrupted",
        "Streams of feeds that a lost connection or a fault keeps from answering live.",
        lambda: sum(count for reason, count in registry.reason_counts().items() if reason in INTERRUPTIONS),
    )
    metrics.gauge("outcry_feeds", "Streams of feeds.", lambda: sum(registry.reason_counts().values()))
    if live is not None:
        metrics.counter("outcry_feed_rows", "Rows that feeds sent.", "became", live.counted)
    if services.delivery is not None:
        deliveries = services.delivery.counted
        metrics.counter("outcry_deliveries", "Attempts at delivering alerts.", "became", deliveries)


def _could_start(services: Services) -> Callable[[], bool]:
    live = services.live
    return lambda: live is None or not live.failed
