"""Joins a vendor's history request and its live subscription into one stream of events.

The cut is the time at which history ends and the live stream begins. The cut is chosen after the subscription is
confirmed, and history is requested after that, so no trade is lost. Trades before the cut are taken from history, and
later ones from the live stream. No trade is counted twice. Identical trades are retained, because trades are never
compared.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from outcry.feeds.inbox import row_count
from outcry.trades.feed import Bars, CaughtUp, Event, FeedLost, Heartbeat, RowFlag, Trades
from outcry.trades.records import Quality

#: Live rows and other events that may wait while history is fetched.
BUFFER_LIMIT = 500_000

T = TypeVar("T")
Live = AsyncGenerator[Event, None]
History = AsyncGenerator[Trades | Bars, None]


async def join_history_and_live(
    history: Callable[[int], History],
    live: Live,
    cut_ns: Callable[[], int],
    *,
    quality: Quality = Quality.TICKS,
    limit: int = BUFFER_LIMIT,
) -> AsyncIterator[Event]:
    """Yield history before the cut, `CaughtUp`, and live events from the cut on.

    live: subscribes when first read; its first event, usually a `Status`, confirms the subscription. cut_ns: called
    after that; returns the time (ns UTC, exchange clock) from which the live stream is complete. This time allows for
    clock differences and for timestamps in whole seconds. history: yields everything before the cut in `quality`, and
    waits until the vendor has it. The rows of history are flagged as backfill here.

    Raises `FeedLost` with `seam_overflow` if more than `limit` live rows wait, `ValueError` for a cut within a bar, and
    the errors of `live` and `history`.
    """
    buffer = _LiveBuffer(live, limit)
    try:
        await buffer.wait_confirmed()
        cut = cut_ns()
        if quality is not Quality.TICKS and cut % quality.length_ns:
            raise ValueError(f"history of {quality} can only be cut between two bars, not at {cut} ns")
        pages = history(cut)
        try:
            while (page := await buffer.beside(anext(pages, None))) is not None:
                if (before := _before(page, cut)) is not None:
                    yield before
        finally:
            await pages.aclose()
        yield CaughtUp(cut, quality)
        async for event in buffer.events():
            if (after := _after(event, cut)) is not None:
                yield after
    finally:
        await buffer.close()


def _before(page: Trades | Bars, cut: int) -> Trades | Bars | None:
    """Return the rows of a history page that were traded before the cut; None if there are none."""
    rows = page.rows[page.rows["ts_event"] < cut]
    if not len(rows):
        return None
    if isinstance(page, Bars):
        return Bars(rows, page.quality, backfill=True)
    rows["flags"] |= int(RowFlag.BACKFILL)
    return Trades(rows)


def _after(event: Event, cut: int) -> Event | None:
    """Return a live event without rows before the cut, because history contains those; None if no rows are left."""
    if not isinstance(event, Trades | Bars):
        return event
    recent = event.rows["ts_event"] >= cut
    if recent.all():
        return event
    rows = event.rows[recent]
    if not len(rows):
        return None
    return Trades(rows) if isinstance(event, Trades) else Bars(rows, event.quality, event.backfill)


class _LiveBuffer:
    """Buffers the live stream while history is fetched, then yields the buffered and all later events."""

    def __init__(self, live: Live, limit: int) -> None:
        self._live, self._limit = live, limit
        self._waiting: deque[Event] = deque()
        self._weight = 0
        self._first = asyncio.Event()
        self._buffering = True
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        """Buffer live events until `events` takes over.

        The event that this task waits for at that moment is the last one buffered.
        """
        try:
            while self._buffering and (event := await anext(self._live, None)) is not None:
                self._take(event)
                self._first.set()
        finally:
            self._first.set()

    def _take(self, event: Event) -> None:
        if isinstance(event, Heartbeat) and self._waiting and isinstance(self._waiting[-1], Heartbeat):
            self._waiting.pop()  # the newer replaces the older
            self._weight -= 1
        self._waiting.append(event)
        self._weight += row_count(event)
        if self._weight > self._limit and self._buffering:
            raise FeedLost("seam_overflow", f"more than {self._limit:,} rows came while history was fetched")

    async def wait_confirmed(self) -> None:
        """Wait for the first live event. Raises the live stream's error, and `FeedLost` if it ends without one."""
        await self.beside(self._first.wait())
        if not self._waiting:
            raise FeedLost("closed", "the live stream ended before the subscription was confirmed")

    async def beside(self, work: Awaitable[T]) -> T:
        """Wait for other work while buffering live events. Raises an error of the live stream at once."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if self._task.done():
                self._task.result()
            result = await task
            if self._task.done():
                self._task.result()
            return result
        finally:
            await _end(task)

    async def events(self) -> AsyncIterator[Event]:
        """Yield the buffered events, then the live stream."""
        self._buffering = False
        while self._waiting or not self._task.done():
            if self._waiting:
                yield self._waiting.popleft()
            else:
                await asyncio.wait({self._task})
        self._task.result()
        async for event in self._live:
            yield event

    async def close(self) -> None:
        """Stop buffering and close the live stream."""
        await _end(self._task)
        await self._live.aclose()


async def _end(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # mark the exception as retrieved
