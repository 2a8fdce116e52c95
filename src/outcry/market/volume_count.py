"""Counts the volume at each price from arrays of trades.

`volume_count.c` does the same in a tenth of the time. A build that compiles modules uses the C version in place of this
module (decision 0062); tests check that both give equal results.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Sizes = NDArray[np.int64 | np.uint32]

#: Tables that `count_volume` fills. Neighbouring trades go into different ones: otherwise additions to the most traded
#: row would wait for each other, which limits a plain histogram.
TABLES = 4
#: Range of prices of no trade: any price widens it.
NO_RANGE = (2**63 - 1, -(2**63))
_CHUNK = 1 << 16  # trades per step: few enough for the CPU cache, many enough to hide the cost of a call


@lru_cache(maxsize=8)  # shared, because an import has hundreds of folds
def _offsets(base: int, rows: int) -> Ints:
    """Return what to add to a price to get an index of consecutive tables, for each trade of a chunk.

    Adjacent trades get different tables.
    """
    return np.tile(np.arange(TABLES) * rows - base, _CHUNK // TABLES)


def count_volume(
    at_ns: Ints, price_ticks: Ints, size_lots: Sizes, first: int, until: int, base: int, tables: Ints, /
) -> tuple[int, int, int]:
    """Add the volume of trades `first` to `until` (excluded) to tables; stop at a trade that cannot be counted.

    Return the index of that trade (`until` if all were counted), and the lowest and highest price counted; `NO_RANGE`
    if none was. A trade cannot be counted if it is earlier than the trade before it (in the whole array), has no size,
    or has a price outside the tables. tables: of shape (rows, TABLES), contiguous. The sum of row `i` over all tables
    is the volume at `base + i` ticks.
    """
    rows = len(tables)
    if not rows or first == until:
        return first, *NO_RANGE
    low, high = NO_RANGE
    # consecutive, not interleaved as `tables` is: an index is then one addition
    volume = np.zeros((TABLES, rows), np.int64)
    for start in range(first, until, _CHUNK):
        end = min(start + _CHUNK, until)
        prices, sizes = price_ticks[start:end], size_lots[start:end]
        earlier = at_ns[max(start, 1) : end] < at_ns[max(start, 1) - 1 : end - 1]
        lowest, highest = int(prices.min()), int(prices.max())
        if fails := bool(earlier.any() or lowest < base or highest >= base + rows or sizes.min() <= 0):
            fault = (prices < base) | (prices >= base + rows) | (sizes <= 0)
            fault[len(fault) - len(earlier) :] |= earlier
            prices = prices[: fault.argmax()]
            lowest = int(prices.min(initial=NO_RANGE[0]))
            highest = int(prices.max(initial=NO_RANGE[1]))
        places = prices + _offsets(base, rows)[: len(prices)]
        np.add.at(volume.reshape(-1), places, sizes[: len(prices)].astype(np.int64, copy=False))
        low, high = min(low, lowest), max(high, highest)
        if fails:
            until = start + len(prices)
            break
    tables += volume.T
    return until, low, high
