"""Closes of a session's five-minute bars and brackets: when each becomes final, and the bar's closing price.

A bar or bracket becomes final two seconds of event time after its end, so that it includes late trades. Its close does
not change after that (docs/guides/live.md).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from outcry.market.alerts.machine import NEVER_NS
from outcry.market.ladder import BRACKET_MINUTES, Bracket, bracket_windows
from outcry.market.units import NANOS_PER_SECOND
from outcry.market.windows import Segment

#: Event time between the end of a bar or bracket and the time at which it becomes final.
CLOSE_DELAY_NS = 2 * NANOS_PER_SECOND
CLOSE_BAR_MINUTES = 5


class BarCloses:
    """Tracks which bars and brackets of one session are final. Times are ns UTC, prices ticks.

    closes: maps the index of each open bar to the time and price of its latest trade. bar, from_ns, until_ns: index of
    the last trade's bar, and its window. With them a caller can record a trade of that bar in `closes` directly, which
    is faster than `note`. The window is empty if that bar is final.
    """

    __slots__ = (
        "_bar_starts", "_bars", "_bracket_starts", "_ends", "_final", "bar", "brackets", "closes", "from_ns",
        "until_ns",
    )  # fmt: skip

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.brackets = bracket_windows(segments, BRACKET_MINUTES)
        self._bars = bracket_windows(segments, CLOSE_BAR_MINUTES)
        self._bracket_starts = [start for start, _ in self.brackets]
        self._bar_starts = [start for start, _ in self._bars]
        bars = [(end, False, index) for index, (_, end) in enumerate(self._bars)]
        brackets = [(end, True, index) for index, (_, end) in enumerate(self.brackets)]
        self._ends = sorted(bars + brackets)  # a bar before the bracket that ends with it
        self._final = 0
        self.closes: dict[int, tuple[int, int]] = {}
        self.bar = self.from_ns = self.until_ns = 0

    @property
    def due_ns(self) -> int:
        """Return the event time (ns UTC) at which the next bar or bracket becomes final."""
        return self._ends[self._final][0] + CLOSE_DELAY_NS if self._final < len(self._ends) else NEVER_NS

    def bracket_at(self, at_ns: int) -> int:
        """Return the index of the bracket that contains a time."""
        return bisect_right(self._bracket_starts, at_ns) - 1

    def bracket_ending(self, end_ns: int) -> int:
        """Return the index of the bracket to which a bar belongs. end_ns: end of the bar."""
        return bisect_left(self._bracket_starts, end_ns) - 1

    def finalize(self, until_ns: int) -> Iterator[tuple[int, bool, int]]:
        """Finalize bars and brackets that ended by `until_ns`; yield `(end_ns, is_bracket, index)` in order."""
        while self._final < len(self._ends) and self._ends[self._final][0] <= until_ns:
            self._final += 1
            yield self._ends[self._final - 1]

    def note(self, at_ns: int, price: int) -> None:
        """Record a trade as the close of its bar, unless a later trade is recorded or the bar is final."""
        bar = bisect_right(self._bar_starts, at_ns) - 1
        self.bar, (self.from_ns, self.until_ns) = bar, self._bars[bar]
        if self._over(bar):
            self.until_ns = self.from_ns
            return
        known = self.closes.get(bar)
        if known is None or at_ns >= known[0]:
            self.closes[bar] = (at_ns, price)

    def note_all(self, at_ns: Sequence[int], prices: Sequence[int]) -> None:
        """Record trades, in order of time, as closes of their bars. Only the last trade of each bar matters."""
        begin = 0
        while begin < len(at_ns):
            bar = bisect_right(self._bar_starts, at_ns[begin]) - 1
            end = bisect_left(at_ns, self._bars[bar][1], begin)
            self.note(at_ns[end - 1], prices[end - 1])
            begin = end

    def amended(self, brackets: Sequence[Bracket]) -> None:
        """Recompute the closes of open bars after trades were busted. `brackets`: the corrected brackets.

        A bracket shows only its own last trade. So an open bar that was followed by trades of the same bracket keeps
        its recorded close.
        """
        last = {bracket.index: bracket.last_ns for bracket in brackets}
        for bar in list(self.closes):
            start_ns = self._bar_starts[bar]
            if last.get(self.bracket_at(start_ns), -NEVER_NS) < start_ns:
                del self.closes[bar]
        for bracket in brackets:
            bar = bisect_right(self._bar_starts, bracket.last_ns) - 1
            if not self._over(bar):
                self.closes[bar] = (bracket.last_ns, bracket.close_ticks)

    def _over(self, bar: int) -> bool:
        """Return whether the bar with this index is final."""
        return bool(self._final) and self._bars[bar][1] <= self._ends[self._final - 1][0]

    def dump(self) -> list[object]:
        """Return the state as the arguments of `restore`."""
        return [self._final, sorted([bar, *close] for bar, close in self.closes.items())]

    def restore(self, final: int, closes: Sequence[Sequence[int]]) -> None:
        """Restore the state that `dump` returned."""
        self._final = final
        self.closes = {bar: (at_ns, price) for bar, at_ns, price in closes}
