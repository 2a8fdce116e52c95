"""HTTP connections that limit what a server may send, and how many requests run at one IP address.

Every received byte counts, whichever part of the protocol it belongs to. If a server sends data without a request, the
connection is closed, so that this data is not taken for the response to the next request. The classes extend internal
parts of aiohttp; `tests/delivery/test_guarded_connection.py` checks that these still exist.
"""

import asyncio
import select
from collections.abc import Iterable
from functools import partial
from ipaddress import ip_address
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.tracing import Trace

from outcry.delivery.outbound_request import CURRENT_REQUEST, Stage, guarded_socket

#: Part of a response body that is stored.
LONGEST_BODY = 16 * 1024
#: Bytes of one exchange: headers, interim responses, chunk framing, trailers, and the stored part of the body.
MOST_RECEIVED = 80 * 1024
MOST_INTERIM = 16
_LOWEST_STATUS, _SUCCESS, _HIGHEST_STATUS = 100, 200, 599
_SWITCHING_PROTOCOLS = 101
_KEEP_ALIVE_S = 20.0
#: Data before the response headers is parsed in parts of this size, because it can hold many interim responses.
_PART = 4096


class Malformed(aiohttp.ClientError):
    """The server sent no valid HTTP response."""


class GuardedConnection(ResponseHandler):
    """An HTTP connection that limits what its server may send. `peer` is the IP address at its other end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.peer = ""
        self._socket: Any = None
        self._body: aiohttp.StreamReader | None = None
        self._received = self._interim = 0
        #: `_idle`: no request since the last response ended; `_unsolicited`: data came while idle.
        self._idle = self._unsolicited = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the socket and the IP address of a new connection."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._socket = transport.get_extra_info("socket")
        self.peer = str(ip_address(peer[0])) if peer else ""

    def is_connected(self) -> bool:
        """Return whether the connection can be used.

        An idle connection that has received data, read or unread, cannot be used.
        """
        return super().is_connected() and not (self._idle and self._is_readable())

    async def exchange(self, request: bytes) -> tuple[RawResponseMessage, aiohttp.StreamReader]:
        """Send a request; return status and headers of its response, and the body, which may still arrive.

        Raises `Malformed`, other kinds of `aiohttp.ClientError`, and `OSError`.
        """
        self._body, self._received, self._interim, self._idle = None, 0, 0, False
        self.set_response_params(
            read_until_eof=True, auto_decompress=False, read_bufsize=LONGEST_BODY, max_line_size=8190,
            max_field_size=8190, max_headers=128,
        )  # fmt: skip
        transport = self.transport
        if transport is None or transport.is_closing():
            raise aiohttp.ClientConnectionResetError("the server closed the connection")
        transport.write(request)
        try:
            message, body = await self.read()
            while message.code < _SUCCESS and message.code != _SWITCHING_PROTOCOLS:
                message, body = await self.read()
        except HttpProcessingError as problem:
            raise Malformed from problem
        if message.code == _SWITCHING_PROTOCOLS:
            raise Malformed
        return message, body

    @property
    def is_complete(self) -> bool:
        """Whether the last response has ended, so that another request may use the connection."""
        return self._idle

    def data_received(self, data: bytes) -> None:
        """Parse received bytes up to the limits. aiohttp passes empty data to continue with bytes received before."""
        if self.transport is None:  # aborted
            return
        allowed = data[: MOST_RECEIVED - self._received]
        self._received += len(allowed)
        for part in self._parts(allowed):
            if self._idle and part:
                self._unsolicited = True
            else:
                super().data_received(part)
            if self._unsolicited or self.exception() is not None:
                self._abort()
                return
        if len(allowed) < len(data):
            self._abort()

    def feed_data(self, data: tuple[RawResponseMessage, aiohttp.StreamReader], size: int = 0) -> None:
        """Accept parsed response headers, unless the status is invalid or too many interim (1xx) responses came."""
        message, body = data
        if self._body is not None:
            self._unsolicited = True
        if self._unsolicited or self.exception() is not None:
            return
        final = message.code >= _SUCCESS or message.code == _SWITCHING_PROTOCOLS
        self._interim += not final
        if not _LOWEST_STATUS <= message.code <= _HIGHEST_STATUS or self._interim > MOST_INTERIM:
            self.set_exception(Malformed())
            return
        super().feed_data(data, size)
        if final:
            self._body = body
            body.on_eof(self._become_idle)

    def _become_idle(self) -> None:
        self._idle = True

    def _parts(self, data: bytes) -> Iterable[bytes]:
        if self._body is not None or len(data) <= _PART:
            return (data,)
        return (data[at : at + _PART] for at in range(0, len(data), _PART))

    def _abort(self) -> None:
        """Close without a TLS shutdown message, because a server that floods the connection would not read it.

        A response received so far stays valid.
        """
        problem = self.exception()
        self.force_close()
        self.abort()
        if self._body is None:
            self.set_exception(problem or Malformed())
        elif not self._body.is_eof():
            self._body.feed_eof()

    def _is_readable(self) -> bool:
        if hasattr(select, "poll"):  # has no limit of descriptors
            watched = select.poll()
            watched.register(self._socket.fileno(), select.POLLIN)
            return bool(watched.poll(0))
        return bool(select.select([self._socket], [], [], 0)[0])  # Windows


class GuardedConnector(aiohttp.TCPConnector):
    """Create and reuse connections for outbound requests. Limits the simultaneous requests to one IP address."""

    def __init__(self, resolver: AbstractResolver) -> None:
        super().__init__(
            resolver=resolver, use_dns_cache=False, socket_factory=guarded_socket, limit=0,
            keepalive_timeout=_KEEP_ALIVE_S,
        )  # fmt: skip
        self._factory = partial(GuardedConnection, loop=asyncio.get_running_loop())

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """Return a connection with a slot (permission for one request) at its IP address. Raises `NoSlotFree`.

        A new connection acquired its slot when its socket was created. For a reused one, this method waits for a slot.
        """
        request = CURRENT_REQUEST.get()
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            if not isinstance(protocol, GuardedConnection) or not protocol.peer:
                return connection
            if request.try_acquire(protocol.peer):
                return connection
            request.enter(Stage.SLOT)
            try:
                await request.acquire((protocol.peer,))
            except BaseException:
                connection.release()
                raise
            if protocol.is_connected():  # the server may have closed it during the wait
                request.enter(Stage.ANSWER)
                return connection
            connection.close()
