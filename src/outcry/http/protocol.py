"""One client connection: uvicorn's httptools protocol with the fast path before it and patience limited.

Added to it: requests answered from their bytes (`fastpath`), our error body for what is no HTTP, a time-out
for clients that connect and say nothing or never finish a request, and a bound on the size of a request's
head.
Rule kept: the fast path is taken only between messages: never while one is being parsed, answered or waits
in the pipeline, nor while the client is slow to read. Rests on private parts of uvicorn's class; uvicorn is
pinned and this is tested.
"""

import asyncio
from functools import partial
from time import monotonic
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from outcry.http.auth import anonymous
from outcry.http.edge import TRANSPORT, WHOLE, Edge, fixed_headers
from outcry.http.errors import Problem
from outcry.http.fastpath import EXTENSION, HotAnswers, Offer, whole_request
from outcry.http.limits import varying_headers, written
from outcry.http.requests import Asked

REQUEST_TIMEOUT_S = 10.0
MOST_HEAD_BYTES = 128 * 1024
_NOT_HTTP = Problem("invalid_parameter", "invalid_parameter.http", headers=((b"connection", b"close"),))


class EdgeProtocol(HttpToolsProtocol):
    """One connection. `hot` None switches the fast path off."""

    edge: Edge
    hot: HotAnswers | None
    whole = True
    #: The default headers written out: uvicorn makes new ones each second, for all connections.
    dated: list[tuple[bytes, bytes]] | None = None
    dated_head = b""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._in_message = False
        self._head_done = False
        self._begun = 0
        self._offer: Offer | None = None
        self._unread_bytes = 0
        self._patience: asyncio.TimerHandle | None = None
        self._idle_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request, though not for ever."""
        super().connection_made(transport)
        self._idle_since = monotonic()
        self._arm_keep_alive(REQUEST_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers, also after an error."""
        self._lose_patience_later(on=False)
        super()._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Answer from memory if these bytes are known and nothing else is under way; parse them otherwise."""
        hot = self.hot
        if hot is not None and not self._in_message:
            cycle = self.cycle
            at_rest = cycle is None or cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]
            if at_rest and not self.flow.write_paused and not self.transport.is_closing():
                parts = hot.serve(data, self.server_state.default_headers)
                if parts is not None:
                    self.transport.write(b"".join(parts))
                    # The timer looks when the connection fell idle once it rings.
                    self.server_state.total_requests += 1
                    self._idle_since = monotonic()
                    if self.timeout_keep_alive_task is None:
                        self._arm_keep_alive(self.timeout_keep_alive)
                    return
            self._offer = Offer(data) if whole_request(data) else None
        elif self._offer is not None:
            self._offer = None
        self._parse(data)

    @property
    def _at_rest(self) -> bool:
        """Whether no answer is under way, nor another request waiting for its turn."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    @property
    def _most_bytes(self) -> int:
        """How much of this request is read before it is hung up on."""
        roomy = self.edge.roomy.get(self.scope["path"], 0) if self._head_done else 0
        return max(MOST_HEAD_BYTES, roomy)

    def _parse(self, data: bytes) -> None:
        """Hand the bytes to the parser, and watch what they leave unfinished."""
        offer, begun = self._offer, self._begun
        super().data_received(data)
        if offer is not None:
            offer.standing = self._begun - begun == 1 and not self._in_message
        if self.transport.is_closing():
            return
        if not self._in_message:
            self._unread_bytes = 0
            if self.timeout_keep_alive_task is None and self._at_rest:
                self._arm_keep_alive(self.timeout_keep_alive)  # empty lines begin no request
            return
        self._unread_bytes += len(data)
        if self._unread_bytes > self._most_bytes:
            self.send_400_response("")
        elif self._patience is None:
            self._lose_patience_later(on=True)

    def on_message_begin(self) -> None:
        """Note that the parser is inside a message; offer its bytes for learning."""
        self._in_message = True
        self._head_done = False
        self._begun += 1
        super().on_message_begin()
        extensions = {} if self._offer is None else {EXTENSION: self._offer}
        self.scope["extensions"] = extensions  # type: ignore[typeddict-item]

    def on_headers_complete(self) -> None:
        """Note that the head was good: what follows belongs to a request being answered."""
        super().on_headers_complete()
        self._head_done = True
        self.scope["extensions"][TRANSPORT] = self.transport  # type: ignore[typeddict-item]
        if self.whole:
            # Bound to this very answer: with pipelining, `self.cycle` may be a later one by the time it is written.
            self.scope["extensions"][WHOLE] = partial(self._write_whole, self.cycle)  # type: ignore[typeddict-item]

    def _write_whole(self, cycle: RequestResponseCycle, status: int, head: list[bytes], body: bytes) -> bool:
        """Write a response at once: half of uvicorn's time goes into checking headers, which here are our own."""
        if cycle.response_started or cycle.disconnected or self.flow.write_paused:
            return False
        end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        if self.dated is not cycle.default_headers:
            shared = type(self)
            shared.dated, shared.dated_head = cycle.default_headers, written(cycle.default_headers)
        parts = (STATUS_LINE[status], self.dated_head, *head, end, body)
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        self.transport.write(b"".join(parts))
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
        return True

    def on_message_complete(self) -> None:
        """Note that the parser stands between messages again."""
        self._in_message = False
        self._lose_patience_later(on=False)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start the idle time, or the next answer of the pipeline: uvicorn's own, but for the timer."""
        self._idle_since = monotonic()
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self.timeout_keep_alive_task is None:
            self._arm_keep_alive(self.timeout_keep_alive)

    def _unset_keepalive_if_required(self) -> None:
        """Let the timer run on, but for the first request's: it looks for itself once it rings, and a new one
        for each request costs more than that."""
        if not self._begun:
            super()._unset_keepalive_if_required()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection idle for long enough; one that was answered meanwhile gets the rest, and one with
        an answer under way a new timer after it."""
        self.timeout_keep_alive_task = None
        if self._in_message or not self._at_rest:
            return
        left_s = self._idle_since + self.timeout_keep_alive - monotonic()
        if left_s > 0.001:
            self._arm_keep_alive(left_s)
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        """Say that this was no HTTP, in our own form, and hang up."""
        if self.transport.is_closing() or not self._at_rest or (self._in_message and self._head_done):
            self.transport.close()  # this request has its answer, or is getting it: a second is nobody's
            return
        edge = self.edge
        scope: dict[str, Any] = {
            "method": "GET",
            "path": "",
            "query_string": b"",
            "headers": [],
            "http_version": "1.1",
            "client": self.client,
        }
        asked = Asked(scope, edge.ids)
        caller = anonymous(asked.client)
        reply = edge.refuse(asked, "*", caller, edge.uncounted(caller), _NOT_HTTP)
        headers = [*self.server_state.default_headers, *reply.headers, *fixed_headers(caller)]
        headers += varying_headers(reply.verdict, asked.request_id.encode("ascii"))
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + written(headers) + b"\r\n" + reply.body)
        self.transport.close()
        self._lose_patience_later(on=False)

    def _arm_keep_alive(self, after_s: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(after_s, self.timeout_keep_alive_handler)

    def _lose_patience_later(self, *, on: bool) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if on:
            self._patience = self.loop.call_later(REQUEST_TIMEOUT_S, self.transport.close)


def protocol_for(edge: Edge, hot: HotAnswers | None) -> type[EdgeProtocol]:
    """Return the protocol class of one service: uvicorn makes the instances, so what they share is put on a
    subclass."""
    return type("BoundProtocol", (EdgeProtocol,), {"edge": edge, "hot": hot})
