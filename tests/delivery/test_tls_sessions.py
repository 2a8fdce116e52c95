"""TLS sessions are resumed at the server that was verified, each once, and not for long."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest
from tests.delivery.conftest import Run
from tests.delivery.loopback import (
    HEADERS,
    PATIENT,
    Authority,
    Names,
    OutsideRule,
    Visit,
    leaving,
    serving,
)
from tests.timeouts import until

from outcry.delivery.egress import Egress
from outcry.delivery.tls_sessions import MOST_ORIGINS, MOST_SESSIONS, TRUSTED_NS, TlsSessions
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_SECOND

CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
NAME, OTHER = "hooks.mysite.dev", "other.mysite.dev"
BEGIN_NS = 1_795_000_000 * NANOS_PER_SECOND


@dataclass
class Time:
    """A clock that a test advances."""

    ns: int = BEGIN_NS

    def now_ns(self) -> int:
        return self.ns


@pytest.fixture
def context(authority: Authority) -> ssl.SSLContext:
    return authority.context(NAME, OTHER)


@dataclass
class Play:
    """An egress, a server that closes each connection, and whether each of its connections was resumed.

    The server answers while `answers` is set.
    """

    egress: Egress
    clock: Time
    resumed: list[bool] = field(default_factory=list)
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    async def behave(self, visit: Visit) -> None:
        await visit.request()
        self.resumed.append(visit.writer.get_extra_info("ssl_object").session_reused)
        await self.answers.wait()
        await visit.say(CLOSING)

    async def post(self, host: str = NAME) -> str:
        return (await self.egress.post(f"https://{host}:{self.port}/in", b"{}", HEADERS)).code

    @asynccontextmanager
    async def waiting(self) -> AsyncGenerator[None]:
        """Have one request wait for its response for the duration of the context; then it is answered."""
        self.answers.clear()
        before = len(self.resumed)
        posting = asyncio.create_task(self.post())
        await until(lambda: len(self.resumed) != before)
        try:
            yield
        finally:
            self.answers.set()
            assert await posting == "ok"


@asynccontextmanager
async def playing(authority: Authority, context: ssl.SSLContext) -> AsyncGenerator[Play]:
    clock = Time()
    async with leaving(OutsideRule(), Names(), authority.trust(), PATIENT, clock=clock) as egress:
        play = Play(egress, clock)
        play.answers.set()
        async with serving(play.behave, context) as server:
            play.port = server.port
            yield play


def test_a_new_connection_resumes_the_session_of_the_last(
    run: Run, authority: Authority, context: ssl.SSLContext
) -> None:
    async def trial() -> None:
        async with playing(authority, context) as play:
            assert [await play.post() for _ in range(4)] == ["ok"] * 4
            assert play.resumed == [False, True, True, True]

    run(trial())


def test_sessions_of_tls_1_2_are_not_resumed(run: Run, authority: Authority, context: ssl.SSLContext) -> None:
    """Whoever learns the server's ticket key later could decrypt them."""

    async def trial() -> None:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        async with playing(authority, context) as play:
            assert [await play.post(), await play.post()] == ["ok", "ok"]
            assert play.resumed == [False, False]

    run(trial())


def test_a_session_is_used_once(run: Run, authority: Authority, context: ssl.SSLContext) -> None:
    async def trial() -> None:
        async with playing(authority, context) as play:
            await play.post()
            async with play.waiting():
                second = asyncio.create_task(play.post())
                await until(lambda: len(play.resumed) >= 3)
            assert await second == "ok"
            assert play.resumed == [False, True, False]

    run(trial())


def test_a_session_is_not_used_for_another_host_name(
    run: Run, authority: Authority, context: ssl.SSLContext
) -> None:
    """Not even if the same server answers for both and its certificate is valid for both."""

    async def trial() -> None:
        async with playing(authority, context) as play:
            assert [await play.post(NAME), await play.post(OTHER)] == ["ok", "ok"]
            assert play.resumed == [False, False]

    run(trial())


@pytest.mark.parametrize("bad", ["expired", "self_signed"])
def test_renewed_sessions_do_not_extend_the_trust(
    run: Run, authority: Authority, context: ssl.SSLContext, bad: str
) -> None:
    """A server's certificate is replaced by a bad one, and its ticket keys stay, as if an attacker had them.

    Its sessions are resumed for the rest of the ten minutes, although each connection issues a new one.
    """

    async def trial() -> None:
        async with playing(authority, context) as play:
            await play.post()
            authority.install(context, NAME, **{bad: True})
            for _ in range(4):
                play.clock.ns += TRUSTED_NS // 5
                assert await play.post() == "ok"
            play.clock.ns += TRUSTED_NS // 5
            assert await play.post() == "tls_error"
            assert play.resumed == [False, True, True, True, True]

    run(trial())


