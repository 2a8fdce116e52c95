"""What has come for one stream and its reader has not taken yet.

Rules kept: a reader that is slow loses its own stream and holds up no other; what came before a stream was lost is
handed over before why.
"""

import asyncio
from collections import deque
from typing import Generic, TypeVar

from outcry.trades.feed import Bars, FeedLost, Heartbeat, Replaced, Trades

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """Filled by a session, emptied by one reader. limit: rows and other items that may wait; None where the session
    sees to that itself."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._waiting: deque[Item] = deque()
        self._came = asyncio.Event()
        #: Rows and other items that wait.
        self.weight = 0
        #: Why nothing more comes.
        self.problem: Exception | None = None

    def put(self, item: Item) -> None:
        """Add what came, unless the stream is lost already; one too many loses it."""
        if self.problem is not None:
            return
        if isinstance(item, Heartbeat) and self._waiting and isinstance(self._waiting[-1], Heartbeat):
            self._waiting[-1] = item  # the newer says it all
            return
        self._waiting.append(item)
        self.weight += row_count(item)
        if self._limit is not None and self.weight > self._limit:
            self.drop(
                FeedLost("seam_overflow", f"more than {self._limit:,} rows were waiting to be processed")
            )
        self._came.set()

    def fail(self, problem: Exception) -> None:
        """Nothing more comes, and why; the first reason is told."""
        if self.problem is None:
            self.problem = problem
        self._came.set()

    def drop(self, problem: Exception) -> None:
        """Let go of what waits, too."""
        self._waiting.clear()
        self.weight = 0
        self.fail(problem)

    async def take(self) -> Item:
        """What came first. Raises what the stream was lost with once nothing waits."""
        while not self._waiting:
            self.check()
            self._came.clear()
            await self._came.wait()
        item = self._waiting.popleft()
        self.weight -= row_count(item)
        return item

    def check(self) -> None:
        """Raise what the stream was lost with, if it was and nothing waits."""
        if self.problem is not None and not self._waiting:
            raise copy_error(self.problem)


def row_count(item: object) -> int:
    """How much of a reader's room something takes: its rows, or one."""
    return len(item.rows) if isinstance(item, Trades | Bars | Replaced) else 1


def copy_error(problem: Exception) -> Exception:
    """The same for another who waits: an exception has one way it was raised."""
    return type(problem)(problem.code, str(problem)) if isinstance(problem, FeedLost) else problem
