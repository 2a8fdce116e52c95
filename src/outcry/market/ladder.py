"""The ladder of a session: the price range of each bracket (half-hour period) and the volume at each price.

A bracket counts as trading once at every row (price) between its low and its high (rules §1). So a bracket is a range,
and the TPO ladder of a session is the ranges of its brackets. Prices are whole ticks. Rows are anchored at price 0, not
at the session's low, so they do not move as the range grows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from outcry.market.units import NANOS_PER_MINUTE, price_text

#: A session with more rows has a wrong price unit: for ES this would be a range of 250,000 points.
MAX_ROWS = 1_000_000
#: Maximum rows of a live session: 5,000 points of ES, 200 dollars of crude oil. It limits the effect of one feed's
#: wrong price on a process that folds many feeds.
MAX_SESSION_ROWS = 20_000

#: Minutes of a bracket (rules §1), and brackets in the initial balance of 60 minutes (rules §3.1).
BRACKET_MINUTES = 30
IB_BRACKETS = 60 // BRACKET_MINUTES

Source = Literal["trades", "bars"]


class RangeTooWide(ValueError):
    """A session spans too many rows, because its prices are in another unit, or one of them is wrong."""

    def __init__(self, low_ticks: int, high_ticks: int, most_rows: int = MAX_ROWS) -> None:
        super().__init__(
            f"prices from {low_ticks} to {high_ticks} ticks span more than {most_rows:,} rows in one session"
        )
        self.low_ticks, self.high_ticks = low_ticks, high_ticks

    def describe(self, tick_e9: int) -> str:
        """Return the error message with prices instead of ticks. tick_e9: tick size in units of 10⁻⁹."""
        low, high = price_text(self.low_ticks * tick_e9), price_text(self.high_ticks * tick_e9)
        return f"prices from {low} to {high} are too far apart for one session"


@dataclass(frozen=True, slots=True)
class Bracket:
    """One bracket: its index from the session's open (letter A is 0), prices in ticks, times in ns UTC.

    `open_ticks` is the price of its earliest event, `close_ticks` that of its latest. Among events of the same time,
    the first to arrive is the open and the last to arrive is the close. So a trade that arrives late changes the close
    only if no trade in the bracket has a later time.
    """

    index: int
    open_ticks: int
    high_ticks: int
    low_ticks: int
    close_ticks: int
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class Ladder:
    """What was traded in a session: `brackets` in order of index, and `volume[i]` lots at `low_ticks + i`.

    `touched`: ranges of rows (prices) at which the session traded, so that it would have tested a resting level there.
    Both ends are included; ranges are ascending and at least one row apart. `source`: whether volume at price is exact
    or spread from bars.
    """

    brackets: tuple[Bracket, ...]
    low_ticks: int
    volume: tuple[int, ...]
    touched: tuple[tuple[int, int], ...]
    source: Source

    @property
    def high_ticks(self) -> int:
        """Return the session's high in ticks."""
        return self.low_ticks + len(self.volume) - 1

    @property
    def open_ticks(self) -> int:
        """Return the price of the session's first event, in ticks."""
        return self.brackets[0].open_ticks

    @property
    def close_ticks(self) -> int:
        """Return the price of the session's last event, in ticks."""
        return self.brackets[-1].close_ticks

    def until(self, index: int) -> "Ladder | None":
        """Return the ladder of the brackets up to and including `index`; None if none of them traded.

        It has no volume and no touched rows, because a ladder does not store these by bracket.
        """
        brackets = tuple(bracket for bracket in self.brackets if bracket.index <= index)
        if not brackets:
            return None
        low = min(bracket.low_ticks for bracket in brackets)
        high = max(bracket.high_ticks for bracket in brackets)
        return Ladder(brackets, low, (0,) * (high - low + 1), (), self.source)

    def tpo_counts(self) -> list[int]:
        """Return the number of TPOs at each row; the first is the row of `low_ticks`."""
        steps = [0] * (len(self.volume) + 1)
        for bracket in self.brackets:
            steps[bracket.low_ticks - self.low_ticks] += 1
            steps[bracket.high_ticks - self.low_ticks + 1] -= 1
        return list(accumulate(steps[:-1]))

    def letters(self) -> list[str]:
        """Return the bracket letters at each row, in order; the first is the row of `low_ticks`."""
        rows: list[list[str]] = [[] for _ in self.volume]
        for bracket in self.brackets:
            mark = letter(bracket.index)
            for row in range(bracket.low_ticks - self.low_ticks, bracket.high_ticks - self.low_ticks + 1):
                rows[row].append(mark)
        return ["".join(row) for row in rows]

    def prints_at(self, price_ticks: int) -> bool:
        """Return whether anything traded at exactly this price."""
        return any(low <= price_ticks <= high for low, high in self.touched)


def bracket_windows(segments: Sequence[tuple[int, int]], minutes: int) -> tuple[tuple[int, int], ...]:
    """Cut a session's half-open segments (ns) into half-open brackets that start at the open of each segment.

    If a segment ends early, its last, shorter bracket counts as one (rules §1). Letters continue across a break.
    """
    if minutes <= 0 or 60 % minutes:
        raise ValueError(
            f"bracket of {minutes} minutes: it must divide an hour, so that the initial balance is whole"
        )
    step = minutes * NANOS_PER_MINUTE
    return tuple(
        (start, min(start + step, close))
        for opened, close in segments
        for start in range(opened, close, step)
    )


def letter(index: int) -> str:
    """Return the letter of a bracket: A–Z, a–z, 0–9, then AA, AB and so on, so that each is unique.

    A session of 23 hours has 46 brackets, more than one alphabet has letters.
    """
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    if index < len(alphabet):
        return alphabet[index]
    return letter(index // len(alphabet) - 1) + alphabet[index % len(alphabet)]


def runs(flags: Sequence[int], start_ticks: int) -> tuple[tuple[int, int], ...]:
    """Return the ranges of consecutive rows with a non-zero flag, both ends included.

    The price of `flags[0]` is `start_ticks`.
    """
    found: list[tuple[int, int]] = []
    at, count = 0, len(flags)
    zeros = flags.count(0)
    while at < count:
        if not flags[at]:
            at, zeros = at + 1, zeros - 1
            continue
        end = (
            flags.index(0, at) if zeros else count
        )  # most rows have traded, and `index` is faster than a loop
        found.append((start_ticks + at, start_ticks + end - 1))
        at = end
    return tuple(found)
