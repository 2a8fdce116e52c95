"""HTTP of the client and the agent, on the standard library: kept connections, proxies, limits of time and size.

The API key is sent to the given host only: redirects are not followed, and `.netrc` is not read.
"""

import ssl
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import SHUT_RDWR, socket
from threading import Lock
from typing import NamedTuple, cast
from urllib.parse import SplitResult, unquote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

from outcry.base.host_names import is_loopback_name
from outcry.client.errors import Unreachable, error_from

MAX_BYTES = 64 * 2**20
Query = Mapping[str, object]
_OK = 200


def _text_of(value: object) -> object:
    """Return a list as text separated by commas, and a pair in it as its two ends separated by a slash."""
    if not isinstance(value, (list, tuple)):
        return value
    entries = cast("Sequence[object]", value)
    return ",".join(
        "/".join(map(str, cast("tuple[object, ...]", entry))) if isinstance(entry, tuple) else str(entry)
        for entry in entries
    )


class _Exchange(NamedTuple):
    """A connection with its socket and the beginning of a response. `http.client` may drop its own reference."""

    connection: HTTPConnection
    response: HTTPResponse
    socket: socket


class Response(NamedTuple):
    """A complete response. retry_after: its header of that name."""

    status: int
    body: bytes
    retry_after: str | None


class OpenStream:
    """The lines of a response that does not end. `close` may be called from another thread; it ends a read."""

    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange

    def readline(self, most: int) -> bytes:
        """Return the next line with its line end, at most `most` bytes; empty at the end of the stream."""
        return self._exchange.response.readline(most)

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._exchange.socket.shutdown(SHUT_RDWR)
        self._exchange.connection.close()

    def __enter__(self) -> "OpenStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._exchange.response.close()


