"""One client connection: uvicorn's httptools protocol with stricter rules.

It adds to uvicorn's class:

- our error body for malformed HTTP,
- timeouts for clients that send nothing or never finish a request,
- an exact maximum size of a request's head (request line and headers),
- rules of RFC 9112 that the parser leaves to the server: white space around header values, exactly one `Host`.

Requests that come before malformed bytes are answered first; bytes after the malformed ones are not read. The module
depends on private parts of uvicorn's class, so it is used only with tested versions (`tested_uvicorn`).
"""

import asyncio
import re
from functools import lru_cache
from time import monotonic
from typing import Any, Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from outcry.http.auth import anonymous
from outcry.http.connections import Connections
from outcry.http.edge import STATUS_LINE, TRANSPORT, Edge, fixed_headers
from outcry.http.errors import Problem
from outcry.http.limits import header_bytes, limit_headers
from outcry.http.requests import Request

REQUEST_TIMEOUT_S = 10.0
MOST_HEAD_BYTES: Final = 128 * 1024
#: Maximum bytes of a body that arrive before the application counts them: uvicorn buffers 64 KiB before it stops
#: reading, and one read returns up to 256 KiB. Within it, the application refuses a large body with its own reason.
_UNREAD_BYTES = 320 * 1024
#: How long a connection refused at once stays open, so that the client can read the reason.
_LINGER_S = 1.0
_CLOSE = ((b"connection", b"close"),)
_NOT_HTTP: Final = Problem("invalid_parameter", "invalid_parameter.http", headers=_CLOSE)
_LONG_HEAD: Final = Problem(
    "invalid_parameter", "invalid_parameter.head", headers=_CLOSE, words={"limit": MOST_HEAD_BYTES}
)
_WRONG_HOST: Final = Problem("invalid_parameter", "invalid_parameter.host", headers=_CLOSE)
_HEAD_END: Final = b"\r\n\r\n"
#: `uri-host [ ":" port ]` of RFC 3986; empty where the target has no authority (RFC 9112 §3.2).
_HOST = re.compile(rb"(?:\[[0-9A-Za-z:.%_~-]+\]|[0-9A-Za-z._~!$&'()*+,;=%-]*)(?::[0-9]*)?", re.ASCII)


#: Headers that decide where a request ends and whom it is for.
_FRAMING: Final = frozenset({b"host", b"content-length", b"transfer-encoding"})
_LONGEST_CACHED: Final = 256


class _Refused(Exception):
    """Stops the parser, because a request's head is refused."""


