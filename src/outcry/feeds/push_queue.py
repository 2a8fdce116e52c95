"""Queue of one contract's events that another program pushes to this service, until their reader takes them.

The program (the pusher) and the reader may be on different threads and event loops. An event counts as taken once the
reader requests the next one. If it is unknown whether an event was processed, a new reader receives the event again.
Before that, the new reader receives the trades of the last seconds, so that it can recognise duplicates. While the
pusher is idle, no event is delivered.
"""

import asyncio
from collections import deque
from contextlib import suppress
from threading import Lock
from time import monotonic

from outcry.base.errors import Occupied, StoreUnavailable
from outcry.trades.feed import CaughtUp, Ended, Event, FeedLost, FeedRefused, Trades
from outcry.trades.push_format import SILENCE_S, Again, Origin, Push, keep_recent, refused

#: A run without any push for this long expires; its next push starts a new one.
EXPIRY_S = 600.0
#: Why a queue ended: its reader closed the feed; the service is stopping.
CLOSED, STOPPING = "closed", "stopping"


class CrossLoopNotifier:
    """Wakes waiting tasks, each on its own event loop."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def enlist(self) -> asyncio.Future[None]:
        """Return a future that the next call of `ring` completes."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        return waiting

    def ring(self) -> None:
        """Wake all waiting tasks."""
        woken, self._waiting = self._waiting, []
        for waiting in woken:
            with suppress(RuntimeError):  # its loop is closed
                waiting.get_loop().call_soon_threadsafe(_complete, waiting)


def _complete(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


class PushQueue:
    """Events of one contract that one run (execution) of a program has pushed, and that the reader has not taken yet.

    lock: guards all state. taken: number of the first event not taken by the reader. over: reason why the queue ended,
    empty while it is open. handed: whether the oldest event was delivered and it is unknown if it was processed.
    origin: type of the program that pushes. replaces: the run that this one replaced, empty if none.
    """

    def __init__(self, push: Push, origin: Origin = Origin.PROGRAM, replaces: str = "") -> None:
        self.session, self.origin, self.replaces = push.session, origin, replaces
        self.taken = push.first
        self.again = push.again
        self.caught_up: CaughtUp | None = None
        self.handed = False
        self.kept: deque[Trades] = deque()
        self.pending: deque[Event] = deque()
        self.received_at_s = monotonic()
        self.ended: Ended | None = None
        self.over = ""
        self.busy = False
        self.reader: object = None
        self.lock = Lock()
        self.bell = CrossLoopNotifier()

    @property
    def end(self) -> int:
        """Return the number that the next pushed event gets."""
        return self.taken + len(self.pending)

    @property
    def idle_s(self) -> float:
        """Return the seconds since the last push."""
        return monotonic() - self.received_at_s

    @property
    def in_use(self) -> bool:
        """Return whether this run of the program is still pushing, so that another run must wait.

        A run that has finished, or that has been idle for long, is not in use.
        """
        through = self.over or (self.ended is not None and not self.pending)
        return not through and self.idle_s < SILENCE_S

    @property
    def forgotten(self) -> bool:
        """Return whether the run of the program has been idle for so long that its queue can be removed."""
        return self.idle_s >= EXPIRY_S

    def finish(self, why: str) -> None:
        """End the queue. Its reader receives the reason `why`."""
        with self.lock:
            self.over = self.over or why
            self.pending.clear()
            self.bell.ring()

    def occupy(self) -> None:
        """Mark a push as in progress. Raises `Occupied` if another push is in progress."""
        with self.lock:
            if self.busy:
                raise Occupied("rate_limited.ingest", retry_after_ms=500)
            self.busy = True
            self.received_at_s = monotonic()
            self.bell.ring()

    def release(self) -> None:
        """Mark the push in progress as ended."""
        with self.lock:
            self.busy = False

    def add(self, push: Push) -> int:
        """Queue the new events of a push if the queue is empty; return the number after the last queued event.

        The push is complete once the reader has taken all events with smaller numbers.
        """
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
        """Wait until all events before number `until` are taken, or until the deadline.

        Return the number of the first event not taken.
        """
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
            raise StoreUnavailable("upstream_unavailable")  # another owner follows, so retry
        if self.over:
            raise refused(self.over, next=self.taken)

    def begin(self, reader: object) -> tuple[list[Trades], Again]:
        """Attach a reader, which replaces the previous one; return the trades that the reader must receive first.

        These are the trades of the last seconds. They are always repeated, because the reader recognises duplicates by
        counting equal rows. Also return an `Again`: up to which event number events may be duplicates, and whether
        history was complete at that event.
        """
        with self.lock:
            self.reader = reader
            self.bell.ring()
            again = self.again
            if again is None or self.taken >= again.until:
                before = again.caught_up if again is not None else None  # from a run with nothing to repeat
                again = Again(self.taken + self.handed, self.caught_up or before)
            return list(self.kept), again

    async def awake(self, reader: object) -> bool:
        """Wait until the pushing program is active; return False if the feed was closed. Raises `FeedLost`."""
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
        """Wait for the oldest event not taken; return None if the feed was closed. Raises `FeedLost`."""
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
        """Return whether the feed was closed, so that the reader must stop.

        Raises `FeedLost` if another reader has replaced this one, and `FeedRefused` if the run of the program has
        ended.
        """
        if self.reader is not reader:
            raise FeedLost("superseded")
        if self.over and self.over not in {CLOSED, STOPPING}:
            raise FeedRefused(self.over)
        return bool(self.over)

    def done(self, reader: object) -> None:
        """Mark the oldest event as taken by the reader."""
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
