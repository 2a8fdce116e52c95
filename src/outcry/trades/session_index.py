"""Splits rows by trade date and session, with an index of one product's calendar (`searchsorted`).

Every row belongs to exactly one slice (the part of one session on one trade date) or is outside trading hours. Only
periods that contain rows are indexed, so that rows spread over many years cost no more than others.
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
    """The session slices of one period of thirty days, in order, and their starts (ns UTC)."""

    slices: list[SessionSlice]
    starts: NDArray[np.int64]


class SessionIndex:
    """Session slices of one product, computed when first needed and cached."""

    def __init__(self, calendar: Calendar, root: str) -> None:
        self._calendar, self._root = calendar, root
        self._period = lru_cache(_MAX_PERIODS)(self._compute)

    def split(self, at_ns: NDArray[np.int64]) -> tuple[list[RowSlice], int]:
        """Split ascending times by session and trade date.

        Return `(slice, first, last)` for each slice, with indices of `at_ns`, last not included. Also return the number
        of times that are in no slice, that is, outside trading hours.
        """
        pieces: list[RowSlice] = []
        begin, inside = 0, 0
        while begin < len(at_ns):
            number = int(at_ns[begin]) // _PERIOD_NS
            end_ns = (number + 1) * _PERIOD_NS
            times = at_ns[begin:] if at_ns[-1] < end_ns else at_ns[begin : np.searchsorted(at_ns, end_ns)]
            period = self._period(number)
            first = max(0, int(np.searchsorted(period.starts, times[0], side="right")) - 1)
            slices = period.slices[first : int(np.searchsorted(period.starts, times[-1], side="right"))]
            begins = np.searchsorted(times, [part.start_ns for part in slices]).tolist()
            ends = np.searchsorted(times, [part.end_ns for part in slices]).tolist()
            for part, a, b in zip(slices, begins, ends, strict=True):
                if a == b:
                    continue
                start = begin + a
                if pieces and pieces[-1][0] == part:  # a slice that continues from the period before
                    start = pieces.pop()[1]
                pieces.append((part, start, begin + b))
                inside += b - a
            begin += len(times)
        return pieces, len(at_ns) - inside

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
