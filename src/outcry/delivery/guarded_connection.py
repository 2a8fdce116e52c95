"""One connection: what may come over it, and whose turn it takes.

Rules kept: all octets count, whatever the protocol calls them; what comes unasked is nobody's answer, so the connection
over which it came is used no more; a message holds a turn at the address it is connected to, and at no other.
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
from aiohttp.http import RawResponseMessage
from aiohttp.tracing import Trace

from outcry.delivery.outbound_request import UNDER_WAY, Stage, judged_socket

#: Of one exchange, with everything: heads, interim answers, what chunks and trailers add, and 16 KiB of body.
MOST_RECEIVED = 80 * 1024
MOST_INTERIM = 16
_LOWEST_STATUS, _SUCCESS, _HIGHEST_STATUS = 100, 200, 599
_SWITCHING_PROTOCOLS = 101
_KEPT_ALIVE_S = 20.0
#: Before the head is there, what came is read in pieces of this size: a piece can hold many interim answers.
_PIECE = 4096


class Malformed(aiohttp.ClientError):
    """What came is no answer."""


class Wire(ResponseHandler):
    """A connection as the client sees it. `number`: the IP address at its other end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.number = ""
        self._socket: Any = None
        self._body: aiohttp.StreamReader | None = None
        self._received = self._interim = 0
        #: Since the last answer ended: nothing is asked.
        self._idle = self._unasked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `ResponseHandler`."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._socket = transport.get_extra_info("socket")
        self.number = str(ip_address(peer[0])) if peer else ""

    def is_connected(self) -> bool:
        """Whether it may be used. Over one that is idle nothing may have come, be it read yet or not."""
        return super().is_connected() and not (self._idle and self._is_readable())

    def set_response_params(self, **given: Any) -> None:
        """An exchange begins. See `ResponseHandler`."""
        self._body, self._received, self._interim, self._idle = None, 0, 0, False
        super().set_response_params(**given)

    def data_received(self, data: bytes) -> None:
        """See `ResponseHandler`; without data, reading goes on with what has come."""
        if self.transport is None:  # hung up
            return
        allowed = data[: MOST_RECEIVED - self._received]
        self._received += len(allowed)
        for piece in self._pieces(allowed):
            if self._idle and piece:
                self._unasked = True
            else:
                super().data_received(piece)
            if self._unasked or self.exception() is not None:
                self._hang_up()
                return
        if len(allowed) < len(data):
            self._hang_up()

    def feed_data(self, data: tuple[RawResponseMessage, aiohttp.StreamReader], size: int = 0) -> None:
        """A head has come. See `DataQueue`."""
        message, body = data
        if self._body is not None:
            self._unasked = True
        if self._unasked or self.exception() is not None:
            return
        final = message.code >= _SUCCESS or message.code == _SWITCHING_PROTOCOLS
        self._interim += not final
        if not _LOWEST_STATUS <= message.code <= _HIGHEST_STATUS or self._interim > MOST_INTERIM:
            self.set_exception(Malformed())
            return
        super().feed_data(data, size)
        if final:
            self._body = body
            body.on_eof(self._rest)

    def _rest(self) -> None:
        self._idle = True

    def _pieces(self, data: bytes) -> Iterable[bytes]:
        if self._body is not None or len(data) <= _PIECE:
            return (data,)
        return (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))

    def _hang_up(self) -> None:
        """No more of this, and no farewell: who floods would not hear it. What has come of an answer stands."""
        problem = self.exception()
        self.force_close()
        self.abort()
        if self._body is None:
            self.set_exception(problem or Malformed())
        elif not self._body.is_eof():
            self._body.feed_eof()

    def _is_readable(self) -> bool:
        watched = select.poll()
        watched.register(self._socket.fileno(), select.POLLIN)
        return bool(watched.poll(0))


class Connector(aiohttp.TCPConnector):
    """Makes connections for trips, and keeps them."""

    def __init__(self, resolver: AbstractResolver) -> None:
        super().__init__(
            resolver=resolver, use_dns_cache=False, socket_factory=judged_socket, limit=0,
            keepalive_timeout=_KEPT_ALIVE_S,
        )  # fmt: skip
        self._factory = partial(Wire, loop=asyncio.get_running_loop())

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """A connection, with a turn at its address: one made now has it. Raises `NoTurn`. See `BaseConnector`."""
        trip = UNDER_WAY.get()
        while True:
            connection = await super().connect(req, traces, timeout)
            wire = connection.protocol
            if not isinstance(wire, Wire) or not wire.number or trip.hold(wire.number):
                return connection
            trip.reach(Stage.TURN)
            try:
                await trip.take((wire.number,))
            except BaseException:
                connection.release()
                raise
            if wire.is_connected():  # still: the wait may have been long
                trip.reach(Stage.ANSWER)
                return connection
            connection.close()
