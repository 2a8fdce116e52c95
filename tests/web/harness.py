"""A complete service for browser tests: real sockets, a real database, a simulated market, one symbol in each status.

The simulated market is that of the demo with fewer products and days, on a fixed date. `forward` advances its clock;
`SHOWS` lists the symbol of each status. Nothing between browser and database is replaced.
"""

import http.client
import io
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from gettext import NullTranslations
from http.cookies import SimpleCookie
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO, cast
from urllib.parse import urlencode

import msgspec
from tests.timeouts import wait_until
from tests.web.broker_harness import ScriptedConnections, connected_by

from outcry.access.model import GrantRow
from outcry.app.application import build_application
from outcry.app.installation import Installation, open_installation
from outcry.app.people import People, people_of
from outcry.app.settings import read_settings
from outcry.database.errors import StoreBusy
from outcry.delivery.sink import Sink
from outcry.delivery.sink_server import Receiver
from outcry.feeds.adapters import adapters
from outcry.feeds.simulator.clock import DemoClock
from outcry.feeds.simulator.feed import SimulatorFeed
from outcry.feeds.simulator.history import past_sessions
from outcry.feeds.simulator.market import SimulatedMarket
from outcry.http.auth import LOCAL_COOKIE, SECURE_COOKIE
from outcry.http.server import Binding, build_server
from outcry.live.registry import Availability, Channel, Registry
from outcry.market.instruments import Contract
from outcry.people.browser_sessions import Origin
from outcry.people.model import UserRow
from outcry.sessions.demo_history import write_history
from outcry.trades.reference_tables import Reference
from outcry.web.language import Languages, Words

SEED = 1848
SESSIONS = 6
#: A Wednesday like any other; the demonstration's clock begins on it at 10:20 in New York.
DAY = datetime(2026, 3, 4, 20, 0, tzinfo=UTC)
#: The symbol that stands in each state, and the code it stands there by.
SHOWS: Mapping[str, tuple[str, str]] = {
    "live": ("ES", "live"),
    "stale": ("NQ", "stale_link"),
    "closed": ("CL", "closed"),
    "connecting": ("GC", "connecting"),
    "error": ("6E", "disconnected"),
    "delayed": ("ZN", "no_connection"),
    "empty": ("ZS", "no_connection"),
}
LIVE_ROOTS = ("ES", "NQ", "CL", "GC", "6E", "6J")
PAST_ROOTS = (*LIVE_ROOTS, "ZN")
#: Where the receiver of the service would be: nothing listens there, but it has a page.
SINK = "https://localhost:8443/in"
#: A page may wait twice for its database, 15 s each (`page_context.PATIENCE_S`); a visitor waits longer.
VISITOR_PATIENCE_S = 60
PASSWORD = "quiet lamps over Ohio 9"


#: Texts that were asked for in another language than English and are not there; the tests of every page look at it.
UNTRANSLATED: set[str] = set()


class MissingTexts(NullTranslations):
    """Comes after every catalogue, and notes what none of them has."""

    def gettext(self, message: str) -> str:
        UNTRANSLATED.add(message)
        return super().gettext(message)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        UNTRANSLATED.add(msgid1)
        return super().ngettext(msgid1, msgid2, n)


_begin = Words.__init__


def _begin_overheard(self: Words, language: str) -> None:
    _begin(self, language)
    if language != "en":
        self.add_fallback(MissingTexts())


Words.__init__ = _begin_overheard  # type: ignore[method-assign]
Languages.words.cache_clear()  # another module may have made them before


class MovableClock:
    """Runs as the machine's does, from an instant of its own, and can be moved forward."""

    def __init__(self, begins: datetime) -> None:
        self._origin_ns = int(begins.timestamp()) * 10**9 - time.monotonic_ns()

    def now_ns(self) -> int:
        return self._origin_ns + time.monotonic_ns()

    def forward(self, seconds: float) -> None:
        self._origin_ns += int(seconds * 10**9)


@dataclass(frozen=True)
class Reply:
    """A response, and the cookies it set; `set_cookies`: with their attributes, as the headers say it."""

    status: int
    headers: dict[str, str]
    body: bytes
    cookies: dict[str, str]
    set_cookies: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.body.decode()


