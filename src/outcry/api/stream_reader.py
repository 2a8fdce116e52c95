"""One open event stream: what its client has received, and which events to send next.

A stream has no queue. Its position is one sequence number for alerts and one cursor per symbol. A slow client therefore
needs no more memory than a fast one, and receives the newest data when it reads again.
"""

import asyncio
from collections.abc import Iterator, Sequence
from time import monotonic

from outcry.answers.streaming import NO_EVENTS, AlertFilter, RequestedSymbol, SymbolEvents, event, state_event
from outcry.http.auth import Caller
from outcry.live.registry import Channel, LiveSource
from outcry.wire.stream import State

#: Maximum size of a write, and of unsent data in a connection's buffer.
CHUNK_BYTES = 16 * 1024


class SharedChannel:
    """The newest events of a channel (a contract's live data), encoded once for all its readers.

    `version`: version of the channel that the events show.
    """

    __slots__ = ("channel", "events", "readers", "source", "version")

    def __init__(self, channel: Channel, source: LiveSource) -> None:
        self.channel = channel
        self.source: LiveSource = source
        self.version = -1
        self.events: SymbolEvents | None = None
        self.readers: dict[StreamReader, SymbolCursor] = {}


class SymbolCursor:
    """What a stream's client has received of one symbol.

    shared: the channel (live data) of the symbol, if any. delayed: the completed session's events, None until loaded.
    reason: `live`, or the code of why the symbol is not live. sent: the state sent last. latest: the events that the
    client has received completely.
    """

    __slots__ = ("delayed", "latest", "reason", "requested", "sent", "shared")

    def __init__(self, requested: RequestedSymbol) -> None:
        self.requested = requested
        self.shared: SharedChannel | None = None
        self.delayed: SymbolEvents | None = None
        self.reason = "no_connection"
        self.sent: State | None = None
        self.latest = NO_EVENTS

    def current_events(self) -> SymbolEvents | None:
        """Return the newest events of the symbol; None until they are loaded."""
        shared = self.shared
        live = shared.events if shared is not None and shared.channel.availability.answers else None
        if live is None:
            return self.delayed
        self.delayed = None  # to be loaded again when the channel ends
        return live

    def state(self, events: SymbolEvents) -> State:
        """Return the `state` event among these events."""
        live = events.source in {"personal", "shared"}
        reason = "live" if live else self.reason
        return State(
            symbol=self.requested.root, data_source=events.source, live=live, as_of=events.as_of, reason=reason,
            invented=self.shared.channel.simulated if live and self.shared else None,
        )  # fmt: skip

    def mark_sent(self, events: SymbolEvents) -> State:
        """Record that all of these events are being sent; return their `state` event."""
        self.sent = self.state(events)
        self.latest = self._stripped(events)
        return self.sent

    def unsent(self) -> Iterator[tuple[str, bytes]]:
        """Yield the events that were not sent yet, as (name, bytes)."""
        events = self.current_events()
        if events is None:
            return
        state = self.state(events)
        if state != self.sent:
            self.sent = state
            yield "state", state_event(state)
        before, self.latest = self.latest, self._stripped(events)
        if (found := next_event(before, events)) is not None:
            yield found

    def _stripped(self, events: SymbolEvents) -> SymbolEvents:
        """Return the events to store after they were sent.

        For a completed session the answer is left out, to save memory.
        """
        if events is self.delayed and events is not NO_EVENTS:
            self.delayed = SymbolEvents(events.source, events.as_of, events.rest, b"", bytes)
            return self.delayed
        return events


def next_event(before: SymbolEvents, now: SymbolEvents) -> tuple[str, bytes] | None:
    """Return the event for a client that has received `before`, as (name, bytes); None if nothing is new for it."""
    if now.rest != before.rest:
        return ("levels", now.levels) if now is not NO_EVENTS else None
    return ("quote", now.quote) if now.quote and now.quote != before.quote else None


class StreamReader:
    """One open stream. `alert_cursor`: number (`seq`) of the last alert sent. Used on one event loop."""

    def __init__(self, caller: Caller, requested: Sequence[RequestedSymbol] | None) -> None:
        self.caller = caller
        self.all_symbols = requested is None
        self.cursors = {each.root: SymbolCursor(each) for each in requested or ()}
        self.alert_cursor = 0
        self.alert_filter: AlertFilter | None = None
        self.wake = asyncio.Event()
        #: Why the stream ends: `unauthorized`, `shutdown`, `gone`, `stalled`, `behind`; empty while open.
        self.ended = ""
        self.opening = True
        #: Whether its task waits to be woken, having sent everything that it may send.
        self.waits = False
        self.last_write_s = monotonic()
        #: When the pending write began (monotonic s); 0 without one.
        self.blocked_since_s = 0.0
        self.transport: asyncio.Transport | None = None
        #: Version at which the symbols were resolved, and when to resolve them again at the latest (ns UTC).
        self.resolved_version: tuple[object, ...] = ()
        self.refresh_at_ns = 0

    def end(self, reason: str) -> None:
        """End the stream at once. Later reasons are ignored."""
        if not self.ended:
            self.ended = reason
        if self.blocked_since_s and self.transport is not None:
            self.transport.abort()  # unread data would keep the connection open
        self.wake.set()

    def use_channel(self, cursor: SymbolCursor, shared: SharedChannel | None) -> None:
        """Set the channel (a contract's live data) from which a symbol's events come; None if it has no live data."""
        before = cursor.shared
        if before is shared:
            return
        if before is not None:
            before.readers.pop(self, None)
        if shared is not None:
            shared.readers[self] = cursor
        cursor.shared, cursor.delayed = shared, None

    def release(self) -> None:
        """Stop reading the live data of all symbols, because this stream has ended."""
        for cursor in self.cursors.values():
            self.use_channel(cursor, None)

    def unsent(self) -> Iterator[tuple[str, bytes]]:
        """Yield the unsent events of all symbols, as (name, bytes)."""
        for cursor in tuple(self.cursors.values()):
            yield from cursor.unsent()


def error_event(code: str) -> bytes:
    """Return the `error` event that ends a stream."""
    return event("error", b'{"code":"%s"}' % code.encode())
