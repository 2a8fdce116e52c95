"""The queue between a vendor session and the reader of one stream.

A slow reader loses its own stream and delays no other. The reader receives everything queued before it receives the
error that ended the stream.
"""

import asyncio
from collections import deque
from typing import Generic, TypeVar

from outcry.trades.feed import Bars, FeedLost, Heartbeat, Replaced, Trades

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """A queue filled by a session and read by one reader.

    limit: rows and other items that may wait; None if the session limits them itself.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._waiting: deque[Item] = deque()
        #: What the reader waits for while nothing is queued.
        self._waiter: asyncio.Future[None] | None = None
        #: Number of waiting rows and other items.
        self.weight = 0
        #: The error that ended the stream.
        self.problem: Exception | None = None

    def put(self, item: Item) -> None:
        """Add an item unless the stream has ended.

        If the limit is exceeded, end the stream with `FeedLost("seam_overflow")`.
        """
        if self.problem is not None:
            return
        if isinstance(item, Heartbeat) and self._waiting and isinstance(self._waiting[-1], Heartbeat):
            self._waiting[-1] = item  # the newer replaces the older
            return
        self._waiting.append(item)
        self.weight += row_count(item)
        if self._limit is not None and self.weight > self._limit:
            self.drop(
                FeedLost("seam_overflow", f"more than {self._limit:,} rows were waiting to be processed")
            )
        self._wake()

    def fail(self, problem: Exception) -> None:
        """End the stream with an error; only the first error counts."""
        if self.problem is None:
            self.problem = problem
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def drop(self, problem: Exception) -> None:
        """Discard waiting items and end the stream with an error."""
        self._waiting.clear()
        self.weight = 0
        self.fail(problem)

    async def take(self) -> Item:
        """Wait for the oldest item and return it. Once no item waits, raise the error that ended the stream."""
        while not self._waiting:
            self.check()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        item = self._waiting.popleft()
        self.weight -= row_count(item)
        return item

    def check(self) -> None:
        """Raise the error that ended the stream, if any, once no item waits."""
        if self.problem is not None and not self._waiting:
            raise copy_error(self.problem)


def row_count(item: object) -> int:
    """Return the number of rows of an item, 1 for an item without rows."""
    return len(item.rows) if isinstance(item, Trades | Bars | Replaced) else 1


def copy_error(problem: Exception) -> Exception:
    """Return a copy of a feed error for another waiting task, because an exception carries one traceback."""
    return type(problem)(problem.code, str(problem)) if isinstance(problem, FeedLost) else problem
