"""Builds a session's ladder from whole arrays with numpy, with the same result as `fold.SessionFold`.

It processes chunks that fit in the CPU cache. Minimum and maximum yield the range of each bracket. `add.at` counts the
volume at price without a Python loop; it was measured 1.6 times as fast as `bincount`, which needs doubles.

Neighbouring trades go into different tables. Otherwise additions to the most traded row would wait for each other,
which limits a plain histogram.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from outcry.market.fold import OutsideSession
from outcry.market.ladder import MAX_ROWS, Bracket, Ladder, RangeTooWide, Source, runs

Ints = NDArray[np.int64]

_CHUNK = 1 << 16  # rows per step: small enough for the CPU cache, large enough to hide the cost of a call
_TABLES = 4
_MARGIN_ROWS = 64


def _order(at_ns: Ints) -> NDArray[np.intp] | None:
    """Return the stable sort order by time; None if the rows are sorted."""
    for start in range(0, len(at_ns) - 1, _CHUNK):
        chunk = at_ns[start : start + _CHUNK + 1]
        if (chunk[1:] < chunk[:-1]).any():
            return np.argsort(at_ns, kind="stable")
    return None


@lru_cache(maxsize=8)  # shared, because an import has hundreds of folds
def _lanes(base: int, rows: int) -> Ints:
    """Return the offsets with which neighbouring trades of a chunk are counted in different volume tables.

    They map prices to indexes in the concatenated tables.
    """
    return np.tile(np.arange(_TABLES) * rows - base, _CHUNK // _TABLES)


class BulkFold:
    """Builds the ladder of one session from arrays of trades or bars, in several calls and any order.

    Arrays are one-dimensional, of one length: `at_ns` and prices int64 (ns UTC, ticks), sizes any integer type (lots).
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
        self._volume = np.zeros((_TABLES, 0), dtype=np.int64)
        self._base = 0
        self._printed = np.zeros(0, dtype=np.int64)
        self._source: Source = "trades"

    def trades(self, at_ns: Ints, price_ticks: Ints, size_lots: NDArray[np.integer]) -> None:
        """Add trades to the ladder; ignore size 0.

        Raises `OutsideSession` and `RangeTooWide`; the object is then unusable.
        """
        if not (traded := size_lots > 0).all():
            at_ns, price_ticks, size_lots = at_ns[traded], price_ticks[traded], size_lots[traded]
        order = _order(at_ns)
        if order is not None:
            at_ns, price_ticks, size_lots = at_ns[order], price_ticks[order], size_lots[order]
        for index, first, last in self._cut(at_ns):
            low, high = self._fill(price_ticks[first:last], size_lots[first:last])
            self._note(
                Bracket(
                    index, int(price_ticks[first]), high, low, int(price_ticks[last - 1]),
                    int(at_ns[first]), int(at_ns[last - 1]),
                )
            )  # fmt: skip

    def _cut(self, at_ns: Ints) -> list[tuple[int, int, int]]:
        """Split sorted times by bracket into `(bracket, first, last)`, last not included."""
        edges = [*np.searchsorted(at_ns, self._windows[:, 0]).tolist(), len(at_ns)]
        pieces = [(index, a, b) for index, (a, b) in enumerate(pairwise(edges)) if a < b]
        if edges[0] or any(at_ns[b - 1] >= self._windows[index, 1] for index, _, b in pieces):
            raise OutsideSession("a row of the array is in no bracket of the session")
        return pieces

    def _fill(self, prices: Ints, sizes: NDArray[np.integer]) -> tuple[int, int]:
        """Add the volume of one bracket; return its low and high."""
        lows: list[int] = []
        highs: list[int] = []
        for start in range(0, len(prices), _CHUNK):
            chunk = prices[start : start + _CHUNK]
            lows.append(int(chunk.min()))
            highs.append(int(chunk.max()))
            self._reach(lows[-1], highs[-1])
            self._count(chunk, sizes[start : start + _CHUNK])
        return min(lows), max(highs)

    def _count(self, prices: Ints, sizes: NDArray[np.integer]) -> None:
        places = prices + _lanes(self._base, self._volume.shape[1])[: len(prices)]
        np.add.at(self._volume.reshape(-1), places, sizes.astype(np.int64, copy=False))

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
        order = _order(at_ns)
        if order is not None:
            at_ns, opened, high, low, close, volume_lots = (
                column[order] for column in (at_ns, opened, high, low, close, volume_lots)
            )
        self._source = "bars"
        self._reach(int(low.min()), int(high.max()))
        self._spread(high, low, close, volume_lots)
        for index, a, b in self._cut(at_ns):
            self._note(
                Bracket(
                    index, int(opened[a]), int(high[a:b].max()), int(low[a:b].min()), int(close[b - 1]),
                    int(at_ns[a]), int(at_ns[b - 1]),
                )
            )  # fmt: skip

    def _spread(self, high: Ints, low: Ints, close: Ints, volume_lots: Ints) -> None:
        rows = self._volume.shape[1]
        share, rest = np.divmod(volume_lots.astype(np.int64), high - low + 1)
        first, after = low - self._base, high - self._base + 1
        steps = np.bincount(first, share, rows + 1) - np.bincount(after, share, rows + 1)
        spread = np.cumsum(steps)[:rows] + np.bincount(close - self._base, rest, rows)
        self._volume[0] += spread.astype(np.int64)
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
        """Widen the volume tables to include both prices."""
        rows = self._volume.shape[1]
        if rows and self._base <= low and high < self._base + rows:
            return
        new_low = min(self._base, low - _MARGIN_ROWS) if rows else low - _MARGIN_ROWS
        new_high = max(self._base + rows, high + 1 + _MARGIN_ROWS) if rows else high + 1 + _MARGIN_ROWS
        if new_high - new_low > MAX_ROWS:
            raise RangeTooWide(min(self._base, low) if rows else low, max(self._base + rows - 1, high))
        wider = new_high - new_low
        volume, printed = np.zeros((_TABLES, wider), np.int64), np.zeros(wider + 1, np.int64)
        if rows:
            shift = self._base - new_low
            volume[:, shift : shift + rows] = self._volume
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
        volume = tuple(self._volume[:, used].sum(axis=0).tolist())
        flags = volume if self._source == "trades" else np.cumsum(self._printed)[used].tolist()
        return Ladder(brackets, low, volume, runs(flags, low), self._source)
