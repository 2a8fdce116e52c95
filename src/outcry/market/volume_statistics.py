"""What follows from the volume at each price: VWAP with deviations, and high- and low-volume nodes.

All sums are exact integers. Where the volume comes from bars, it is the volume that the profile spreads evenly over the
rows of each bar (rules §2), so the VWAP of bars is that of the profile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import isqrt

#: Volumes are compared as sums of a row and its neighbours, because single rows are noisy. On either side these are a
#: fortieth of the rows, and at least one.
SMOOTHING_PARTS = 40
#: The volume between two high-volume nodes falls to this share of the smaller one or less.
VALLEY_PERCENT = 50


@dataclass(frozen=True, slots=True)
class VolumeSums:
    """Exact sums over trades: lots, lots times price, and lots times price squared. Prices are in ticks."""

    lots: int = 0
    by_price: int = 0
    by_square: int = 0

    def __add__(self, other: "VolumeSums") -> "VolumeSums":
        """Return the sums over the trades of both."""
        return VolumeSums(
            self.lots + other.lots, self.by_price + other.by_price, self.by_square + other.by_square
        )

    @staticmethod
    def of(volume: Sequence[int], low_ticks: int) -> "VolumeSums":
        """Return the sums of the volume at consecutive ticks. `volume[0]` traded at `low_ticks`."""
        rows = list(enumerate(volume, low_ticks))
        return VolumeSums(
            sum(volume),
            sum(price * lots for price, lots in rows),
            sum(price * price * lots for price, lots in rows),
        )

    @staticmethod
    def of_trades(price_ticks: Sequence[int], lots: Sequence[int]) -> "VolumeSums":
        """Return the sums over trades. The sequences are equally long."""
        trades = list(zip(price_ticks, lots, strict=True))
        return VolumeSums(
            sum(lots),
            sum(price * size for price, size in trades),
            sum(price * price * size for price, size in trades),
        )

    def vwap_e9(self, tick_e9: int) -> int | None:
        """Return the volume-weighted average price, rounded to 10⁻⁹ (half up); None without volume."""
        if not self.lots:
            return None
        return (2 * self.by_price * tick_e9 + self.lots) // (2 * self.lots)

    def deviation_e9(self, tick_e9: int) -> int | None:
        """Return the volume-weighted standard deviation of the price in 10⁻⁹, rounded down; None without volume.

        It is the root of Σ lots·(price − VWAP)² / Σ lots, computed without rounding before the last step.
        """
        if not self.lots:
            return None
        return isqrt((self.by_square * self.lots - self.by_price**2) * tick_e9**2 // self.lots**2)


@dataclass(frozen=True, slots=True)
class VolumeNodes:
    """Rows of high-volume and low-volume nodes, ascending, as indices of the volumes."""

    high: tuple[int, ...]
    low: tuple[int, ...]


def volume_nodes(volume: Sequence[int]) -> VolumeNodes:
    """Return the high-volume nodes (peaks of the profile) and the low-volume nodes (the valleys between them).

    No platform publishes its rule; the common definition is a peak and a trough of the volume profile. Here: the volume
    of a row is that of the row and its neighbours (`SMOOTHING_PARTS`). A peak is a node if the volume falls to half of
    the peak's or less (`VALLEY_PERCENT`) on the way to any higher peak, and the peak is at least the average row. A
    peak with several equal rows is at the lowest. The low-volume node between two high ones is the lowest row with the
    least volume.
    """
    count = len(volume)
    width = max(1, count // SMOOTHING_PARTS)
    until = [0, *accumulate(volume)]
    smooth = [until[min(count, row + width + 1)] - until[max(0, row - width)] for row in range(count)]
    total = sum(smooth)
    high = (
        [row for row in range(count) if smooth[row] * count >= total and _is_node(smooth, row)]
        if total
        else []
    )
    low = [min(range(a + 1, b), key=lambda row: (smooth[row], row)) for a, b in pairwise(high)]
    return VolumeNodes(tuple(high), tuple(low))


def _is_node(smooth: Sequence[int], row: int) -> bool:
    """Return whether the volume falls far enough on the way from a row to higher rows, on both sides.

    Of rows with equal volume the lowest counts as the highest.
    """
    peak = smooth[row]
    least = peak
    for below in range(row - 1, -1, -1):
        if smooth[below] >= peak:
            break
        least = min(least, smooth[below])
    else:
        least = 0
    if least * 100 > peak * VALLEY_PERCENT:
        return False
    least = peak
    for above in range(row + 1, len(smooth)):
        if smooth[above] > peak:
            break
        least = min(least, smooth[above])
    else:
        least = 0
    return least * 100 <= peak * VALLEY_PERCENT
