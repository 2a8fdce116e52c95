"""The wire side of a stream: writes what there is to tell, as fast as its reader reads and no faster.

Rule kept: what waits to be read is bounded, in this process by two pieces of 16 KiB and in the kernel by one more
than the reader's own window; a reader that takes nothing for a minute is cut off.
"""

import asyncio
import socket
from contextlib import suppress
from time import monotonic

from outcry.api.follower import Follower, error_event
from outcry.api.hub import KEEP_ALIVE_S, PATIENCE_S, TICK_S, Hub
from outcry.api.stream import Opened
from outcry.base.log_events import LogEvent
from outcry.http.edge import TRANSPORT, Edge, Receive, Send, fixed_headers
from outcry.http.limits import limit_headers
from outcry.http.requests import Request

PIECE_BYTES = 16 * 1024
_KEEP_ALIVE = b": keep-alive\n\n"
_CLOSE = (b"connection", b"close")  # what was set on it is for a stream


async def tell(
    edge: Edge, hub: Hub, request: Request, opened: Opened, started_ns: int, receive: Receive, send: Send
) -> None:
    """Send a stream from its head to its end."""
    follower = opened.follower
    if follower is None:
        raise ValueError("a stream without a follower")
    transport: asyncio.Transport | None = request.scope.get("extensions", {}).get(TRANSPORT)
    if transport is not None:
        _bound(transport)
        follower.transport = transport
    watching = asyncio.ensure_future(_watch(receive, follower))
    teller = _Teller(hub, follower, send)
    try:
        request_id = request.request_id.encode("ascii")
        headers = [*opened.headers, _CLOSE, *fixed_headers(opened.caller)]
        headers += limit_headers(opened.verdict, request_id)
        await send({"type": "http.response.start", "status": opened.status, "headers": headers})
        edge.note(request, opened.route, opened.status, opened.caller, started_ns)
        await teller.run(opened)
    except Exception as error:  # noqa: BLE001 - the last supervisor before the wire
        path, query = request.shown
        edge.event_log.error(
            LogEvent.REQUEST_FAILED, request_id=request.request_id, path=path, query=query, exc_info=error
        )
        if transport is not None:
            transport.abort()  # a stream cut off is one to come back to
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        hub.leave(follower)


class _Teller:
    def __init__(self, hub: Hub, follower: Follower, send: Send) -> None:
        self._hub, self._follower, self._send = hub, follower, send
        self._pieces: list[bytes] = []
        self._size = 0

    async def run(self, opened: Opened) -> None:
        """Tell everything until the stream ends."""
        follower = self._follower
        await self._write(b"".join(opened.first))
        while not follower.ended:
            await self._say()
            await self._wait()
        if follower.ended == "unauthorized":
            self._hub.count("error", 1)
            await self._write(error_event("unauthorized"))
        if follower.ended not in {"gone", "stalled"}:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _wait(self) -> None:
        """Until there may be news; while nothing may be told, until it is time to look whether something may."""
        wake = self._follower.wake
        if self._hub.knows(self._follower):
            await wake.wait()
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await wake.wait()
        wake.clear()

    async def _say(self) -> None:
        """Tell what is new: alerts, then what the symbols say by now."""
        follower, hub = self._follower, self._hub
        if hub.knows(follower):
            alerts = hub.alerts_for(follower)
            if alerts is None:
                follower.end("behind")  # coming back with its last id it is told from the store
                return
            for seq, data in alerts:
                follower.cursor = seq
                if not await self._add("alert", data):
                    return
            for name, data in follower.news():
                if not await self._add(name, data):
                    return
            await self._flush()
        if monotonic() - follower.spoke_s >= KEEP_ALIVE_S:
            await self._write(_KEEP_ALIVE)

    async def _add(self, name: str, data: bytes) -> bool:
        """Gather an event; write once there is enough. Return whether the reader may still be told more."""
        self._hub.count(name, 1)
        self._pieces.append(data)
        self._size += len(data)
        if self._size < PIECE_BYTES:
            return True
        await self._flush()
        if self._hub.knows(self._follower) and not self._follower.ended:
            return True
        self._follower.wake.set()
        return False

    async def _flush(self) -> None:
        if self._pieces:
            data = b"".join(self._pieces)
            self._pieces, self._size = [], 0
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        follower = self._follower
        for start in range(0, len(data), PIECE_BYTES):
            follower.blocked_since_s = monotonic()
            try:
                piece = data[start : start + PIECE_BYTES]
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            finally:
                follower.blocked_since_s = 0.0
        follower.spoke_s = monotonic()


async def _watch(receive: Receive, follower: Follower) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    follower.end("gone")


def _bound(transport: asyncio.Transport) -> None:
    """Keep little on its way, so that a slow reader is told what is new and not what was."""
    if transport.is_closing():  # gone before its stream began
        return
    transport.set_write_buffer_limits(high=PIECE_BYTES)
    connection = transport.get_extra_info("socket")
    options = (("TCP_NOTSENT_LOWAT", PIECE_BYTES), ("TCP_USER_TIMEOUT", int(PATIENCE_S * 1000)))
    for name, value in options:
        option = getattr(socket, name, None)  # not every system has them
        if option is not None and connection is not None:
            with suppress(OSError):  # no TCP
                connection.setsockopt(socket.IPPROTO_TCP, option, value)
