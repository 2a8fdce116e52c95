"""A NATS client that reconnects indefinitely and detects a dead connection within two seconds.

The library would stop retrying, wait without limit or continue without encryption in some cases. This class overrides a
few of its private methods to prevent that; each is tested against a real server.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import ParseResult, SplitResult, unquote, urlsplit

from nats.aio.client import PING_PROTO, Callback, Client, ErrorCallback
from nats.aio.transport import TcpTransport
from nats.errors import AuthorizationError, Error

#: A link whose answers to so many pings in a row are missing is dead.
_PING_S, _MISSED = 0.5, 2
_CONNECT_S, _PAUSE_S = 1.0, 0.25
_OPTIONS: dict[str, Any] = {
    "name": "outcry",
    "max_reconnect_attempts": -1,
    "ping_interval": _PING_S,
    "max_outstanding_pings": _MISSED,
    "connect_timeout": _CONNECT_S,
    "reconnect_time_wait": _PAUSE_S,
    "pending_size": 0,  # nothing is taken while the link is away: whoever sends is told so
}


class _Transport(TcpTransport):
    """A transport that closes at once: the library would wait for a dead peer to read its data."""

    def __bool__(self) -> bool:
        return True  # or the library would take one of its own

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: int) -> None:
        self.close()  # of a server that took the connection and then said nothing
        await super().connect(uri, buffer_size, connect_timeout)

    def close(self) -> None:
        if self._io_writer is not None:
            self._io_writer.transport.abort()

    async def wait_closed(self) -> None:
        """It was aborted: there is nothing to wait for. The library's way breaks for good when it is cancelled once."""
        await asyncio.sleep(0)


class ReconnectingClient(Client):
    """A client that reconnects indefinitely. `heard_s`: time of the server's last answer, by `time.monotonic`."""

    def __init__(self, urls: str) -> None:
        super().__init__()
        self._transport = _Transport()
        self.heard_s = 0.0
        servers = [urlsplit(url.strip()) for url in urls.split(",") if url.strip()]
        #: Without names and passwords, which no error can repeat then.
        self.addresses = [_bare(server) for server in servers]
        self._secure = any(server.scheme == "tls" for server in servers)
        self._credentials = _credentials(servers)

    async def open(self, told: ErrorCallback, lost: Callback, back: Callback) -> None:
        """Connect, however long it takes. told: what goes wrong; lost, back: called as the link comes and goes."""
        self._told = told
        while True:
            try:
                await self.connect(
                    self.addresses, told, lost, reconnected_cb=back, **_OPTIONS, **self._credentials
                )
            except Exception as problem:  # noqa: BLE001 - a supervisor: the library foresees not all that can happen
                await told(problem)
                await asyncio.sleep(_CONNECT_S)
            else:
                return

    async def shut(self) -> None:
        """Close the connection or stop connecting."""
        if self._flush_queue is not None:  # it was begun
            await self.close()

    @property
    def clustered(self) -> bool:
        """Whether the server belongs to a cluster."""
        return bool(self._server_info.get("cluster"))

    def forget_unsent(self) -> None:
        """What could not be sent is not sent later, when whoever asked has given up."""
        self._pending.clear()
        self._pending_data_size = 0

    async def _attempt_reconnect(self) -> None:
        try:
            await super()._attempt_reconnect()
        except Exception as problem:  # noqa: BLE001 - as above: it would never try again
            await self._told(problem)
            await asyncio.sleep(_CONNECT_S)
            self._reconnection_task = asyncio.get_running_loop().create_task(self._attempt_reconnect())

    async def _send_ping(self, future: asyncio.Future[bool] | None = None) -> None:
        """The library's overtakes what waits to be sent, so that `flush` would come back before the server has it."""
        self._pongs.append(asyncio.get_running_loop().create_future() if future is None else future)
        await self._send_command(PING_PROTO)
        await self._flush_pending()

    async def _process_pong(self) -> None:
        self.heard_s = time.monotonic()
        if (
            self._pongs and self._pongs[0].done()
        ):  # nobody waits any more: the library would fail, and hear no more
            self._pongs.pop(0)
            self._pings_outstanding = 0
        else:
            await super()._process_pong()

    async def _process_err(self, err_msg: str) -> None:
        """The library closes for good at nearly all that a server can say."""
        if "permissions violation" in err_msg:
            await super()._process_err(err_msg)
            return
        refused = "authorization violation" in err_msg
        problem = AuthorizationError() if refused else Error(f"nats: {err_msg.strip(chr(39))}")
        await self._error_cb(problem)
        await self._process_op_err(problem)

    def _connect_command(self) -> bytes:
        """What is sent first, with the password: not to a server that went on without encryption."""
        if self._secure and not self._server_info.get("tls_required"):
            raise Error("nats: the address says tls, and the server does not ask for it")
        return super()._connect_command()


def _bare(server: SplitResult) -> str:
    if not server.hostname or server.port == 0:  # `port` raises for what is no number
        raise ValueError("an address of the bus has no host")
    return f"{server.scheme}://{server.netloc.rpartition('@')[2]}"


def _credentials(servers: Sequence[SplitResult]) -> dict[str, Any]:
    """Of the first address that has any: servers that are told of by others are given them too."""
    for server in servers:
        if server.username and server.password:
            return {"user": unquote(server.username), "password": unquote(server.password)}
        if server.username:
            return {"token": unquote(server.username)}
    return {}
