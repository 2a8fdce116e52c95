"""A NATS connection on its own thread, for callers on other threads that block."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TookTooLong
from typing import Any, Self, TypeVar

from outcry.base.log_events import Report
from outcry.cluster.calls import BusDown
from outcry.cluster.nats.link import Link

T = TypeVar("T")


class LinkThread:
    """A NATS connection with its own thread and event loop. Use it as a context manager."""

    def __init__(self, urls: str, report: Report) -> None:
        self._urls, self._report = urls, report
        # uvloop is no faster here, and its loop sometimes hung when it was closed.
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._end = asyncio.Event()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outcry-nats", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._begun.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        with self._runner:
            self._runner.run(self._stay())

    async def _stay(self) -> None:
        async with Link(self._urls, self._report) as self.link:
            self._begun.set()
            await self._end.wait()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of this thread, on which `link` runs."""
        return self._loop

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop of the NATS thread; may be called from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Run a coroutine on the NATS thread and wait for it. Raises `BusDown` after `timeout_s`.

        Do not call it on the NATS thread itself, because it would wait for itself.
        """
        future = self.submit(work)
        try:
            return future.result(timeout_s)
        except TookTooLong:
            future.cancel()
            raise BusDown(f"the bus did not answer in {timeout_s:.0f} s") from None
