"""Notify owners about their webhooks in a separate thread, so that a slow email server delays no delivery.

If a notice fails, delivery is not affected. If more than `MOST_WAITING` notices wait, the oldest are dropped and
logged.
"""

from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread

from outcry.base.log_events import LogEvent, Report
from outcry.delivery.notices import OwnerNotices
from outcry.delivery.outbox_model import DeliveryResult
from outcry.delivery.outcomes import Decision
from outcry.delivery.queue_breaker import WARNED_AFTER_NS
from outcry.market.units import NANOS_PER_HOUR

#: Maximum number of waiting notices.
MOST_WAITING = 1_000


class Announcements:
    """Queue of notices to owners. Thread-safe."""

    def __init__(self, notices: OwnerNotices, report: Report) -> None:
        self._notices, self._report = notices, report
        self._waiting: deque[Callable[[], None]] = deque()
        self._change = Condition()
        self._announcing = self._closed = False
        self._thread: Thread | None = None

    def take(self, results: Sequence[Decision], switched_off: Sequence[DeliveryResult]) -> None:
        """Queue the notices to owners that follow from delivery results.

        `results`: all results, each with the number of the warning to send (0 for none). `switched_off`: the results
        that disabled their subscription.
        """
        for done in switched_off:
            self._add(lambda done=done: self._notices.switched_off(done.message, done.disable))
        for result in results:
            if result.warn and not result.done.disable:
                hours = WARNED_AFTER_NS[result.warn - 1] // NANOS_PER_HOUR
                self._add(
                    lambda message=result.done.message, hours=hours: self._notices.warned(message, hours)
                )

    def settle(self, patience_s: float) -> None:
        """Wait until all notices are sent, for at most `patience_s` seconds."""
        with self._change:
            self._change.wait_for(lambda: not self._waiting and not self._announcing, patience_s)

    def close(self) -> None:
        """Drop all waiting notices and end the thread."""
        with self._change:
            self._closed = True
            self._waiting.clear()
            self._change.notify_all()

    def _add(self, announce: Callable[[], None]) -> None:
        with self._change:
            if self._closed:
                return
            dropped = len(self._waiting) >= MOST_WAITING
            if dropped:
                self._waiting.popleft()
            self._waiting.append(announce)
            if self._thread is None:
                # a daemon: it must not keep the process alive
                self._thread = Thread(target=self._run, name="outcry-notices", daemon=True)
                self._thread.start()
            self._change.notify_all()
        if dropped:
            self._report(LogEvent.OWNER_NOTICE_DROPPED)

    def _run(self) -> None:
        while True:
            with self._change:
                self._announcing = False
                self._change.notify_all()
                self._change.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                announce, self._announcing = self._waiting.popleft(), True
            try:
                announce()
            except Exception as problem:  # noqa: BLE001 - a supervisor: the other notices follow
                self._report(LogEvent.OWNER_NOTICE_FAILED, problem=repr(problem))
