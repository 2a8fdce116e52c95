"""Time limits for tests that wait."""

import asyncio
import threading
from collections.abc import Awaitable
from typing import TypeVar

from support.waiting import PATIENCE_S, until, wait_until

__all__ = ["PATIENCE_S", "no_more_threads_than", "until", "wait_until", "within"]

T = TypeVar("T")


async def within(work: Awaitable[T], limit_s: float) -> T:
    """Await work and cancel it at the time limit (s), which raises `TimeoutError`."""
    async with asyncio.timeout(limit_s):
        return await work


async def no_more_threads_than(before: int) -> None:
    """Wait until at most this many threads run; some end a moment after their owner."""
    await until(lambda: threading.active_count() <= before, threading.enumerate)
