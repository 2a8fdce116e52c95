"""The sides of trades: who traded as the aggressor, as the user's column names it, and the volume delta from them."""

import numpy as np
from numpy.typing import NDArray

from outcry.library.times import Column, Ints
from outcry.market.ladder import Ladder


def signs_of(column: Column) -> NDArray[np.int64]:
    """Return 1 for a buyer (`B`, `buy`), -1 for a seller (`A`, `ask`, `S`, `sell`) and 0 for anything else.

    As in imported files, the first letter decides, in any case.
    """
    letters = np.ascontiguousarray(column.astype("U1")).view(np.uint32)
    buyers, sellers = np.isin(letters, _codes("Bb")), np.isin(letters, _codes("AaSs"))
    return buyers.astype(np.int64) - sellers.astype(np.int64)


def _codes(letters: str) -> list[int]:
    return [ord(letter) for letter in letters]


class Deltas:
    """Collects the volume delta at each price: lots of aggressive buyers minus lots of aggressive sellers."""

    def __init__(self) -> None:
        self._ticks: list[Ints] = []
        self._lots: list[Ints] = []

    def add(self, ticks: Ints, sizes: Ints, sides: Column) -> None:
        """Add trades. The arrays are equally long."""
        signs = signs_of(sides)
        known = signs != 0
        self._ticks.append(ticks[known])
        self._lots.append((sizes * signs)[known])

    def of(self, ladder: Ladder) -> list[int] | None:
        """Return the delta at each row of the ladder, whose trades were added; None if no trade has a side."""
        if not any(map(len, self._ticks)):
            return None
        found = np.zeros(len(ladder.volume), np.int64)
        for ticks, lots in zip(self._ticks, self._lots, strict=True):
            np.add.at(found, ticks - ladder.low_ticks, lots)
        return found.tolist()
