"""The prices that stand for rows, in half ticks, and the POC of counted rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

from outcry.market.matching.rows import RowCounts
from outcry.market.matching.setting import RowLabel, Sampling
from outcry.market.methods import Method
from outcry.market.profile import point_of_control

_LABELS: Sequence[RowLabel] = get_args(RowLabel)


@dataclass(frozen=True, slots=True)
class RowScale:
    """Prices of rows in half ticks. Rows are counted from price 0.

    ceiling: a row is the single price at its lower end, to which closes are rounded up.
    """

    row_ticks: int
    label: RowLabel
    ceiling: bool

    def poc(self, row: int) -> int:
        """Return the price of a row that is a POC."""
        return 2 * self.row_ticks * row + self._offsets[1]

    def val(self, row: int) -> int:
        """Return the price of the lowest row of a value area."""
        return 2 * self.row_ticks * row + self._offsets[0]

    def vah(self, row: int) -> int:
        """Return the price of the highest row of a value area."""
        return 2 * self.row_ticks * row + self._offsets[2]

    def rows_of_val(self, low: int, high: int) -> tuple[int, int]:
        """Return the first and last row whose price as VAL is between two prices, ends included."""
        return self._rows(low - self._offsets[0], high - self._offsets[0])

    def rows_of_vah(self, low: int, high: int) -> tuple[int, int]:
        """Return the first and last row whose price as VAH is between two prices, ends included."""
        return self._rows(low - self._offsets[2], high - self._offsets[2])

    def _rows(self, low: int, high: int) -> tuple[int, int]:
        return -(-low // (2 * self.row_ticks)), high // (2 * self.row_ticks)

    @property
    def _offsets(self) -> tuple[int, int, int]:
        """Return the half ticks by which VAL, POC and VAH lie above the lowest tick of their row."""
        height = self.row_ticks
        if self.ceiling or self.label == "bottom":
            return 0, 0, 0
        if self.label == "ticks":
            return 0, 2 * ((height - 1) // 2), 2 * (height - 1)
        return (0, height, 2 * height) if self.label == "edges" else (height - 1, height - 1, height - 1)


@lru_cache
def scales_of(sampling: Sampling, row_ticks: int) -> Sequence[tuple[RowLabel, RowScale]]:
    """Return the labels that a row can have, with their prices.

    A row of one tick has one price, and so has a row of closes.
    """
    ceiling = sampling.placement == "close_up"
    labels = _LABELS if row_ticks > 1 and not ceiling else _LABELS[:1]
    return tuple((label, RowScale(row_ticks, label, ceiling)) for label in labels)


def poc_row(rows: RowCounts, method: Method) -> int:
    """Return the row of the POC, counted from price 0."""
    if len(rows.tied) == 1:
        return rows.first + rows.tied[0]
    if method.rows == "all":
        return rows.first + point_of_control(rows.counts, method)[0]
    at = printed(rows)
    return rows.first + at[point_of_control([rows.counts[index] for index in at], method)[0]]


def printed(rows: RowCounts) -> list[int]:
    """Return the indices of the rows that traded."""
    return [index for index, count in enumerate(rows.counts) if count]
