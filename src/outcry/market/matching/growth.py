"""The growth of a value area from its POC to the whole range, recorded step by step.

Percentage and stop rule decide only how far a value area grows, not in which order. So one pass over the rows answers
for all of them. `profile.value_area` computes one value area, with the same result.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from outcry.market.methods import Method

_NO_LIMIT = 2**62


class Area(NamedTuple):
    """A value area at which the growth may stop: its lowest and highest row, and the sum of its counts."""

    low: int
    high: int
    captured: int


class Growth:
    """The value areas of one POC, in order of growth, under a method's step, pair and side tie.

    areas: captured counts never decrease. met_tie: whether both sides were ever equal, so that the side tie decided.
    limits: the growth ends with the first area that reaches below the first row or above the second.
    """

    __slots__ = ("_is_whole", "areas", "met_tie")

    def __init__(
        self, counts: Sequence[int], poc: int, method: Method, limits: tuple[int, int] = (0, _NO_LIMIT)
    ) -> None:
        self.areas, self.met_tie = _grow(counts, poc, method, *limits)
        self._is_whole = self.areas[-1].low == 0 and self.areas[-1].high == len(counts) - 1

    def reached(self, needed: int) -> Area | None:
        """Return the first area with at least this count; None if the growth ended before."""
        index = bisect_left(self.areas, needed, key=_captured)
        if index == len(self.areas):
            return self.areas[-1] if self._is_whole else None
        return self.areas[index]

    def needs(self, index: int) -> tuple[int, int]:
        """Return the range of needed counts for which the growth stops at an area: the first is not included."""
        before = self.areas[index - 1].captured if index else -1
        is_end = self._is_whole and index == len(self.areas) - 1
        return before, _NO_LIMIT if is_end else self.areas[index].captured


def _captured(area: Area) -> int:
    return area.captured


def _grow(counts: Sequence[int], poc: int, method: Method, first: int, last: int) -> tuple[list[Area], bool]:
    sums = [0, *accumulate(counts)]
    top, step, tie, whole_pairs = len(counts) - 1, method.step, method.side_tie, method.pair == "full"
    low = high = poc
    areas, met_tie = [Area(poc, poc, counts[poc])], False
    while (low > 0 or high < top) and low >= first and high <= last:
        upper, lower = min(high + step, top), max(low - step, 0)
        above, below = sums[upper + 1] - sums[high + 1], sums[low] - sums[lower]
        if low > 0 and high < top:
            met_tie |= above == below
            grows_up = above > below or (above == below and tie != "down")
            grows_down = below > above or (above == below and tie != "up")
        else:
            grows_up, grows_down = low == 0, high == top
        if not whole_pairs:
            if grows_up:
                areas += (Area(low, row, sums[row + 1] - sums[low]) for row in range(high + 1, upper + 1))
                high = upper
            if grows_down:
                areas += (
                    Area(row, high, sums[high + 1] - sums[row]) for row in range(low - 1, lower - 1, -1)
                )
                low = lower
        else:
            high, low = upper if grows_up else high, lower if grows_down else low
            areas.append(Area(low, high, sums[high + 1] - sums[low]))
    return areas, met_tie


def trimmed(counts: Sequence[int], poc: int, area: Area) -> tuple[int, int]:
    """Return the ends of a value area without the rows at its ends that did not trade (rules §1)."""
    low, high = area.low, area.high
    while counts[high] == 0 and high > poc:
        high -= 1
    while counts[low] == 0 and low < poc:
        low += 1
    return low, high
