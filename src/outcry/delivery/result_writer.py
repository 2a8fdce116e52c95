"""Keeps what became of messages: many in one transaction, for as long as the database is busy.

Rules kept: what is not written yet waits to be written, whatever happens meanwhile, and is written once, whoever asks
for it; one that the database refuses for good holds up no other: its lease runs out, and its message goes again.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from itertools import count

from outcry.base.log_events import LogEvent, Report
from outcry.database.errors import StoreBusy
from outcry.delivery.announcements import Announcements
from outcry.delivery.outbox_model import Outbox
from outcry.delivery.outcomes import Decision

_RETRY_S = 1.0
#: So often one batch is refused while others could be written, until its messages are recorded one by one.
_MOST_REFUSALS = 3


class ResultWriter:
    """What became of messages and is not in the outbox yet. `thread`: one, by which the outbox is asked."""

    def __init__(
        self, outbox: Outbox, announcements: Announcements, thread: Executor, report: Report
    ) -> None:
        self._outbox, self._announcements, self._thread, self._report = outbox, announcements, thread, report
        self._numbers = count()
        self._waiting: dict[int, Decision] = {}
        self._some = asyncio.Event()

    def keep(self, result: Decision) -> None:
        """Have it written."""
        self._waiting[next(self._numbers)] = result
        self._some.set()

    async def run(self) -> None:
        """Write whatever there is. Never ends."""
        while True:
            await self.write()
            self._some.clear()
            await self._some.wait()

    async def write(self) -> None:
        """Write what there is, until nothing is left."""
        while self._waiting:
            await self._write(list(self._waiting), _MOST_REFUSALS)

    async def _write(self, numbers: Sequence[int], most_refusals: int) -> None:
        """Write these: together, or one by one where that is refused for good."""
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
        """By the thread of the outbox: so what is cancelled half-way is written, and not written again."""
        results = [self._waiting[number] for number in numbers if number in self._waiting]
        switched_off = self._outbox.record([result.done for result in results])
        for number in numbers:
            self._waiting.pop(number, None)
        self._announcements.take(results, switched_off)

    async def _writable(self) -> bool:
        """Whether anything else can be written now. Nothing is as old as what is forgotten here."""
        try:
            await self._in_thread(lambda: self._outbox.forget_old(0))
        except StoreBusy:
            return False
        return True

    async def _in_thread(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, work)
