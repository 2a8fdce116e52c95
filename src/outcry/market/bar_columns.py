"""Arrays of trades and bars, cut to windows and joined to longer bars."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outcry.market.kernels import BulkFold, Ints
from outcry.market.ladder import bracket_windows
from outcry.market.units import NANOS_PER_MINUTE
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


def traded(part: Columns) -> Columns:
    """Return the rows that traded. A row of size 0 did not (rules §2)."""
    if part[-1].all():
        return part
    rows = np.flatnonzero(part[-1] > 0)
    return part.take(rows)


def minute_bars(columns: Columns, segments: Sequence[Segment]) -> BarColumns:
    """Return the bars of one minute inside half-open segments (ns UTC, ascending), in order of time.

    A minute without trades has no bar. columns: trades, or bars of at most a minute.
    """
    parts = [part for part in map(traded, cut(columns, segments)) if len(part.at_ns)]
    return joined([_grouped(part, part.at_ns // NANOS_PER_MINUTE) for part in parts])


def longer_bars(minutes: BarColumns, segments: Sequence[Segment], length: int) -> BarColumns:
    """Join one-minute bars to bars of `length` minutes, which begin at the start of each segment.

    length: must divide an hour.
    """
    if length == 1 or not len(minutes.at_ns):
        return minutes
    starts = np.array([start for start, _ in bracket_windows(segments, length)], np.int64)
    return _grouped(minutes, np.searchsorted(starts, minutes.at_ns, side="right"))


def joined(parts: Sequence[BarColumns]) -> BarColumns:
    """Return the bars of all parts, one after another."""
    if not parts:
        return BarColumns(*(np.zeros(0, np.int64) for _ in BarColumns._fields))
    return BarColumns(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _grouped(part: Columns, group: Ints) -> BarColumns:
    """Return one bar for each run of rows with the same group number; rows are in order of time."""
    bars = _as_bars(part)
    starts = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
    ends = np.concatenate((starts[1:], [len(group)])) - 1
    return BarColumns(
        bars.at_ns[starts], bars.opened[starts], np.maximum.reduceat(bars.high, starts),
        np.minimum.reduceat(bars.low, starts), bars.close[ends], np.add.reduceat(bars.volume_lots, starts),
    )  # fmt: skip


def _as_bars(part: Columns) -> BarColumns:
    """Return each trade as a bar of one price."""
    if isinstance(part, BarColumns):
        return part
    price = part.price_ticks
    return BarColumns(part.at_ns, price, price, price, price, part.size_lots.astype(np.int64))
