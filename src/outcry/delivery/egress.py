"""The one way out: a message is posted to an address that somebody else chose.

Rules kept: an address is judged as text each time, and as what it resolves to at every new connection: one look-up,
every answer must be public, and the connection is to one of these answers, while TLS goes by the name. No redirect,
proxy, cookie, decompression or setting of the environment plays a part. Nothing is waited for beyond its deadline and
no more of an answer is read than is kept. What went wrong is a code: nothing the other side said is in it.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from outcry import __version__
from outcry.delivery.guarded_connection import Connector, Malformed
from outcry.delivery.lookup import OK, Blocked, Lookup
from outcry.delivery.names import NameService, Unresolvable
from outcry.delivery.outbound_request import UNDER_WAY, Handshake, Stage, Trip
from outcry.delivery.slots import NoTurn, Turns
from outcry.delivery.url_rule import AddressRule, Place

USER_AGENT = f"Outcry/{__version__} (+webhooks)"
LONGEST_BODY = 16 * 1024
_OUR_HEADERS = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
#: A name with more addresses than this is tried at these only; all are judged.
_MOST_TRIED = 8
_MOST_REMEMBERED = 4096
_SWITCHING_PROTOCOLS = 101
#: Ours go by the stage a message is at; the client's own would only round them up.
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a stage may take, and how much may be under way at once: in all, and at one IP address, whatever the
    names that lead there."""

    connect_s: float = 5.0
    total_s: float = 15.0
    turn_s: float = 2.0
    at_once: int = 512
    at_address: int = 32


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of posting. `code`: `ok` where an HTTP answer came whole enough to judge, whatever its status, else
    why none did; `headers`: case-insensitive; `body`: its first 16 KiB, as they came; `phases_ms`: `dns`, `connect`,
    `tls` and `answer` (until its head was there), as far as they happened; over a connection used again only the
    last."""

    code: str
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    took_ms: int = 0
    phases_ms: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class _Answer:
    """What has come so far."""

    code: str = OK
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytearray = field(default_factory=bytearray)


class Egress:
    """Judges addresses and posts to them. Used on one event loop. `private_trust`: what to speak TLS with to hosts that
    the operator admits, where that is other than `trust`."""

    def __init__(
        self,
        rule: AddressRule,
        names: NameService,
        trust: ssl.SSLContext,
        private_trust: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._limits, self._lookup = limits or Limits(), Lookup(rule, names)
        self._trust, self._private_trust = trust, private_trust or trust
        trust.sslobject_class = self._private_trust.sslobject_class = Handshake
        self._read = lru_cache(_MOST_REMEMBERED)(self._read_anew)
        self._session: aiohttp.ClientSession | None = None
        self._all, self._at_address = Turns(self._limits.at_once), Turns(self._limits.at_address)

    async def judge(self, address: str) -> str:
        """`ok`; `unverified` where the name cannot be resolved now; or the `endpoint_*` code of what is wrong."""
        return await self._lookup.judge(address)

    async def post(self, address: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Post once. Never raises."""
        read = self._read(address)
        if isinstance(read, str):
            return Reply(read)
        begun_s = time.perf_counter()
        try:
            await self._all.take(("",), self._limits.turn_s)
        except NoTurn:
            return Reply("too_busy")
        try:
            answer, phases_ms = await self._travel(*read, body, headers)
        finally:
            self._all.give_back("")
        took_ms = round((time.perf_counter() - begun_s) * 1000)
        return Reply(answer.code, answer.status, answer.headers, bytes(answer.body), took_ms, phases_ms)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
        self._lookup.close()

    async def lead(self, trip: Trip) -> tuple[str, ...]:
        """The addresses to connect a trip to, with a turn at the first. Raises `OSError`; the trip's code says why."""
        trip.reach(Stage.DNS)
        try:
            found = await self._lookup.numbers(trip.place)
            numbers = tuple(map(str, found[:_MOST_TRIED]))
            trip.reach(Stage.TURN)
            first = await trip.take(numbers)
        except Unresolvable:
            trip.code = "unresolvable"
        except Blocked:
            trip.code = "blocked_address"
        except NoTurn:
            trip.code = "too_busy"
        else:
            return first, *(number for number in numbers if number != first)
        raise OSError(trip.code)

    async def _travel(
        self, place: Place, url: URL, body: bytes, headers: Mapping[str, str]
    ) -> tuple["_Answer", tuple[tuple[str, int], ...]]:
        """Go there and back: what came, and what took how long."""
        answer = _Answer()
        limits, allows = self._limits, self._lookup.may_connect
        end_s = asyncio.get_running_loop().time() + limits.total_s
        limit = asyncio.timeout_at(end_s)
        trip = Trip(place, allows, limit, end_s, limits.connect_s, self._at_address, limits.turn_s)
        token = UNDER_WAY.set(trip)  # callbacks of a connection it makes find it, too
        try:
            async with limit:
                if place.number is not None:  # of which the client asks no resolver
                    await trip.take((str(place.number),))
                await self._exchange(trip, url, body, headers, answer)
        except NoTurn:
            answer.code = "too_busy"
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            answer.code = trip.code or _code(problem, trip.stage, answered=answer.status is not None)
        finally:
            UNDER_WAY.reset(token)
            trip.finish()
            trip.give_back()
        return answer, tuple(trip.phases_ms)

    async def _exchange(
        self, trip: Trip, url: URL, body: bytes, headers: Mapping[str, str], answer: "_Answer"
    ) -> None:
        trust = self._private_trust if trip.place.admitted else self._trust
        async with self._client().post(
            url, data=body, headers={**headers, **_OUR_HEADERS}, ssl=trust, allow_redirects=False
        ) as response:
            trip.finish()
            try:
                if response.status == _SWITCHING_PROTOCOLS:
                    answer.code = "bad_response"
                else:
                    await _read(response, answer)
            finally:
                # unless all of it came: a farewell by TLS would wait for theirs
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()

    def _read_anew(self, address: str) -> tuple[Place, URL] | str:
        place = self._lookup.rule.judge(address)
        return place if isinstance(place, str) else (place, URL(place.address, encoded=True))

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:  # made here, for it belongs to the loop that runs
            self._session = aiohttp.ClientSession(
                connector=Connector(_Resolver(self)), timeout=_NO_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False, trust_env=False, read_bufsize=LONGEST_BODY, max_line_size=8190,
                max_field_size=8190, max_headers=128,
            )  # fmt: skip
        return self._session


