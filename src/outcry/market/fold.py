"""The fold of one session: adds trades one by one to the session's ladder.

The ladder is the price range of each bracket (half-hour period) and the volume at each price. The result depends only
on the session's window and the ordered trades; no function reads a clock. A late trade is added to the bracket that
contains its time. `market.kernels` folds whole arrays to the same ladder; a property test compares the two.
"""

from collections.abc import Iterable, Sequence

from outcry.market.ladder import MAX_ROWS, Bracket, Ladder, RangeTooWide, Source, runs

_MARGIN_ROWS = 64
_UNSET_HIGH = -(2**62)
_UNSET_LOW = 2**62


class OutsideSession(ValueError):
    """The time of an event lies outside all brackets of the session."""


class SessionFold:
    """Builds the ladder of one session from its trades or bars. Prices are ticks, sizes lots.

    brackets: half-open windows in ns UTC, ascending, from `ladder.bracket_windows`. most_rows: the widest price range
    that is accepted, in ticks. A wider one comes from a wrong price and raises `RangeTooWide`.
    """

    __slots__ = (
        "_base", "_bracket", "_done", "_end_ns", "_first", "_first_ns", "_high", "_last", "_last_ns", "_low",
        "_most_rows", "_printed", "_source", "_volume", "_windows",
    )  # fmt: skip

    def __init__(self, brackets: Sequence[tuple[int, int]], most_rows: int = MAX_ROWS) -> None:
        self._windows, self._most_rows = tuple(brackets), most_rows
        self._done: dict[int, Bracket] = {}
        self._volume: list[int] = []
        self._printed: set[tuple[int, int]] = set()
        self._base = 0
        self._source: Source = "trades"
        self._bracket = -1
        self._leave()

    def _leave(self) -> None:
        self._first_ns = self._last_ns = self._end_ns = 0
        self._first = self._last = 0
        self._high, self._low = _UNSET_HIGH, _UNSET_LOW

    def trade(self, at_ns: int, price_ticks: int, size_lots: int) -> None:
        """Add one trade to the ladder; ignore size 0.

        Raises `OutsideSession` (the trade is not added) and `RangeTooWide`.
        """
        if not size_lots:
            return
        if self._last_ns <= at_ns < self._end_ns:
            if price_ticks > self._high:
                self._reach(price_ticks)
                self._high = price_ticks
            elif price_ticks < self._low:
                self._reach(price_ticks)
                self._low = price_ticks
            volume, row = self._volume, price_ticks - self._base
            volume[row] = volume[row] + size_lots  # compiled `+=` adds objects, not integers
            self._last_ns = at_ns
            self._last = price_ticks
        else:
            self._elsewhere(at_ns, price_ticks, price_ticks, price_ticks, price_ticks)
            self._volume[price_ticks - self._base] += size_lots

    def trades(self, events: Iterable[tuple[int, int, int]]) -> None:
        """Add `(at_ns, price_ticks, size_lots)` tuples to the ladder, with the same result as `trade` for each.

        This method is twice as fast as single calls. A trade within the current bracket and its range changes only the
        volume and the last price. Every other trade goes through `trade`.
        """
        volume, base, low, high = self._volume, self._base, self._low, self._high
        last_ns, last, end_ns = self._last_ns, self._last, self._end_ns
        try:
            for at_ns, price_ticks, size_lots in events:
                if last_ns <= at_ns < end_ns and low <= price_ticks <= high and size_lots:
                    row = price_ticks - base
                    volume[row] = volume[row] + size_lots  # as in `trade`
                    last_ns, last = at_ns, price_ticks
                else:
                    self._last_ns, self._last = last_ns, last
                    self.trade(at_ns, price_ticks, size_lots)
                    volume, base, low, high = self._volume, self._base, self._low, self._high
                    last_ns, last, end_ns = self._last_ns, self._last, self._end_ns
        finally:
            self._last_ns, self._last = last_ns, last

    def bar(self, at_ns: int, opened: int, high: int, low: int, close: int, volume_lots: int) -> None:
        """Add one bar, stamped at its start, to the ladder; ignore volume 0.

        The bar counts as trading at every row (price) from low to high. Its volume is spread evenly over these rows,
        and the remainder is added at the bar's close (rules §2).
        """
        if not volume_lots:
            return
        self._source = "bars"
        self._elsewhere(at_ns, opened, high, low, close)
        share, rest = divmod(volume_lots, high - low + 1)
        for row in range(low - self._base, high - self._base + 1):
            self._volume[row] += share
        self._volume[close - self._base] += rest
        self._printed.add((low, high))

    @staticmethod
    def restore(
        brackets: Sequence[tuple[int, int]], ladder: Ladder, most_rows: int = MAX_ROWS
    ) -> "SessionFold":
        """Return a fold that continues from a ladder as the fold that produced the ladder would."""
        fold = SessionFold(brackets, most_rows)
        fold._done = {bracket.index: bracket for bracket in ladder.brackets}
        fold._base = ladder.low_ticks - _MARGIN_ROWS
        fold._volume = [0] * _MARGIN_ROWS + list(ladder.volume) + [0] * (_MARGIN_ROWS + 1)
        fold._source = ladder.source
        if ladder.source == "bars":
            fold._printed = set(ladder.touched)
        return fold

    def bracket(self, index: int) -> Bracket | None:
        """Return a bracket as traded so far; None if nothing has traded in it."""
        self._park()
        return self._done.get(index)

    def ladder(self) -> Ladder | None:
        """Return the ladder of the session so far; None before its first event."""
        self._park()
        if not self._done:
            return None
        brackets = tuple(self._done[index] for index in sorted(self._done))
        low = min(bracket.low_ticks for bracket in brackets)
        high = max(bracket.high_ticks for bracket in brackets)
        volume = tuple(self._volume[low - self._base : high - self._base + 1])
        return Ladder(brackets, low, volume, self._touched(low, volume), self._source)

    def _touched(self, low: int, volume: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        if self._source == "trades":
            return runs(volume, low)
        flags = [int(lots > 0) for lots in volume]  # trades mixed with bars print their rows as well
        for bar_low, bar_high in self._printed:
            flags[bar_low - low : bar_high - low + 1] = [1] * (bar_high - bar_low + 1)
        return runs(flags, low)

    def _elsewhere(self, at_ns: int, opened: int, high: int, low: int, close: int) -> None:
        """Switch to the bracket of an event that is late or starts a new bracket, and add the event to it."""
        index = self._find(at_ns)
        self._reach(high)
        self._reach(low)
        if index != self._bracket:
            self._park()
            self._unpark(index)
        if self._high == _UNSET_HIGH or at_ns < self._first_ns:
            self._first_ns, self._first = at_ns, opened
        if self._high == _UNSET_HIGH or at_ns >= self._last_ns:
            self._last_ns, self._last = at_ns, close
        self._high, self._low = max(self._high, high), min(self._low, low)

    def _find(self, at_ns: int) -> int:
        before, after = 0, len(self._windows)
        while before < after:  # find the last window that starts at or before at_ns
            middle = (before + after) // 2
            if self._windows[middle][0] <= at_ns:
                before = middle + 1
            else:
                after = middle
        if before == 0 or at_ns >= self._windows[before - 1][1]:
            raise OutsideSession(f"{at_ns} ns is in no bracket of the session")
        return before - 1

    def _reach(self, price_ticks: int) -> None:
        """Widen the volume table so that it includes a price."""
        if not self._volume:
            self._base = price_ticks - _MARGIN_ROWS
            self._volume = [0] * (2 * _MARGIN_ROWS + 1)
            return
        top = self._base + len(self._volume) - 1
        if self._base <= price_ticks <= top:
            return
        low, high = min(self._base, price_ticks), max(top, price_ticks)
        if high - low >= self._most_rows:
            raise RangeTooWide(low, high, self._most_rows)
        extra = max(_MARGIN_ROWS, len(self._volume))
        if price_ticks < self._base:
            grown = self._base - price_ticks + extra
            self._volume[:0] = [0] * grown
            self._base -= grown
        else:
            self._volume.extend([0] * (price_ticks - top + extra))

    def _park(self) -> None:
        if self._bracket >= 0 and self._high != _UNSET_HIGH:
            self._done[self._bracket] = Bracket(
                self._bracket, self._first, self._high, self._low, self._last, self._first_ns, self._last_ns
            )

    def _unpark(self, index: int) -> None:
        self._leave()
        self._bracket = index
        self._end_ns = self._windows[index][1]
        known = self._done.get(index)
        if known:
            self._first, self._high, self._low, self._last = (
                known.open_ticks, known.high_ticks, known.low_ticks, known.close_ticks,
            )  # fmt: skip
            self._first_ns, self._last_ns = known.first_ns, known.last_ns
