"""Feeds that other processes push into this one: `PushedFeeds` takes pushes in, a `PushedFeed` yields their events.

Rules kept: an event is acknowledged only once its reader asks for the next one, so what a pusher was told is taken has
been journalled; at most one push of a contract waits, so a pusher is never faster than the service; a contract of a
feed is fed by one run at a time. Pushes may come on another thread, and another event loop, than they are read on.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from time import monotonic

from outcry.core.instruments import Contract, Universe
from outcry.ports.feed import Bars, CaughtUp, Cursor, Ended, Event, FeedCaps, FeedLost, FeedRefused, Trades
from outcry.services.errors import Occupied, StoreUnavailable
from outcry.services.pushing import SILENCE_S, WAIT_S, Again, Push, is_feed_name, keep_recent, refused

#: After this long without a word a run is given up; the next word of it begins anew.
FORGET_S = 600.0
#: Contracts an owner may have pushed at a time; more than the universe has front and next months.
MOST_INLETS = 256
CLOSED, STOPPING = "closed", "stopping"
_CLOSED = frozenset((CLOSED, STOPPING))
OnFeed = Callable[[int, "PushedFeed", Contract], None]


class _Bell:
    """Wakes whoever waits for something, on whichever loop they wait."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def enlist(self) -> asyncio.Future[None]:
        """A future that the next ring completes."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        return waiting

    def ring(self) -> None:
        """Wake all who wait now."""
        woken, self._waiting = self._waiting, []
        for waiting in woken:
            with suppress(RuntimeError):  # its loop is closed: nobody waits any more
                waiting.get_loop().call_soon_threadsafe(_complete, waiting)


def _complete(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


class _Inlet:
    """One contract of one run: the events pushed and not yet taken. Everything here is done under `lock`.

    taken: the number of the first event not taken. over: why no more will come of it, empty while it may.
    handed: whether the oldest event was handed out and nobody knows what became of it.
    """

    def __init__(self, feed: "PushedFeed", push: Push) -> None:
        self.feed = feed
        self.taken = push.first
        self.again = push.again
        self.caught_up: CaughtUp | None = None
        self.handed = False
        self.kept: deque[Trades] = deque()
        self.pending: deque[Event] = deque()
        self.heard_s = monotonic()
        self.ended: Ended | None = None
        self.over = ""
        self.busy = False
        self.reader: object = None
        self.lock = Lock()
        self.bell = _Bell()

    @property
    def end(self) -> int:
        """The number after the newest event."""
        return self.taken + len(self.pending)

    @property
    def idle_s(self) -> float:
        """Seconds since anything was heard of it."""
        return monotonic() - self.heard_s

    @property
    def in_use(self) -> bool:
        """Whether another run must wait: this one is neither through nor silent."""
        through = self.over or (self.ended is not None and not self.pending)
        return not through and self.idle_s < SILENCE_S

    def finish(self, why: str) -> None:
        """Say that no more will come."""
        with self.lock:
            self.over = self.over or why
            self.pending.clear()
            self.bell.ring()

    def occupy(self) -> None:
        """Begin a push; raises `Occupied` while there is another."""
        with self.lock:
            if self.busy:
                raise Occupied("rate_limited.ingest", retry_after_ms=500)
            self.busy = True
            self.heard_s = monotonic()

    def release(self) -> None:
        """End a push."""
        with self.lock:
            self.busy = False

    def add(self, push: Push) -> int:
        """Queue what is new of a push, if the queue is empty; return the number of the event to wait for."""
        with self.lock:
            self._refuse_if_over()
            known = self.end - push.first
            if known < 0:
                raise refused("hole", next=self.taken)
            fresh = push.events[known:]
            if fresh and self.ended is not None:
                raise refused("after_the_end", next=self.taken)
            if self.pending:
                return self.end
            self.pending.extend(fresh)
            if fresh and isinstance(fresh[-1], Ended):
                self.ended = fresh[-1]
            self.bell.ring()
            return self.end

    async def drained(self, until: int, deadline_s: float) -> int:
        """Wait until events up to a number are taken, or for the time to be over; return the first not taken."""
        while True:
            with self.lock:
                self._refuse_if_over()
                left_s = deadline_s - monotonic()
                if self.taken >= until or left_s <= 0:
                    return self.taken
                waiting = self.bell.enlist()
            await asyncio.wait([waiting], timeout=left_s)

    def _refuse_if_over(self) -> None:
        if self.over == STOPPING:
            raise StoreUnavailable("upstream_unavailable")  # worth trying again: somebody comes after us
        if self.over:
            raise refused(self.over, next=self.taken)

    def begin(self, reader: object) -> tuple[list[Trades], Again]:
        """Read from here on; whoever read before is through. Returns what to repeat, and up to where events may be
        known already and history was complete.

        Nothing is repeated needlessly: new trades may equal those repeated, and are told from them by number only.
        """
        with self.lock:
            self.reader = reader
            self.bell.ring()
            if self.again is not None and self.taken < self.again.until:
                return list(self.kept), self.again
            repeat = list(self.kept) if self.handed else []
            return repeat, Again(self.taken + self.handed, self.caught_up)

    async def next(self, reader: object) -> Event | None:
        """Wait for the oldest event not taken; None where the feed was closed. Raises `FeedLost`."""
        opened_s = monotonic()
        while True:
            with self.lock:
                if self.reader is not reader:
                    raise FeedLost("superseded")
                if self.over in _CLOSED:
                    return None
                if self.over:
                    raise FeedRefused(self.over)
                if self.pending:
                    self.handed = True
                    return self.pending[0]
                if self.ended is not None:
                    return self.ended
                left_s = max(opened_s, self.heard_s) + SILENCE_S - monotonic()
                if left_s <= 0 and self.idle_s >= FORGET_S:
                    self.over = "disconnected"
                    raise FeedRefused(self.over)
                if left_s <= 0:
                    raise FeedLost("stale_link")
                waiting = self.bell.enlist()
            await asyncio.wait([waiting], timeout=left_s)

    def done(self, reader: object) -> None:
        """The oldest event has been taken."""
        with self.lock:
            if self.reader is not reader or not self.pending:
                return
            event = self.pending.popleft()
            self.taken += 1
            self.handed = False
            if isinstance(event, CaughtUp):
                self.caught_up = event
            elif self.again is not None and self.taken >= self.again.until:
                self.caught_up, self.again = self.caught_up or self.again.caught_up, None
            if isinstance(event, Trades):
                keep_recent(self.kept, event)
            self.bell.ring()


class PushedFeed:
    """One run of a pushed feed, with all its contracts. Implements `ports.feed.Feed`."""

    def __init__(self, name: str, caps: FeedCaps, run: str) -> None:
        self.name, self.caps, self.run = name, caps, run
        self.inlets: dict[Contract, _Inlet] = {}

    async def contracts(self) -> list[Contract]:
        """What was pushed so far."""
        return sorted(self.inlets)

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """See `Feed`. The newest reader of a contract is the one that reads; a link silent for `SILENCE_S` is lost."""
        inlet = self.inlets.get(contract)
        if inlet is None:
            raise FeedRefused("unsubscribed", f"{contract.key} was never pushed")
        reader = object()
        repeat, again = inlet.begin(reader)
        for event in repeat:
            if (wanted := _since(event, since.since_ns)) is not None:
                yield wanted
        caught_up = again.caught_up
        while True:
            if caught_up is not None and inlet.taken >= again.until:
                yield replace(caught_up, at_ns=max(caught_up.at_ns, since.since_ns))
                caught_up = None
            event = await inlet.next(reader)
            if event is None:
                return
            if isinstance(event, Ended):
                inlet.done(reader)  # before it is handed out: after the last event nobody asks for another
                yield event
                return
            if isinstance(event, CaughtUp) and caught_up is not None:
                caught_up = event  # said once what may be known already is over
            elif (wanted := _since(event, since.since_ns)) is not None:
                yield wanted
            inlet.done(reader)

    async def close(self) -> None:
        """End every stream; what else is pushed of this run is refused."""
        for inlet in list(self.inlets.values()):
            inlet.finish(CLOSED)


def _since(event: Event, since_ns: int) -> Event | None:
    """Leave out rows from before the cursor: whoever set it has them."""
    if isinstance(event, Trades | Bars):
        late = event.rows["ts_event"] < since_ns
        if late.all():
            return None
        if late.any():
            return replace(event, rows=event.rows[~late])
    return event


class PushedFeeds:
    """Every feed pushed into this service. Implements `services.pushing.Intake`.

    reserved: names that are the service's own feeds'.
    """

    def __init__(self, universe: Universe, *, reserved: frozenset[str] = frozenset({"demo"})) -> None:
        self.universe = universe
        self._reserved = reserved
        self._inlets: dict[tuple[int, str, Contract], _Inlet] = {}
        self._feeds: dict[tuple[int, str, str], PushedFeed] = {}
        self._listeners: list[OnFeed] = []
        self._lock = Lock()
        self._closed = False

    def subscribe(self, listener: OnFeed) -> None:
        """Call `listener(owner, feed, contract)` for each contract a run begins to push, and those there are now.

        It is called on the thread of the push and must not block. The same owner, feed name and contract comes again
        with another `PushedFeed` when another run takes over; streams of the former are refused by then.
        """
        with self._lock:
            self._listeners.append(listener)
            known = [(owner, inlet.feed, contract) for (owner, _, contract), inlet in self._inlets.items()]
        for found in known:
            listener(*found)

    async def take(self, owner: int, feed: str, push: Push) -> int:
        """See `Intake`."""
        inlet = self._inlet(owner, feed, push)
        inlet.occupy()
        try:
            deadline_s = monotonic() + WAIT_S
            await inlet.drained(inlet.end, deadline_s)  # what an earlier push left over goes first
            return await inlet.drained(inlet.add(push), deadline_s)
        finally:
            inlet.release()

    def close(self) -> None:
        """End everything; pushes under way are refused, to be sent again to whoever comes after us."""
        with self._lock:
            self._closed = True
            inlets = list(self._inlets.values())
        for inlet in inlets:
            inlet.finish(STOPPING)

    def _inlet(self, owner: int, feed: str, push: Push) -> _Inlet:
        """The inlet of a push, made if its run is new; raises `InvalidRequest`."""
        if not is_feed_name(feed) or feed in self._reserved:
            raise refused("feed")
        place = owner, feed, push.contract
        with self._lock:
            if self._closed:
                raise StoreUnavailable("upstream_unavailable")
            held = self._inlets.get(place)
            run = self._feeds.get((owner, feed, push.session))
            if run is not None and run.caps != push.caps:
                raise refused("caps")
            if held is not None and held.feed is run and held.over in {"", *_CLOSED}:
                return held
            inlet = self._begun(place, held, run, push)
            listeners = list(self._listeners)
        for listener in listeners:
            listener(owner, inlet.feed, push.contract)
        return inlet

    def _begun(
        self, place: tuple[int, str, Contract], held: _Inlet | None, run: PushedFeed | None, push: Push
    ) -> _Inlet:
        """Begin an inlet, in the place of one that is through, or that nothing is heard of."""
        owner, feed, contract = place
        if held is not None and held.in_use:
            raise refused("occupied")
        if push.first and push.again is None:
            raise refused("hole", next=0)
        self._sweep()
        if sum(other == owner for other, _, _ in self._inlets) >= MOST_INLETS:
            raise refused("too_many")
        if held is not None:
            held.finish("replaced")
        run = run or PushedFeed(feed, push.caps, push.session)
        self._feeds[owner, feed, push.session] = run
        inlet = run.inlets[contract] = self._inlets[place] = _Inlet(run, push)
        return inlet

    def _sweep(self) -> None:
        """Forget runs that nothing was heard of for long."""
        for place, inlet in list(self._inlets.items()):
            if inlet.idle_s >= FORGET_S:
                inlet.finish("disconnected")
                del self._inlets[place]
        kept = {id(inlet.feed) for inlet in self._inlets.values()}
        self._feeds = {place: feed for place, feed in self._feeds.items() if id(feed) in kept}