class _Resolver(AbstractResolver):
    """What the client asks for the addresses of names. Of numbers it asks nobody: `judged_socket` sees all."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        numbers = await self._egress.lead(UNDER_WAY.get())
        return [
            ResolveResult(
                hostname=host, host=number, port=port, proto=socket.IPPROTO_TCP, flags=socket.AI_NUMERICHOST,
                family=socket.AF_INET6 if ":" in number else socket.AF_INET,
            )
            for number in numbers
        ]  # fmt: skip

    async def close(self) -> None:
        pass


async def _read(response: aiohttp.ClientResponse, answer: _Answer) -> None:
    """Take an answer, as much of it as is kept."""
    answer.status, answer.headers = response.status, response.headers
    async for part in response.content.iter_any():
        answer.body += part[: LONGEST_BODY - len(answer.body)]
        if len(answer.body) == LONGEST_BODY:
            return


def _code(problem: Exception, stage: Stage, *, answered: bool) -> str:
    """What a failure was, by where it happened."""
    if isinstance(problem, TimeoutError):
        early = {Stage.DNS: "unresolvable", Stage.CONNECT: "connect_timeout", Stage.TLS: "connect_timeout"}
        return early.get(stage, "answer_timeout")
    if answered:  # its end is missing, but not its verdict
        return OK
    if stage is Stage.CONNECT:
        return "connect_refused"
    if stage is Stage.TLS:
        return "tls_error"
    malformed = isinstance(problem, aiohttp.ClientResponseError | Malformed | ValueError)
    return "bad_response" if malformed else "connection_lost"
