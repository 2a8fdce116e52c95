"""One client connection: the strict protocol with two shorter ways to an answer.

- The fast path (`fastpath`) answers a received packet before it is parsed.
- A parsed request is answered at once, without the application's task, if memory has the answer.

Both ways are used only between messages: not while a request is parsed, answered or pipelined, nor while the client
reads slowly. The application writes a whole response in one piece.
"""

import asyncio
import re
from collections.abc import Callable
from functools import partial
from time import monotonic, monotonic_ns
from typing import Any, cast

from httptools import HttpRequestParser
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle
from uvicorn.server import ServerState

from outcry.http.cache import CacheEntry
from outcry.http.connections import Connections
from outcry.http.edge import WHOLE, Answered, Edge, Reply, head_parts
from outcry.http.fastpath import FastPathCache
from outcry.http.limits import header_bytes
from outcry.http.requests import Request
from outcry.http.strict_protocol import StrictProtocol

#: Paths that need no decoding.
_PLAIN_PATH = re.compile(rb"[A-Za-z/]+")
AnswerAtOnce = Callable[[Request], Answered | None]


class EdgeProtocol(StrictProtocol):
    """The protocol of one client connection.

    `at_once`: answers a request from memory, or returns None. `fast_path`: the cache of the fast path. None disables
    either.
    """

    at_once: AnswerAtOnce | None
    fast_path: FastPathCache | None
    whole = True

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        #: What the fast path can learn from the last request.
        self._lesson: tuple[bytes, Request, Reply, CacheEntry | None] | None = None

    def data_received(self, data: bytes) -> None:
        """Answer from the fast path if it knows the request and no other is in progress; otherwise parse the bytes."""
        between = not self._in_message and not self._refused and self._is_idle()
        fast_path = self.fast_path
        if fast_path is not None and between:
            response = fast_path.serve(data, self.server_state.default_headers)
            if response is not None:
                self._write_response(response)
                return
        super().data_received(data)
        if fast_path is not None and self._lesson is not None and between and not self._in_message:
            fast_path.learn(data, *self._lesson)
        self._lesson = None

    def _is_idle(self) -> bool:
        """Return whether a response can be written at once."""
        return not (self._unanswered or self.flow.write_paused or self.transport.is_closing())

    def _write_response(self, response: bytes) -> None:
        """Write a whole response to the only request in progress."""
        self.transport.write(response)
        self.server_state.total_requests += 1
        self._idle_until = monotonic() + self.timeout_keep_alive  # the timer reads this when it fires
        if self.timeout_keep_alive_task is None:
            self._arm_keep_alive(self.timeout_keep_alive)

    def _begin_answer(self) -> None:
        """Answer from memory, or start the application."""
        if self._body_left == 0 and self.url.startswith(b"/api/") and self._answer_at_once():
            self._answered = True
            return
        super()._begin_answer()
        if self.whole:
            # Bound to this very answer: with pipelining, `self.cycle` may be a later one by the time it is written.
            self.scope["extensions"][WHOLE] = partial(self._write_whole, self.cycle)  # type: ignore[typeddict-item]

    def _answer_at_once(self) -> bool:
        """Answer a request without a body from memory; return whether that was possible."""
        request = self._plain_request() if self.at_once is not None and self._is_idle() else None
        if request is None or self.at_once is None:
            return False
        started_ns = monotonic_ns()
        answered = self.at_once(request)
        if answered is None:
            return False
        reply, request_id = answered.reply, request.request_id.encode("ascii")
        dated = header_bytes(self.server_state.default_headers)
        head = head_parts(reply, request_id)
        self._write_response(b"".join((STATUS_LINE[reply.status], dated, *head, b"\r\n", reply.body)))
        self.edge.note(request, reply.route, reply.status, reply.caller, started_ns)
        self._lesson = (self.url, request, reply, answered.entry)
        return True

    def _plain_request(self) -> Request | None:
        """Return the current request if it is a GET with nothing that changes how its connection is handled."""
        parser = cast("HttpRequestParser", self.parser)
        path, _, query = self.url.partition(b"?")
        if parser.get_method() != b"GET" or not _PLAIN_PATH.fullmatch(path) or b"#" in query:
            return None
        scope = cast("dict[str, Any]", self.scope)
        scope["method"], scope["path"], scope["query_string"] = "GET", path.decode("ascii"), query
        scope["http_version"] = parser.get_http_version()
        request = Request(scope, self.edge.ids)
        return request if request.plain else None

    def _write_whole(self, cycle: RequestResponseCycle, status: int, head: list[bytes], body: bytes) -> bool:
        """Write a response at once. uvicorn would spend half of its time checking headers, which are our own here."""
        if cycle.response_started or cycle.disconnected or self.flow.write_paused:
            return False
        end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        parts = (STATUS_LINE[status], header_bytes(cycle.default_headers), *head, end, body)
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        self.transport.write(b"".join(parts))
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
        return True


def protocol_for(
    edge: Edge, at_once: AnswerAtOnce, fast_path: FastPathCache | None, connections: Connections
) -> type[EdgeProtocol]:
    """Return a protocol class bound to one service, because uvicorn creates the instances."""
    bound = {"edge": edge, "at_once": at_once, "fast_path": fast_path, "open_connections": connections}
    return type("BoundProtocol", (EdgeProtocol,), bound)
