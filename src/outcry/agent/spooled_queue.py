"""One contract's events between a feed and a service: stored on disk and sent from there.

The queue stores an event on disk before it sends the event; while the disk is full, in memory. Every start of the
program is a new run that continues the previous one, and the service decides which events it already has. Discarded
events are reported as a gap.
"""

import secrets
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from outcry.agent.feed_position import FeedPosition
from outcry.agent.pusher import batch_of, time_of, weight_of
from outcry.agent.spool_state import SpoolState, replacement_events
from outcry.client.errors import Unreachable
from outcry.live.trade_log import TradeLog
from outcry.market.instruments import Contract
from outcry.trades.feed import CaughtUp, Event, FeedCaps, Heartbeat, Trades
from outcry.trades.push_format import RECENT_NS, Again, Push, read_event, write_event

#: Approximate size of a segment, the unit in which the spool is deleted.
SEGMENT_BYTES = 4 << 20
#: Bytes read ahead of the sender, and bytes that may wait in memory while the disk is full.
READY_BYTES, MAX_UNSAVED_BYTES = 4 << 20, 32 << 20


class SpooledQueue:
    """Queue on disk of one contract's events; implements `PushQueue`. One thread adds events and another sends them.

    key: name of the queue's files in the spool. next: number of the first event that the service has not accepted. end:
    number after the newest event. position: where the feed resumes after an interruption.
    """

    def __init__(self, log: TradeLog, key: str, contract: Contract, caps: FeedCaps, state_path: Path) -> None:
        self._log, self._key, self._state_path = log, key, state_path
        self.contract, self.caps = contract, caps
        self._lock = threading.RLock()
        self.position = FeedPosition()
        self._segments: deque[list[int]] = deque()  # number of the first event, bytes
        self._ready: deque[Event] = deque()
        self._ready_bytes = 0
        self._unsaved: deque[tuple[bytes, Event]] = deque()
        self._unsaved_bytes = 0
        self._retained: deque[tuple[int, int]] = deque()  # number of accepted trades, their newest time
        self._accepted_ns = 0
        self.caught_up: CaughtUp | None = None
        self._load()

    def _load(self) -> None:
        """Load the state and events on disk, and start a push session that continues the previous one."""
        known = SpoolState.read(self._state_path)
        self.end = self._saved = self._log.last(self._key)
        instead = tuple(read_event(event) for event in known.instead)
        self._first, self._replacement = self.end, () if known.first > self.end else instead
        for number, frame in enumerate(self._log.read(self._key, known.first)):
            self._first = frame.first if number == 0 else self._first
            self._index(frame.first, read_event(frame.blob), len(frame.blob))
        if self._replacement:
            self._first = max(self._first, known.first)
        self._run_start = self.end
        self.session = secrets.token_hex(16)
        self.again = Again(self.end, None, known.session) if known.session or self.end else None
        self._seek(self._first - len(self._replacement))
        with suppress(OSError):  # the stored state only speeds up the next start
            self._save_state()
        for event in instead if known.first > self.end else ():  # the disk has lost the newest events
            self.add(event)

    # -- events from the feed

    @property
    def size(self) -> int:
        """Size of the queue on disk in bytes."""
        with self._lock:
            return sum(segment[1] for segment in self._segments)

    @property
    def waiting(self) -> int:
        """Number of events that the service has not accepted."""
        return self.end - self.next

    @property
    def unsaved(self) -> bool:
        """Whether events wait in memory because the disk refuses them."""
        return bool(self._unsaved)

    def add(self, event: Event) -> None:
        """Store an event for sending.

        Raises `OSError` if both disk and memory are full; the event is not stored then.
        """
        blob = write_event(event)
        with self._lock:
            self._save(blob, event)
            self._index(self.end, event, len(blob))
            if self.next + len(self._ready) == self.end and self._ready_bytes < READY_BYTES:
                self._make_ready(event)
            self.end += 1

    def save(self) -> None:
        """Write the events that the disk refused earlier. Raises `OSError`."""
        with self._lock:
            while self._unsaved:
                blob = self._unsaved[0][0]
                self._log.append(self._key, self._saved, 1, blob)
                self._saved += 1
                self._unsaved_bytes -= len(blob)
                self._unsaved.popleft()

    def _save(self, blob: bytes, event: Event) -> None:
        try:
            self.save()
            if self._segments and self._segments[-1][1] >= SEGMENT_BYTES:
                self._log.cut(self._key)
                self._segments.append([self.end, 0])
            self._log.append(self._key, self.end, 1, blob)
            self._saved = self.end + 1
        except OSError:
            if self._unsaved_bytes + len(blob) > MAX_UNSAVED_BYTES:
                raise
            self._unsaved.append((blob, event))
            self._unsaved_bytes += len(blob)

    def _index(self, number: int, event: Event, size: int) -> None:
        """Update the list of files (segments) and the feed's position after an event was stored."""
        if not self._segments or (number < self.end and self._segments[-1][1] >= SEGMENT_BYTES):
            self._segments.append([number, 0])
        self._segments[-1][1] += size
        self.position.advance(number, event)

    # -- events to the service

    def push(self) -> Push:
        """Return the next events to push, read from disk or memory."""
        with self._lock:
            if not self._ready:
                for event in self._events_from(self.next):
                    if self._ready_bytes >= READY_BYTES:
                        break
                    self._make_ready(event)
            events = batch_of(self._ready)
            if self.again is not None:
                # the service may have all of it, from our earlier process or, while we waited, from another one
                self.again = replace(self.again, until=self.end)
            return Push(self.session, self.contract, self.caps, self.next, events, self.again)

    def attempted(self, push: Push) -> None:
        """Do nothing. Each push is marked `again`, so the service expects events that it has received already."""

    def accepted(self, push: Push, until: int) -> bool:
        """Remove the events below `until`, which the service has accepted; return whether that is progress.

        It is progress if at least one event was removed, or a new push session has started since the push. Raises
        `Unreachable` if the number is impossible.
        """
        with self._lock:
            if push.session != self.session:  # a new run has started since
                return True
            if not self.next <= until <= self.next + len(self._ready):
                raise Unreachable(f"the service counts {until} events, of {self.end} there are")
            progress = until > self.next
            while self.next < until:
                event = self._ready.popleft()
                self._ready_bytes -= weight_of(event)
                self._retain(self.next, event)
                self.next += 1
            if progress:  # a service that loses the run reports it, and receives the last seconds again
                self.again = None
            if self._replacement and self.next >= self._first:
                self._replacement = ()
                with suppress(OSError):  # the next run may repeat them: the service knows them
                    self._save_state()
            if progress:
                with suppress(OSError):  # the next accepted push retries
                    self._drop_accepted()
            return progress

    def rewind(self, push: Push) -> bool:
        """Go back to the oldest retained event and send from there again.

        Return False if this has been done already, and the service has accepted nothing since.
        """
        with self._lock:
            if push.session != self.session:
                return True
            if self.again is not None or not self.next:
                return False
            self._rewind("")
            return True

    def renew(self) -> None:
        """Start a new push session, because the service has ended the current one."""
        with self._lock:
            before, self.session = self.session, secrets.token_hex(16)
            self._rewind(before)
            with suppress(OSError):
                self._save_state()

    def drop_oldest(self) -> bool:
        """Delete the oldest file (segment), sent or not, to make room; return False if the queue has only one.

        Raises `OSError`.
        """
        with self._lock:
            if len(self._segments) < 2:
                return False
            first = self._segments[1][0]
            if self.next < first:
                lost = [
                    *self._ready_before(self._first),
                    *self._events_from(max(self.next, self._first), first),
                ]
                self._first, self._replacement = first, replacement_events(lost)
                before, self.session = self.session, secrets.token_hex(16)
                self._save_state()
                self._retained.clear()
                self.again = Again(self.end, self.caught_up, before)
                self._seek(first - len(self._replacement))
            self._segments.popleft()
            self._first = max(self._first, first)
            self._log.drop(self._key, first)
            return True

    def _rewind(self, after: str) -> None:
        start = (
            max(self._retained[0][0], self._first)
            if self._retained and self.next >= self._first
            else self.next
        )
        self.again = Again(self.end, self.caught_up, after)
        self._seek(start)

    def _seek(self, number: int) -> None:
        self.next = number
        self._ready.clear()
        self._ready_bytes = 0
        for event in self._replacement[number - self._first :] if number < self._first else ():
            self._make_ready(event)

    def _make_ready(self, event: Event) -> None:
        self._ready.append(event)
        self._ready_bytes += weight_of(event)

    def _ready_before(self, number: int) -> Iterable[Event]:
        return list(self._ready)[: max(0, number - self.next)]

    def _events_from(self, number: int, until: int | None = None) -> Iterator[Event]:
        """Yield the events from a number on, from disk and memory.

        A `CaughtUp` event (history is complete) of an earlier run becomes a heartbeat, because it was true only for
        that run.
        """
        until = self.end if until is None else until
        if number < self._saved:
            for frame in self._log.read(self._key, number):
                if frame.first >= until:
                    return
                event = read_event(frame.blob)
                if isinstance(event, CaughtUp) and frame.first < self._run_start:
                    event = Heartbeat(event.at_ns)
                yield event
        for _, event in list(self._unsaved)[max(0, number - self._saved) : until - self._saved]:
            yield event

    def _retain(self, number: int, event: Event) -> None:
        self._accepted_ns = max(self._accepted_ns, time_of(event))
        if isinstance(event, CaughtUp):
            self.caught_up = event
        elif isinstance(event, Trades) and number >= self._first:
            self._retained.append((number, time_of(event)))
        while self._retained and self._retained[0][1] < self._accepted_ns - RECENT_NS:
            self._retained.popleft()

    def _drop_accepted(self) -> None:
        """Delete the files of accepted events that are not needed any more.

        The last events are needed to recognise rows that the service or the feed repeats.
        """
        needed = [self.next, self._saved, *self.position.needed()]
        needed += [self._retained[0][0]] if self._retained else []
        while len(self._segments) > 1 and self._segments[1][0] <= min(needed):
            self._segments.popleft()
            self._first = self._segments[0][0]
            self._log.drop(self._key, self._first)

    def _save_state(self) -> None:
        instead = [write_event(event) for event in self._replacement]
        SpoolState(self.session, self._first, instead, self.caps).write(self._state_path)
