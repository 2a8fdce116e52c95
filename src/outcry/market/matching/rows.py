"""Counts of rows, and those that a stored profile still has after its trades are gone."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, Self

from outcry.market.ladder import BRACKET_MINUTES, Ladder
from outcry.market.matching.setting import EXACT, ROW_COUNTS, Sampling
from outcry.market.profile_settings import in_rows


class RowGrid(NamedTuple):
    """Rows of `row_ticks` ticks, counted from the price `anchor_ticks`.

    row_count: the number of rows into which a platform divides the range of the profile, so that the height follows
    from it; 0 for rows of a fixed height.
    """

    row_ticks: int
    anchor_ticks: int = 0
    row_count: int = 0


def divided(low_ticks: int, high_ticks: int) -> Iterator[RowGrid]:
    """Yield the grids that divide a range into a number of rows, from the low upwards.

    The height is rounded up to whole ticks, so the number is the most rows that there are. Heights of one tick are
    left out, and so are numbers with the height of an earlier one.
    """
    heights = {1}
    for count in ROW_COUNTS:
        height = -(-(high_ticks - low_ticks + 1) // count)
        if height not in heights:
            heights.add(height)
            yield RowGrid(height, low_ticks, count)


class RowCounts(NamedTuple):
    """The counts of rows, lowest first. `first`: index of the lowest row, counted from the anchor of its grid.

    tied: indices of the rows with the largest count, ascending.
    """

    first: int
    counts: Sequence[int]
    tied: Sequence[int]

    @classmethod
    def of(cls, first: int, counts: Sequence[int]) -> Self:
        """Return counts together with their largest rows."""
        most = max(counts)
        return cls(first, counts, [index for index, count in enumerate(counts) if count == most])


class WindowCounts(Protocol):
    """Whatever can count the rows of one window: a recording, or a stored profile."""

    @property
    def finest(self) -> int:
        """Return the length in minutes of the finest bars that volume can be counted from."""
        ...

    def samplings(self) -> Iterable[Sampling]:
        """Return the samplings that can be counted, most usual first."""
        ...

    @property
    def low(self) -> int:
        """Return the lowest price of the window in ticks."""
        ...

    @property
    def high(self) -> int:
        """Return the highest price of the window in ticks."""
        ...

    def count(self, sampling: Sampling, row_ticks: int, anchor_ticks: int = 0) -> RowCounts:
        """Return the counts of one sampling in rows of `row_ticks` ticks, counted from a price.

        Rows of closes are always counted from price 0.
        """
        ...


class LadderCounts:
    """The counts of stored ladders, which have the brackets of half an hour and the volume at each price.

    ladders: of the sessions of one window, each with brackets of its own.
    """

    def __init__(self, ladders: Sequence[Ladder]) -> None:
        self._ladders = ladders
        self._has_sizes = any(any(ladder.volume) for ladder in ladders)
        self.low = min(ladder.low_ticks for ladder in ladders)
        self.high = max(ladder.high_ticks for ladder in ladders)
        self.finest = EXACT if all(ladder.source == "trades" for ladder in ladders) else 1

    def samplings(self) -> Iterator[Sampling]:
        """Yield half-hour TPOs and, if there are sizes, volume."""
        yield Sampling("tpo", "range", BRACKET_MINUTES)
        if self._has_sizes:
            yield Sampling("volume", "range", self.finest)

    def count(self, sampling: Sampling, row_ticks: int, anchor_ticks: int = 0) -> RowCounts:
        """Return the counts of one of the samplings. Without sizes, TPOs count as volume (`profile_of`)."""
        by_row: dict[int, int] = {}
        for ladder in self._ladders:
            merged = in_rows(_moved(ladder, -anchor_ticks), row_ticks)
            counts = merged.volume if sampling.basis == "volume" and self._has_sizes else merged.tpo_counts()
            for row, count in enumerate(counts, merged.low_ticks):
                by_row[row] = by_row.get(row, 0) + count
        first, last = min(by_row), max(by_row)
        return RowCounts.of(first, [by_row.get(row, 0) for row in range(first, last + 1)])


def _moved(ladder: Ladder, ticks: int) -> Ladder:
    """Return a ladder with all prices moved."""
    if not ticks:
        return ladder
    brackets = tuple(
        replace(
            bracket, open_ticks=bracket.open_ticks + ticks, high_ticks=bracket.high_ticks + ticks,
            low_ticks=bracket.low_ticks + ticks, close_ticks=bracket.close_ticks + ticks,
        )
        for bracket in ladder.brackets
    )  # fmt: skip
    touched = tuple((low + ticks, high + ticks) for low, high in ladder.touched)
    return replace(ladder, brackets=brackets, low_ticks=ladder.low_ticks + ticks, touched=touched)
