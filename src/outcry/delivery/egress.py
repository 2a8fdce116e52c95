"""Post messages to webhook URLs that users chose, without letting them reach private networks.

Every delivery checks the text of the URL, and every new connection checks all IP addresses of its host. The host is
resolved once, so the connection goes to an address that was checked. TLS verifies the host name. Redirects, proxies,
cookies, compression and environment variables are ignored. Each stage has a deadline, and the rest of a response beyond
the stored part is not read. A failure is a code without any text of the server.
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
from outcry.delivery.guarded_connection import GuardedConnector, Malformed
from outcry.delivery.outbound_request import CURRENT_REQUEST, ObservedHandshake, OutboundRequest, Stage
from outcry.delivery.resolver import OK, Blocked, GuardedResolver, Unresolvable, resolve_results
from outcry.delivery.slots import NoSlotFree, Slots
from outcry.delivery.url_rule import Destination

USER_AGENT = f"Outcry/{__version__} (+webhooks)"
LONGEST_BODY = 16 * 1024
_OUR_HEADERS = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
#: Maximum number of IP addresses of a host to dial. All are checked.
_MOST_TRIED = 8
_MOST_CACHED_URLS = 4096
_SWITCHING_PROTOCOLS = 101
#: Deadlines depend on the stage; aiohttp would round them up.
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)


@dataclass(frozen=True, slots=True)
class Limits:
    """Deadlines of the stages of a request, and limits of concurrent requests.

    One limit applies to all requests, the other to each IP address, for all names that resolve to it.
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


@dataclass(slots=True)
class _PartialReply:
    """The part of an HTTP response that has been received so far."""

    code: str = OK
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytearray = field(default_factory=bytearray)


class Egress:
    """Check webhook URLs and post to them.

    Used on one event loop. `trust` is the TLS context of public hosts, `private_trust` of hosts that the operator
    allowed; default: the same.
    """

    def __init__(
        self, resolver: GuardedResolver, trust: ssl.SSLContext, private_trust: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:  # fmt: skip
        self._limits, self._resolver = limits or Limits(), resolver
        self._trust, self._private_trust = trust, private_trust or trust
        trust.sslobject_class = self._private_trust.sslobject_class = ObservedHandshake
        self._read = lru_cache(_MOST_CACHED_URLS)(self._parse)
        self._session: aiohttp.ClientSession | None = None
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
            reply, phases_ms = await self._request(*read, body, headers)
        except NoSlotFree:
            return Reply("too_busy")
        took_ms = round((time.perf_counter() - begun_s) * 1000)
        return Reply(reply.code, reply.status, reply.headers, bytes(reply.body), took_ms, phases_ms)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
        await self._resolver.close()

    async def resolve(self, request: OutboundRequest) -> tuple[str, ...]:
        """Return the IP addresses to connect to, and acquire a slot at the first of them.

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
        self, destination: Destination, url: URL, body: bytes, headers: Mapping[str, str]
    ) -> tuple[_PartialReply, tuple[tuple[str, int], ...]]:
        """Send an HTTP request once a slot is free; return the response and the durations of its stages.

        Raises `NoSlotFree` if too many requests run in all.
        """
        await self._all.acquire(("",), self._limits.slot_wait_s)
        reply = _PartialReply()
        limits, allows = self._limits, self._resolver.may_connect
        end_s = asyncio.get_running_loop().time() + limits.total_s
        deadline = asyncio.timeout_at(end_s)
        request = OutboundRequest(
            destination, allows, deadline, end_s, limits.connect_s, self._at_address, limits.slot_wait_s
        )
        token = CURRENT_REQUEST.set(request)  # callbacks of its connection see it too
        try:
            async with deadline:
                await self._exchange(request, url, body, headers, reply)
        except NoSlotFree:
            reply.code = "too_busy"
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            reply.code = request.code or _code(problem, request.stage, answered=reply.status is not None)
        finally:
            CURRENT_REQUEST.reset(token)
            self._all.release("")
            request.finish()
            request.release()
        return reply, tuple(request.phases_ms)

    async def _exchange(
        self,
        request: OutboundRequest,
        url: URL,
        body: bytes,
        headers: Mapping[str, str],
        reply: _PartialReply,
    ) -> None:
        if request.destination.ip is not None:  # aiohttp does not resolve IP addresses
            await request.acquire((str(request.destination.ip),))
        trust = self._private_trust if request.destination.admitted else self._trust
        async with self._client().post(
            url, data=body, headers={**headers, **_OUR_HEADERS}, ssl=trust, allow_redirects=False
        ) as response:
            request.finish()
            try:
                if response.status == _SWITCHING_PROTOCOLS:
                    reply.code = "bad_response"
                else:
                    await _read(response, reply)
            finally:
                # An incomplete response: a TLS shutdown would wait for the server's.
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()

    def _parse(self, text: str) -> tuple[Destination, URL] | str:
        destination = self._resolver.rule.check(text)
        if isinstance(destination, str):
            return destination
        return destination, URL(destination.url, encoded=True)

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:  # created here, because it belongs to the running loop
            self._session = aiohttp.ClientSession(
                connector=GuardedConnector(_RequestResolver(self)), timeout=_NO_TIMEOUT,
                cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, trust_env=False,
                read_bufsize=LONGEST_BODY, max_line_size=8190, max_field_size=8190, max_headers=128,
            )  # fmt: skip
        return self._session


class _RequestResolver(AbstractResolver):
    """Resolver that aiohttp calls for the host of the current request.

    aiohttp does not call it for IP addresses. `guarded_socket` checks those.
    """

    def __init__(self, egress: Egress) -> None:
        self._egress = egress

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return resolve_results(host, port, await self._egress.resolve(CURRENT_REQUEST.get()))

    async def close(self) -> None:
        pass


async def _read(response: aiohttp.ClientResponse, reply: _PartialReply) -> None:
    """Read the part of a response that is stored."""
    reply.status, reply.headers = response.status, response.headers
    async for part in response.content.iter_any():
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
    malformed = isinstance(problem, aiohttp.ClientResponseError | Malformed | ValueError)
    return "bad_response" if malformed else "connection_lost"
