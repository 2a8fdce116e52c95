"""Converts the float prices of a dataframe to ticks.

`price_ticks.c` does the same in one pass. A build that compiles modules uses the C version in place of this module
(decision 0062); tests check that both give equal results.
"""

import numpy as np
from numpy.typing import NDArray

#: Units of 10⁻⁹ by which the nearest double of a price of up to nine decimals may miss it.
FLOAT_ERROR_E9 = 2
#: Prices from here on are not converted: the C version computes with 2⁵¹ units of 10⁻⁹ at most.
MAX_PRICE = 2**51 / 1e9
#: With a smaller tick (10⁻⁹), a price might be near two ticks.
_MIN_TICK_E9 = 2 * FLOAT_ERROR_E9 + 1


def ticks_of_floats(prices: NDArray[np.float64], tick_e9: int, ticks: NDArray[np.int64], /) -> bool:
    """Write prices in ticks to `ticks`. Return whether all could be converted; otherwise `ticks` is unusable.

    A price can be converted if it misses a multiple of the tick by `FLOAT_ERROR_E9` at most and its amount is below
    `MAX_PRICE`. tick_e9: the tick in 10⁻⁹; from 5 on. prices, ticks: contiguous, of equal length.
    """
    within = prices.min() > -MAX_PRICE and prices.max() < MAX_PRICE  # false for a NaN
    if tick_e9 < _MIN_TICK_E9 or not within:
        return False
    scaled = prices * 1e9
    prices_e9 = np.rint(scaled, out=scaled).astype(np.int64)
    np.floor_divide(prices_e9 + tick_e9 // 2, tick_e9, out=ticks)
    missed = ticks * tick_e9 - prices_e9
    return bool(-missed.min() <= FLOAT_ERROR_E9 and missed.max() <= FLOAT_ERROR_E9)
