"""What has come for one stream and was not taken yet.

Rule kept: a reader that is slow loses its own stream, and holds up no other.
"""

import asyncio
from collections import deque
from dataclasses import dataclass

from outcry.ports.feed import Event, FeedLost, Heartbeat, Trades


class HistoryOver:
    """Between what was history and what is live."""


HISTORY_OVER = HistoryOver()
Item = Event | HistoryOver


class Inbox:
    """Filled by the session, emptied by one reader. limit: rows and other events that may wait."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[Item] = deque()
        self._weight = 0
        self._lost: FeedLost | None = None
        self._came = asyncio.Event()

    def put(self, item: Item) -> None:
        """Add what came, unless the stream is lost already."""
        if self._lost is not None:
            return
        if isinstance(item, Heartbeat) and self._waiting and isinstance(self._waiting[-1], Heartbeat):
            self._waiting[-1] = item  # the newer says it all
            return
        self._waiting.append(item)
        self._weight += _weight(item)
        if self._weight > self._limit:
            self._waiting.clear()
            self.lose(FeedLost("seam_overflow", f"more than {self._limit:,} rows waited to be read"))
        self._came.set()

    def lose(self, problem: FeedLost) -> None:
        """The stream ends after what has come."""
        if self._lost is None:
            self._lost = problem
        self._came.set()

    async def take(self) -> Item:
        """What came first. Raises `FeedLost` or `FeedRefused` once nothing is left of a stream that is lost."""
        while not self._waiting:
            if self._lost is not None:
                raise again(self._lost)
            self._came.clear()
            await self._came.wait()
        item = self._waiting.popleft()
        self._weight -= _weight(item)
        return item


@dataclass(eq=False, slots=True)
class Chart:
    """A subscription to ticks: what came of it, and the numbers its packets have. `number`: the contract's, where its
    quotes are for it too."""

    inbox: Inbox
    numbers: frozenset[int] = frozenset()
    history: bool = True
    number: int | None = None


def again(problem: FeedLost) -> FeedLost:
    """The same for another who waits: an exception has one way it was raised."""
    return type(problem)(problem.code, str(problem))


def _weight(item: Item) -> int:
    return len(item.rows) if isinstance(item, Trades) else 1
