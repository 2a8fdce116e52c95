"""Base of fake vendors on HTTP and WebSocket: a tape, a current time, and a server that can misbehave.

Written from the vendors' documentation, without code of the adapters.
"""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator

import numpy as np
from aiohttp import WSMsgType, web

from outcry.market.instruments import Contract
from outcry.trades.records import Rows

LETTERS = "FGHJKMNQUVXZ"
Send = Callable[[], Awaitable[None]]


def price_text(price_e9: int) -> str:
    """Return a price as a JSON number, exact to each digit."""
    sign, digits = "-" if price_e9 < 0 else "", str(abs(price_e9)).rjust(10, "0")
    return f"{sign}{digits[:-9]}.{digits[-9:]}".rstrip("0").rstrip(".")


class Line:
    """One WebSocket of a client. Data sent while the vendor is frozen waits."""

    def __init__(self, peer: "HttpPeer", request: web.Request, ws: web.WebSocketResponse) -> None:
        self.peer, self.request, self.ws = peer, request, ws
        self.signed_in = False
        self.subscribed: set[str] = set()

    async def send(self, text: str) -> None:
        await self.peer.thawed.wait()
        with contextlib.suppress(ConnectionResetError):
            await self.ws.send_str(text)

    def tear(self, text: str) -> None:
        """Send half of a text, and reset the connection."""
        transport = self.request.transport
        if transport is None:
            return
        payload = text.encode() * 2
        transport.write(b"\x81\x7e" + struct.pack(">H", len(payload) * 2) + payload[: len(payload) // 2])
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        transport.abort()


class HttpPeer:
    """Base class of the two; a vendor adds its routes and its trade format."""

    logins = refusals = repeated = 0

    def __init__(self) -> None:
        self.now_ns = 0
        self.tapes: dict[str, Rows] = {}
        self.lines: list[Line] = []
        self.thawed = asyncio.Event()
        self.thawed.set()
        self.expired = False
        self.repeats_ns: dict[str, int] = {}
        self.burst = 0
        self.requests: list[str] = []
        self._runner: web.AppRunner | None = None
        self.port = 0

    # -- messages of the vendor

    def name_of(self, contract: Contract) -> str:
        raise NotImplementedError

    def routes(self) -> list[web.RouteDef]:
        raise NotImplementedError

    def texts(self, name: str, rows: Rows) -> Iterator[str]:
        """Return live trades in this vendor's format."""
        raise NotImplementedError

    async def greet(self, line: Line) -> None:
        """Send the greeting to a new connection."""

    async def on_text(self, line: Line, text: str) -> None:
        raise NotImplementedError

    # -- lifecycle

    async def start(self) -> None:
        app = web.Application(middlewares=[self._hold])
        app.add_routes(self.routes())
        self._runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        self.thawed.set()
        for line in list(self.lines):
            if line.request.transport is not None:
                line.request.transport.abort()
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _hold(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Delay the response while frozen."""
        self.requests.append(str(request.rel_url))
        await self.thawed.wait()
        answer = await handler(request)
        await self.thawed.wait()
        return answer

    async def serve_line(self, request: web.Request) -> web.StreamResponse:
        """Serve one WebSocket, including pings."""
        ws = web.WebSocketResponse(autoping=False)
        await ws.prepare(request)
        line = Line(self, request, ws)
        self.lines.append(line)
        try:
            await self.greet(line)
            async for message in ws:
                await self.thawed.wait()
                if message.type is WSMsgType.PING:
                    await ws.pong(message.data)
                elif message.type is WSMsgType.TEXT:
                    await self.on_text(line, message.data)
        except ConnectionResetError:
            pass
        finally:
            self.lines.remove(line)
        return ws

    # -- the tape

    def tape(self, contract: Contract, rows: Rows) -> None:
        self.tapes[self.name_of(contract)] = rows

    def past(self, name: str, first_ns: int, end_ns: int) -> Rows:
        """Return the trades in `[first_ns, end_ns)` that are in the past."""
        rows = self.tapes[name]
        rows = rows[rows["ts_event"] < self.now_ns]
        return rows[(rows["ts_event"] >= first_ns) & (rows["ts_event"] < end_ns)]

    async def advance(self, to_ns: int) -> None:
        before_ns, self.now_ns = self.now_ns, to_ns
        for name, tape in self.tapes.items():
            times = tape["ts_event"]
            rows = tape[(times >= before_ns) & (times < to_ns)]
            if self.burst and len(rows):
                moved = min(self.burst, len(rows))
                self.burst -= moved
                rows = np.concatenate([rows[:moved][::-1], rows[moved:]])
            for line in list(self.lines):
                if name in line.subscribed and self.thawed.is_set():
                    for text in self.texts(name, rows):
                        await line.send(text)

    # -- misbehaving

    async def drop(self) -> None:
        for line in list(self.lines):
            line.tear(json.dumps([{"ev": "T", "sym": "cut off in the middle of this"}]))
        while self.lines:
            await asyncio.sleep(0.01)

    def freeze(self, *, on: bool) -> None:
        if on:
            self.thawed.clear()
        else:
            self.thawed.set()

    def repeat(self, seconds: float) -> None:
        self.repeats_ns = dict.fromkeys(self.tapes, round(seconds * 1e9))

    def shuffle(self, burst: int) -> None:
        self.burst = burst