def test_one_failed_verification_ends_the_trust_at_once(
    run: Run, authority: Authority, context: ssl.SSLContext
) -> None:
    """A connection without a session sees the bad certificate while another one is resumed."""

    async def trial() -> None:
        async with playing(authority, context) as play:
            await play.post()
            authority.install(context, NAME, self_signed=True)
            async with play.waiting():
                assert await play.post() == "tls_error"
            assert await play.post() == "tls_error", "the session of the waiting request was stored"
            authority.install(context, NAME)
            assert [await play.post(), await play.post()] == ["ok", "ok"]
            play.clock.ns += TRUSTED_NS
            assert [await play.post(), await play.post()] == ["ok", "ok"]
            assert play.resumed == [False, True, False, False, False, True]

    run(trial())


def test_a_server_without_the_ticket_keys_is_verified(
    run: Run, authority: Authority, context: ssl.SSLContext
) -> None:
    """Another server takes over name, address and port. It cannot read the session, so it has to prove who it is."""

    async def trial() -> None:
        async with leaving(OutsideRule(), Names(), authority.trust(), PATIENT, clock=Time()) as egress:
            play = Play(egress, Time())
            play.answers.set()
            async with serving(play.behave, context) as server:
                play.port = server.port
                assert await play.post() == "ok"
            imposter = authority.context(NAME, self_signed=True)
            async with serving(play.behave, imposter, port=play.port):
                assert await play.post() == "tls_error"
            assert play.resumed == [False]

    run(trial())


# -- the store


class Handshake:
    """A completed handshake with a session. `expires`: the end of the certificate, in the form of `getpeercert`."""

    def __init__(
        self, session: object, *, resumed: bool = False, expires: str = "Jan  1 00:00:00 2030 GMT"
    ) -> None:
        self.session, self.session_reused, self._expires = session, resumed, expires

    def getpeercert(self) -> dict[str, object]:
        return {"notAfter": self._expires}

    def version(self) -> str:
        return "TLSv1.3"


class Session:
    has_ticket = True


@dataclass
class Store:
    """Sessions with a clock that a test advances."""

    clock: Time
    sessions: TlsSessions
    trust: ssl.SSLContext

    def keep(self, host: str = NAME, **given: str) -> Session:
        """Store a new session of a server that was verified now."""
        session = Session()
        handshake = cast("ssl.SSLObject", Handshake(session, **given))  # type: ignore[arg-type]
        self.sessions.keep((self.trust, host, 443), handshake, None, self.clock.ns)
        return session

    def take(self, host: str = NAME, port: int = 443) -> object:
        found = self.sessions.take((self.trust, host, port))
        return found and found[0]


@pytest.fixture
def store() -> Store:
    clock = Time()
    return Store(clock, TlsSessions(clock), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def test_the_newest_session_is_taken_first_and_few_are_stored(store: Store) -> None:
    kept = [store.keep() for _ in range(MOST_SESSIONS + 2)]
    taken = [store.take() for _ in range(MOST_SESSIONS + 1)]
    assert taken == [*reversed(kept[:MOST_SESSIONS]), None]


def test_expired_sessions_make_room(store: Store) -> None:
    for _ in range(MOST_SESSIONS):
        store.keep()
    store.clock.ns += TRUSTED_NS
    assert store.keep() is store.take()


def test_a_session_belongs_to_host_port_and_authorities(store: Store) -> None:
    store.keep()
    assert store.take(OTHER) is None
    assert store.take(port=8443) is None
    trust, store.trust = store.trust, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert store.take() is None
    store.trust = trust
    assert store.take() is not None


def test_trust_ends_with_the_certificate(store: Store) -> None:
    """1,795,000,000 s is 2026-11-18 11:06:40 UTC; the certificate ends five seconds later."""
    for _ in range(2):
        store.keep(expires="Nov 18 11:06:45 2026 GMT")
    store.clock.ns += 5 * NANOS_PER_SECOND - 1
    assert store.take() is not None
    store.clock.ns += 1
    assert store.take() is None


def test_trust_ends_if_the_clock_is_set_back(store: Store) -> None:
    store.keep()
    store.clock.ns -= NANOS_PER_DAY
    assert store.take() is None


def test_the_origins_used_last_are_stored(store: Store) -> None:
    for number in range(MOST_ORIGINS):
        store.keep(f"h{number}.mysite.dev")
    store.keep("h0.mysite.dev")
    store.keep("one-more.mysite.dev")
    assert store.take("h1.mysite.dev") is None
    assert store.take("h0.mysite.dev") is not None


def test_a_server_that_issues_no_session_is_verified_each_time(store: Store) -> None:
    session = Session()
    session.has_ticket = False
    store.sessions.keep((store.trust, NAME, 443), cast("ssl.SSLObject", Handshake(session)), None, BEGIN_NS)
    assert store.take() is None
