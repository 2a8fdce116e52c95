"""Send new events to many streams at once.

Most streams have sent everything before and wait. They need the same bytes, so this module frames the bytes once and
writes them to each connection. It wakes the other streams, whose own tasks send what is missing. The stored position of
a stream changes together with each write, so no event is lost or sent twice.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from outcry.answers.streaming import NO_EVENTS, SymbolEvents
from outcry.api.stream_reader import CHUNK_BYTES, SharedChannel, StreamReader, SymbolCursor, next_event
from outcry.http.edge import Edge
from outcry.live.model import AlertRow

#: Streams written to in one turn of the event loop, so that requests are not delayed.
_BATCH = 64


@dataclass(frozen=True, slots=True)
class ChannelUpdate:
    """New events of a channel (a contract's live data). `before`: the events that its streams were sent before."""

    shared: SharedChannel
    before: SymbolEvents | None


@dataclass(frozen=True, slots=True)
class EncodedAlert:
    """A recorded alert and its event, encoded for the stream."""

    row: AlertRow
    data: bytes


class StreamPush:
    """Writes new events to the streams that have sent all earlier ones, and wakes those that are behind.

    A woken stream sends what is missing itself. Used on one event loop.
    """

    def __init__(self, edge: Edge, sent: dict[str, int]) -> None:
        self._edge, self._sent = edge, sent

    async def updates(self, updates: Sequence[ChannelUpdate], now_s: float) -> None:
        """Send the new events of channels (contracts' live data) to their streams. `now_s`: the monotonic time."""
        for update in updates:
            readers = list(update.shared.readers.items())
            for first in range(0, len(readers), _BATCH):
                self._update(update, readers[first : first + _BATCH], now_s)
                await asyncio.sleep(0)

    def _update(
        self, update: ChannelUpdate, readers: Sequence[tuple[StreamReader, SymbolCursor]], now_s: float
    ) -> None:
        """Write a contract's new events directly to the streams that are up to date, and wake the others."""
        shared, before, events = update.shared, update.before, update.shared.events
        found = next_event(before or NO_EVENTS, events) if before and events else None
        name, frame = (found[0], chunk(found[1])) if found is not None else ("", b"")
        size, generation = len(frame), self._confirmed_generation()
        written = 0
        for reader, cursor in readers:
            current = cursor.shared is shared and cursor.latest is before
            if events is None or not current or not self._may_push(reader, size, generation):
                reader.wake.set()
                continue
            cursor.latest = events
            if frame:
                assert reader.transport is not None
                reader.transport.write(frame)
                reader.last_write_s = now_s
                written += 1
        self._count(name, written)

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
            if reader.alert_cursor != from_seq or not self._may_push(
                reader, size, self._confirmed_generation()
            ):
                reader.wake.set()
                continue
            reader.alert_cursor = until_seq
            for alert in alerts:
                if reader.alert_filter is not None and reader.alert_filter(alert.row):
                    assert reader.transport is not None
                    reader.transport.write(chunk(alert.data))
                    reader.last_write_s = now_s
                    self._count("alert", 1)

    def _confirmed_generation(self) -> int | None:
        """Return the current version of keys and grants; None if it was not checked within the last second."""
        return self._edge.authenticator.generation if self._edge.poller.fresh else None

    def _may_push(self, reader: StreamReader, size: int, generation: int | None) -> bool:
        """Return whether a stream has sent everything, its client reads, and its caller still has access."""
        transport = reader.transport
        return (
            reader.waits
            and not reader.wake.is_set()
            and reader.caller.generation == generation
            and transport is not None
            and not transport.is_closing()  # a write would raise, and delay the events of all streams
            and transport.get_write_buffer_size() + size <= CHUNK_BYTES
        )

    def _count(self, name: str, times: int) -> None:
        if times:
            self._sent[name] = self._sent.get(name, 0) + times


def chunk(data: bytes) -> bytes:
    """Frame part of a response body as uvicorn does for a response without a length (RFC 9112 §7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)
