"""Post messages to webhook URLs that users chose, without letting them reach private networks.

Every delivery checks the text of the URL, and every new connection checks all IP addresses of its host. The host is
resolved once, so the connection goes to an address that was checked. TLS verifies the host name. Redirects, proxies,
cookies, compression and environment variables are ignored. Each stage of a request has a deadline. The start of a
response is stored, and the rest is not read. A failure is reported as a code, without any text from the server.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from outcry import __version__
from outcry.base.clock import Clock, SystemClock
from outcry.delivery.guarded_connection import LONGEST_BODY, GuardedConnection, GuardedConnector, Malformed
from outcry.delivery.outbound_request import CURRENT_REQUEST, ObservedHandshake, OutboundRequest, Stage
from outcry.delivery.resolver import OK, Blocked, GuardedResolver, Unresolvable, resolve_results
from outcry.delivery.slots import NoSlotFree, Slots
from outcry.delivery.tls_sessions import TlsSessions
from outcry.delivery.url_rule import Destination

USER_AGENT = f"Outcry/{__version__} (+webhooks)"
_OUR_HEADERS = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", "Accept": "*/*"}
#: Maximum number of IP addresses of a host to dial. All are checked.
_MOST_TRIED = 8
_MOST_CACHED_URLS = 4096
#: Deadlines depend on the stage; aiohttp would round them up.
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)


@dataclass(frozen=True, slots=True)
class Limits:
    """Deadlines of the stages of a request, and limits of concurrent requests.

    One limit applies to all requests together. The other applies to the requests at each IP address, whatever host name
    they were sent to.
    """

    connect_s: float = 5.0
    total_s: float = 15.0
    slot_wait_s: float = 2.0
    at_once: int = 512
    at_address: int = 32


@dataclass(frozen=True, slots=True)
class Reply:
    """Result of posting a message.

    - `code`: `ok` if the HTTP response was complete enough to interpret, with any status, else the failure.
    - `headers`: case-insensitive; `body`: the first 16 KiB, as received.
    - `phases_ms`: durations of `dns`, `connect`, `tls` and `answer` (until the response headers), as far as reached. A
      reused connection has `answer` only.
    """

    code: str
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    took_ms: int = 0
    phases_ms: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Target:
    """The data that all requests to one URL share.

    - `connecting`: names host and TLS context to aiohttp's connector; never sent.
    - `head`: the request line and the header `Host`.
    """

    destination: Destination
    connecting: aiohttp.ClientRequest
    head: str


@dataclass(slots=True)
class _PartialReply:
    """The part of an HTTP response that has been received so far."""

    code: str = OK
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytearray = field(default_factory=bytearray)


class Egress:
    """Check webhook URLs and post to them.

    Used on one event loop. `trust`: TLS context for public hosts. `private_trust`: TLS context for private hosts that
    the operator allowed; default: `trust`. `clock`: decides when a stored TLS session may no longer be resumed.
    """

    def __init__(
        self, resolver: GuardedResolver, trust: ssl.SSLContext, private_trust: ssl.SSLContext | None = None,
        limits: Limits | None = None, clock: Clock | None = None,
    ) -> None:  # fmt: skip
        self._sessions = TlsSessions(clock or SystemClock())
        self._limits, self._resolver = limits or Limits(), resolver
        self._trust, self._private_trust = trust, private_trust or trust
        trust.sslobject_class = self._private_trust.sslobject_class = ObservedHandshake
        self._read = lru_cache(_MOST_CACHED_URLS)(self._parse)
        self._connector: GuardedConnector | None = None
        self._all, self._at_address = Slots(self._limits.at_once), Slots(self._limits.at_address)

    async def check(self, url: str) -> str:
        """Check a webhook URL. Return `ok`, the `endpoint_*` code of its fault, or `unverified`.

        `unverified` means that the host cannot be resolved now.
        """
        return await self._resolver.check(url)

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Post a message once. A failure is a code in the reply, not an exception."""
        read = self._read(url)
        if isinstance(read, str):
            return Reply(read)
        begun_s = time.perf_counter()
        try:
            reply, phases_ms = await self._request(read, body, headers)
        except NoSlotFree:
            return Reply("too_busy")
        took_ms = round((time.perf_counter() - begun_s) * 1000)
        return Reply(reply.code, reply.status, reply.headers, bytes(reply.body), took_ms, phases_ms)

    async def close(self) -> None:
        """Close all connections."""
        if self._connector is not None:
            await self._connector.close()
        await self._resolver.close()

    async def resolve(self, request: OutboundRequest) -> tuple[str, ...]:
        """Return the IP addresses to connect to, and acquire a slot at the first of them that has one free.

        A slot is the permission for one more request. Raises `OSError`; the code on the request names the reason.
        """
        request.enter(Stage.DNS)
        try:
            found = await self._resolver.addresses(request.destination)
            addresses = tuple(map(str, found[:_MOST_TRIED]))
            request.enter(Stage.SLOT)
            first = await request.acquire(addresses)
        except Unresolvable:
            request.code = "unresolvable"
        except Blocked:
            request.code = "blocked_address"
        except NoSlotFree:
            request.code = "too_busy"
        else:
            return first, *(address for address in addresses if address != first)
        raise OSError(request.code)

    async def _request(
        self, target: _Target, body: bytes, headers: Mapping[str, str]
    ) -> tuple[_PartialReply, tuple[tuple[str, int], ...]]:
        """Send an HTTP request once a slot is free; return the response and the durations of its stages.

        A slot is the permission for one more request. Raises `NoSlotFree` if too many requests already run.
        """
        await self._all.acquire(("",), self._limits.slot_wait_s)
        reply = _PartialReply()
        limits, allows = self._limits, self._resolver.may_connect
        end_s = asyncio.get_running_loop().time() + limits.total_s
        deadline = asyncio.timeout_at(end_s)
        request = OutboundRequest(
            target.destination, allows, deadline, end_s, limits.connect_s, self._at_address, limits.slot_wait_s,
            self._sessions,
        )  # fmt: skip
        token = CURRENT_REQUEST.set(request)  # callbacks of its connection see it too
        try:
            async with deadline:
                await self._exchange(request, target, _rendered(target, body, headers), reply)
        except NoSlotFree:
            reply.code = "too_busy"
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            reply.code = request.code or _code(problem, request.stage, answered=reply.status is not None)
        finally:
            CURRENT_REQUEST.reset(token)
            self._all.release("")
            if request.handshake is not None and request.stage is Stage.TLS:
                request.handshake.suspend_sessions(self._sessions)
            request.finish()
            request.release()
        return reply, tuple(request.phases_ms)

    async def _exchange(
        self, request: OutboundRequest, target: _Target, data: bytes, reply: _PartialReply
    ) -> None:
        if request.destination.ip is not None:  # aiohttp does not resolve IP addresses
            await request.acquire((str(request.destination.ip),))
        connection = await self._opened().connect(target.connecting, [], _NO_TIMEOUT)
        protocol = cast("GuardedConnection", connection.protocol)
        try:
            message, body = await protocol.exchange(data)
            request.finish()
            if request.handshake is not None:
                request.handshake.keep_session(self._sessions)
            reply.status, reply.headers = message.code, message.headers
            await _read(body, reply)
        finally:
            if not protocol.is_complete:  # a TLS shutdown would wait for the server's
                protocol.abort()
            connection.release()

    def _parse(self, text: str) -> _Target | str:
        destination = self._resolver.rule.check(text)
        if isinstance(destination, str):
            return destination
        url = URL(destination.url, encoded=True)
        trust = self._private_trust if destination.admitted else self._trust
        connecting = aiohttp.ClientRequest("POST", url, ssl=trust, loop=asyncio.get_running_loop())
        host = connecting.headers["Host"]
        return _Target(destination, connecting, f"POST {url.raw_path_qs} HTTP/1.1\r\nHost: {host}\r\n")

    def _opened(self) -> GuardedConnector:
        if self._connector is None:  # created here, because it belongs to the running loop
            self._connector = GuardedConnector(_RequestResolver(self))
        return self._connector


