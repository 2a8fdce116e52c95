"""Send new events to many streams at once.

Most streams wait and have sent everything before. They need the same bytes, so these are framed once and written to
each connection. Other streams are woken, and their own tasks send what is missing. The stored position of a stream
changes together with each write, so the two ways of sending lose and repeat no event.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from outcry.answers.streaming import NO_EVENTS, SymbolEvents
from outcry.api.stream_reader import CHUNK_BYTES, SharedChannel, StreamReader, next_event
from outcry.http.edge import Edge
from outcry.live.model import AlertRow

#: Streams written to in one turn of the event loop, so that requests are not delayed.
_BATCH = 64


@dataclass(frozen=True, slots=True)
class ChannelUpdate:
    """New events of a live channel. `before`: the events that the channel's streams had received until now."""

    shared: SharedChannel
    before: SymbolEvents | None


@dataclass(frozen=True, slots=True)
class EncodedAlert:
    """A recorded alert and its event."""

    row: AlertRow
    data: bytes


class StreamPush:
    """Writes new events to the streams that have sent all earlier ones, and wakes those that are behind.

    A woken stream sends what is missing itself. Used on one event loop.
    """

    def __init__(self, edge: Edge, sent: dict[str, int]) -> None:
        self._edge, self._sent = edge, sent

    async def updates(self, updates: Sequence[ChannelUpdate], now_s: float) -> None:
        """Send the new events of live channels. `now_s`: the monotonic time."""
        for update in updates:
            shared, before, events = update.shared, update.before, update.shared.events
            found = next_event(before or NO_EVENTS, events) if before and events else None
            frame = chunk(found[1]) if found is not None else b""
            for count, (reader, cursor) in enumerate(list(shared.readers.items()), 1):
                if not count % _BATCH:
                    await asyncio.sleep(0)
                current = cursor.shared is shared and cursor.latest is before
                if events is None or not current or not self._may_push(reader, len(frame)):
                    reader.wake.set()
                    continue
                cursor.latest = events
                if found is not None:
                    self._write(reader, found[0], frame, now_s)

    async def alerts(
        self, readers: Sequence[StreamReader], alerts: Sequence[EncodedAlert], from_seq: int, now_s: float
    ) -> None:
        """Send new alerts to the streams that have received all alerts up to `from_seq`.

        `now_s`: the monotonic time.
        """
        until_seq, size = alerts[-1].row.seq, sum(len(alert.data) for alert in alerts)
        for count, reader in enumerate(readers, 1):
            if not count % _BATCH:
                await asyncio.sleep(0)
            if reader.alert_cursor != from_seq or not self._may_push(reader, size):
                reader.wake.set()
                continue
            reader.alert_cursor = until_seq
            for alert in alerts:
                if reader.alert_filter is not None and reader.alert_filter(alert.row):
                    self._write(reader, "alert", chunk(alert.data), now_s)

    def _may_push(self, reader: StreamReader, size: int) -> bool:
        """Return whether a stream has sent everything, its client reads, and its access is confirmed."""
        edge, transport = self._edge, reader.transport
        return (
            reader.waits
            and not reader.wake.is_set()
            and edge.poller.fresh
            and reader.caller.generation == edge.authenticator.generation
            and transport is not None
            and transport.get_write_buffer_size() + size <= CHUNK_BYTES
        )

    def _write(self, reader: StreamReader, name: str, frame: bytes, now_s: float) -> None:
        assert reader.transport is not None
        reader.transport.write(frame)
        reader.last_write_s = now_s
        self._sent[name] = self._sent.get(name, 0) + 1


def chunk(data: bytes) -> bytes:
    """Frame part of a response body as uvicorn does for a response without a length (RFC 9112 §7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)
