"""Joins a vendor's history and its live stream, where they are two requests, into the one stream of the port.

Rules kept: the subscription stands before the cut is chosen, and the cut before history is asked for, so nothing falls
between them; a trade belongs to history before the cut and to the live stream from it on, whichever brought it, so
nothing is counted twice and trades that are alike in everything are all kept. Nothing is compared.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from outcry.feeds.inbox import row_count
from outcry.trades.feed import Bars, CaughtUp, Event, FeedLost, Heartbeat, RowFlag, Trades
from outcry.trades.records import Quality

#: Rows and other events that may wait while history is fetched.
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

    live: subscribes when first asked; its first event, best a `Status`, says that the subscription stands. cut_ns:
    asked for then, the instant (ns UTC, exchange time) from which live is known to be whole: later than the
    subscription by what clocks and the vendor's whole seconds leave open. history: everything before that instant, in
    `quality`; it waits itself until the vendor has it. Its batches are flagged here.

    Raises `FeedLost` with `seam_overflow` if more than `limit` rows come meanwhile, and what the two raise; and
    `ValueError` for a cut within a bar of history.
    """
    pump = _Pump(live, limit)
    try:
        await pump.stands()
        cut = cut_ns()
        if quality is not Quality.TICKS and cut % quality.length_ns:
            raise ValueError(f"history of {quality} can only be cut between two bars, not at {cut} ns")
        pages = history(cut)
        try:
            while (page := await pump.beside(anext(pages, None))) is not None:
                if (before := _before(page, cut)) is not None:
                    yield before
        finally:
            await pages.aclose()
        yield CaughtUp(cut, quality)
        async for event in pump.events():
            if (after := _after(event, cut)) is not None:
                yield after
    finally:
        await pump.close()


def _before(page: Trades | Bars, cut: int) -> Trades | Bars | None:
    """The part of a page of history that lies before the cut; None where there is none."""
    rows = page.rows[page.rows["ts_event"] < cut]
    if not len(rows):
        return None
    if isinstance(page, Bars):
        return Bars(rows, page.quality, backfill=True)
    rows["flags"] |= int(RowFlag.BACKFILL)
    return Trades(rows)


def _after(event: Event, cut: int) -> Event | None:
    """A live event without what lies before the cut: history has it."""
    if not isinstance(event, Trades | Bars):
        return event
    wanted = event.rows["ts_event"] >= cut
    if wanted.all():
        return event
    rows = event.rows[wanted]
    if not len(rows):
        return None
    return Trades(rows) if isinstance(event, Trades) else Bars(rows, event.quality, event.backfill)


class _Pump:
    """Reads the live stream while nobody has time for it; afterwards hands it over."""

    def __init__(self, live: Live, limit: int) -> None:
        self._live, self._limit = live, limit
        self._waiting: deque[Event] = deque()
        self._weight = 0
        self._first = asyncio.Event()
        self._wanted = True
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        """Read until told that it is no longer wanted; the event it is waiting for then is the last."""
        try:
            while self._wanted and (event := await anext(self._live, None)) is not None:
                self._take(event)
                self._first.set()
        finally:
            self._first.set()

    def _take(self, event: Event) -> None:
        if isinstance(event, Heartbeat) and self._waiting and isinstance(self._waiting[-1], Heartbeat):
            self._waiting.pop()  # the newer says it all
            self._weight -= 1
        self._waiting.append(event)
        self._weight += row_count(event)
        if self._weight > self._limit and self._wanted:
            raise FeedLost("seam_overflow", f"more than {self._limit:,} rows came while history was fetched")

    async def stands(self) -> None:
        """Wait for the first live event. Raises what the live stream raises, and `FeedLost` if it only ends."""
        await self.beside(self._first.wait())
        if not self._waiting:
            raise FeedLost("closed", "the live stream ended before the subscription was confirmed")

    async def beside(self, work: Awaitable[T]) -> T:
        """Wait for something while reading on. Raises at once what the live stream raises."""
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
        """What was read so far, then the live stream itself."""
        self._wanted = False
        while self._waiting or not self._task.done():
            if self._waiting:
                yield self._waiting.popleft()
            else:
                await asyncio.wait({self._task})
        self._task.result()
        async for event in self._live:
            yield event

    async def close(self) -> None:
        """Stop reading and end the live stream."""
        await _end(self._task)
        await self._live.aclose()


async def _end(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # it was raised where somebody waited for it, or nobody does any more
