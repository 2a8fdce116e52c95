"""HTTP of the client, on the standard library: kept connections, proxies, limits of time and size.

The API key is sent to the given host only: redirects are not followed, and `.netrc` is not read.
"""

import ssl
from base64 import b64encode
from collections.abc import Mapping
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import SHUT_RDWR, socket
from threading import Lock
from typing import NamedTuple, cast
from urllib.parse import SplitResult, unquote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

from outcry.client.errors import Unreachable, error_from

MAX_BYTES = 64 * 2**20
Query = Mapping[str, object]
_OK = 200


class _Exchange(NamedTuple):
    """A connection with its socket and the beginning of a response. `http.client` may drop its own reference."""

    connection: HTTPConnection
    response: HTTPResponse
    socket: socket


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
    network. tls: certificates to trust; None for those of the system. Raises `ValueError` for an invalid URL or key.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], *, timeout_s: float, tls: ssl.SSLContext | None = None
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{url!r} is not a base URL; expected http(s)://host[:port][/prefix]")
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            # the value is not repeated, because it may be the key
            raise ValueError("The API key or the language has characters that no header may have.")
        self.base = url.rstrip("/")
        self._timeout_s = timeout_s
        self._route = _Route(parts, tls)
        self._headers = {"accept-encoding": "identity", **headers, **self._route.headers}
        self._idle: list[HTTPConnection] = []
        self._lock = Lock()
        self._closed = False

    def request(self, method: str, path: str, query: Query) -> bytes:
        """Return the body of a successful response. Raises `ApiError` and `Unreachable`."""
        exchange = self._send(method, path, query, {}, self._timeout_s)
        body = self._body(exchange)
        if exchange.response.will_close:
            exchange.connection.close()
        else:
            self._keep(exchange.connection)
        if exchange.response.status != _OK:
            raise error_from(exchange.response.status, body, exchange.response.headers["retry-after"])
        return body

    def open(self, path: str, query: Query, headers: Mapping[str, str], timeout_s: float) -> OpenStream:
        """Open a response that does not end. timeout_s: limit of each wait for data. Raises as `request` does."""
        exchange = self._send("GET", path, query, headers, timeout_s)
        if exchange.response.status == _OK:
            return OpenStream(exchange)
        with closing(exchange.connection):
            body = self._body(exchange)
        raise error_from(exchange.response.status, body, exchange.response.headers["retry-after"])

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
        self, method: str, path: str, query: Query, headers: Mapping[str, str], timeout_s: float
    ) -> _Exchange:
        """Send a request and read the beginning of its response.

        The service may have closed an idle connection meanwhile. The request is then sent again over a new one, which
        is safe because no request of this client changes anything.
        """
        given = {name: value for name, value in query.items() if value is not None}
        target = self._route.target(path + (f"?{urlencode(given)}" if given else ""))
        sent = self._headers | dict(headers)
        if (kept := self._take()) is not None:
            with suppress(ConnectionError):
                return self._exchange(kept, method, target, sent, timeout_s)
        return self._exchange(self._route.connection(), method, target, sent, timeout_s)

    def _exchange(
        self,
        connection: HTTPConnection,
        method: str,
        target: str,
        headers: Mapping[str, str],
        timeout_s: float,
    ) -> _Exchange:
        connection.timeout = timeout_s
        try:
            if connection.sock is None:
                connection.connect()
            used = cast("socket", connection.sock)
            used.settimeout(timeout_s)
            connection.request(method, target, headers=headers)
            return _Exchange(connection, connection.getresponse(), used)
        except (OSError, HTTPException, ValueError) as error:
            connection.close()
            if isinstance(error, ConnectionError):
                raise _Disconnected(f"{self.base} does not respond: {error}") from error
            raise Unreachable(f"{self.base} does not respond: {error}") from error

    def _body(self, exchange: _Exchange) -> bytes:
        try:
            body = exchange.response.read(MAX_BYTES + 1)
        except (OSError, HTTPException) as error:
            exchange.connection.close()
            raise Unreachable(f"{self.base} does not respond: {error}") from error
        if len(body) > MAX_BYTES:
            exchange.connection.close()
            raise Unreachable(f"{self.base} returned more than {MAX_BYTES} bytes")
        return body

    def _take(self) -> HTTPConnection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _keep(self, connection: HTTPConnection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()


class _Disconnected(Unreachable, ConnectionError):
    """The connection ended before the response began."""


class _Route:
    """The way to a service: directly, or through the proxy of the environment (`https_proxy`, `no_proxy`, …)."""

    def __init__(self, parts: SplitResult, tls: ssl.SSLContext | None) -> None:
        assert parts.hostname is not None
        self._host, self._port = parts.hostname, parts.port
        self._secure = parts.scheme == "https"
        self._tls = tls or (ssl.create_default_context() if self._secure else None)
        self._prefix = parts.path.rstrip("/")
        self._origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        proxies = {} if proxy_bypass(self._host) else getproxies()
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
