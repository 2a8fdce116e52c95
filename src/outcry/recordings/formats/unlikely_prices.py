"""Find prices that are far from the rows around them, such as 0, or a price with a digit too many.

Exchanges halt trading or cancel trades long before a price moves by a tenth and back within a few rows. The check never
decides alone: a file with such a row is refused, unless the user chooses to skip or keep it.
"""

import numpy as np
from numpy.typing import NDArray

#: A row is unlikely if its price is this much (in percent) away from the row before and from the one after.
FAR_PERCENT = 10
#: The rows before and after unlikely rows differ by at most this much (in percent).
NEAR_PERCENT = 5
#: Below this distance in ticks no price is unlikely: ten percent of a low price may be an ordinary move.
FAR_TICKS = 100
#: Rows before the last row of a block, from which on the last row alone may be unlikely.
_ENOUGH = 3
#: Number of unlikely rows in sequence. More of them are a move of the market.
MOST_IN_SEQUENCE = 3

Prices = NDArray[np.int64]


def unlikely(lows: Prices, highs: Prices, lasts: Prices, before: int | None, tick: int) -> NDArray[np.intp]:
    """Return the rows, in file order, whose price is far from the rows around them.

    lows, highs, lasts: lowest, highest and last price of each row, in any unit; all the same for trades. before: last
    price of the row before the first one; None if there is none. tick: the product's tick in the same unit.
    """
    middle = int(np.median(lasts))
    reach = abs(middle) * FAR_PERCENT // 200
    if len(lasts) < 2 and before is None:
        return np.zeros(0, np.intp)
    if lows.min() >= middle - reach and highs.max() <= middle + reach:  # almost every block
        near = before is None or abs(before - middle) <= reach
        if near:
            return np.zeros(0, np.intp)
    found = np.zeros(len(lasts), bool)
    prices: list[int] = lasts.tolist()
    last, index = before, 0
    while index < len(prices):
        if last is not None and _far(prices[index], last, tick):
            length = _length(prices, index, last)
            if length:
                found[index : index + length] = True
                index += length
                continue
        elif last is None and index == 0 and len(prices) > 1 and _first_is_wrong(prices, tick):
            found[0] = True
            index += 1
            continue
        last, index = prices[index], index + 1
    found |= _wicks(lows, highs, lasts, found, before, tick)
    return np.flatnonzero(found)


def _far(price: int, other: int, tick: int) -> bool:
    away = abs(price - other)
    return 100 * away > FAR_PERCENT * abs(other) and away >= FAR_TICKS * tick


def _length(prices: list[int], index: int, last: int) -> int:
    """Return how many rows from `index` are far from `last`, until one is near it again; 0 if none is near."""
    for after in range(index + 1, min(index + 1 + MOST_IN_SEQUENCE, len(prices))):
        if 100 * abs(prices[after] - last) <= NEAR_PERCENT * abs(last):
            return after - index
    return 1 if index + 1 == len(prices) and index >= _ENOUGH else 0


def _first_is_wrong(prices: list[int], tick: int) -> bool:
    """Return whether the first price is far from the next ones, which are near each other."""
    others = prices[1 : 2 + MOST_IN_SEQUENCE]
    low, high = min(others), max(others)
    return (
        len(others) > 1
        and not _far(high, low, tick)
        and _far(prices[0], low, tick)
        and _far(prices[0], high, tick)
    )


def _wicks(
    lows: Prices, highs: Prices, lasts: Prices, found: NDArray[np.bool_], before: int | None, tick: int
) -> NDArray[np.bool_]:
    """Return the bars whose high or low is far from their close and from the close before."""
    wrong = np.zeros(len(lasts), bool)
    candidates = np.flatnonzero(
        ~found & ((_share(lows, lasts) > FAR_PERCENT) | (_share(highs, lasts) > FAR_PERCENT))
    )
    for row in candidates.tolist():
        earlier = np.flatnonzero(~found[:row])
        last = int(lasts[earlier[-1]]) if len(earlier) else before
        for extreme in (int(lows[row]), int(highs[row])):
            wrong[row] |= _far(extreme, int(lasts[row]), tick) and (last is None or _far(extreme, last, tick))
    return wrong


def _share(extremes: Prices, lasts: Prices) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.abs(extremes - lasts) / np.abs(lasts) * 100
