"""One contract of a pushed feed between its pusher and its reader, who may be on different threads and event loops.

Rules kept: an event is taken only once its reader asks for the next one; whatever may have been handed out in vain is
handed out again, after the trades of the last seconds, so that the reader can tell what it has. Of a link that is
silent nothing is handed out until something is heard of it: coming back to it makes nothing newer.
"""

import asyncio
from collections import deque
from contextlib import suppress
from threading import Lock
from time import monotonic

from outcry.base.errors import Occupied, StoreUnavailable
from outcry.trades.feed import CaughtUp, Ended, Event, FeedLost, FeedRefused, Trades
from outcry.trades.push_format import SILENCE_S, Again, Origin, Push, keep_recent, refused

#: After this long without a word a run is given up; the next word of it begins anew.
EXPIRY_S = 600.0
#: Why an inlet is over: its reader closed the feed; the service stops.
CLOSED, STOPPING = "closed", "stopping"


class CrossLoopNotifier:
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


class PushQueue:
    """One contract of one run: the events pushed and not yet taken. Everything here is done under `lock`.

    taken: the number of the first event not taken. over: why no more will come of it, empty while it may.
    handed: whether the oldest event was handed out and nobody knows what became of it. origin: whose run it is.
    replaces: the run in whose place it came, empty where there was none.
    """

    def __init__(self, push: Push, origin: Origin = Origin.PROGRAM, replaces: str = "") -> None:
        self.session, self.origin, self.replaces = push.session, origin, replaces
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
        self.bell = CrossLoopNotifier()

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

    @property
    def forgotten(self) -> bool:
        """Whether nothing was heard of it for so long that nothing more will be."""
        return self.idle_s >= EXPIRY_S

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
            self.bell.ring()

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

        The last seconds are always repeated: who reads knows rows alike by their count, and could take a new one for
        one of those if they were not.
        """
        with self.lock:
            self.reader = reader
            self.bell.ring()
            again = self.again
            if again is None or self.taken >= again.until:
                before = again.caught_up if again is not None else None  # of a run that had nothing to repeat
                again = Again(self.taken + self.handed, self.caught_up or before)
            return list(self.kept), again

    async def awake(self, reader: object) -> bool:
        """Wait until the link is not silent; False where the feed was closed. Raises `FeedLost`."""
        while True:
            with self.lock:
                if self._is_through(reader):
                    return False
                if self.ended is not None or self.idle_s < SILENCE_S:
                    return True
                if self.forgotten:
                    self.over = "disconnected"
                    raise FeedRefused(self.over)
                left_s = EXPIRY_S - self.idle_s
                waiting = self.bell.enlist()
            await asyncio.wait([waiting], timeout=left_s)

    async def next(self, reader: object) -> Event | None:
        """Wait for the oldest event not taken; None where the feed was closed. Raises `FeedLost`."""
        while True:
            with self.lock:
                if self._is_through(reader):
                    return None
                if self.pending:
                    self.handed = True
                    return self.pending[0]
                if self.ended is not None:
                    return self.ended
                left_s = SILENCE_S - self.idle_s
                if left_s <= 0:
                    raise FeedLost("stale_link")
                waiting = self.bell.enlist()
            await asyncio.wait([waiting], timeout=left_s)

    def _is_through(self, reader: object) -> bool:
        """Whether the feed was closed. Raises `FeedLost` where another reads, `FeedRefused` where nothing will come."""
        if self.reader is not reader:
            raise FeedLost("superseded")
        if self.over and self.over not in {CLOSED, STOPPING}:
            raise FeedRefused(self.over)
        return bool(self.over)

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