class Visitor:
    """A browser without one: keeps cookies, sends forms, follows nothing."""

    def __init__(self, port: int, language: str = "en") -> None:
        self._port, self._language = port, language
        #: Where it comes from, told as a proxy tells it: one visitor's tries are not another's.
        self.address = ".".join(["10", *(str(secrets.randbelow(254) + 1) for _ in range(3))])
        self.cookies: dict[str, str] = {}

    def get(self, path: str, **headers: str) -> Reply:
        return self.send("GET", path, None, headers)

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Reply:
        sent = {
            "content-type": "application/x-www-form-urlencoded",
            "origin": f"http://127.0.0.1:{self._port}",
        }
        return self.send("POST", path, urlencode(fields).encode(), sent | headers)

    def send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=VISITOR_PATIENCE_S)
        sent = {"accept-language": self._language, "x-forwarded-for": self.address, **headers}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            reply = response.read()
        finally:
            connection.close()
        cookies: SimpleCookie = SimpleCookie()
        headers_set = tuple(value for name, value in response.getheaders() if name.lower() == "set-cookie")
        for value in headers_set:
            cookies.load(value)
        found = {name: morsel.value for name, morsel in cookies.items()}
        self.cookies |= found
        return Reply(
            response.status, {n.lower(): v for n, v in response.getheaders()}, reply, found, headers_set
        )


@dataclass
class WebHarness:
    """One service and everything behind it in reach. `connections`: what stands in for people's broker connections."""

    installation: Installation
    people: People
    clock: MovableClock
    log: io.BytesIO
    forced: dict[str, str]
    port: int = 0
    connections: ScriptedConnections | None = None

    @property
    def base(self) -> str:
        """Where a browser finds it: a name that browsers trust like https."""
        return f"http://localhost:{self.port}"

    def visitor(self, language: str = "en") -> Visitor:
        return Visitor(self.port, language)

    def person(self, email: str, *, operator: bool = False) -> UserRow:
        """A user who can sign in with `PASSWORD`; made if there is none yet."""
        identity = self.people.identity
        known = next((user for user in identity.users() if user.email == email), None)
        if known is not None:
            return known
        link = identity.invite(None, email, "operator" if operator else "member", "pro", Origin())
        return identity.accept(link.rpartition("/")[2].rpartition("=")[2], email, PASSWORD, Origin()).user

    def token(self, user: UserRow, *, https: bool = False) -> str:
        """Sign a browser in, who it is proved just now; return its cookie, which is valid with or without HTTPS."""
        # Read the user again, with the current credentials.
        user = next(one for one in self.people.identity.users() if one.id == user.id)
        signed = self.people.browser_sessions.open(
            user, Origin("127.0.0.1", "test", secure=https), self.installation.clock.now_ns()
        )
        wait_until(lambda: self.signed_in(signed.token, https=https), "the service does not know the browser")
        return signed.token

    def signed_in(self, token: str, *, https: bool = False) -> bool:
        visitor = self.visitor()
        visitor.cookies[SECURE_COOKIE if https else LOCAL_COOKIE] = token
        reply = visitor.get("/errors", **{"x-forwarded-proto": "https" if https else "http"})
        return 'action="/sign-out"' in reply.text

    def forward(self, seconds: float) -> None:
        """Let the market go on."""
        self.clock.forward(seconds)

    def alert_seq(self) -> int:
        return self.installation.registry.alert_seq

    def force(self, root: str, reason: str | None) -> None:
        """Have the feed of a product stand like this, whatever it does; None: as it does."""
        if reason is None:
            self.forced.pop(root, None)
        else:
            self.forced[root] = reason

    @contextmanager
    def store_away(self) -> Iterator[None]:
        """Nothing can be read from the store, or written to it."""
        database: Any = self.installation.database

        @contextmanager
        def refuse(*_: object) -> Iterator[None]:
            raise StoreBusy("the store is away")
            yield

        database.reading = database.write = refuse
        try:
            yield
        finally:
            del database.reading, database.write
            wait_until(lambda: self.visitor().get("/readyz").status == 200, "the store does not come back")

    def faults(self) -> list[str]:
        """What the service's log calls an error."""
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [str(line) for line in lines if line.get("level") in {"error", "critical"}]

    def wait_live(self, root: str = "ES") -> None:
        wait_until(
            lambda: any(c.availability.reason == "live" for c in self._channels(root)),
            f"{root} does not go live",
        )

    def _channels(self, root: str) -> list[Channel]:
        scope = self.people.visitor()
        return [seen.channel for seen in self.installation.registry.channels(scope, root)] if scope else []


