"""Computes ladders and levels of a window from arrays of trades or bars, under any profile settings.

The speed is that of `kernels.BulkFold`, which counts volume and brackets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outcry.market.bar_columns import Columns, TradeColumns, cut, longer_bars, minute_bars
from outcry.market.kernels import BulkFold, Ints
from outcry.market.ladder import MAX_ROWS, Ladder, RangeTooWide, bracket_windows
from outcry.market.profile_settings import ProfileSettings, RowPrices, WindowLevels, ladder_levels, row_levels
from outcry.market.windows import Segment


def window_ladder(columns: Columns, segments: Sequence[Segment], bracket_minutes: int) -> Ladder | None:
    """Return the ladder of the rows inside the segments, one row per tick; None if nothing traded there.

    Several settings can share it: their levels follow from it through `ladder_levels`. Raises `RangeTooWide`.
    """
    fold = BulkFold(bracket_windows(segments, bracket_minutes))
    for part in cut(columns, segments):
        part.add_to(fold)
    return fold.ladder()


def window_levels(
    columns: Columns, segments: Sequence[Segment], settings: ProfileSettings
) -> WindowLevels | None:
    """Return the levels of the rows inside the segments (half-open, ns UTC, ascending); None if nothing traded there.

    Rows outside the segments are ignored. The segments are usually `settings.segments(calendar, root, day)`. Raises
    `RangeTooWide`.
    """
    if settings.method.placement == "close_up":
        return _close_levels(columns, segments, settings)
    ladder = window_ladder(columns, segments, settings.bracket_minutes)
    return ladder_levels(ladder, settings) if ladder is not None else None


def _close_levels(
    columns: Columns, segments: Sequence[Segment], settings: ProfileSettings
) -> WindowLevels | None:
    """Count each bar only at its close, and each trade at its price, rounded up to a row (rules §1)."""
    parts = [part.closes() for part in cut(columns, segments)]
    if not parts:
        return None
    closes = Closes(np.concatenate([p for p, _ in parts]), np.concatenate([s for _, s in parts])).traded()
    return close_rows(closes, settings.row_ticks).levels(settings) if len(closes.price_ticks) else None


class Closes(NamedTuple):
    """The closes of bars in order of time, as equally long arrays: prices in ticks, sizes in lots."""

    price_ticks: Ints
    size_lots: NDArray[np.integer]

    def traded(self) -> "Closes":
        """Return the closes of bars that traded."""
        rows = np.flatnonzero(self.size_lots > 0)
        return Closes(self.price_ticks[rows], self.size_lots[rows])


def bar_closes(columns: Columns, segments: Sequence[Segment], bar_minutes: int) -> Closes:
    """Return the closes of all bars of a length inside half-open segments (ns UTC, ascending).

    columns: trades, or bars of at most a minute. bar_minutes: must divide an hour. Bars begin at the start of each
    segment; a bar without trades has no close.
    """
    bars = longer_bars(minute_bars(columns, segments), segments, bar_minutes)
    return Closes(bars.close, bars.volume_lots)


def joined_closes(parts: Sequence[Closes]) -> Closes:
    """Return the closes of several windows, which are in order of time. There must be at least one."""
    return Closes(np.concatenate([p for p, _ in parts]), np.concatenate([s for _, s in parts]))


@dataclass(frozen=True, slots=True)
class CloseRows:
    """Closes counted in rows, lowest row first: the number of closes, and their volume in lots.

    ends: lowest, highest, first and last close, in ticks.
    """

    prices: RowPrices
    tpos: Sequence[int]
    volume: Sequence[int]
    ends: tuple[int, int, int, int]

    def levels(self, settings: ProfileSettings) -> WindowLevels:
        """Return the levels in ticks."""
        return row_levels(self.tpos, self.volume, self.prices, settings.rule, self.ends)


def close_rows(closes: Closes, row_ticks: int) -> CloseRows:
    """Count closes, rounded up to rows of `row_ticks` ticks (rules §1). There must be at least one.

    Raises `RangeTooWide`.
    """
    ticks = closes.price_ticks
    rows = -(-ticks // row_ticks)
    first, count = int(rows.min()), int(rows.max() - rows.min()) + 1
    if count > MAX_ROWS:
        raise RangeTooWide(int(ticks.min()), int(ticks.max()))
    tpos = np.bincount(rows - first, minlength=count).tolist()
    volume = np.zeros(count, np.int64)
    np.add.at(volume, rows - first, closes.size_lots.astype(np.int64))
    ends = int(ticks.min()), int(ticks.max()), int(ticks[0]), int(ticks[-1])
    return CloseRows(RowPrices(first, row_ticks, ceiling=True), tpos, volume.tolist(), ends)


def price_deltas(
    columns: TradeColumns, sides: NDArray[np.bytes_], segments: Sequence[Segment], ladder: Ladder
) -> tuple[tuple[int, ...], int]:
    """Return the volume delta at each tick of the ladder, and the lots of trades without a side.

    The delta is the lots that buyers traded as aggressors (side `B`) minus those of sellers (`A`); other sides count as
    unknown. sides: one byte for each trade. ladder: of the same trades inside the segments (half-open, ns UTC).
    """
    signed = np.select([sides == b"B", sides == b"A"], [1, -1], 0) * columns.size_lots.astype(np.int64)
    inside = np.zeros(len(columns.at_ns), bool)
    for start, end in segments:
        inside |= (columns.at_ns >= start) & (columns.at_ns < end)
    deltas = np.zeros(len(ladder.volume), np.int64)
    np.add.at(deltas, columns.price_ticks[inside] - ladder.low_ticks, signed[inside])
    unknown = int(columns.size_lots[inside & (signed == 0)].sum(dtype=np.int64))
    return tuple(deltas.tolist()), unknown
