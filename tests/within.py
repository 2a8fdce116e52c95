"""A limit to what a test waits for."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(work: Awaitable[T], limit_s: float) -> T:
    """Wait for something, cancelled after so many seconds. Raises `TimeoutError`."""
    async with asyncio.timeout(limit_s):
        return await work
