"""Builds a session's ladder from whole arrays, with the same result as `fold.SessionFold`.

`volume_count` counts the volume at each price of each bracket. A bracket's range is its lowest to highest traded price.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from outcry.market.fold import OutsideSession
from outcry.market.ladder import MAX_ROWS, Bracket, Ladder, RangeTooWide, Source, runs
from outcry.market.volume_count import TABLES, count_volume

Ints = NDArray[np.int64]
Sizes = NDArray[np.int64 | np.uint32]

_MARGIN_ROWS = 64

_OUTSIDE = "a row of the array is in no bracket of the session"


def _widened(base: int, tables: Ints, price: int) -> tuple[int, Ints]:
    """Return volume tables widened to include a price, and their new base (lowest price).

    They at least double in size, so that a trend does not widen them at every tick.
    """
    rows = len(tables)
    if not rows:
        return price - _MARGIN_ROWS, np.zeros((2 * _MARGIN_ROWS + 1, TABLES), np.int64)
    low, high = min(base, price), max(base + rows - 1, price)
    if high - low >= MAX_ROWS:
        raise RangeTooWide(low, high)
    margin = max(_MARGIN_ROWS, rows)
    low, high = (low - margin, high) if price < base else (low, high + margin)
    wider = np.zeros((high - low + 1, TABLES), np.int64)
    wider[base - low : base - low + rows] = tables
    return low, wider


class BulkFold:
    """Builds the ladder of one session from arrays of trades or bars, passed in several calls and in any order.

    The arrays of one call are one-dimensional and equally long: `at_ns` and prices int64 (ns UTC, ticks), sizes any
    integer type (lots).
    """

    __slots__ = (
        "_base",
        "_brackets",
        "_printed",
        "_source",
        "_volume",
        "_windows",
    )

    def __init__(self, brackets: Sequence[tuple[int, int]]) -> None:
        self._windows = np.array(brackets, dtype=np.int64).reshape(-1, 2)
        self._brackets: dict[int, Bracket] = {}
        self._volume = np.zeros(0, dtype=np.int64)
        self._base = 0
        self._printed = np.zeros(0, dtype=np.int64)
        self._source: Source = "trades"

    def trades(self, at_ns: Ints, price_ticks: Ints, size_lots: NDArray[np.integer]) -> None:
        """Add trades to the ladder; ignore size 0.

        Raises `OutsideSession` and `RangeTooWide`; the object is then unusable.
        """
        sizes = size_lots.astype(np.uint32 if size_lots.dtype == np.uint32 else np.int64, copy=False)
        if self._add(at_ns, price_ticks, sizes):
            return
        traded = np.flatnonzero(sizes > 0)
        traded = traded[np.argsort(at_ns[traded], kind="stable")]
        if not self._add(at_ns[traded], price_ticks[traded], sizes[traded]):
            raise OutsideSession(_OUTSIDE)

    def _add(self, at_ns: Ints, price_ticks: Ints, sizes: Sizes) -> bool:
        """Add trades if they are in order of time, within brackets, and each has a size.

        Otherwise add none and return False.
        """
        pieces = self._cut(at_ns)
        if pieces is None:
            return False
        brackets: list[Bracket] = []
        base, tables = self._base, np.zeros((len(self._volume), TABLES), np.int64)
        for index, first, last in pieces:
            at, opened = first, int(price_ticks[first])
            low = high = opened
            while True:
                at, lowest, highest = count_volume(at_ns, price_ticks, sizes, at, last, base, tables)
                low, high = min(low, lowest), max(high, highest)
                if at == last:
                    break
                price = int(price_ticks[at])
                if base <= price < base + len(tables):
                    return False  # earlier than the trade before it, or without a size
                base, tables = _widened(base, tables, price)
            closed, first_ns, last_ns = int(price_ticks[last - 1]), int(at_ns[first]), int(at_ns[last - 1])
            brackets.append(Bracket(index, opened, high, low, closed, first_ns, last_ns))
        if brackets:  # not before, because the trades may have to be sorted first
            self._include(brackets, base, tables.sum(axis=1))
        return True

    def _include(self, brackets: Sequence[Bracket], base: int, volume: Ints) -> None:
        """Add brackets that have been counted, and their volume. `volume[0]` is the volume at `base` ticks."""
        low = min(bracket.low_ticks for bracket in brackets)
        high = max(bracket.high_ticks for bracket in brackets)
        self._reach(low, high)
        self._volume[low - self._base : high - self._base + 1] += volume[low - base : high - base + 1]
        for bracket in brackets:
            self._note(bracket)

    def _cut(self, at_ns: Ints) -> list[tuple[int, int, int]] | None:
        """Split sorted times by bracket into `(bracket, first, last)`, last not included.

        Returns None if a time is outside all brackets.
        """
        edges = [*np.searchsorted(at_ns, self._windows[:, 0]).tolist(), len(at_ns)]
        pieces = [(index, a, b) for index, (a, b) in enumerate(pairwise(edges)) if a < b]
        outside = edges[0] or any(at_ns[b - 1] >= self._windows[index, 1] for index, _, b in pieces)
        return None if outside else pieces

    def bars(self, at_ns: Ints, opened: Ints, high: Ints, low: Ints, close: Ints, volume_lots: Ints) -> None:
        """Add bars, stamped at their start, to the ladder; ignore volume 0.

        A bar's volume is spread evenly over its rows, and the remainder is added at its close (rules §2).
        """
        if not (traded := volume_lots > 0).all():
            at_ns, opened, high, low, close, volume_lots = (
                column[traded] for column in (at_ns, opened, high, low, close, volume_lots)
            )
        if not len(at_ns):
            return
        if (at_ns[1:] < at_ns[:-1]).any():
            order = np.argsort(at_ns, kind="stable")
            at_ns, opened, high, low, close, volume_lots = (
                column[order] for column in (at_ns, opened, high, low, close, volume_lots)
            )
        pieces = self._cut(at_ns)
        if pieces is None:
            raise OutsideSession(_OUTSIDE)
        self._source = "bars"
        self._reach(int(low.min()), int(high.max()))
        self._spread(high, low, close, volume_lots)
        for index, a, b in pieces:
            self._note(
                Bracket(
                    index, int(opened[a]), int(high[a:b].max()), int(low[a:b].min()), int(close[b - 1]),
                    int(at_ns[a]), int(at_ns[b - 1]),
                )
            )  # fmt: skip

    def _spread(self, high: Ints, low: Ints, close: Ints, volume_lots: Ints) -> None:
        rows = len(self._volume)
        share, rest = np.divmod(volume_lots.astype(np.int64), high - low + 1)
        first, after = low - self._base, high - self._base + 1
        steps = np.bincount(first, share, rows + 1) - np.bincount(after, share, rows + 1)
        spread = np.cumsum(steps)[:rows] + np.bincount(close - self._base, rest, rows)
        self._volume += spread.astype(np.int64)
        self._printed += np.bincount(first, minlength=rows + 1)
        self._printed -= np.bincount(after, minlength=rows + 1)

    def _note(self, new: Bracket) -> None:
        """Merge new trades of a bracket with its earlier ones."""
        old = self._brackets.get(new.index)
        if old is None:
            self._brackets[new.index] = new
            return
        first = new if new.first_ns < old.first_ns else old
        last = new if new.last_ns >= old.last_ns else old
        self._brackets[new.index] = Bracket(
            new.index, first.open_ticks, max(old.high_ticks, new.high_ticks), min(old.low_ticks, new.low_ticks),
            last.close_ticks, first.first_ns, last.last_ns,
        )  # fmt: skip

    def _reach(self, low: int, high: int) -> None:
        """Widen the volume table so that it includes both prices."""
        rows = len(self._volume)
        if rows and self._base <= low and high < self._base + rows:
            return
        new_low = min(self._base, low - _MARGIN_ROWS) if rows else low - _MARGIN_ROWS
        new_high = max(self._base + rows, high + 1 + _MARGIN_ROWS) if rows else high + 1 + _MARGIN_ROWS
        if new_high - new_low > MAX_ROWS:
            raise RangeTooWide(min(self._base, low) if rows else low, max(self._base + rows - 1, high))
        wider = new_high - new_low
        volume, printed = np.zeros(wider, np.int64), np.zeros(wider + 1, np.int64)
        if rows:
            shift = self._base - new_low
            volume[shift : shift + rows] = self._volume
            printed[shift : shift + rows + 1] = self._printed
        self._volume, self._printed, self._base = volume, printed, new_low

    def ladder(self) -> Ladder | None:
        """Return the ladder of the session so far; None before its first event."""
        if not self._brackets:
            return None
        brackets = tuple(self._brackets[index] for index in sorted(self._brackets))
        low = min(bracket.low_ticks for bracket in brackets)
        high = max(bracket.high_ticks for bracket in brackets)
        used = slice(low - self._base, high - self._base + 1)
        volume = tuple(self._volume[used].tolist())
        flags = volume if self._source == "trades" else np.cumsum(self._printed)[used].tolist()
        return Ladder(brackets, low, volume, runs(flags, low), self._source)
