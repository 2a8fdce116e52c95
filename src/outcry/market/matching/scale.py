"""The prices that stand for rows, in half ticks, and the POC of counted rows."""

from collections.abc import Sequence
from functools import lru_cache
from typing import get_args

from outcry.market.matching.rows import RowCounts, RowGrid
from outcry.market.matching.setting import Sampling
from outcry.market.methods import Method
from outcry.market.profile import point_of_control
from outcry.market.row_label import RowLabel, RowScale

_LABELS: Sequence[RowLabel] = get_args(RowLabel)


@lru_cache
def scales_of(sampling: Sampling, grid: RowGrid) -> Sequence[tuple[RowLabel, RowScale]]:
    """Return the labels that a row can have, with their prices.

    A row of one tick has one price, and so has a row of closes.
    """
    ceiling = sampling.placement == "close_up"
    labels = _LABELS if grid.row_ticks > 1 and not ceiling else _LABELS[:1]
    return tuple((label, RowScale(grid.row_ticks, label, ceiling, grid.anchor_ticks)) for label in labels)


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
