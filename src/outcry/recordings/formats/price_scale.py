"""Convert prices that a file stores as floats to exact prices.

A float that differs from a tick by no more than its own precision becomes that tick. Any other float keeps its value
and counts as off-tick.

Some files store prices times a power of ten: 165,575 may be a price of ES, or the price 1,655.75 times 100. The
detected multiplier turns the stored values into ticks. A multiplier for which two of these are one tick apart is
preferred.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from outcry.market.units import PRICE_SCALE, price_text
from outcry.recordings.file_model import FileRefused

#: Powers of ten in the order in which they are tried. Sierra stores some products as integers of a hundredth or a
#: millionth.
_POWERS = (0, -1, -2, -3, -4, -5, -6, -7, 1, 2, 3)
_ON_TICK = 0.999
#: Larger prices do not fit in 64 bits as units of 10⁻⁹.
_LARGEST = 9e9


class PriceScale:
    """How to convert a file's stored prices: by a multiplier, to multiples of the tick size."""

    def __init__(self, multiplier: float, tick_e9: int) -> None:
        self.multiplier, self.tick_e9 = multiplier, tick_e9

    def possible(self, stored: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Return for each stored value whether it is a finite number whose price in units of 10⁻⁹ fits in 64 bits."""
        return np.isfinite(stored) & (np.abs(stored) < np.float32(_LARGEST / self.multiplier))

    def ticks(self, stored: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the nearest tick of each stored price, and whether the price is on it within its float precision."""
        prices = stored.astype(np.float64) * self.multiplier
        nearest = np.rint(prices * (PRICE_SCALE / self.tick_e9))
        precision = np.spacing(np.abs(stored)).astype(np.float64) * self.multiplier
        near = np.abs(prices - nearest * (self.tick_e9 / PRICE_SCALE)) <= precision
        return nearest.astype(np.int64), near

    def price_e9(self, stored: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return stored prices in units of 10⁻⁹. A price that is on a tick becomes exactly that tick."""
        nearest, near = self.ticks(stored)
        between = np.rint(stored.astype(np.float64) * self.multiplier * PRICE_SCALE).astype(np.int64)
        return np.where(near, nearest * self.tick_e9, between)


def detect_multiplier(stored: NDArray[np.float32], tick_e9: int, path: Path) -> float:
    """Return the power of ten by which stored values become prices; raise `FileRefused` if none fits."""
    usable = stored[np.isfinite(stored) & (np.abs(stored) < 1e12)]
    fitting: list[float] = []
    for power in _POWERS:
        multiplier = float(10.0**power)
        fits, one_apart = _judge(usable, multiplier, tick_e9)
        if one_apart:
            return multiplier
        if fits:
            fitting.append(multiplier)
    if not fitting:
        raise FileRefused(path, "", f"no power of ten makes the prices multiples of {price_text(tick_e9)}",
                          "check the contract in the file name")  # fmt: skip
    return fitting[0]


def are_plain_prices(stored: NDArray[np.float32], tick_e9: int) -> bool:
    """Return whether stored values are certainly prices already, because two of them are one tick apart."""
    return _judge(stored[np.isfinite(stored)], 1.0, tick_e9)[1]


def _judge(stored: NDArray[np.float32], multiplier: float, tick_e9: int) -> tuple[bool, bool]:
    """Return whether stored values times `multiplier` are prices, and whether two of these are one tick apart."""
    if not len(stored) or np.abs(stored).max() * multiplier > _LARGEST:
        return False, False
    nearest, near = PriceScale(multiplier, tick_e9).ticks(stored)
    if np.count_nonzero(near) < _ON_TICK * len(stored):
        return False, False
    steps = np.diff(np.unique(nearest[near]))
    return True, bool(len(steps)) and int(np.gcd.reduce(steps)) == 1
