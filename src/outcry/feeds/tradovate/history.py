"""Ticks of the past, which Tradovate gives in pages from the newest back, put in order of time.

Each answer holds the newest ticks of the stretch asked for, as many as the vendor sees fit that day, and does not say
whether there were more. Rule kept: a stretch is whole only once a page reached back to before it, or brought nothing
that was not known; fetch_windows are sent oldest first, so that a stream that breaks goes on where it broke. Ticks have
numbers, so that those on the edge of two pages are told from others that are alike.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import numpy as np

from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_MINUTE, NANOS_PER_MS
from outcry.trades.records import Rows

#: Requests reach back this far before the wanted start: a tick from there shows that the page is complete.
LOOKBACK_NS = NANOS_PER_MINUTE
FIRST_WINDOW_NS, MAX_WINDOW_NS = NANOS_PER_HOUR, 24 * NANOS_PER_HOUR
#: A stretch that took more pages than this is followed by a shorter one.
MAX_PAGES = 4
#: Requests that may be made at once, and how far they are apart beyond that: five thousand an hour are let through.
BURST, REQUEST_INTERVAL_S = 30, 0.8

#: Fetches a page: the newest ticks between two instants (ns UTC), in no order.
Fetch = Callable[[int, int], Awaitable[Rows]]


class RequestPacer:
    """Spreads requests for pages over time, those of all streams of a connection together."""

    def __init__(self, rush: float) -> None:
        self._apart_s = REQUEST_INTERVAL_S / rush
        self._free_s = float("-inf")

    async def turn(self) -> None:
        """Wait until another request may be made."""
        now_s = asyncio.get_running_loop().time()
        self._free_s = max(self._free_s, now_s - BURST * self._apart_s) + self._apart_s
        await asyncio.sleep(max(0.0, self._free_s - now_s))


def sorted_unique(rows: Rows) -> Rows:
    """Each tick once, by time and then number."""
    _, first = np.unique(rows["id"], return_index=True)
    rows = rows[first]
    return rows[np.lexsort((rows["id"], rows["ts_event"]))]


def covers_start(page: Rows, from_ns: int) -> bool:
    """Whether a page shows that nothing from an instant on was left out: it holds something older, or nothing."""
    return not len(page) or int(page["ts_event"].min()) < from_ns


async def fetch_windows(fetch: Fetch, from_ns: int, to_ns: int) -> AsyncGenerator[Rows, None]:
    """Yield the ticks from one instant until before another, oldest first, a stretch of time each."""
    at_ns, length_ns = from_ns, FIRST_WINDOW_NS
    while at_ns < to_ns:
        end_ns = min(at_ns + length_ns, to_ns)
        rows, pages = await _fetch_window(fetch, at_ns, end_ns)
        if len(rows):
            yield rows
        at_ns = end_ns
        if pages > MAX_PAGES:
            length_ns = max(length_ns // 2, NANOS_PER_MINUTE)
        elif pages < MAX_PAGES:
            length_ns = min(length_ns * 2, MAX_WINDOW_NS)


async def _fetch_window(fetch: Fetch, from_ns: int, to_ns: int) -> tuple[Rows, int]:
    """A whole stretch, and how many pages it took."""
    pieces: list[Rows] = []
    known: set[int] = set()
    # a millisecond more, whether the vendor means up to an instant or before it
    newest_ns, pages = to_ns + NANOS_PER_MS, 0
    while True:
        page = await fetch(from_ns - LOOKBACK_NS, newest_ns)
        pages += 1
        fresh = set(page["id"].tolist()) - known
        pieces.append(page)
        known |= fresh
        if not fresh or covers_start(page, from_ns):
            break
        # the rest of the millisecond that the page broke off in is asked for again
        newest_ns = int(page["ts_event"].min()) + NANOS_PER_MS
    rows = sorted_unique(np.concatenate(pieces))
    return rows[(rows["ts_event"] >= from_ns) & (rows["ts_event"] < to_ns)], pages
