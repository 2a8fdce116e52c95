"""Wait for conditions."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from outcry.cluster.calls import BusDown

T = TypeVar("T")

PATIENCE_S = 60.0


async def soon(ask: Callable[[], Awaitable[T]], patience_s: float = PATIENCE_S) -> T:
    """Retry a call while the bus is unavailable or no process responds; return the answer."""
    end_s = time.monotonic() + patience_s
    while True:
        try:
            return await ask()
        except BusDown:
            assert time.monotonic() < end_s, f"no answer in {patience_s:.0f} s"
            await asyncio.sleep(0.02)


async def until(so: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> float:
    """Wait until a condition is met; return the seconds this took."""
    begun_s = time.monotonic()
    while not so():
        assert time.monotonic() - begun_s < patience_s, (
            f"in {patience_s:.0f} s it did not come about that {what}"
        )
        await asyncio.sleep(0.01)
    return time.monotonic() - begun_s
