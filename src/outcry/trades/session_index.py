"""Splits rows by trade date and session: the calendar of one product laid out for `searchsorted`.

Rules kept: every row falls into exactly one cell (a stretch of one session on one trade date) or is outside the hours;
only months that rows are in are laid out, so what lies far apart costs no more than what lies together.
"""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from outcry.market.calendar import Calendar, Session
from outcry.market.units import NANOS_PER_DAY
from outcry.market.windows import EPOCH

_MONTH_DAYS = 30
_MONTH_NS = _MONTH_DAYS * NANOS_PER_DAY
_MOST_MONTHS = 48  # four years of bars are cut again and again without being laid out anew
_REACH = timedelta(days=10)  # trading may begin this long before the trade date it belongs to

RowSlice = tuple["SessionSlice", int, int]


@dataclass(frozen=True, slots=True)
class SessionSlice:
    """A half-open stretch of time (ns UTC) of one session on one trade date of the exchange."""

    start_ns: int
    end_ns: int
    trade_date: date
    session: Session


@dataclass(frozen=True, slots=True)
class _Month:
    """The cells that touch thirty days, in order, and their starts (ns UTC)."""

    cells: list[SessionSlice]
    starts: NDArray[np.int64]


class SessionIndex:
    """The cells of one product, worked out as far as rows have needed them."""

    def __init__(self, calendar: Calendar, root: str) -> None:
        self._calendar, self._root = calendar, root
        self._month = lru_cache(_MOST_MONTHS)(self._lay_out)

    def split(self, at_ns: NDArray[np.int64]) -> tuple[list[RowSlice], int]:
        """Return `(cell, first, last)` for slices of times in ascending order, and how many rows are in no cell."""
        if not len(at_ns):
            return [], 0
        number, last = int(at_ns[0]) // _MONTH_NS, int(at_ns[-1]) // _MONTH_NS
        if number == last:
            pieces = _pieces(self._month(number), at_ns, 0)
            return pieces, len(at_ns) - sum(b - a for _, a, b in pieces)
        pieces: list[RowSlice] = []
        begin = 0
        while begin < len(at_ns):
            number = int(at_ns[begin]) // _MONTH_NS
            end = len(at_ns) if number == last else int(np.searchsorted(at_ns, (number + 1) * _MONTH_NS))
            found = _pieces(self._month(number), at_ns[begin:end], begin)
            if pieces and found and pieces[-1][0] == found[0][0]:  # a cell that lasts into the next month
                cell, first, _ = pieces.pop()
                found[0] = cell, first, found[0][2]
            pieces += found
            begin = end
        return pieces, len(at_ns) - sum(b - a for _, a, b in pieces)

    def _lay_out(self, number: int) -> _Month:
        """The cells of the month of this number, counted from 1970."""
        first_ns, last_ns = number * _MONTH_NS, (number + 1) * _MONTH_NS
        first_day = (EPOCH + timedelta(days=number * _MONTH_DAYS)).date()
        last_day = first_day + timedelta(days=_MONTH_DAYS) + _REACH
        days = self._calendar.trading_days(self._root, first_day - timedelta(days=2), last_day)
        cells: list[SessionSlice] = []
        if days:
            sessions = self._calendar.sessions(self._root, days[0].trade_date, days[-1].trade_date + _REACH)
            stretches = sorted(
                ((a, b, s) for s in sessions for a, b in s.segments), key=lambda stretch: stretch[0]
            )
            ends = [b for _, b, _ in stretches]
            for day in days:
                for opened, closed in day.segments:
                    if closed <= first_ns or opened >= last_ns:
                        continue
                    for a, b, session in islice(stretches, bisect_right(ends, opened), None):
                        if a >= closed:
                            break
                        cells.append(SessionSlice(max(a, opened), min(b, closed), day.trade_date, session))
        cells.sort(key=lambda cell: cell.start_ns)
        return _Month(cells, np.array([cell.start_ns for cell in cells], dtype=np.int64))


def _pieces(month: _Month, at_ns: NDArray[np.int64], offset: int) -> list[RowSlice]:
    """The slices of times that are all of one month; `offset`: the place of the first in what is cut."""
    first = max(0, int(np.searchsorted(month.starts, at_ns[0], side="right")) - 1)
    last = int(np.searchsorted(month.starts, at_ns[-1], side="right"))
    cells = month.cells[first:last]
    begins = np.searchsorted(at_ns, [cell.start_ns for cell in cells]).tolist()
    ends = np.searchsorted(at_ns, [cell.end_ns for cell in cells]).tolist()
    return [(cell, offset + a, offset + b) for cell, a, b in zip(cells, begins, ends, strict=True) if a < b]