class StrictProtocol(HttpToolsProtocol):
    """uvicorn's protocol of one client connection, with stricter rules.

    The subclass `EdgeProtocol` adds faster responses.
    """

    def __init__(
        self,
        edge: Edge,
        connections: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.edge = edge
        self.open_connections = connections
        self._in_message = False
        self._head_done = False
        #: Whether the current message was answered before it reached the application.
        self._answered = False
        #: Bytes of the current message so far, the end of its head, and the remaining bytes of its body; None if
        #: only the parser knows.
        self._message_bytes = 0
        self._head_tail = b""
        self._body_left: int | None = 0
        #: Whether we read the body ourselves: the parser reads none after a head with `Upgrade`.
        self._own_body = False
        #: Requests without a complete answer.
        self._unanswered = 0
        self._refused = False
        self._refusal: Problem | None = None
        self._request_timer: asyncio.TimerHandle | None = None
        self._idle_until = 0.0
        #: The client this connection is counted for; whether it was refused and stays open briefly.
        self._counted: str | None = None
        self._lingers = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout for the first request, or refuse the connection if there are too many."""
        super().connection_made(transport)
        client = self.client[0] if self.client else ""
        problem = self.open_connections.enter(client, _descriptor(transport))
        if problem is not None:
            self._refused, self._refusal = True, problem
            self._refuse_connection()
            return
        self._counted = client
        self._idle_until = monotonic() + REQUEST_TIMEOUT_S
        self._arm_keep_alive(REQUEST_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers and stop counting the connection."""
        self._set_request_timeout(on=False)
        self._unset_keepalive_if_required()
        if self._counted is not None:
            self.open_connections.leave(self._counted)
        elif self._lingers:
            self.open_connections.lingered()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; start a timeout if a message is still incomplete."""
        while data and not self._refused and not self.transport.is_closing():
            data = self._feed(data)
        if self._in_message and self._request_timer is None and not self.transport.is_closing():
            self._set_request_timeout(on=True)

    def _feed(self, data: bytes) -> bytes:
        """Pass the bytes of one head or one body to the parser, and return the bytes after it.

        So the size of each head is measured exactly, however requests are split into packets. Only the parser knows
        where a chunked body ends. After such a body, the next head therefore starts with the next packet.
        """
        if not self._in_message:
            data = data.lstrip(b"\r\n")  # empty lines before a request (RFC 9112 §2.2)
            if not data:
                return b""
            self._message_bytes, self._head_tail = 0, b""
        in_body = self._in_message and self._head_done
        if in_body:
            size = len(data) if self._body_left is None else min(len(data), self._body_left)
            self._body_left = None if self._body_left is None else self._body_left - size
        else:
            size = self._head_size(data)
        self._message_bytes += size
        if not in_body and self._message_bytes > MOST_HEAD_BYTES:
            self._refuse(_LONG_HEAD)
            return b""
        part = data if size == len(data) else data[:size]
        if in_body and self._own_body:
            self._take_body(part)
        else:
            self._parse(part)
        if self._in_message and self._message_bytes > self._most_bytes:
            self._refuse(_NOT_HTTP)
        return data[size:]

    def _parse(self, data: bytes) -> None:
        """Pass bytes to the parser, which calls the methods below. A request to upgrade is ignored (RFC 9110 §7.8)."""
        try:
            cast("HttpRequestParser", self.parser).feed_data(data)
        except HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self._refuse(self._refusal or _NOT_HTTP)
        except HttpParserUpgrade:
            self.logger.warning("Unsupported upgrade request.")

    def _take_body(self, data: bytes) -> None:
        """Read part of a body without the parser, which would take it for the next request."""
        self.on_body(data)
        if not self._body_left:
            self._own_body = False
            self.on_message_complete()

    def _head_size(self, data: bytes) -> int:
        """Return how many of these bytes belong to the current head.

        The blank line at its end may be split between packets.
        """
        tail = self._head_tail
        if tail:
            cut = (tail + data[:3]).find(_HEAD_END)
            if cut >= 0:
                return cut + len(_HEAD_END) - len(tail)
        end = data.find(_HEAD_END)
        if end >= 0:
            return end + len(_HEAD_END)
        self._head_tail = (tail + data[-3:])[-3:]
        return len(data)

    @property
    def _most_bytes(self) -> int:
        """The maximum number of bytes of this request. Paths in `edge.roomy` may have a larger body."""
        roomy = self.edge.roomy.get(self.scope["path"], 0) if self._head_done else 0
        return roomy + _UNREAD_BYTES if roomy else MOST_HEAD_BYTES

    def on_message_begin(self) -> None:
        """Start a message. Its ASGI scope is built only if the application answers the request."""
        self._in_message = True
        self._head_done = self._answered = self.expect_100_continue = False
        self.url, self.headers = b"", []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Record a header without the white space around its value (RFC 9110 §5.5)."""
        name, value = name.lower(), value.strip(b" \t")
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Begin to answer the request. Raises `_Refused` if its head is refused."""
        self._look_at_head()
        self._begin_answer()
        self._head_done = True

    def _begin_answer(self) -> None:
        """Start the application for the current request."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()  # builds the scope, and forgets what the parser has found so far
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        super().on_headers_complete()
        if not cast("HttpRequestParser", self.parser).should_keep_alive():
            # Older versions of uvicorn read `Connection: close` only when they write the headers of a response.
            self.cycle.keep_alive = False
        self._own_body = bool(self._body_left) and self._upgrades
        self._unanswered += 1
        self._extend(TRANSPORT, self.transport)

    def _extend(self, name: str, value: object) -> None:
        """Add an extension to the ASGI scope of the request."""
        scope = cast("dict[str, Any]", self.scope)
        scope.setdefault("extensions", {})[name] = value

    def _look_at_head(self) -> None:
        """Check the request's `Host` header (RFC 9112 §3.2), and record the length of its body. Raises `_Refused`.

        A request with a chunked body and `Upgrade` is refused too, because only the parser could find the body's end.
        """
        hosts, host = 0, b""
        body_left: int | None = 0
        for name, value in self.headers:
            if name not in _FRAMING:
                continue
            if name == b"host":
                hosts, host = hosts + 1, value
            elif name == b"transfer-encoding":
                body_left = None
            elif body_left is not None:
                body_left = int(value)
        self._body_left = body_left
        one = hosts == 1 or (not hosts and cast("HttpRequestParser", self.parser).get_http_version() == "1.0")
        if not one or not _is_host(host):
            self._refusal = _WRONG_HOST
            raise _Refused
        if body_left is None and self._upgrades:
            raise _Refused

    @property
    def _upgrades(self) -> bool:
        """Whether the request asks for a protocol upgrade.

        The server ignores such a request (RFC 9110 §7.8), so the body is read as usual.
        """
        return cast("HttpRequestParser", self.parser).should_upgrade()

    def on_message_complete(self) -> None:
        """Handle the end of a request's body."""
        if self._own_body:  # the parser is done with the head; its body is still to come
            return
        self._in_message = False
        self._set_request_timeout(on=False)
        if not self._answered:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start the idle timeout, or answer the next pipelined request, like uvicorn but with our timer."""
        self._idle_until = monotonic() + self.timeout_keep_alive
        self._unanswered -= 1
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            # uvicorn's own method for this has different names in its versions
            task = self.loop.create_task(cycle.run_asgi(app))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)
        elif self._refused:
            self._hang_up()
        elif self.timeout_keep_alive_task is None:
            self._arm_keep_alive(self.timeout_keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if it was idle long enough; otherwise restart the timer for the remaining time.

        A request does not stop the timer, because a new timer for each request would cost more.
        """
        self.timeout_keep_alive_task = None
        if self._in_message or self._unanswered:
            return
        left_s = self._idle_until - monotonic()
        if left_s > 0.001:
            self._arm_keep_alive(left_s)
        else:
            super().timeout_keep_alive_handler()

    def _refuse(self, problem: Problem) -> None:
        """Stop reading. After the earlier requests are answered, send the error and close the connection."""
        if self._refused or self.transport.is_closing():
            return
        self._refused, self._refusal = True, problem
        if self._in_message and self._head_done:
            self._give_up_on_body()
        if not self._unanswered:
            self._hang_up()
        elif self._request_timer is None:
            self._set_request_timeout(on=True)

    def _give_up_on_body(self) -> None:
        """Cancel a request with a malformed body if its response has not begun; an error is sent instead."""
        cycle = self.cycle
        if cycle.response_started:
            self._refusal = None  # its answer has begun, and a second one would corrupt the connection
            return
        if self.pipeline and self.pipeline[0][0] is cycle:
            self.pipeline.popleft()
        else:
            cycle.disconnected = True
            cycle.message_event.set()
        self._unanswered -= 1

    def _hang_up(self) -> None:
        """Send the pending error response, if there is one, and close the connection."""
        if self._refusal is not None:
            self._write_refusal(self._refusal)
        self.transport.close()
        self._set_request_timeout(on=False)

    def _refuse_connection(self) -> None:
        """Send the reason why this connection is refused, and close it.

        If it were closed at once, with a request unread, the client would not receive the reason. So some refused
        connections stay open briefly.
        """
        assert self._refusal is not None
        self._write_refusal(self._refusal)
        self._lingers = self.open_connections.may_linger()
        if not self._lingers:
            self.transport.close()
            return
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._request_timer = self.loop.call_later(_LINGER_S, self.transport.close)

    def _write_refusal(self, problem: Problem) -> None:
        """Write an error response for a request that could not be parsed."""
        edge = self.edge
        request = Request("GET", "", b"", [], self.client[0] if self.client else "", edge.ids)
        caller = anonymous(request.client)
        reply = edge.refuse(request, "*", caller, edge.limit_state(caller), problem)
        headers = [*self.server_state.default_headers, *reply.headers, *fixed_headers(caller)]
        headers += limit_headers(reply.verdict, request.id_bytes)
        self.transport.write(STATUS_LINE[problem.status] + header_bytes(headers) + b"\r\n" + reply.body)

    def _arm_keep_alive(self, after_s: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(after_s, self.timeout_keep_alive_handler)

    def _set_request_timeout(self, *, on: bool) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None
        if on:
            self._request_timer = self.loop.call_later(REQUEST_TIMEOUT_S, self.transport.close)


def _descriptor(transport: asyncio.Transport) -> int:
    """Return the file descriptor of a connection's socket; -1 if it has none."""
    connection = transport.get_extra_info("socket")
    return -1 if connection is None else connection.fileno()


def _is_host(value: bytes) -> bool:
    """Return whether a value is a valid `Host` header. Results are cached, except for long values."""
    return _matches(value) if len(value) <= _LONGEST_CACHED else _matches.__wrapped__(value)


@lru_cache(256)
def _matches(value: bytes) -> bool:
    return _HOST.fullmatch(value) is not None
