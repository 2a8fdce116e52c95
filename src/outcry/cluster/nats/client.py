"""A NATS client that reconnects indefinitely and detects a lost connection within two seconds.

In some cases the library would stop retrying, wait without limit or continue without encryption. `ReconnectingClient`
overrides a few of the library's private methods to prevent that. Each override is tested against a real server.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import ParseResult, SplitResult, unquote, urlsplit

from nats.aio.client import PING_PROTO, Callback, Client, ErrorCallback
from nats.aio.transport import TcpTransport
from nats.errors import AuthorizationError, Error

#: Interval of pings (s), and number of unanswered pings in a row after which the link counts as lost.
_PING_S, _MISSED = 0.5, 2
_CONNECT_S, _PAUSE_S = 1.0, 0.25
_OPTIONS: dict[str, Any] = {
    "name": "outcry",
    "max_reconnect_attempts": -1,
    "ping_interval": _PING_S,
    "max_outstanding_pings": _MISSED,
    "connect_timeout": _CONNECT_S,
    "reconnect_time_wait": _PAUSE_S,
    "pending_size": 0,  # without a link, sending fails instead of buffering
}


class _Transport(TcpTransport):
    """A network transport that closes at once. The library's would first wait until the server has read all data."""

    def __bool__(self) -> bool:
        return True  # or the library would create its own transport

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: int) -> None:
        self.close()  # the previous server may have accepted the connection without answering
        await super().connect(uri, buffer_size, connect_timeout)

    def close(self) -> None:
        if self._io_writer is not None:
            self._io_writer.transport.abort()

    async def wait_closed(self) -> None:
        """Return at once, because `close` aborted the connection.

        The library's version fails permanently after it was cancelled once.
        """
        await asyncio.sleep(0)


class ReconnectingClient(Client):
    """A client that reconnects indefinitely. `received_at_s`: time of the server's last answer, by `time.monotonic`."""

    def __init__(self, urls: str) -> None:
        super().__init__()
        self._transport = _Transport()
        self.received_at_s = 0.0
        servers = [urlsplit(url.strip()) for url in urls.split(",") if url.strip()]
        #: Server URLs without names and passwords, so that no error contains them.
        self.addresses = [_bare(server) for server in servers]
        self._secure = any(server.scheme == "tls" for server in servers)
        self._credentials = _credentials(servers)

    async def open(self, on_error: ErrorCallback, on_lost: Callback, on_reconnected: Callback) -> None:
        """Connect, and retry until that succeeds.

        on_error: called with each error. on_lost, on_reconnected: called when the link is lost and when it is restored.
        """
        self._on_error = on_error
        while True:
            try:
                await self.connect(
                    self.addresses,
                    on_error,
                    on_lost,
                    reconnected_cb=on_reconnected,
                    **_OPTIONS,
                    **self._credentials,
                )
            except Exception as problem:  # noqa: BLE001 - a supervisor: the library raises unexpected errors
                await on_error(problem)
                await asyncio.sleep(_CONNECT_S)
            else:
                return

    async def shut(self) -> None:
        """Close the connection, or stop the attempts to connect."""
        if self._flush_queue is not None:  # `connect` was called
            await self.close()

    @property
    def clustered(self) -> bool:
        """Whether the server belongs to a cluster."""
        return bool(self._server_info.get("cluster"))

    def forget_unsent(self) -> None:
        """Drop unsent messages, so that they are not sent after their callers have timed out."""
        self._pending.clear()
        self._pending_data_size = 0

    async def _attempt_reconnect(self) -> None:
        try:
            await super()._attempt_reconnect()
        except Exception as problem:  # noqa: BLE001 - as above: the library would stop retrying
            await self._on_error(problem)
            await asyncio.sleep(_CONNECT_S)
            self._reconnection_task = asyncio.get_running_loop().create_task(self._attempt_reconnect())

    async def _send_ping(self, future: asyncio.Future[bool] | None = None) -> None:
        """Send a ping after all queued messages.

        The library would send the ping first, so `flush` would return before the server has received the messages.
        """
        self._pongs.append(asyncio.get_running_loop().create_future() if future is None else future)
        await self._send_command(PING_PROTO)
        await self._flush_pending()

    async def _process_pong(self) -> None:
        self.received_at_s = time.monotonic()
        # a waiter that timed out would make the library fail and stop reading
        if self._pongs and self._pongs[0].done():
            self._pongs.pop(0)
            self._pings_outstanding = 0
        else:
            await super()._process_pong()

    async def _process_err(self, err_msg: str) -> None:
        """Reconnect after an error of the server; the library would close the client for most errors."""
        if "permissions violation" in err_msg:
            await super()._process_err(err_msg)
            return
        refused = "authorization violation" in err_msg
        problem = AuthorizationError() if refused else Error(f"nats: {err_msg.strip(chr(39))}")
        await self._error_cb(problem)
        await self._process_op_err(problem)

    def _connect_command(self) -> bytes:
        """Return the first message, which contains the password.

        Raises `Error` if TLS is configured and the server continues without it.
        """
        if self._secure and not self._server_info.get("tls_required"):
            raise Error("nats: the address says tls, and the server does not ask for it")
        return super()._connect_command()


def _bare(server: SplitResult) -> str:
    if not server.hostname or server.port == 0:  # `port` raises if it is not a number
        raise ValueError("an address of the bus has no host")
    return f"{server.scheme}://{server.netloc.rpartition('@')[2]}"


def _credentials(servers: Sequence[SplitResult]) -> dict[str, Any]:
    """Return the credentials of the first URL that has any.

    The client also uses these credentials for servers that it learns of from other servers.
    """
    for server in servers:
        if server.username and server.password:
            return {"user": unquote(server.username), "password": unquote(server.password)}
        if server.username:
            return {"token": unquote(server.username)}
    return {}
