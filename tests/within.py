"""A limit to what a test waits for."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

#: What is waited for that comes at once on an idle machine.
PATIENCE_S = 60.0


async def within(work: Awaitable[T], limit_s: float) -> T:
    """Wait for something, cancelled after so many seconds. Raises `TimeoutError`."""
    async with asyncio.timeout(limit_s):
        return await work


def seconds_until(so: Callable[[], object], each_s: float = 0.02) -> float:
    """Wait for something that has to come about; return how many seconds it took."""
    began_s = time.monotonic()
    while not so():
        assert time.monotonic() - began_s < PATIENCE_S, f"it did not come about in {PATIENCE_S:.0f} s"
        time.sleep(each_s)
    return time.monotonic() - began_s


async def no_more_threads_than(before: int) -> None:
    """Wait until there are no more threads than so many; some end a moment after whoever they worked for."""
    async with asyncio.timeout(PATIENCE_S):
        while threading.active_count() > before:
            await asyncio.sleep(0.01)
