"""The five-minute bars and the brackets of a session: when each is sealed, and what the bars close with.

Rule kept (docs/live.md): a bar or bracket is sealed two seconds of event time after its end, so that stragglers are in
it; after that nothing moves its close.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from outcry.market.alerts.machine import NEVER_NS
from outcry.market.ladder import BRACKET_MINUTES, Bracket, bracket_windows
from outcry.market.units import NANOS_PER_SECOND
from outcry.market.windows import Segment

#: How long after its end a bar or bracket is sealed.
CLOSE_DELAY_NS = 2 * NANOS_PER_SECOND
CLOSE_BAR_MINUTES = 5


class BarCloses:
    """What of one session is sealed. Times ns UTC, prices ticks; bars and brackets by their index.

    closes: time and price of the latest trade of each bar not sealed yet. bar, from_ns, until_ns: the bar traded in
    last and its window, for whoever notes a close in the shortest way; the window is empty if that bar is sealed.
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
        """The event time from which something is to be sealed."""
        return self._ends[self._final][0] + CLOSE_DELAY_NS if self._final < len(self._ends) else NEVER_NS

    def bracket_at(self, at_ns: int) -> int:
        """The bracket an instant lies in."""
        return bisect_right(self._bracket_starts, at_ns) - 1

    def bracket_ending(self, end_ns: int) -> int:
        """The bracket in which a bar with such an end lies."""
        return bisect_left(self._bracket_starts, end_ns) - 1

    def finalize(self, until_ns: int) -> Iterator[tuple[int, bool, int]]:
        """Seal what ended by an instant, in order: each with its end, whether it is a bracket, and its index."""
        while self._final < len(self._ends) and self._ends[self._final][0] <= until_ns:
            self._final += 1
            yield self._ends[self._final - 1]

    def note(self, at_ns: int, price: int) -> None:
        """Something traded: the latest trade of a bar is its close, until it is sealed."""
        bar = bisect_right(self._bar_starts, at_ns) - 1
        self.bar, (self.from_ns, self.until_ns) = bar, self._bars[bar]
        if self._over(bar):
            self.until_ns = self.from_ns
            return
        known = self.closes.get(bar)
        if known is None or at_ns >= known[0]:
            self.closes[bar] = (at_ns, price)

    def note_all(self, at_ns: Sequence[int], prices: Sequence[int]) -> None:
        """Many traded, in order of time: only the last of each bar counts."""
        begin = 0
        while begin < len(at_ns):
            bar = bisect_right(self._bar_starts, at_ns[begin]) - 1
            end = bisect_left(at_ns, self._bars[bar][1], begin)
            self.note(at_ns[end - 1], prices[end - 1])
            begin = end

    def amended(self, brackets: Sequence[Bracket]) -> None:
        """Trades were taken back, and these brackets stand: set what bars not sealed yet close with.

        Where its bracket traded on after a bar, brackets do not tell: it keeps the close that was noted.
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
        """Whether a bar is sealed."""
        return bool(self._final) and self._bars[bar][1] <= self._ends[self._final - 1][0]

    def dump(self) -> list[object]:
        """What `restore` takes."""
        return [self._final, sorted([bar, *close] for bar, close in self.closes.items())]

    def restore(self, sealed: int, closes: Sequence[tuple[int, int, int]]) -> None:
        """Take up where `dump` left off."""
        self._final = sealed
        self.closes = {bar: (at_ns, price) for bar, at_ns, price in closes}
