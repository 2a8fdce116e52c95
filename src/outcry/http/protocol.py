"""One client connection: the strict protocol, and two faster ways to respond.

- The fast path (`fastpath`) answers a received packet before it is parsed.
- After parsing, a request is answered at once, without starting the application, if the response is in memory.

Both ways are used only between messages. They are not used while a request is parsed, answered or pipelined, or while
the client reads slowly. The application writes a whole response at once.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from time import monotonic, monotonic_ns
from typing import Any, cast

from httptools import HttpRequestParser
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from outcry.http.cache import CacheEntry
from outcry.http.connections import Connections
from outcry.http.edge import WHOLE, Edge, Reply, head_parts
from outcry.http.fastpath import FastPathCache
from outcry.http.parking import Parking
from outcry.http.requests import Request
from outcry.http.strict_protocol import StrictProtocol

AnswerAtOnce = Callable[[Request], Reply | None]


class EdgeProtocol(StrictProtocol):
    """The protocol of one client connection.

    `at_once`: returns the response to a request from memory, or None. `fast_path`: the cache of the fast path.
    `parking`: serves connections between requests. Each may be None, which disables that way to respond.
    """

    def __init__(
        self,
        edge: Edge,
        at_once: AnswerAtOnce | None,
        fast_path: FastPathCache | None,
        connections: Connections,
        parking: Parking | None,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(edge, connections, config, server_state, app_state, _loop)
        self.at_once = at_once
        self.fast_path = fast_path
        self.parking = parking
        #: The file descriptor of a parked connection.
        self._parked_fd: int | None = None
        #: What the fast path can learn from the last request.
        self._lesson: tuple[bytes, Request, Reply, CacheEntry | None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the parked ones, and clean up."""
        if self.parking is not None and self._parked_fd is not None:
            self.parking.leave(self._parked_fd, self)
            self._parked_fd = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Answer received bytes from the fast path if it knows the request; otherwise parse them.

        The fast path is not used while another request is in progress.
        """
        between = self._is_between()
        if self.fast_path is not None and between:
            response = self.fast_path.serve(data, self.server_state.default_headers)
            if response is not None:
                self._write_response(response)
                if self.parking is not None:
                    self.loop.call_soon(self._park)  # once the response is written
                return
        self._handle_packet(data, learns=between)

    def _handle_packet(self, data: bytes, *, learns: bool) -> None:
        """Parse received bytes.

        `learns`: whether no message was in progress, so that the fast path may cache the request.
        """
        super().data_received(data)
        if self.fast_path is not None and self._lesson is not None and learns and not self._in_message:
            self.fast_path.learn(data, *self._lesson)
        self._lesson = None

    def _is_between(self) -> bool:
        """Return whether no message is in progress and a response could be written at once."""
        return not self._in_message and not self._refused and self._is_idle()

    def _is_idle(self) -> bool:
        """Return whether no request is being answered and a response could be written at once."""
        return not (self._unanswered or self.flow.write_paused or self.transport.is_closing())

    def _park(self) -> None:
        """Park the connection, so that its next requests are served without the transport.

        This happens only if the transport has nothing left to write.
        """
        transport = self.transport
        if (
            self.parking is None
            or self._parked_fd is not None
            or self.scheme != "http"
            or not self._is_between()
        ):
            return
        if transport.is_reading() and not transport.get_write_buffer_size():
            transport.pause_reading()
            self._parked_fd = fd = transport.get_extra_info("socket").fileno()
            self.parking.park(fd, self)

    def unpark(self, received: bytes, unsent: bytes) -> None:
        """Return the connection to its asyncio transport: write `unsent`, and parse `received`."""
        self._parked_fd = None
        self._idle_until = monotonic() + self.timeout_keep_alive
        if unsent:
            self.transport.write(unsent)
        self.transport.resume_reading()
        if received:
            self._handle_packet(received, learns=True)

    def abort(self) -> None:
        """Close the connection at once, after an unexpected error."""
        self.transport.abort()

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if it was idle for long enough. The time for which it was parked counts too."""
        if self.parking is not None and self._parked_fd is not None:
            served_s = self.parking.served_ns(self._parked_fd) / 1e9
            self._idle_until = max(self._idle_until, served_s + self.timeout_keep_alive)
        super().timeout_keep_alive_handler()

    def _write_response(self, response: bytes) -> None:
        """Write a whole response to the request that is in progress, which must be the only one."""
        self.transport.write(response)
        self.server_state.total_requests += 1
        self._idle_until = monotonic() + self.timeout_keep_alive  # the timer reads this when it fires
        if self.timeout_keep_alive_task is None:
            self._arm_keep_alive(self.timeout_keep_alive)

    def _begin_answer(self) -> None:
        """Answer the current request from memory, or start the application."""
        if self._body_left == 0 and self.url.startswith(b"/api/") and self._answer_at_once():
            self._answered = True
            return
        super()._begin_answer()
        # Bound to this very answer: with pipelining, `self.cycle` may be a later one by the time it is written.
        self._extend(WHOLE, partial(self._write_whole, self.cycle))

    def _answer_at_once(self) -> bool:
        """Answer the current request from memory if it has no body; return whether that was possible."""
        request = self._plain_request() if self.at_once is not None and self._is_idle() else None
        if request is None or self.at_once is None:
            return False
        started_ns = monotonic_ns()
        reply = self.at_once(request)
        if reply is None:
            return False
        first = self.edge.first_lines.of(reply.status, self.server_state.default_headers)
        head = head_parts(reply, request.id_bytes)
        self._write_response(b"".join((first, *head, b"\r\n", reply.body)))
        self.edge.note(request, reply.route, reply.status, reply.caller, started_ns)
        self._lesson = (self.url, request, reply, reply.entry)
        return True

    def _plain_request(self) -> Request | None:
        """Return the current request if it is a GET without headers that change how its connection is handled."""
        target = self.edge.targets.divide(self.url)
        parser = cast("HttpRequestParser", self.parser)
        # without a header that says so, only HTTP/1.1 keeps the connection
        if target is None or parser.get_method() != b"GET" or not parser.should_keep_alive():
            return None
        client = self.client[0] if self.client else ""
        request = Request("GET", target[0], target[1], self.headers, client, self.edge.ids)
        return request if request.plain else None

    def _write_whole(self, cycle: RequestResponseCycle, status: int, head: list[bytes], body: bytes) -> bool:
        """Write a response at once, without the checks of its headers.

        uvicorn would spend half of its time on these checks. Here the headers are our own.
        """
        if cycle.response_started or cycle.disconnected or self.flow.write_paused:
            return False
        end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        parts = (self.edge.first_lines.of(status, cycle.default_headers), *head, end, body)
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        self.transport.write(b"".join(parts))
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
        return True


def protocol_for(
    edge: Edge,
    at_once: AnswerAtOnce,
    fast_path: FastPathCache | None,
    connections: Connections,
    parking: Parking | None = None,
) -> Callable[..., EdgeProtocol]:
    """Return a function that creates the protocol of a connection, for uvicorn."""
    return partial(EdgeProtocol, edge, at_once, fast_path, connections, parking)
