"""Write delivery results to the outbox, many in one transaction.

A result waits until it is written, and is written once. A result that the database permanently refuses is dropped, so
that it does not delay the others. The lease of the message's queue then expires, and the message is sent again.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from itertools import count

from outcry.base.log_events import LogEvent, Report
from outcry.database.errors import StoreBusy
from outcry.delivery.announcements import Announcements
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outcomes import Decision

_RETRY_S = 1.0
#: How long a result waits for others, so that one transaction writes many.
_GATHERING_S = 0.025
#: How often a batch may be refused while other writes succeed, before its results are written one by one.
_MOST_REFUSALS = 3


class ResultWriter:
    """Delivery results that wait to be written. `thread`: the single thread that accesses the outbox."""

    def __init__(
        self, outbox: SqlOutbox, announcements: Announcements, thread: Executor, report: Report
    ) -> None:
        self._outbox, self._announcements, self._thread, self._report = outbox, announcements, thread, report
        self._numbers = count()
        self._waiting: dict[int, Decision] = {}
        self._some = asyncio.Event()

    def keep(self, result: Decision) -> None:
        """Queue a result for writing."""
        self._waiting[next(self._numbers)] = result
        self._some.set()

    async def run(self) -> None:
        """Write queued results until cancelled."""
        await self.write()  # those of an earlier run that was interrupted
        while True:
            await self._some.wait()
            self._some.clear()
            await asyncio.sleep(_GATHERING_S)
            if self._waiting:
                await self._write(list(self._waiting), _MOST_REFUSALS)

    async def write(self) -> None:
        """Write all queued results."""
        while self._waiting:
            await self._write(list(self._waiting), _MOST_REFUSALS)

    async def _write(self, numbers: Sequence[int], most_refusals: int) -> None:
        """Write the queued results with these numbers together, or one by one if the database refuses the batch."""
        refusals = 0
        while True:
            try:
                await self._in_thread(lambda: self._record(numbers))
            except StoreBusy as problem:
                self._report(LogEvent.OUTBOX_UNWRITABLE, problem=str(problem))
                refusals += await self._writable()
                if refusals >= most_refusals:
                    break
                await asyncio.sleep(_RETRY_S)
            except Exception as problem:  # noqa: BLE001 - a supervisor: one message's fault stops no other
                self._report(LogEvent.DELIVERY_RESULTS_FAILED, problem=repr(problem))
                break
            else:
                return
        if len(numbers) > 1:
            for number in numbers:
                await self._write([number], 1)
        elif numbers[0] in self._waiting:
            message_id = self._waiting.pop(numbers[0]).done.message.message_id
            self._report(LogEvent.DELIVERY_RESULT_LOST, message_id=message_id)

    def _record(self, numbers: Sequence[int]) -> None:
        """Write the queued results with these numbers. If the call is cancelled, the write still completes."""
        results = [self._waiting[number] for number in numbers if number in self._waiting]
        switched_off = self._outbox.record([result.done for result in results])
        for number in numbers:
            self._waiting.pop(number, None)
        self._announcements.take(results, switched_off)

    async def _writable(self) -> bool:
        """Return whether the database accepts any write. The test is a deletion that matches no row."""
        try:
            await self._in_thread(lambda: self._outbox.forget_old(0))
        except StoreBusy:
            return False
        return True

    async def _in_thread(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, work)
