"""Worker threads for requests, and how long a request waits for them.

As long as the threads use the processor, a request waits, however slow the machine is. If no thread has used the
processor for too long, the threads are waiting for a database that does not respond. The request then fails with status
502.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from outcry.base.errors import StoreUnavailable

T = TypeVar("T")
#: Checks during `silence_s`, and the share of processor time that counts as working.
_LOOKS = 4
_WORKING = 1 / 500
#: Maximum wait, however busy the threads are.
MOST_S = 60.0


class Workers:
    """Threads for work that may wait for the database.

    `silence_s`: a wait fails once no thread has used the processor for so many seconds, because the database then does
    not respond.
    """

    def __init__(self, threads: int, name: str, silence_s: float, most_s: float = MOST_S) -> None:
        self._silence_s, self._most_s = silence_s, most_s
        self._clocks: list[int] = []
        self._pool = ThreadPoolExecutor(threads, name, initializer=self._register)

    def start(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run work in a thread. Call on the running event loop."""
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def wait(self, flight: asyncio.Future[T]) -> T:
        """Wait for work that `start` has started; return its result.

        Raises `StoreUnavailable` once no thread has used the processor for too long.
        """
        look_s = self._silence_s / _LOOKS
        worked_ns, silent_s, waited_s = self._worked_ns(), 0.0, 0.0
        while not (await asyncio.wait([flight], timeout=look_s))[0]:
            before_ns, worked_ns = worked_ns, self._worked_ns()
            working = worked_ns - before_ns > look_s * _WORKING * 1e9
            silent_s, waited_s = 0.0 if working else silent_s + look_s, waited_s + look_s
            if silent_s >= self._silence_s or waited_s >= self._most_s:
                raise StoreUnavailable("upstream_unavailable")
        return flight.result()

    def close(self) -> None:
        """Let the threads end. Work that has not begun is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _register(self) -> None:
        if hasattr(time, "pthread_getcpuclockid"):  # not on Windows: there every long wait counts as idle
            self._clocks.append(time.pthread_getcpuclockid(threading.get_ident()))

    def _worked_ns(self) -> int:
        """Return the processor time (ns) that the threads have used."""
        return sum(map(time.clock_gettime_ns, tuple(self._clocks)))
