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
_CHUNK = 1 << 16  # trades per step: few enough for the CPU cache, many enough to hide the cost of a call


@lru_cache(maxsize=8)  # shared, because an import has hundreds of folds
def _offsets(base: int, rows: int) -> Ints:
    """Return the numbers that convert the prices of a chunk of trades to indices of the volume tables, used in turn."""
    return np.tile(np.arange(TABLES) * rows - base, _CHUNK // TABLES)


def count_volume(
    at_ns: Ints, price_ticks: Ints, size_lots: Sizes, first: int, until: int, base: int, tables: Ints, /
) -> int:
    """Add the volume of trades from index `first` to `until` (excluded) to tables; stop at one that cannot be counted.

    Return the index of that trade; `until` if all were counted. A trade cannot be counted if it is earlier than the
    trade before it (in the whole array), has no size, or has a price outside the tables. tables: of shape (TABLES,
    rows), contiguous; the volume at `base + row` ticks is the sum over all tables.
    """
    rows = tables.shape[1]
    for start in range(first, until, _CHUNK):
        end = min(start + _CHUNK, until)
        prices, sizes = price_ticks[start:end], size_lots[start:end]
        earlier = at_ns[max(start, 1) : end] < at_ns[max(start, 1) - 1 : end - 1]
        if earlier.any() or prices.min() < base or prices.max() >= base + rows or sizes.min() <= 0:
            fault = (prices < base) | (prices >= base + rows) | (sizes <= 0)
            fault[len(fault) - len(earlier) :] |= earlier
            end = start + int(fault.argmax())
        places = price_ticks[start:end] + _offsets(base, rows)[: end - start]
        np.add.at(tables.reshape(-1), places, size_lots[start:end].astype(np.int64, copy=False))
        if end < min(start + _CHUNK, until):
            return end
    return until