def _forceful(registry: Registry, forced: Mapping[str, str]) -> None:
    """Have a registry tell what the test wants to see, of feeds that are well."""
    stand = registry.set_availability

    def stand_so(channel: Channel, availability: Availability) -> None:
        reason = forced.get(channel.key.contract.root)
        if reason is not None and reason != availability.reason:
            availability = replace(availability, live=False, reason=reason)
        stand(channel, availability)

    registry.set_availability = stand_so  # type: ignore[method-assign]


class _FewProductsFeed(SimulatorFeed):
    """The invented market's feed, of some products only."""

    async def contracts(self) -> list[Contract]:
        return [contract for contract in await super().contracts() if contract.root in LIVE_ROOTS]


def _invent(installation: Installation, market: SimulatedMarket, clock: DemoClock) -> None:
    """A past for the symbols that have one, granted to everyone."""
    universe = installation.reference.universe
    calendar, today = installation.reference.calendar, clock.trade_date
    write_history(
        installation.store, universe.products, [universe.front(root, today) for root in PAST_ROOTS],
        lambda contract: past_sessions(market, contract, calendar, today, SESSIONS),
        source="simulator", now_ns=clock.now_ns(),
    )  # fmt: skip
    for scope in ("completed", "live"):
        installation.store.add_grant(
            GrantRow(0, "everyone", scope, (), None, None, 0, None), installation.clock.now_ns()
        )


@contextmanager
def demo_service(folder: Path, received: Receiver | None = None) -> Iterator[WebHarness]:
    """A service with an invented market, all of its states shown. `received`: a receiver that listens, and is admitted
    as the demonstration's own is."""
    clock = MovableClock(DAY)

    def begin(reference: Reference) -> DemoClock:
        return DemoClock(clock, reference.calendar, LIVE_ROOTS)

    settings, sink = read_settings({}, data=str(folder)), Sink(SINK, clock)
    if received is not None:
        admitted = {"private_hosts": received.host, "private_ca": str(received.authority)}
        settings, sink = msgspec.structs.replace(settings, **admitted), received.sink
    connections = ScriptedConnections([adapter.broker for adapter in adapters().values()])
    with (
        open_installation(settings, market_clock=begin, sink=sink) as installation,
        installation.log.exclusively(),
    ):
        market_clock = installation.market_clock
        assert isinstance(market_clock, DemoClock)
        universe, calendar = installation.reference.universe, installation.reference.calendar
        market = SimulatedMarket(SEED, universe.products, calendar)
        _invent(installation, market, market_clock)
        forced = {root: code for root, code in SHOWS.values() if root in LIVE_ROOTS and code != "live"}
        _forceful(installation.registry, forced)
        feed = _FewProductsFeed(market, universe, calendar, market_clock)
        made = WebHarness(
            installation, people_of(installation), clock, io.BytesIO(), forced, connections=connections
        )
        with _served(made, [(0, feed)]) as harness:
            harness.wait_live()
            yield harness


@contextmanager
def empty_service(
    folder: Path,
    environment: Mapping[str, str] | None = None,
    clock: MovableClock | None = None,
    connections: ScriptedConnections | None = None,
) -> Iterator[WebHarness]:
    """A service as it is after the first start: no people, no data, no feed. `environment`: what its operator set;
    `clock`: its present, where that is not now; `connections`: what stands in for people's broker connections."""
    with (
        open_installation(read_settings(environment or {}, data=str(folder)), clock) as installation,
        installation.log.exclusively(),
    ):
        shown = clock or MovableClock(DAY)
        made = WebHarness(
            installation, people_of(installation), shown, io.BytesIO(), {}, connections=connections
        )
        with _served(made, []) as harness:
            yield harness


@contextmanager
def _served(harness: WebHarness, feeds: list[Any]) -> Iterator[WebHarness]:
    up = threading.Event()

    def started(_host: str, port: int) -> None:
        harness.port = port
        up.set()

    stderr = cast("TextIO", SimpleNamespace(buffer=harness.log))  # where its log would go
    with redirect_stderr(stderr), connected_by(harness.connections):
        application = build_application(harness.installation, feeds).application
    server = build_server(application, Binding(port=0, shutdown_s=2, trusted_proxies="127.0.0.1"), started)
    thread = threading.Thread(target=server.run, name="web service", daemon=True)
    thread.start()
    assert up.wait(20), "the server did not start"
    try:
        yield harness
    finally:
        server.stop()
        thread.join(15)
        assert not thread.is_alive(), "the server did not stop"
