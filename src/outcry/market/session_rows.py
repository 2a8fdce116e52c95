"""The trades or bars of a session as arrays, and the profile of any part of the session from them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outcry.market.bar_columns import BarColumns, Columns, TradeColumns, cut, joined, longer_bars, minute_bars
from outcry.market.kernels import BulkFold
from outcry.market.ladder import Ladder, bracket_windows
from outcry.market.profile_kernels import Closes, price_deltas
from outcry.market.windows import Segment


class RowBatch(NamedTuple):
    """Rows of one kind. sides: one byte for each trade; None for bars. bar_ns: the length of each bar; 0 for trades."""

    columns: Columns
    sides: NDArray[np.bytes_] | None
    bar_ns: int


class Counting(NamedTuple):
    """How rows are counted.

    minutes: length of a bracket. bar_minutes: length of the bars to which rows are joined, no longer than a bracket; 0
    for rows as they are recorded. close_minutes: length of the bars that count only at their close; 0 if rows count.
    """

    minutes: int
    bar_minutes: int = 0
    close_minutes: int = 0


class BarAcross(ValueError):
    """A bar lasts across an instant, so its volume cannot be divided there. Times are ns UTC, the end not included."""

    def __init__(self, at_ns: int, start_ns: int, end_ns: int) -> None:
        super().__init__(f"a bar from {start_ns} to {end_ns} ns lasts across {at_ns} ns")
        self.at_ns, self.start_ns, self.end_ns = at_ns, start_ns, end_ns


@dataclass(frozen=True, slots=True)
class Refolded:
    """A part of a session computed from its rows.

    deltas: for each tick of the ladder, the lots of buyers minus those of sellers (aggressors); None if any row is a
    bar, or no trade has a side. unknown_lots: volume of trades without a side. closes: those of its bars, if only these
    count.
    """

    ladder: Ladder
    deltas: tuple[int, ...] | None
    unknown_lots: int
    closes: Closes | None = None


def refolded(
    batches: Sequence[RowBatch], segments: Sequence[Segment], windows: Sequence[Segment], counting: Counting
) -> Refolded | None:
    """Return what traded inside the windows; None if nothing did.

    segments: all half-open windows (ns UTC) of the session. Brackets and bars begin with them, so a window
    does not move brackets and letters. Raises `RangeTooWide`.
    """
    if counting.bar_minutes:
        batches = [RowBatch(_longer(batches, segments, windows, counting.bar_minutes), None, 0)]
    fold = BulkFold(bracket_windows(segments, counting.minutes))
    for batch in batches:
        for part in cut(batch.columns, windows):
            part.add_to(fold)
    ladder = fold.ladder()
    if ladder is None:
        return None
    total, unknown = sum(ladder.volume), 0
    if counting.close_minutes:
        bars = _longer(batches, segments, windows, counting.close_minutes)
        return Refolded(ladder, None, total, Closes(bars.close, bars.volume_lots))
    deltas = np.zeros(len(ladder.volume), np.int64)
    for batch in batches:
        if not isinstance(batch.columns, TradeColumns) or batch.sides is None:
            return Refolded(ladder, None, total)
        of_batch, without_side = price_deltas(batch.columns, batch.sides, windows, ladder)
        deltas += np.array(of_batch, np.int64)
        unknown += without_side
    return Refolded(ladder, tuple(deltas.tolist()) if unknown < total else None, unknown)


def _longer(
    batches: Sequence[RowBatch], segments: Sequence[Segment], windows: Sequence[Segment], bar_minutes: int
) -> BarColumns:
    """Return the rows inside the windows as bars of `bar_minutes`."""
    rows = joined([minute_bars(batch.columns, windows) for batch in batches])
    minutes = minute_bars(rows, windows)  # rows of several kinds, in order of time
    return longer_bars(minutes, segments, bar_minutes)


def check_edges(batches: Iterable[RowBatch], segments: Sequence[Segment], windows: Sequence[Segment]) -> None:
    """Raise `BarAcross` if a window begins or ends inside a bar. segments: of the session; their ends divide no bar."""
    edges = {edge for window in windows for edge in window} - {edge for window in segments for edge in window}
    for batch in batches:
        if batch.bar_ns and len(batch.columns.at_ns):
            _check_bars(np.sort(batch.columns.at_ns), batch.bar_ns, sorted(edges))


def _check_bars(starts: NDArray[np.int64], bar_ns: int, edges: Sequence[int]) -> None:
    for edge in edges:
        before = int(np.searchsorted(starts, edge)) - 1
        if before >= 0 and (start := int(starts[before])) + bar_ns > edge:
            raise BarAcross(edge, start, start + bar_ns)
