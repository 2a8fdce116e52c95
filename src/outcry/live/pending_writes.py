"""Entries of a stream that are written after `append` has returned, and the tasks that wait for them."""

import asyncio
from collections.abc import Sequence

from outcry.live.model import Frame

#: A log that accepts nothing for this long is stalled; its streams stop answering live.
STALL_S = 2.0

Waiter = tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]


class PendingWrites:
    """The entries of one stream that are queued for writing.

    last: the position after the newest entry, written or not. flying: frames being written; pending: frames after them.
    cuts: positions at which a file or message starts. waiting: tasks that wait until a position is written. since_s:
    when the log last accepted anything, on the monotonic clock; it counts while `writing`.
    """

    __slots__ = ("cuts", "flying", "key", "last", "pending", "since_s", "waiting", "writing")

    def __init__(self, key: str) -> None:
        self.key = key
        self.last = 0
        self.pending: list[Frame] = []
        self.flying: list[Frame] = []
        self.cuts: set[int] = set()
        self.waiting: list[Waiter] = []
        self.writing = False
        self.since_s = 0.0

    @property
    def kept_to(self) -> int:
        """The position up to which everything is written."""
        waits = self.flying or self.pending
        return waits[0].first if waits else self.last

    def stalled(self, now_s: float) -> bool:
        """Whether entries have waited for `STALL_S` without any being written."""
        return self.writing and now_s - self.since_s >= STALL_S

    def wait(self) -> "asyncio.Future[None]":
        """Return a future of the running loop that completes once everything appended so far is written."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self.waiting.append((self.last, loop, waiter))
        return waiter

    def reached(self) -> list[Waiter]:
        """Remove and return the tasks that waited for a position which is now written."""
        kept = self.kept_to
        done = [waiter for waiter in self.waiting if waiter[0] <= kept]
        self.waiting = [waiter for waiter in self.waiting if waiter[0] > kept]
        return done


def wake(waiting: Sequence[Waiter], problem: Exception | None) -> None:
    """Complete futures, each on its own loop."""
    for _, loop, waiter in waiting:
        try:
            loop.call_soon_threadsafe(_resolve, waiter, problem)
        except RuntimeError:  # the loop has ended
            continue


def _resolve(waiter: "asyncio.Future[None]", problem: Exception | None) -> None:
    if waiter.done():
        return
    if problem is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(problem)
