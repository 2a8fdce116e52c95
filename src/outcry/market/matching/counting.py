"""Counts TPOs and volume at the rows of a window, for every sampling and row height of the search.

Each array is counted once from whole arrays of trades or bars, and all methods share it. The rules are those of
`kernels` (rules §1, §2): a bracket counts at every row of its range, and a bar's volume is spread evenly over its
range, with the remainder at its close.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from outcry.market.bar_columns import BarColumns, Columns, TradeColumns, cut, longer_bars, minute_bars, traded
from outcry.market.kernels import Ints
from outcry.market.ladder import MAX_SESSION_ROWS, RangeTooWide
from outcry.market.matching.rows import RowCounts
from outcry.market.matching.setting import EXACT, Sampling
from outcry.market.windows import Segment


class RecordingCounts:
    """The counts of one window of a recording: the rows of a recording inside half-open segments (ns UTC, ascending).

    columns: trades, or bars of at most a minute, in any order. Raises `RangeTooWide`.
    """

    def __init__(self, columns: Columns, segments: Sequence[Segment]) -> None:
        self._segments = segments
        parts = [part for part in map(traded, cut(columns, segments)) if len(part.at_ns)]
        self._trades = [part for part in parts if isinstance(part, TradeColumns)]
        self._minutes = minute_bars(columns, segments)
        self._bars: dict[int, BarColumns] = {1: self._minutes}
        self._volume: dict[int, Ints] = {}
        if len(self._minutes.at_ns):
            self.low, self.high = int(self._minutes.low.min()), int(self._minutes.high.max())
            if self.high - self.low >= MAX_SESSION_ROWS:
                raise RangeTooWide(self.low, self.high, MAX_SESSION_ROWS)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing traded in the window."""
        return not len(self._minutes.at_ns)

    @property
    def finest(self) -> int:
        """Return the length in minutes of the finest bars that volume can be counted from."""
        return EXACT if self._trades else 1

    def samplings(self) -> Iterator[Sampling]:
        """Yield all samplings of the search."""
        for minutes in (30, 15, 60):
            yield Sampling("tpo", "range", minutes)
        for minutes in (EXACT, 1, 5, 15, 30) if self._trades else (1, 5, 15, 30):
            yield Sampling("volume", "range", minutes)
        for basis in ("tpo", "volume"):
            for minutes in (1, 5, 15, 30, 60):
                yield Sampling(basis, "close_up", minutes)

    def count(self, sampling: Sampling, row_ticks: int, anchor_ticks: int = 0) -> RowCounts:
        """Return the counts of one sampling in rows of `row_ticks` ticks, counted from a price.

        Rows of closes are always counted from price 0.
        """
        if sampling.placement == "close_up":
            first, counts = self._closes(sampling, row_ticks)
        elif sampling.basis == "tpo":
            first, counts = self._tpos(sampling.bar_minutes, row_ticks, anchor_ticks)
        else:
            first, counts = self._merged(self._spread(sampling.bar_minutes), row_ticks, anchor_ticks)
        return RowCounts.of(first, counts.tolist())

    def _tpos(self, bar_minutes: int, row_ticks: int, anchor_ticks: int) -> tuple[int, Ints]:
        brackets = self._bars_of(bar_minutes)
        low, high = (brackets.low - anchor_ticks) // row_ticks, (brackets.high - anchor_ticks) // row_ticks
        first = (self.low - anchor_ticks) // row_ticks
        rows = (self.high - anchor_ticks) // row_ticks - first + 2
        steps = np.bincount(low - first, minlength=rows) - np.bincount(high - first + 1, minlength=rows)
        return first, np.cumsum(steps)[:-1]

    def _closes(self, sampling: Sampling, row_ticks: int) -> tuple[int, Ints]:
        bars = self._bars_of(sampling.bar_minutes)
        rows = -(-bars.close // row_ticks)
        first = int(rows.min())
        if sampling.basis == "tpo":
            return first, np.bincount(rows - first)
        return first, np.bincount(rows - first, bars.volume_lots).astype(np.int64)

    def _spread(self, bar_minutes: int) -> Ints:
        """Return the volume at each tick from the window's low."""
        found = self._volume.get(bar_minutes)
        if found is None:
            rows = self.high - self.low + 1
            found = np.zeros(rows, np.int64)
            if bar_minutes == EXACT:
                for part in self._trades:
                    at = np.bincount(part.price_ticks - self.low, part.size_lots, rows)
                    found += at.astype(np.int64)
            else:
                found += _spread(self._bars_of(bar_minutes), self.low, rows)
            self._volume[bar_minutes] = found
        return found

    def _merged(self, volume: Ints, row_ticks: int, anchor_ticks: int) -> tuple[int, Ints]:
        low = self.low - anchor_ticks
        first = low // row_ticks
        before = low - first * row_ticks
        after = -(before + len(volume)) % row_ticks
        return first, np.pad(volume, (before, after)).reshape(-1, row_ticks).sum(axis=1)

    def _bars_of(self, bar_minutes: int) -> BarColumns:
        found = self._bars.get(bar_minutes)
        if found is None:
            found = self._bars[bar_minutes] = longer_bars(self._minutes, self._segments, bar_minutes)
        return found


def _spread(bars: BarColumns, base: int, rows: int) -> Ints:
    """Return the volume of bars at `rows` ticks from `base`: spread evenly, the remainder at the close (rules §2)."""
    share, rest = np.divmod(bars.volume_lots, bars.high - bars.low + 1)
    first, after = bars.low - base, bars.high - base + 1
    steps = np.bincount(first, share, rows + 1) - np.bincount(after, share, rows + 1)
    return (np.cumsum(steps)[:rows] + np.bincount(bars.close - base, rest, rows)).astype(np.int64)
