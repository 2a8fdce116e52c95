"""Past ticks, which Tradovate returns in pages from the newest back, sorted by time.

A response has the newest ticks of the requested window. The vendor decides how many, and does not report whether there
are more. A window is complete once a page starts before it or adds nothing new. Windows are sent oldest first, so that
an interrupted stream can continue. Tick ids distinguish duplicates at page edges from identical trades.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import numpy as np

from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_MINUTE, NANOS_PER_MS
from outcry.trades.records import Rows

#: Requests reach back this far before the wanted start: a tick from there shows that the page is complete.
LOOKBACK_NS = NANOS_PER_MINUTE
FIRST_WINDOW_NS, MAX_WINDOW_NS = NANOS_PER_HOUR, 24 * NANOS_PER_HOUR
#: If a window took more pages than this, the next one is shorter.
MAX_PAGES = 4
#: Requests allowed at once, and the interval between later ones (s): the vendor allows five thousand an hour.
BURST, REQUEST_INTERVAL_S = 30, 0.8

#: Fetches a page: the newest ticks between two times (ns UTC), in no order.
Fetch = Callable[[int, int], Awaitable[Rows]]


class RequestPacer:
    """Paces the page requests of all streams of a connection."""

    def __init__(self, speedup: float) -> None:
        self._apart_s = REQUEST_INTERVAL_S / speedup
        self._free_s = float("-inf")

    async def turn(self) -> None:
        """Wait until the next page request may be made."""
        now_s = asyncio.get_running_loop().time()
        self._free_s = max(self._free_s, now_s - BURST * self._apart_s) + self._apart_s
        await asyncio.sleep(max(0.0, self._free_s - now_s))


def sorted_unique(rows: Rows) -> Rows:
    """Return each tick once, sorted by time and id."""
    _, first = np.unique(rows["id"], return_index=True)
    rows = rows[first]
    return rows[np.lexsort((rows["id"], rows["ts_event"]))]


def covers_start(page: Rows, from_ns: int) -> bool:
    """Return whether a page has every tick from `from_ns` on.

    A page has them all if it also has an older tick. An empty page has them all too, because there are no ticks.
    """
    return not len(page) or int(page["ts_event"].min()) < from_ns


async def fetch_windows(fetch: Fetch, from_ns: int, to_ns: int) -> AsyncGenerator[Rows, None]:
    """Yield the ticks in `[from_ns, to_ns)`, oldest first, in consecutive time windows."""
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
    """Return the ticks of a complete window, and the number of pages it took."""
    pieces: list[Rows] = []
    known: set[int] = set()
    # a millisecond more, because the vendor may include or exclude the end
    newest_ns, pages = to_ns + NANOS_PER_MS, 0
    while True:
        page = await fetch(from_ns - LOOKBACK_NS, newest_ns)
        pages += 1
        fresh = set(page["id"].tolist()) - known
        pieces.append(page)
        known |= fresh
        if not fresh or covers_start(page, from_ns):
            break
        # request the last millisecond again, because the page may have ended within it
        newest_ns = int(page["ts_event"].min()) + NANOS_PER_MS
    rows = sorted_unique(np.concatenate(pieces))
    return rows[(rows["ts_event"] >= from_ns) & (rows["ts_event"] < to_ns)], pages
