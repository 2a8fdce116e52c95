"""Counts of rows, and those that a stored profile still has after its trades are gone."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, Self

from outcry.market.ladder import BRACKET_MINUTES, Ladder
from outcry.market.matching.setting import EXACT, Sampling
from outcry.market.profile_settings import in_rows


class RowCounts(NamedTuple):
    """The counts of rows, lowest first. `first`: index of the lowest row, counted from price 0.

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

    def count(self, sampling: Sampling, row_ticks: int) -> RowCounts:
        """Return the counts of one sampling in rows of `row_ticks` ticks, anchored at price 0."""
        ...


class LadderCounts:
    """The counts of stored ladders, which have the brackets of half an hour and the volume at each price.

    ladders: of the sessions of one window, each with brackets of its own.
    """

    def __init__(self, ladders: Sequence[Ladder]) -> None:
        self._ladders = ladders
        self._has_sizes = any(any(ladder.volume) for ladder in ladders)
        self.finest = EXACT if all(ladder.source == "trades" for ladder in ladders) else 1

    def samplings(self) -> Iterator[Sampling]:
        """Yield half-hour TPOs and, if there are sizes, volume."""
        yield Sampling("tpo", "range", BRACKET_MINUTES)
        if self._has_sizes:
            yield Sampling("volume", "range", self.finest)

    def count(self, sampling: Sampling, row_ticks: int) -> RowCounts:
        """Return the counts of one of the samplings. Without sizes, TPOs count as volume (`profile_of`)."""
        by_row: dict[int, int] = {}
        for ladder in self._ladders:
            merged = in_rows(ladder, row_ticks)
            counts = merged.volume if sampling.basis == "volume" and self._has_sizes else merged.tpo_counts()
            for row, count in enumerate(counts, merged.low_ticks):
                by_row[row] = by_row.get(row, 0) + count
        first, last = min(by_row), max(by_row)
        return RowCounts.of(first, [by_row.get(row, 0) for row in range(first, last + 1)])