class _RequestResolver(AbstractResolver):
    """Resolver that aiohttp calls for the host of the current request.

    If the URL contains an IP address, aiohttp calls no resolver, and `guarded_socket` checks the address.
    """

    def __init__(self, egress: Egress) -> None:
        self._egress = egress

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return resolve_results(host, port, await self._egress.resolve(CURRENT_REQUEST.get()))

    async def close(self) -> None:
        pass


def _rendered(target: _Target, body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return the bytes of a request. Raises `ValueError` if a header contains a line break."""
    fields = {**headers, **_OUR_HEADERS, "Content-Length": str(len(body))}
    if not "".join(fields.values()).isprintable():
        raise ValueError("a header contains a control character")
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
    return f"{target.head}{lines}\r\n".encode() + body


async def _read(body: aiohttp.StreamReader, reply: _PartialReply) -> None:
    """Read the part of a response body that is stored."""
    async for part in body.iter_any():
        reply.body += part[: LONGEST_BODY - len(reply.body)]
        if len(reply.body) == LONGEST_BODY:
            return


def _code(problem: Exception, stage: Stage, *, answered: bool) -> str:
    """Return the code for an exception that occurred in a stage of the request."""
    if isinstance(problem, TimeoutError):
        early = {Stage.DNS: "unresolvable", Stage.CONNECT: "connect_timeout", Stage.TLS: "connect_timeout"}
        return early.get(stage, "answer_timeout")
    if answered:  # the body is incomplete, but its status decides
        return OK
    if stage is Stage.CONNECT:
        return "connect_refused"
    if stage is Stage.TLS:
        return "tls_error"
    malformed = isinstance(problem, Malformed | ValueError)
    return "bad_response" if malformed else "connection_lost"
