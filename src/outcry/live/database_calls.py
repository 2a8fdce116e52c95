"""Runs blocking database calls on a thread, and repeats them while the database is busy."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

from outcry.base.log_events import LogEvent, Report
from outcry.database.errors import StoreBusy

T = TypeVar("T")

RETRY_S = 1.0


class DatabaseCalls:
    """Runs calls one after another on its own thread. speedup: divides all pauses, for tests."""

    def __init__(self, report: Report, speedup: float) -> None:
        self._report, self._speedup = report, speedup
        self._thread = ThreadPoolExecutor(1, "outcry-store")

    async def patiently(self, work: Callable[[], T], thread: Executor | None = None) -> T:
        """Run a call, and repeat it while the database is busy.

        thread: where to run it, by default this object's thread.
        """
        while True:
            try:
                return await self.once(work, thread)
            except StoreBusy as problem:
                self._report(LogEvent.STORE_BUSY, problem=str(problem))
                await asyncio.sleep(RETRY_S / self._speedup)

    async def once(self, work: Callable[[], T], thread: Executor | None = None) -> T:
        """Run a call once. Raises `StoreBusy` and the call's own errors.

        thread: where to run it, by default this object's thread.
        """
        return await asyncio.get_running_loop().run_in_executor(thread or self._thread, work)

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown()
