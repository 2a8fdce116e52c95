"""Run coroutines on the NATS thread from another thread and wait for their results, with retries for a limited time."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from outcry.cluster.calls import BusDown
from outcry.cluster.nats.link import BusRefused
from outcry.cluster.nats.thread import LinkThread
from outcry.database.errors import StoreBusy

T = TypeVar("T")

#: Longest wait of a blocking caller for NATS.
PATIENCE_S = 5.0
_PAUSE_S = 0.05


class BlockingBus:
    """Run work on the NATS thread and wait for the result, with retries for `PATIENCE_S` seconds.

    `what` names the work in errors.
    """

    def __init__(self, thread: LinkThread, what: str) -> None:
        self._thread, self._what = thread, what

    def __call__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run work on the NATS event loop and return its result. A retry runs the work again. Raises `StoreBusy`."""
        try:
            return self._thread.call(self._again(work), PATIENCE_S + 1)
        except (BusDown, BusRefused) as problem:
            raise StoreBusy(f"the {self._what} cannot be reached: {problem}") from problem

    async def _again(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        end_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                async with asyncio.timeout(max(0.0, end_s - time.monotonic())):
                    await self._thread.link.up()
                    return await work()
            except TimeoutError:
                raise BusDown("it does not answer") from None
            except BusDown:
                if time.monotonic() + _PAUSE_S > end_s:
                    raise
                await asyncio.sleep(_PAUSE_S)
