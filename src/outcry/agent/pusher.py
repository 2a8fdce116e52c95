"""Pushes a feed's events to a running service over one persistent connection.

The pusher repeats an event until the service confirms it, so each event arrives at least once. After an error the
pauses grow. If there is no progress for the time limit (`patience_s`), the pusher raises the last error. A restarted
service may not know the earlier pushes. The pusher then sends the events of the last seconds again, marked as repeated.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from outcry.agent.sender import LONGEST_PAUSE_S, TIMEOUT_S, Sender
from outcry.base.backoff import Backoff
from outcry.client.errors import ApiError, Unreachable
from outcry.market.instruments import Contract
from outcry.trades.feed import (
    Bars,
    CaughtUp,
    Ended,
    Event,
    FeedCaps,
    Gap,
    Heartbeat,
    Repaired,
    Replaced,
    Trades,
)
from outcry.trades.push_format import RECENT_NS, SILENCE_S, Again, Push

#: Approximate size of a push: far below the service's limit, so that the service parses and validates it quickly.
BATCH_BYTES = 512 * 1024
BATCH_EVENTS = 2000
FIRST_PAUSE_S = 0.1
#: Time limits without progress (s): before the first success, when the URL may be wrong, and after it.
FIRST_PATIENCE_S, PATIENCE_S = 3.0, 120.0


class _MemoryQueue:
    """Events of one contract in memory. Implements `PushQueue`.

    sent: number after the last event that the service may have received. next: number of the first event not accepted.
    retained: accepted events of the last seconds, to be sent again if the service has lost them. pending: events from
    `next` on.
    """

    def __init__(self, session: str, contract: Contract, caps: FeedCaps) -> None:
        self.session, self.contract, self.caps = session, contract, caps
        self.next = self.sent = 0
        self.retained: deque[Event] = deque()
        self.pending: deque[Event] = deque()
        self.caught_up: CaughtUp | None = None
        self.again: Again | None = None
        self.at_ns = 0
        self.last: Event | None = None

    def push(self) -> Push:
        """Return the next events to push."""
        return Push(self.session, self.contract, self.caps, self.next, batch_of(self.pending), self.again)

    def attempted(self, push: Push) -> None:
        """Note that a push was sent, so the service may have received all of it."""
        self.sent = max(self.sent, push.first + len(push.events))
        if self.again is not None and self.again.until < self.sent:  # a new owner may have these too
            self.again = replace(self.again, until=self.sent)

    def accepted(self, push: Push, until: int) -> bool:
        """Note that the service accepted all events below `until`; return whether any of them is new.

        Accepted events of the last seconds are retained.
        """
        if not self.next <= until <= self.next + len(self.pending):
            raise Unreachable(
                f"the service counts {until} events, of {self.next + len(self.pending)} there are"
            )
        progress = until > self.next
        while self.next < until:
            event = self.pending.popleft()
            self.next += 1
            self._retain(event)
        if progress:  # a service that loses the run reports it, and receives the last seconds again
            self.again = None
        return progress

    def rewind(self, push: Push) -> bool:
        """Go back to the oldest retained event and send from there again.

        Return False if this has been done already, and the service has accepted nothing since.
        """
        if self.again is not None or not self.next:
            return False
        self.again = Again(self.sent, self.caught_up)
        self.next -= len(self.retained)
        self.pending.extendleft(reversed(self.retained))
        self.retained.clear()
        return True

    def end(self) -> bool:
        """Drop the events that were never sent and append `Ended`; return False if no sent event needs an end."""
        while self.pending and self.next + len(self.pending) > self.sent:
            self.pending.pop()
        at_ns = max((time_of(event) for event in self.pending), default=0)
        last = self.pending[-1] if self.pending else self.last
        if isinstance(last, Ended) or not (at_ns or self.at_ns):
            return False
        self.pending.append(Ended(max(at_ns, self.at_ns)))
        return True

    def _retain(self, event: Event) -> None:
        if isinstance(event, CaughtUp):
            self.caught_up = event
        self.at_ns, self.last = max(self.at_ns, time_of(event)), event
        self.retained.append(event)
        while self.retained and not is_recent(self.retained[0], self.at_ns):
            self.retained.popleft()


class Pusher:
    """Pushes the events of one feed to a service, from the start of the feed to its end.

    url: base URL of the service. key: an API key for pushing. Methods raise `ApiError` if the service refuses a push.
    They raise `Unreachable` if it gives no valid answer for `patience_s`. Call all methods except `stop` from one
    thread at a time.
    """

    def __init__(
        self, url: str, key: str, feed: str, caps: FeedCaps, *,
        patience_s: float = PATIENCE_S, timeout_s: float = TIMEOUT_S,
    ) -> None:  # fmt: skip
        self.session = secrets.token_hex(16)
        self._feed, self._caps = feed, caps
        self._sender = Sender(url, key, timeout_s=timeout_s)
        self._patience_s = patience_s
        self._stopped = threading.Event()
        self._queues: dict[Contract, _MemoryQueue] = {}

    def push(self, contract: Contract, events: Sequence[Event]) -> None:
        """Send events of a contract; return after the service has accepted all of them."""
        queue = self._queue(contract)
        queue.pending.extend(events)
        if queue.pending:
            self._send(queue)

    def beat(self, contract: Contract) -> None:
        """Send a heartbeat. Without data or heartbeats for `SILENCE_S`, the service treats the feed as lost."""
        queue = self._queue(contract)
        queue.pending.extend([Heartbeat(queue.at_ns)] if queue.at_ns else [])
        self._send(queue)

    def stop(self) -> None:
        """Stop after the push in progress on another thread, which may end with `Unreachable`."""
        self._stopped.set()

    def bye(self) -> None:
        """Tell the service that this feed sends no more events of any contract.

        The message is sent once, and errors are ignored.
        """
        for queue in self._queues.values():
            if queue.end():
                with suppress(ApiError, Unreachable):
                    self._sender.attempt(self._feed, queue)

    def close(self) -> None:
        """Close the connection."""
        self._sender.close()

    def _queue(self, contract: Contract) -> _MemoryQueue:
        return self._queues.setdefault(contract, _MemoryQueue(self.session, contract, self._caps))

    def _send(self, queue: _MemoryQueue) -> None:
        """Send the pending events. If there are none, send one empty push."""
        moved_s, backoff = time.monotonic(), Backoff(first_s=FIRST_PAUSE_S, longest_s=LONGEST_PAUSE_S)
        while True:
            wait_s = self._sender.attempt(self._feed, queue)
            if wait_s is None:
                moved_s = time.monotonic()
                backoff.reset()
                if not queue.pending:
                    return
                if self._stopped.is_set():
                    raise Unreachable("the push was stopped")
                continue
            left_s = moved_s + self._patience() - time.monotonic()
            if left_s <= 0 or self._stopped.wait(min(wait_s or backoff.next_s(), left_s)):
                raise self._sender.problem

    def _patience(self) -> float:
        problem = self._sender.problem
        if isinstance(problem, ApiError) and problem.body.get("reason") == "occupied":
            # The service ends a killed run after this time.
            return min(self._patience_s, SILENCE_S + LONGEST_PAUSE_S)
        return self._patience_s if self._sender.worked else min(FIRST_PATIENCE_S, self._patience_s)


def batch_of(pending: Collection[Event]) -> tuple[Event, ...]:
    """Return the first events to push: about `BATCH_BYTES` of them, and at least one."""
    size = count = 0
    for event in islice(pending, BATCH_EVENTS):
        size += weight_of(event)
        if count and size > BATCH_BYTES:
            break
        count += 1
    return tuple(islice(pending, count))


def weight_of(event: Event) -> int:
    """Return the approximate size of an event in bytes."""
    return event.rows.nbytes if isinstance(event, Trades | Bars | Replaced) else 64


def time_of(event: Event) -> int:
    """Return the newest time (ns UTC) in an event; 0 if it has none."""
    match event:
        case Trades(rows) | Bars(rows):
            return int(rows["ts_event"].max())
        case CaughtUp(at_ns) | Heartbeat(at_ns) | Ended(at_ns):
            return at_ns
        case Gap() | Repaired() | Replaced():
            return event.to_ns
        case _:
            return 0


def is_recent(event: Event, now_ns: int) -> bool:
    """Return whether an event contains trades of the last seconds, which a restarted service receives again."""
    return isinstance(event, Trades) and int(event.rows["ts_event"].max()) >= now_ns - RECENT_NS
