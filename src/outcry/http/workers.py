"""How long an answer is waited for: while work goes on, and not while the store is silent.

Rule kept: 502 means that something outside this process does not respond. Threads that use the processor are working,
however slow the machine is; threads that do not are waiting for a store.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from outcry.base.errors import StoreUnavailable

T = TypeVar("T")
#: Looks in the time that silence may last, and the part of a look that the threads must have been at work.
_LOOKS = 4
_WORKING = 1 / 500
#: However busy the threads are, nobody waits longer.
MOST_S = 60.0


class Workers:
    """Threads for work that may wait for a store. `silence_s`: how long all of them may wait at once."""

    def __init__(self, threads: int, name: str, silence_s: float, most_s: float = MOST_S) -> None:
        self._silence_s, self._most_s = silence_s, most_s
        self._clocks: list[int] = []
        self._pool = ThreadPoolExecutor(threads, name, initializer=self._register)

    def start(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Have a thread do it; on the running loop."""
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def wait(self, flight: asyncio.Future[T]) -> T:
        """Wait for work that was started. Raises `StoreUnavailable` once no thread has worked for too long."""
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
        """Let the threads end; what waits for one is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _register(self) -> None:
        if hasattr(time, "pthread_getcpuclockid"):  # not on Windows: there every long wait counts as silence
            self._clocks.append(time.pthread_getcpuclockid(threading.get_ident()))

    def _worked_ns(self) -> int:
        """How long the threads have used the processor."""
        return sum(map(time.clock_gettime_ns, tuple(self._clocks)))
