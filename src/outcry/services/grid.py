"""Splits rows by trade date and session: the calendar of one product laid out for `searchsorted`.

Rule kept: every row falls into exactly one cell (a stretch of one session on one trade date) or is outside the hours.
"""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import date
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from outcry.core.calendar import Calendar, Session
from outcry.core.units import NANOS_PER_DAY

_REACH_NS = 10 * NANOS_PER_DAY  # a session may begin this long before the trade date it belongs to
_APART_NS = 100 * NANOS_PER_DAY  # what lies further apart is not laid out in between


@dataclass(frozen=True, slots=True)
class Cell:
    """A half-open stretch of time (ns UTC) of one session on one trade date of the exchange."""

    start_ns: int
    end_ns: int
    trade_date: date
    session: Session


class Grid:
    """The cells of one product, worked out as far as rows have needed them."""

    def __init__(self, calendar: Calendar, root: str) -> None:
        self._calendar, self._root = calendar, root
        self._from_ns = self._until_ns = 0
        self._cells: list[Cell] = []
        self._starts = np.zeros(0, dtype=np.int64)

    def cut(self, at_ns: NDArray[np.int64]) -> tuple[list[tuple[Cell, int, int]], int]:
        """Return `(cell, first, last)` for slices of times in ascending order, and how many rows are in no cell."""
        if not len(at_ns):
            return [], 0
        self._cover(int(at_ns[0]), int(at_ns[-1]) + 1)
        first = max(0, int(np.searchsorted(self._starts, at_ns[0], side="right")) - 1)
        last = int(np.searchsorted(self._starts, at_ns[-1], side="right"))
        cells = self._cells[first:last]
        begins = np.searchsorted(at_ns, [cell.start_ns for cell in cells]).tolist()
        ends = np.searchsorted(at_ns, [cell.end_ns for cell in cells]).tolist()
        pieces = [(cell, a, b) for cell, a, b in zip(cells, begins, ends, strict=True) if a < b]
        return pieces, len(at_ns) - sum(b - a for _, a, b in pieces)

    def _cover(self, first_ns: int, last_ns: int) -> None:
        if self._cells and self._from_ns <= first_ns and last_ns <= self._until_ns:
            return
        near = first_ns < self._until_ns + _APART_NS and last_ns > self._from_ns - _APART_NS
        low = min(self._from_ns, first_ns) if self._cells and near else first_ns
        high = max(self._until_ns, last_ns) if self._cells and near else last_ns
        self._from_ns, self._until_ns = low - _REACH_NS, high + _REACH_NS
        days = self._calendar.trade_dates(self._root, self._from_ns, self._until_ns)
        cells: list[Cell] = []
        if days:
            sessions = self._calendar.sessions(self._root, days[0].trade_date, _later(days[-1].trade_date))
            stretches = sorted(
                ((a, b, s) for s in sessions for a, b in s.segments), key=lambda stretch: stretch[0]
            )
            ends = [b for _, b, _ in stretches]
            for day in days:
                for opened, closed in day.segments:
                    for a, b, session in islice(stretches, bisect_right(ends, opened), None):
                        if a >= closed:
                            break
                        cells.append(Cell(max(a, opened), min(b, closed), day.trade_date, session))
        self._cells = sorted(cells, key=lambda cell: cell.start_ns)
        self._starts = np.array([cell.start_ns for cell in self._cells], dtype=np.int64)


def _later(day: date) -> date:
    return date.fromordinal(day.toordinal() + 10)
