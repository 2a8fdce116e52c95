"""Telling owners, by a thread of its own: a mail server that hangs holds up no delivery.

Rule kept: nothing that happens in here is felt by who delivers; what is too much to be told is dropped, the oldest
first, and the operator's log says so.
"""

from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Protocol

from outcry.base.log_events import LogEvent, Report
from outcry.delivery.outbox_model import DeliveryResult, Message
from outcry.delivery.outcomes import Decision
from outcry.delivery.queue_breaker import WARNED_AFTER_NS
from outcry.market.units import NANOS_PER_HOUR

#: What waits to be told at most.
MOST_WAITING = 1_000


class Notices(Protocol):
    """Where a subscription's owner is told of it. Called in a thread of its own, one after the other."""

    def warned(self, message: Message, hours: int) -> None:
        """Nothing has arrived for so many hours."""
        ...

    def switched_off(self, message: Message, reason: str) -> None:
        """Nothing is sent any more."""
        ...


class Announcements:
    """What owners are still to be told. `report`: the operator's log. Safe in any thread."""

    def __init__(self, notices: Notices, report: Report) -> None:
        self._notices, self._report = notices, report
        self._waiting: deque[Callable[[], None]] = deque()
        self._change = Condition()
        self._telling = self._closed = False
        self._thread: Thread | None = None

    def take(self, results: Sequence[Decision], switched_off: Sequence[DeliveryResult]) -> None:
        """Have owners told what follows from results that were recorded; `switched_off`: those that ended it."""
        for done in switched_off:
            self._add(lambda done=done: self._notices.switched_off(done.message, done.disable))
        for result in results:
            if result.warn and not result.done.disable:
                hours = WARNED_AFTER_NS[result.warn - 1] // NANOS_PER_HOUR
                self._add(
                    lambda message=result.done.message, hours=hours: self._notices.warned(message, hours)
                )

    def settle(self, patience_s: float) -> None:
        """Wait until everybody is told, as far as that is soon."""
        with self._change:
            self._change.wait_for(lambda: not self._waiting and not self._telling, patience_s)

    def close(self) -> None:
        """Tell nobody any more."""
        with self._change:
            self._closed = True
            self._waiting.clear()
            self._change.notify_all()

    def _add(self, telling: Callable[[], None]) -> None:
        with self._change:
            if self._closed:
                return
            dropped = len(self._waiting) >= MOST_WAITING
            if dropped:
                self._waiting.popleft()
            self._waiting.append(telling)
            if self._thread is None:
                # no reason for the process to go on
                self._thread = Thread(target=self._run, name="outcry-notices", daemon=True)
                self._thread.start()
            self._change.notify_all()
        if dropped:
            self._report(LogEvent.OWNER_NOTICE_DROPPED)

    def _run(self) -> None:
        while True:
            with self._change:
                self._telling = False
                self._change.notify_all()
                self._change.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                telling, self._telling = self._waiting.popleft(), True
            try:
                telling()
            except Exception as problem:  # noqa: BLE001 - a supervisor: the others are told all the same
                self._report(LogEvent.OWNER_NOTICE_FAILED, problem=repr(problem))
