"""Time limits for tests that wait."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

#: Time limit (s) for events that happen at once on an idle machine.
PATIENCE_S = 60.0


async def within(work: Awaitable[T], limit_s: float) -> T:
    """Await work and cancel it at the time limit (s), which raises `TimeoutError`."""
    async with asyncio.timeout(limit_s):
        return await work


def seconds_until(met: Callable[[], object], poll_s: float = 0.02) -> float:
    """Wait until a condition is met; return the seconds this took."""
    began_s = time.monotonic()
    while not met():
        assert time.monotonic() - began_s < PATIENCE_S, f"condition not met within {PATIENCE_S:.0f} s"
        time.sleep(poll_s)
    return time.monotonic() - began_s


async def no_more_threads_than(before: int) -> None:
    """Wait until at most this many threads run; some end a moment after their owner."""
    async with asyncio.timeout(PATIENCE_S):
        while threading.active_count() > before:
            await asyncio.sleep(0.01)
