"""Repeat calls over the bus."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.timeouts import PATIENCE_S

from outcry.cluster.calls import BusDown

T = TypeVar("T")


async def soon(ask: Callable[[], Awaitable[T]], patience_s: float = PATIENCE_S) -> T:
    """Retry a call while the bus is unavailable or no process responds; return the answer."""
    end_s = time.monotonic() + patience_s
    while True:
        try:
            return await ask()
        except BusDown:
            assert time.monotonic() < end_s, f"no answer in {patience_s:.0f} s"
            await asyncio.sleep(0.02)
