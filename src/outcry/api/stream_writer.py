"""Writes events to a client, no faster than it reads.

At most this much unread data waits for a client: two chunks of 16 KiB in this process and, in the kernel, one chunk
beyond the client's receive window. A client that reads nothing for a minute is disconnected.
"""

import asyncio
import socket
from contextlib import suppress
from time import monotonic

from outcry.api.hub import KEEP_ALIVE_S, TICK_S, WRITE_TIMEOUT_S, Hub
from outcry.api.stream import OpenedStream
from outcry.api.stream_reader import CHUNK_BYTES, StreamReader, error_event
from outcry.base.log_events import LogEvent
from outcry.base.redaction import for_log
from outcry.base.tasks import is_set_within
from outcry.http.edge import TRANSPORT, Edge, Receive, Send, fixed_headers
from outcry.http.limits import limit_headers
from outcry.http.requests import Request

_KEEP_ALIVE = b": keep-alive\n\n"
_CLOSE = (b"connection", b"close")  # its socket options suit streams only


async def write_stream(
    edge: Edge,
    hub: Hub,
    request: Request,
    opened: OpenedStream,
    started_ns: int,
    receive: Receive,
    send: Send,
) -> None:
    """Send a whole stream: the response head, then events until it ends."""
    reader, reply = opened.reader, opened.reply
    transport: asyncio.Transport | None = request.scope.get("extensions", {}).get(TRANSPORT)
    if transport is not None:
        _bound(transport)
        reader.transport = transport
    watching = asyncio.ensure_future(_watch(receive, reader))
    writer = _StreamWriter(hub, reader, send)
    try:
        headers = [*reply.headers, _CLOSE, *fixed_headers(reply.caller)]
        headers += limit_headers(reply.verdict, request.id_bytes)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        edge.note(request, reply.route, reply.status, reply.caller, started_ns)
        await writer.run(opened)
    except Exception as error:  # noqa: BLE001 - the last supervisor before the socket
        path, query = for_log(request.path, request.query)
        edge.event_log.error(
            LogEvent.REQUEST_FAILED, request_id=request.request_id, path=path, query=query, exc_info=error
        )
        if transport is not None:
            transport.abort()  # an aborted stream makes the client reconnect
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        hub.release(reader)


class _StreamWriter:
    def __init__(self, hub: Hub, reader: StreamReader, send: Send) -> None:
        self._hub, self._follower, self._send = hub, reader, send
        self._chunks: list[bytes] = []
        self._size = 0

    async def run(self, opened: OpenedStream) -> None:
        """Write events until the stream ends."""
        reader = self._follower
        first = b"".join(opened.first)
        opened.first.clear()  # some kB, which the stream would otherwise retain until it ends
        await self._write(first)
        del first
        while not reader.ended:
            await self._write_unsent()
            await self._wait()
        if reader.ended == "unauthorized":
            self._hub.count("error", 1)
            await self._write(error_event("unauthorized"))
        if reader.ended not in {"gone", "stalled"}:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _wait(self) -> None:
        """Wait for new events. While the caller's access is not confirmed, wait only briefly, then check again."""
        reader = self._follower
        reader.waits = True
        if self._hub.is_current(reader):
            await reader.wake.wait()
        else:
            await is_set_within(reader.wake, TICK_S)
        reader.waits = False
        reader.wake.clear()

    async def _write_unsent(self) -> None:
        """Write unsent alerts, then the unsent events of the symbols."""
        reader, hub = self._follower, self._hub
        if hub.is_current(reader):
            alerts = hub.unsent_alerts(reader)
            if alerts is None:
                reader.end("behind")  # the client reconnects, and its missed alerts come from the database
                return
            for seq, data in alerts:
                reader.alert_cursor = seq
                if not await self._add("alert", data):
                    return
            for name, data in reader.unsent():
                if not await self._add(name, data):
                    return
            await self._flush()
        if monotonic() - reader.last_write_s >= KEEP_ALIVE_S:
            await self._write(_KEEP_ALIVE)

    async def _add(self, name: str, data: bytes) -> bool:
        """Buffer an event, and write a full chunk. Return whether more may be sent."""
        self._hub.count(name, 1)
        self._chunks.append(data)
        self._size += len(data)
        if self._size < CHUNK_BYTES:
            return True
        await self._flush()
        if self._hub.is_current(self._follower) and not self._follower.ended:
            return True
        self._follower.wake.set()
        return False

    async def _flush(self) -> None:
        if self._chunks:
            data = b"".join(self._chunks)
            self._chunks, self._size = [], 0
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        reader = self._follower
        for start in range(0, len(data), CHUNK_BYTES):
            reader.blocked_since_s = monotonic()
            try:
                chunk = data[start : start + CHUNK_BYTES]
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
            finally:
                reader.blocked_since_s = 0.0
        reader.last_write_s = monotonic()


async def _watch(receive: Receive, reader: StreamReader) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.end("gone")


def _bound(transport: asyncio.Transport) -> None:
    """Limit the buffers of a connection, so that a slow client receives new data instead of a backlog."""
    if transport.is_closing():  # disconnected already
        return
    transport.set_write_buffer_limits(high=CHUNK_BYTES)
    connection = transport.get_extra_info("socket")
    options = (("TCP_NOTSENT_LOWAT", CHUNK_BYTES), ("TCP_USER_TIMEOUT", int(WRITE_TIMEOUT_S * 1000)))
    for name, value in options:
        option = getattr(socket, name, None)  # not on every platform
        if option is not None and connection is not None:
            with suppress(OSError):  # not a TCP socket
                connection.setsockopt(socket.IPPROTO_TCP, option, value)
