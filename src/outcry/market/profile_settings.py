"""Settings of a profile (method, hours, bracket, row size), and the levels of a ladder under them.

`outcry.market.profile_kernels` computes the same levels from arrays of trades or bars. Sources: rules §1, §2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

from outcry.market.calendar import Calendar, SessionKind
from outcry.market.ladder import BRACKET_MINUTES, Bracket, Ladder, runs
from outcry.market.methods import DALTON, Method
from outcry.market.profile import levels_of
from outcry.market.row_label import RowLabel, RowScale
from outcry.market.windows import Segment

Hours = Literal["rth", "overnight", "full"]
Basis = Literal["tpo", "volume"]

#: The sessions of the calendar that each choice of hours consists of, in order of time.
SESSION_KINDS: Mapping[str, tuple[SessionKind, ...]] = {
    "rth": (SessionKind.RTH,),
    "overnight": (SessionKind.ETH,),
    "full": (SessionKind.ETH, SessionKind.RTH),
}
#: Bracket sizes that a caller can choose, in minutes.
BRACKET_CHOICES = (15, 30, 60)
#: The largest row: 100 points of ES.
MAX_ROW_TICKS = 400


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """How to compute the profile of a trade date.

    hours: regular hours, the overnight session before them, or both. variant: name of a set of regular hours (`cash`);
    None for the calendar's choice. bracket_minutes: length of a bracket, which must divide an hour. row_ticks: height
    of a row; rows are anchored at price 0, so a row contains the ticks `row_ticks * n` to `row_ticks * (n + 1) - 1`.
    percent, basis: replace those of the method. bar_minutes: length of the bars from which volume or closes are
    counted; 0 for the finest that is recorded, and for closes one minute. label: the price that stands for a row.

    Raises `ValueError` for values that no profile has.
    """

    method: Method = DALTON
    hours: Hours = "rth"
    variant: str | None = None
    bracket_minutes: int = BRACKET_MINUTES
    row_ticks: int = 1
    percent: int | None = None
    basis: Basis | None = None
    bar_minutes: int = 0
    label: RowLabel = "ticks"

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.bracket_minutes <= 0 or 60 % self.bracket_minutes:
            raise ValueError(f"bracket of {self.bracket_minutes} minutes: it must divide an hour")
        if not 1 <= self.row_ticks <= MAX_ROW_TICKS:
            raise ValueError(f"row of {self.row_ticks} ticks: use 1 to {MAX_ROW_TICKS}")
        if self.percent is not None and not 1 <= self.percent <= 100:
            raise ValueError(f"value area of {self.percent} %: use 1 to 100")
        if self.bar_minutes < 0 or (self.bar_minutes and 60 % self.bar_minutes):
            raise ValueError(f"bars of {self.bar_minutes} minutes: they must divide an hour")

    @property
    def rule(self) -> Method:
        """Return the method with the replaced percent and basis."""
        return replace(
            self.method,
            percent=self.method.percent if self.percent is None else self.percent,
            basis=self.basis or self.method.basis,
        )

    @property
    def counts_closes(self) -> bool:
        """Return whether a bar counts only at its close, so that a ladder cannot answer."""
        return self.method.placement == "close_up"

    @property
    def close_minutes(self) -> int:
        """Return the length of the bars whose closes are counted. LEAN and py-market-profile are fed with minutes."""
        return self.bar_minutes or 1

    @property
    def scale(self) -> RowScale:
        """Return the prices that stand for rows, in half ticks."""
        return RowScale(self.row_ticks, self.label, self.counts_closes)

    @property
    def ib_brackets(self) -> int:
        """Return the number of brackets in the initial balance of 60 minutes (rules §3.1)."""
        return 60 // self.bracket_minutes

    def segments(self, calendar: Calendar, root: str, day: date) -> tuple[Segment, ...]:
        """Return the half-open windows (ns UTC) of a trade date, ascending; empty if it has no such session.

        The windows of `full` remain divided at the regular open, so that brackets begin there.
        """
        kinds = SESSION_KINDS[self.hours]
        found = (calendar.session(root, day, kind, variant=self.variant) for kind in kinds)
        return tuple(segment for session in found if session is not None for segment in session.segments)


DEFAULT_SETTINGS = ProfileSettings()


@dataclass(frozen=True, slots=True)
class WindowLevels:
    """Levels of one window in ticks.

    `poc`, `val` and `vah` follow the basis of the method, the other levels volume. `poc_candidates`: all rows tied for
    the POC, ascending. `high` and `low` are traded prices, never edges of rows.
    """

    poc: int
    val: int
    vah: int
    vpoc: int
    volume_val: int
    volume_vah: int
    poc_candidates: tuple[int, ...]
    high: int
    low: int
    open: int
    close: int


@dataclass(frozen=True, slots=True)
class RowPrices:
    """The prices of rows in ticks: `first` is the index of the lowest row, counted from price 0.

    A value area ends at the outer ticks of its rows. A POC is the middle tick of its row, the lower one of two. With
    `ceiling`, a row is the single price at its top, to which closes are rounded up (`Method.placement`).
    """

    first: int
    row_ticks: int
    ceiling: bool = False

    def low(self, index: int) -> int:
        """Return the lowest tick of a row."""
        return (self.first + index) * self.row_ticks

    def high(self, index: int) -> int:
        """Return the highest tick of a row."""
        return self.low(index) + (0 if self.ceiling else self.row_ticks - 1)

    def middle(self, index: int) -> int:
        """Return the middle tick of a row."""
        return self.low(index) + (0 if self.ceiling else (self.row_ticks - 1) // 2)


def in_rows(ladder: Ladder, row_ticks: int) -> Ladder:
    """Return a ladder whose unit of price is a row of `row_ticks` ticks, counted from price 0."""
    if row_ticks == 1:
        return ladder
    first = ladder.low_ticks // row_ticks
    volume = [0] * (ladder.high_ticks // row_ticks - first + 1)
    offset = ladder.low_ticks - first * row_ticks
    for index, lots in enumerate(ladder.volume):
        volume[(offset + index) // row_ticks] += lots
    brackets = tuple(
        Bracket(
            b.index, b.open_ticks // row_ticks, b.high_ticks // row_ticks, b.low_ticks // row_ticks,
            b.close_ticks // row_ticks, b.first_ns, b.last_ns,
        )
        for b in ladder.brackets
    )  # fmt: skip
    flags = [0] * len(volume)
    for low, high in ladder.touched:
        start, end = low // row_ticks - first, high // row_ticks - first + 1
        flags[start:end] = [1] * (end - start)
    return Ladder(brackets, first, tuple(volume), runs(flags, first), ladder.source)


def ladder_levels(ladder: Ladder, settings: ProfileSettings) -> WindowLevels:
    """Return the levels of a ladder in ticks under settings that count every price of a bracket.

    The ladder must have brackets of the settings' length. Raises `ValueError` for a method that counts closes only:
    a ladder does not contain them.
    """
    if settings.method.placement == "close_up":
        raise ValueError(f"method {settings.method.name} counts closes, which a ladder does not contain")
    rows = in_rows(ladder, settings.row_ticks)
    prices = RowPrices(rows.low_ticks, settings.row_ticks)
    ends = ladder.low_ticks, ladder.high_ticks, ladder.open_ticks, ladder.close_ticks
    return row_levels(rows.tpo_counts(), rows.volume, prices, settings.rule, ends)


def row_levels(
    tpos: Sequence[int], volume: Sequence[int], prices: RowPrices, method: Method, ends: tuple[int, int, int, int]
) -> WindowLevels:  # fmt: skip
    """Return the levels of counted rows in ticks.

    tpos, volume: equally long, lowest row first. Rows without any volume count by their TPOs, because some feeds have
    no sizes. ends: low, high, first and last price of the window, in ticks.
    """
    sizes = volume if any(volume) else tpos
    by_volume = levels_of(sizes, method)
    poc, val, vah, tied = by_volume if method.basis == "volume" else levels_of(tpos, method)
    low, high, opened, close = ends
    return WindowLevels(
        poc=prices.middle(poc), val=prices.low(val), vah=prices.high(vah), vpoc=prices.middle(by_volume[0]),
        volume_val=prices.low(by_volume[1]), volume_vah=prices.high(by_volume[2]),
        poc_candidates=tuple(prices.middle(row) for row in tied), high=high, low=low, open=opened, close=close,
    )  # fmt: skip
