"""Vendor whose requests are redirected to another host, which records everything that it receives."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from support.vendors.peer import FakePeer

_SCHEMES = ("http", "ws")


class RedirectingPeer:
    """A peer that answers requests, from the `nth` on, with a redirect; others are passed on.

    `websocket_scheme`: scheme in the location of a redirected WebSocket; libraries differ in what they follow.
    """

    def __init__(self, peer: FakePeer, status: int, nth: int, websocket_scheme: str) -> None:
        self._peer, self._status, self._nth, self._websocket_scheme = peer, status, nth, websocket_scheme
        self._servers: list[asyncio.Server] = []
        self._working: set[asyncio.Task[None]] = set()
        self._fronts: dict[int, int] = {}
        self._trap = 0
        self.requests = self.redirected = 0
        #: All bytes that the target of the redirects received.
        self.trapped = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._peer, name)

    @property
    def places(self) -> Mapping[str, str]:
        """Return the URLs of the redirecting fronts; endpoints without HTTP are unchanged."""
        return {name: self._fronted(place) for name, place in self._peer.places.items()}

    def _fronted(self, place: str) -> str:
        port = urlsplit(place).port if place.startswith(_SCHEMES) else None
        return place.replace(f":{port}", f":{self._fronts[port]}") if port else place

    async def start(self) -> None:
        await self._peer.start()
        self._trap = await self._listen(self._fall)
        ports = {urlsplit(place).port for place in self._peer.places.values() if place.startswith(_SCHEMES)}
        for port in ports - {None}:
            assert port is not None
            self._fronts[port] = await self._listen(lambda *pair, port=port: self._answer(port, *pair))

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        await self._peer.stop()

    async def _listen(self, serve: Any) -> int:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._served(serve, reader, writer))
            self._working.add(task)
            task.add_done_callback(self._working.discard)

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        self._servers.append(server)
        return server.sockets[0].getsockname()[1]

    async def _served(self, serve: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            await serve(reader, writer)

    async def _fall(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.trapped += await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()

    async def _answer(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one request on to the peer, or redirect it; each request has a connection of its own."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests += 1
        websocket = b"upgrade: websocket" in head.lower()
        if self.requests >= self._nth:
            self.redirected += 1
            path = head.split(b" ", 2)[1].decode()
            to = f"{self._websocket_scheme if websocket else 'http'}://localhost:{self._trap}{path}"
            lines = (
                f"HTTP/1.1 {self._status} Moved",
                f"Location: {to}",
                "Content-Length: 0",
                "Connection: close",
            )
            writer.write("\r\n".join((*lines, "", "")).encode())
            await writer.drain()
            return
        if not websocket:
            headers = [
                line for line in head.split(b"\r\n")[:-2] if not line.lower().startswith(b"connection:")
            ]
            head = b"\r\n".join((*headers, b"Connection: close", b"", b""))
        there, back = await asyncio.open_connection("127.0.0.1", port)
        back.write(head)
        with contextlib.closing(back):
            onward = asyncio.create_task(_pump(reader, back))
            try:
                if websocket:
                    await _pump(there, writer)
                else:  # where the peer names itself, it names the front: ports of five digits both
                    writer.write((await there.read()).replace(b":%d" % port, b":%d" % self._fronts[port]))
                    await writer.drain()
            finally:
                onward.cancel()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(65_536):
        writer.write(part)
        await writer.drain()
