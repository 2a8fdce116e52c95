"""Limit of how many requests run at once for each key, such as an IP address."""

import asyncio
from collections.abc import Collection


class NoSlotFree(Exception):
    """No slot became free within the time that the caller would wait."""


class Slots:
    """Semaphores by key: at most `limit` slots are taken for each key. Used on one event loop.

    An unused key needs no memory.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: dict[str, int] = {}
        #: Waiting callers by key, in order of arrival. One caller may wait for several keys.
        self._waiting: dict[str, dict[asyncio.Future[str], None]] = {}

    def try_acquire(self, key: str) -> bool:
        """Acquire a slot of a key if one is free; return whether it was."""
        taken = self._taken.get(key, 0)
        if taken == self._limit:
            return False
        self._taken[key] = taken + 1
        return True

    async def acquire(self, keys: Collection[str], timeout_s: float) -> str:
        """Wait for a free slot of one of these keys, and acquire it; return the key. Raises `NoSlotFree`."""
        for key in keys:
            if self.try_acquire(key):
                return key
        slot: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        for key in keys:
            self._waiting.setdefault(key, {})[slot] = None
        try:
            async with asyncio.timeout(timeout_s):
                return await slot
        except BaseException as problem:
            if slot.done() and not slot.cancelled():  # granted after the timeout
                self.release(slot.result())
            if isinstance(problem, TimeoutError):
                raise NoSlotFree from None
            raise
        finally:
            for key in keys:
                self._stop_waiting(key, slot)

    def release(self, key: str) -> None:
        """Release a slot of a key. The caller that has waited longest for one acquires it."""
        for slot in self._waiting.get(key, ()):
            if not slot.done():
                slot.set_result(key)
                return
        self._taken[key] -= 1
        if not self._taken[key]:
            del self._taken[key]

    def _stop_waiting(self, key: str, slot: asyncio.Future[str]) -> None:
        waiting = self._waiting.get(key, {})
        waiting.pop(slot, None)
        if not waiting:
            self._waiting.pop(key, None)
