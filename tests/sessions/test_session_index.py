"""Session index for splitting rows: computed only around rows, and identical to the calendar."""

from datetime import UTC, date, datetime
from typing import cast

import numpy as np

from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_SECOND
from outcry.trades.reference_tables import load_reference
from outcry.trades.session_index import SessionIndex

CALENDAR = load_reference().calendar


def at(year: int, month: int, day: int, hour: int, minute: int = 0) -> int:
    return int(datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()) * NANOS_PER_SECOND


class Watched:
    """A calendar that records the number of days of each query for sessions."""

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar
        self.asked: list[int] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._calendar, name)

    def sessions(self, root: str, first: date, last: date) -> tuple[Session, ...]:
        self.asked.append((last - first).days)
        return self._calendar.sessions(root, first, last)


def test_rows_far_apart_compute_no_more_sessions_than_needed() -> None:
    """Rows follow each other at 25 days for three years.

    The index computes at most two months of sessions at a time, and none of them twice."""
    watched = Watched(CALENDAR)
    index = SessionIndex(cast("Calendar", watched), "ES")
    start_ns, apart_ns = at(2013, 1, 2, 15), 25 * NANOS_PER_DAY
    for number in range(44):
        index.split(start_ns + np.array([number, number + 1]) * apart_ns)
    assert watched.asked
    assert max(watched.asked) < 80
    assert sum(watched.asked) < 80 * 40  # 45 × 25 days are 38 months of thirty days, or one more
    before = len(watched.asked)
    index.split(np.array([start_ns + 44 * apart_ns]))
    assert len(watched.asked) == before


def test_no_sessions_are_computed_between_rows_ten_years_apart() -> None:
    watched = Watched(CALENDAR)
    pieces, outside = SessionIndex(cast("Calendar", watched), "ES").split(
        np.array([at(2013, 10, 8, 15), at(2023, 10, 9, 15)])
    )
    assert [(cell.trade_date, first, last) for cell, first, last in pieces] == [
        (date(2013, 10, 8), 0, 1),
        (date(2023, 10, 9), 1, 2),
    ]
    assert outside == 0
    assert len(watched.asked) == 2


def test_a_session_across_two_blocks_of_the_index_is_not_split() -> None:
    """Day 20,460 since 1970 is Wednesday 7 January 2026, and the first day of the 683rd block of thirty days.

    Its overnight session began at 23:00 UTC the day before; the row at 22:30 UTC is in the maintenance break."""
    times = np.array(
        [at(2026, 1, 6, 22, 30), at(2026, 1, 6, 23, 30), at(2026, 1, 7, 0), at(2026, 1, 7, 0, 30)]
    )
    pieces, outside = SessionIndex(CALENDAR, "ES").split(times)
    ((cell, first, last),) = pieces
    assert (cell.trade_date, cell.session.kind, first, last) == (date(2026, 1, 7), SessionKind.ETH, 1, 4)
    assert cell.start_ns == at(2026, 1, 6, 23)
    assert outside == 1
