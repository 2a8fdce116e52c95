"""Splits rows by trade date and session, with one product's calendar indexed for `searchsorted`.

Every row belongs to exactly one slice (the part of one session on one trade date) or is outside trading hours. Only
months that contain rows are indexed, so sparse rows cost no more than dense ones.
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

_PERIOD_DAYS = 30
_PERIOD_NS = _PERIOD_DAYS * NANOS_PER_DAY
_MAX_PERIODS = 48  # four years of bars stay indexed
_REACH = timedelta(days=10)  # a trade date may start to trade this long before

RowSlice = tuple["SessionSlice", int, int]


@dataclass(frozen=True, slots=True)
class SessionSlice:
    """The part of one session on one trade date, as a half-open window (ns UTC)."""

    start_ns: int
    end_ns: int
    trade_date: date
    session: Session


@dataclass(frozen=True, slots=True)
class _Period:
    """The session slices of thirty days, in order, and their starts (ns UTC)."""

    slices: list[SessionSlice]
    starts: NDArray[np.int64]


class SessionIndex:
    """Session slices of one product, computed on demand and cached."""

    def __init__(self, calendar: Calendar, root: str) -> None:
        self._calendar, self._root = calendar, root
        self._period = lru_cache(_MAX_PERIODS)(self._compute)

    def split(self, at_ns: NDArray[np.int64]) -> tuple[list[RowSlice], int]:
        """Split ascending times by session and trade date.

        Return `(slice, first, last)` for each, last not included, and the number of times in no slice.
        """
        if not len(at_ns):
            return [], 0
        number, last = int(at_ns[0]) // _PERIOD_NS, int(at_ns[-1]) // _PERIOD_NS
        if number == last:
            pieces = _pieces(self._period(number), at_ns, 0)
            return pieces, len(at_ns) - sum(b - a for _, a, b in pieces)
        pieces: list[RowSlice] = []
        begin = 0
        while begin < len(at_ns):
            number = int(at_ns[begin]) // _PERIOD_NS
            end = len(at_ns) if number == last else int(np.searchsorted(at_ns, (number + 1) * _PERIOD_NS))
            found = _pieces(self._period(number), at_ns[begin:end], begin)
            if pieces and found and pieces[-1][0] == found[0][0]:  # a slice that continues in the next month
                part, first, _ = pieces.pop()
                found[0] = part, first, found[0][2]
            pieces += found
            begin = end
        return pieces, len(at_ns) - sum(b - a for _, a, b in pieces)

    def _compute(self, number: int) -> _Period:
        """Compute the slices of a thirty-day period, numbered from 1970."""
        first_ns, last_ns = number * _PERIOD_NS, (number + 1) * _PERIOD_NS
        first_day = (EPOCH + timedelta(days=number * _PERIOD_DAYS)).date()
        last_day = first_day + timedelta(days=_PERIOD_DAYS) + _REACH
        days = self._calendar.trading_days(self._root, first_day - timedelta(days=2), last_day)
        slices: list[SessionSlice] = []
        if days:
            sessions = self._calendar.sessions(self._root, days[0].trade_date, days[-1].trade_date + _REACH)
            spans = sorted(((a, b, s) for s in sessions for a, b in s.segments), key=lambda span: span[0])
            ends = [b for _, b, _ in spans]
            for day in days:
                for opened, closed in day.segments:
                    if closed <= first_ns or opened >= last_ns:
                        continue
                    for a, b, session in islice(spans, bisect_right(ends, opened), None):
                        if a >= closed:
                            break
                        slices.append(SessionSlice(max(a, opened), min(b, closed), day.trade_date, session))
        slices.sort(key=lambda part: part.start_ns)
        return _Period(slices, np.array([part.start_ns for part in slices], dtype=np.int64))


def _pieces(period: _Period, at_ns: NDArray[np.int64], offset: int) -> list[RowSlice]:
    """Split times that are all in one thirty-day period. offset: index of the first time in the whole array."""
    first = max(0, int(np.searchsorted(period.starts, at_ns[0], side="right")) - 1)
    last = int(np.searchsorted(period.starts, at_ns[-1], side="right"))
    slices = period.slices[first:last]
    begins = np.searchsorted(at_ns, [part.start_ns for part in slices]).tolist()
    ends = np.searchsorted(at_ns, [part.end_ns for part in slices]).tolist()
    return [(part, offset + a, offset + b) for part, a, b in zip(slices, begins, ends, strict=True) if a < b]
