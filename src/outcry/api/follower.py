"""One open stream: what its reader has been told, and so what to tell next.

Rule kept: nothing waits in a queue. A reader's place is one number for alerts and one state a symbol; however long it
does not read, what is kept for it stays that small, and the next thing it is told is the newest.
"""

import asyncio
from collections.abc import Iterator, Sequence
from time import monotonic

from outcry.answers.streaming import NO_EVENTS, AlertFilter, RequestedSymbol, SymbolEvents, event, state_event
from outcry.http.auth import Caller
from outcry.live.registry import Channel, LiveSource
from outcry.wire.stream import State


class Line:
    """A channel under the name its readers have for it, and what it said last; shared by all of them."""

    __slots__ = ("channel", "followers", "said", "source", "version")

    def __init__(self, channel: Channel, source: LiveSource) -> None:
        self.channel = channel
        self.source: LiveSource = source
        self.version = -1
        self.said: SymbolEvents | None = None
        self.followers: set[Follower] = set()


class Slot:
    """One symbol of a stream.

    line: what answers it live, if anything does. delayed: what answers it otherwise, None while that is not known.
    reason: `live`, or why it is not. told, rest, quote: the state, answer and price its reader has.
    """

    __slots__ = ("asked", "delayed", "line", "quote", "reason", "rest", "told")

    def __init__(self, asked: RequestedSymbol) -> None:
        self.asked = asked
        self.line: Line | None = None
        self.delayed: SymbolEvents | None = None
        self.reason = "no_connection"
        self.told: State | None = None
        self.rest = self.quote = b""

    def look(self) -> SymbolEvents | None:
        """What there is to say; None: not known yet."""
        line = self.line
        live = line.said if line is not None and line.channel.availability.answers else None
        if live is None:
            return self.delayed
        self.delayed = None  # its bytes are needed anew once it answers again
        return live

    def state(self, said: SymbolEvents) -> State:
        """Where that comes from."""
        live = said.source in {"personal", "shared"}
        reason = "live" if live else self.reason
        return State(
            symbol=self.asked.root, data_source=said.source, live=live, as_of=said.as_of, reason=reason,
            invented=self.line.channel.simulated if live and self.line else None,
        )  # fmt: skip

    def tell(self, said: SymbolEvents) -> State:
        """Note that the reader is being told all of it."""
        self.told, self.rest, self.quote = self.state(said), said.rest, said.quote
        self._let_go(said)
        return self.told

    def news(self) -> Iterator[tuple[str, bytes]]:
        """What the reader does not know yet: events by name."""
        said = self.look()
        if said is None:
            return
        state = self.state(said)
        if state != self.told:
            self.told = state
            yield "state", state_event(state)
        if said.rest != self.rest:
            self.rest, self.quote = said.rest, said.quote
            self._let_go(said)
            if said is not NO_EVENTS:
                yield "levels", said.levels
        elif said.quote != self.quote:
            self.quote = said.quote
            if said.quote:
                yield "quote", said.quote

    def _let_go(self, said: SymbolEvents) -> None:
        """Keep of a completed session's answer only what tells it from the next."""
        if said is self.delayed and said is not NO_EVENTS:
            self.delayed = SymbolEvents(said.source, said.as_of, b"", said.rest, b"", b"")


class Follower:
    """One open stream. `cursor`: it has been told of alerts up to that one. Everything here is for one event loop."""

    def __init__(self, caller: Caller, asked: Sequence[RequestedSymbol] | None) -> None:
        self.caller = caller
        self.everything = asked is None
        self.slots = {each.root: Slot(each) for each in asked or ()}
        self.cursor = 0
        self.wanted: AlertFilter | None = None
        self.wake = asyncio.Event()
        #: Why it ends: `unauthorized`, `shutdown`, `gone`, `stalled`, `behind`; empty while it goes on.
        self.ended = ""
        self.opening = True
        self.spoke_s = monotonic()
        #: Since when a write waits for the reader; 0: none does.
        self.blocked_since_s = 0.0
        self.transport: asyncio.Transport | None = None
        #: What its symbols were last looked up for, and by when (ns UTC) that has to be done again.
        self.looked_up: tuple[object, ...] = ()
        self.look_again_ns = 0

    def end(self, reason: str) -> None:
        """Let it end, at once; only the first reason counts."""
        if not self.ended:
            self.ended = reason
        if self.blocked_since_s and self.transport is not None:
            self.transport.abort()  # what waits to be read would keep the connection open
        self.wake.set()

    def lead(self, slot: Slot, line: Line | None) -> None:
        """Let a symbol be answered live by that line from now on, or by none."""
        before = slot.line
        if before is line:
            return
        if before is not None:
            before.followers.discard(self)
        if line is not None:
            line.followers.add(self)
        slot.line, slot.delayed = line, None

    def leave(self) -> None:
        """Follow nothing any more."""
        for slot in self.slots.values():
            self.lead(slot, None)

    def news(self) -> Iterator[tuple[str, bytes]]:
        """What its symbols have to say that the reader does not know yet."""
        for slot in tuple(self.slots.values()):
            yield from slot.news()


def error_event(code: str) -> bytes:
    """The last event of a stream that is ended for a reason the reader can do something about."""
    return event("error", b'{"code":"%s"}' % code.encode())
