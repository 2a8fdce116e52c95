"""Computes ladders and levels of a window from arrays of trades or bars, under any profile settings.

The speed is that of `kernels.BulkFold`, which counts volume and brackets.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outcry.market.kernels import BulkFold, Ints
from outcry.market.ladder import MAX_ROWS, Ladder, RangeTooWide, bracket_windows
from outcry.market.profile_settings import ProfileSettings, RowPrices, WindowLevels, ladder_levels, row_levels
from outcry.market.windows import Segment

Rows = slice | NDArray[np.intp]


class TradeColumns(NamedTuple):
    """Trades as equally long one-dimensional arrays: times int64 (ns UTC), prices int64 (ticks), sizes in lots."""

    at_ns: Ints
    price_ticks: Ints
    size_lots: NDArray[np.integer]

    def take(self, rows: Rows) -> "TradeColumns":
        """Return some of the rows."""
        return TradeColumns(self.at_ns[rows], self.price_ticks[rows], self.size_lots[rows])

    def closes(self) -> tuple[Ints, NDArray[np.integer]]:
        """Return the prices and the sizes."""
        return self.price_ticks, self.size_lots

    def add_to(self, fold: BulkFold) -> None:
        """Add the trades to a fold."""
        fold.trades(self.at_ns, self.price_ticks, self.size_lots)


class BarColumns(NamedTuple):
    """Bars as equally long int64 arrays: times of their starts (ns UTC), prices in ticks, volumes in lots."""

    at_ns: Ints
    opened: Ints
    high: Ints
    low: Ints
    close: Ints
    volume_lots: Ints

    def take(self, rows: Rows) -> "BarColumns":
        """Return some of the rows."""
        prices = self.opened[rows], self.high[rows], self.low[rows], self.close[rows]
        return BarColumns(self.at_ns[rows], *prices, self.volume_lots[rows])

    def closes(self) -> tuple[Ints, NDArray[np.integer]]:
        """Return the closing prices and the volumes."""
        return self.close, self.volume_lots

    def add_to(self, fold: BulkFold) -> None:
        """Add the bars to a fold."""
        fold.bars(self.at_ns, self.opened, self.high, self.low, self.close, self.volume_lots)


Columns = TradeColumns | BarColumns


def cut(columns: Columns, segments: Sequence[Segment]) -> Iterator[Columns]:
    """Yield the rows inside each half-open segment, in order of time; skip a segment without rows.

    Rows of equal time keep their order. segments: ascending, ns UTC.
    """
    at_ns = columns.at_ns
    if (at_ns[1:] < at_ns[:-1]).any():
        order = np.argsort(at_ns, kind="stable")
        columns = columns.take(order)
        at_ns = columns.at_ns
    for start, end in segments:
        first, after = np.searchsorted(at_ns, (start, end)).tolist()
        if first < after:
            yield columns.take(slice(first, after))


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
    closes, sizes = np.concatenate([p for p, _ in parts]), np.concatenate([s for _, s in parts])
    closes, sizes = closes[sizes > 0], sizes[sizes > 0]
    if not len(closes):
        return None
    rows = -(-closes // settings.row_ticks)
    first, count = int(rows.min()), int(rows.max() - rows.min()) + 1
    if count > MAX_ROWS:
        raise RangeTooWide(int(closes.min()), int(closes.max()))
    tpos = np.bincount(rows - first, minlength=count).tolist()
    volume = np.zeros(count, np.int64)
    np.add.at(volume, rows - first, sizes.astype(np.int64))
    ends = int(closes.min()), int(closes.max()), int(closes[0]), int(closes[-1])
    prices = RowPrices(first, settings.row_ticks, ceiling=True)
    return row_levels(tpos, volume.tolist(), prices, settings.rule, ends)


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