class Transport:
    """Sends requests to one service. Thread-safe: concurrent requests use separate connections, which are reused.

    url: base URL (`https://host[:port][/prefix]`). headers: of every request. timeout_s: limit of each wait for the
    network. tls: certificates to trust; None for those of the system. max_bytes: largest body of a response. Raises
    `ValueError` for an invalid URL or key.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], *,
        timeout_s: float, tls: ssl.SSLContext | None = None, max_bytes: int = MAX_BYTES,
    ) -> None:  # fmt: skip
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{url!r} is not a base URL; expected http(s)://host[:port][/prefix]")
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            # the value is not repeated, because it may be the key
            raise ValueError("The API key or the language has characters that no header may have.")
        self.base = url.rstrip("/")
        self._timeout_s, self._max_bytes = timeout_s, max_bytes
        self._route = _Route(parts, tls)
        self._headers = {"accept-encoding": "identity", **headers, **self._route.headers}
        self._idle: list[HTTPConnection] = []
        self._busy: dict[HTTPConnection, socket] = {}
        self._lock = Lock()
        self._closed = False

    def request(self, method: str, path: str, query: Query) -> bytes:
        """Return the body of a successful response. Raises `ApiError` and `Unreachable`."""
        response = self.exchange(method, path, query)
        if response.status != _OK:
            raise error_from(*response)
        return response.body

    def exchange(self, method: str, path: str, query: Query, content: bytes | None = None) -> Response:
        """Send a request and return its response, whatever its status. Raises `Unreachable`.

        content: body of the request. The transport never sends a request with a body twice.
        """
        exchange = self._send(method, path, query, {}, self._timeout_s, content)
        response = exchange.response
        body = self._body(exchange)
        # After an error, the service may not have read the whole body of the request.
        unread = content is not None and response.status != _OK
        self._end(exchange.connection, keep=not response.will_close and not unread)
        return Response(response.status, body, response.headers["retry-after"])

    def open(self, path: str, query: Query, headers: Mapping[str, str], timeout_s: float) -> OpenStream:
        """Open a response that does not end. timeout_s: limit of each wait for data. Raises as `request` does."""
        exchange = self._send("GET", path, query, headers, timeout_s)
        if exchange.response.status == _OK:
            with self._lock:
                self._busy.pop(exchange.connection, None)
            return OpenStream(exchange)
        body = self._body(exchange)
        self._end(exchange.connection)
        raise error_from(exchange.response.status, body, exchange.response.headers["retry-after"])

    def abort(self) -> None:
        """Abort the requests that wait for a response on other threads; they raise `Unreachable`. Then close."""
        with self._lock:
            busy = list(self._busy.values())
        self.close()
        for used in busy:
            with suppress(OSError):
                used.shutdown(SHUT_RDWR)

    def close(self) -> None:
        """Close the idle connections. Connections in use are closed when their request ends."""
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        for connection in idle:
            connection.close()

    def __del__(self) -> None:
        if hasattr(self, "_idle"):  # the constructor succeeded
            self.close()

    def _send(
        self,
        method: str,
        path: str,
        query: Query,
        headers: Mapping[str, str],
        timeout_s: float,
        content: bytes | None = None,
    ) -> _Exchange:
        """Send a request and read the beginning of its response.

        The service may have closed an idle connection meanwhile. A request without a body is then sent again over a new
        connection, which is safe because no such request changes anything.
        """
        given = {name: _text_of(value) for name, value in query.items() if value is not None}
        target = self._route.target(path + (f"?{urlencode(given)}" if given else ""))
        sent = self._headers | dict(headers)
        if (kept := self._take()) is not None:
            try:
                return self._begin(kept, method, target, sent, timeout_s, content)
            except ConnectionError:
                if content is not None or self._closed:
                    raise
        return self._begin(self._route.connection(), method, target, sent, timeout_s, content)

    def _begin(
        self,
        connection: HTTPConnection,
        method: str,
        target: str,
        headers: Mapping[str, str],
        timeout_s: float,
        content: bytes | None,
    ) -> _Exchange:
        connection.timeout = timeout_s
        try:
            if connection.sock is None:
                connection.connect()
            used = cast("socket", connection.sock)
            used.settimeout(timeout_s)
            with self._lock:
                self._busy[connection] = used
            connection.request(method, target, content, headers)
            return _Exchange(connection, connection.getresponse(), used)
        except (OSError, HTTPException, ValueError) as error:
            self._end(connection)
            kind = _Disconnected if isinstance(error, ConnectionError) else Unreachable
            raise kind(self._failure(error)) from error

    def _body(self, exchange: _Exchange) -> bytes:
        try:
            body = exchange.response.read(self._max_bytes + 1)
        except (OSError, HTTPException) as error:
            self._end(exchange.connection)
            raise Unreachable(self._failure(error)) from error
        if len(body) > self._max_bytes:
            self._end(exchange.connection)
            raise Unreachable(f"{self.base} returned more than {self._max_bytes} bytes")
        return body

    def _failure(self, error: Exception) -> str:
        return f"{self.base} does not respond: {str(error) or type(error).__name__}"

    def _take(self) -> HTTPConnection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _end(self, connection: HTTPConnection, *, keep: bool = False) -> None:
        """Keep a connection for the next request, or close it."""
        with self._lock:
            self._busy.pop(connection, None)
            if keep and not self._closed:
                self._idle.append(connection)
                return
        connection.close()


class _Disconnected(Unreachable, ConnectionError):
    """The connection ended before the response began."""


class _Route:
    """The way to a service: directly, or through the proxy of the environment (`https_proxy`, `no_proxy`, …).

    A service on this machine is always reached directly: a proxy would look for it on the proxy's own machine.
    """

    def __init__(self, parts: SplitResult, tls: ssl.SSLContext | None) -> None:
        assert parts.hostname is not None
        self._host, self._port = parts.hostname, parts.port
        self._secure = parts.scheme == "https"
        self._tls = tls or (ssl.create_default_context() if self._secure else None)
        self._prefix = parts.path.rstrip("/")
        self._origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        proxies = {} if is_loopback_name(self._host) or proxy_bypass(self._host) else getproxies()
        proxy = proxies.get(parts.scheme) or proxies.get("all")
        self._proxy = urlsplit(proxy if "//" in proxy else f"//{proxy}") if proxy else None

    @property
    def headers(self) -> dict[str, str]:
        """Headers for a proxy that sees the requests, because they are not encrypted: its credentials."""
        return self._login() if self._proxy is not None and not self._secure else {}

    def target(self, path: str) -> str:
        """Return the request target of a path: the whole URL for a proxy that sees the requests, else only the path."""
        seen = self._proxy is not None and not self._secure
        return f"{self._origin if seen else ''}{self._prefix}{path}"

    def connection(self) -> HTTPConnection:
        """Return a new connection, which is opened when it is first used. Its timeout is set then."""
        host, port = self._host, self._port
        if self._proxy is not None:
            host, port = self._proxy.hostname or "", self._proxy.port
        connection = (
            HTTPSConnection(host, port, context=self._tls) if self._secure else HTTPConnection(host, port)
        )
        if self._proxy is not None and self._secure:
            connection.set_tunnel(self._host, self._port, self._login())
        return connection

    def _login(self) -> dict[str, str]:
        if self._proxy is None or self._proxy.username is None:
            return {}
        login = f"{unquote(self._proxy.username)}:{unquote(self._proxy.password or '')}"
        return {"proxy-authorization": f"Basic {b64encode(login.encode()).decode()}"}
