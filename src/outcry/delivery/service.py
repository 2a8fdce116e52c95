"""The delivery service: delivers alerts in the background, and checks webhook URLs and sends tests for the pages.

A test is sent like alerts, once, and is logged. All requests are sent from one event loop.
"""

import asyncio
import secrets as chance
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from outcry.base.clock import Clock
from outcry.base.log_events import LogEvent, Report
from outcry.base.tasks import BackgroundTasks
from outcry.database.errors import StoreBusy
from outcry.delivery import queue_breaker
from outcry.delivery.channels import DeferredChannels
from outcry.delivery.dispatcher import Dispatcher
from outcry.delivery.model import SubscriptionRow, Target, TestResult
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outbox_model import Message, Queue, Reader
from outcry.delivery.outcomes import attempt_of
from outcry.delivery.sender import Sender, SendResult, Verdict

T = TypeVar("T")

_JUDGING_S = 4.5
_TESTING_S = 21.0
_ANEW_S = 1.0


class Delivery:
    """The delivery service. Call its methods for pages from any thread except the event loop's.

    `readers`: returns the settings of a subscription's owner. `admitted`: hosts to which deliveries are allowed
    although they may be private. `delivers`: whether this process delivers alerts, or only sends tests.
    """

    def __init__(
        self, dispatcher: Dispatcher, outbox: SqlOutbox, senders: Mapping[Target, Sender],
        channels: DeferredChannels, clock: Clock, readers: Callable[[int], Reader],
        admitted: Sequence[str] = (), *, delivers: bool = True,
    ) -> None:  # fmt: skip
        self._dispatcher, self._outbox, self._senders, self._channels = dispatcher, outbox, senders, channels
        self._clock, self._readers, self.admitted = clock, readers, admitted
        self._delivers = delivers
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks = BackgroundTasks()

    # -- lifecycle

    async def start(self, report: Report) -> None:
        """Start to deliver alerts, in a separate thread."""
        self._loop = asyncio.get_running_loop()
        self._dispatcher.report = report
        if self._delivers:
            self._tasks.every(_ANEW_S, "delivery", self._dispatcher.run, self._restarted)

    def _restarted(self, problem: Exception) -> None:
        self._dispatcher.report(LogEvent.DELIVERY_RESTARTED, problem=repr(problem))

    @property
    def failed(self) -> bool:
        """Whether delivery has ended because of an unexpected error."""
        return self.running and self._delivers and not self._tasks

    def counted(self) -> Mapping[str, int]:
        """Return the number of delivery attempts by target and result code, such as `https ok`."""
        return {f"{target.value} {code}": count for (target, code), count in self._dispatcher.counts.items()}

    async def stop(self) -> None:
        """Complete messages in flight and record their results."""
        await self._tasks.stop()
        self._loop = None
        await self._channels.close()
        self._dispatcher.close()

    # -- for the pages

    @property
    def running(self) -> bool:
        """Return whether delivery runs."""
        return self._loop is not None

    def wake(self) -> None:
        """Check for due messages at once."""
        self._dispatcher.wake()

    def check_url(self, target: Target, address: str) -> str:
        """Check a webhook URL; return `ok`, `unverified`, or the code of its fault.

        `unverified`: accepted, but the host cannot be resolved now. Takes up to four seconds.
        """
        if target is Target.EMAIL:
            return "ok" if Target.EMAIL in self._senders else "mail_not_set_up"
        return self._in_loop(lambda: self._channels.check(address), _JUDGING_S, "unverified")

    def test(self, row: SubscriptionRow, address: str, secrets: Sequence[str]) -> TestResult:
        """Send a test alert to a webhook in the same way as other alerts; return the result.

        Takes up to 20 seconds and never raises. `secrets`: keys that sign the test, newest first.
        """
        sender = self._senders.get(row.target)
        if sender is None:
            return _nothing_sent("mail_not_set_up")
        if self._loop is None:
            return _nothing_sent("our_fault")
        try:
            return self._tested(sender, row, address, secrets)
        except StoreBusy:
            return _nothing_sent("store_busy")
        except Exception as problem:  # noqa: BLE001 - a fault of ours, and the page says so
            self._dispatcher.report(LogEvent.WEBHOOK_TEST_FAILED, problem=repr(problem))
            return _nothing_sent("our_fault")

    def _tested(
        self, sender: Sender, row: SubscriptionRow, address: str, secrets: Sequence[str]
    ) -> TestResult:
        queue, reader = self._outbox.queue(row.id), self._readers(row.user_id)
        now_ns = self._clock.now_ns()
        message = Message(f"test_{chance.token_hex(12)}", row, reader, queue, (), 0, 0, now_ns)

        async def send() -> SendResult:
            try:
                return await sender.send(message, address, secrets)
            except Exception as problem:  # noqa: BLE001 - it is in the log as any other attempt
                self._dispatcher.report(
                    LogEvent.SENDER_FAILED, target=row.target.value, problem=repr(problem)
                )
                return SendResult(Verdict.LATER, "our_fault")

        sent = self._in_loop(send, _TESTING_S, SendResult(Verdict.LATER, "answer_timeout"))
        self._note(message, sent)
        return TestResult(sent.code, sent.status, sent.took_ms, sent.phases_ms, sent.request, sent.excerpt)

    def _note(self, message: Message, sent: SendResult) -> None:
        """Log the result of a test.

        A success ends a pause of the queue. A failure does not count as a failure of the queue.
        """
        now_ns = self._clock.now_ns()
        arrived = sent.verdict is Verdict.ARRIVED
        queue: Queue | None = queue_breaker.arrived(message.queue, now_ns) if arrived else None
        attempt = attempt_of(message, sent, "delivered" if arrived else "failed", now_ns)
        try:
            self._outbox.keep_attempt(attempt, queue)
        except StoreBusy as problem:
            self._dispatcher.report(LogEvent.WEBHOOK_TEST_NOT_RECORDED, problem=str(problem))

    def _in_loop(self, work: Callable[[], Coroutine[Any, Any, T]], patience_s: float, late: T) -> T:
        """Run a coroutine on the delivery loop from another thread.

        Return `late` if it takes longer than `patience_s` or the loop has ended.
        """
        loop = self._loop
        if loop is None:
            return late
        doing = asyncio.run_coroutine_threadsafe(work(), loop)
        try:
            return doing.result(patience_s)
        except (TimeoutError, CancelledError):  # cancelled, so nothing more is sent
            doing.cancel()
            return late


def _nothing_sent(code: str) -> TestResult:
    return TestResult(code, None, 0, (), "", "")
