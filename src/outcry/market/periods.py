"""Calendar periods of sessions, and the naked POCs of weeks and months (rules §4).

The POC of a period is that of the TPO counts of its regular sessions added up. It is naked until a later regular
session trades at its price.
"""

from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import accumulate, groupby
from typing import Literal

from outcry.market.ladder import Ladder
from outcry.market.levels import MAX_LISTED, CompletedSession
from outcry.market.profile import point_of_control

Period = Literal["day", "week", "month", "quarter"]
#: Periods whose naked POCs are carried forward.
CARRIED_PERIODS: tuple[Period, ...] = ("week", "month")
_FRIDAY = 4


@dataclass(frozen=True, slots=True)
class PeriodPoc:
    """The POC of a week or month in ticks. first, last: trade dates of its sessions; sessions: their number."""

    period: Period
    price_ticks: int
    first: date
    last: date
    sessions: int


def period_of(day: date, period: Period) -> tuple[date, date]:
    """Return the first and last calendar day of the period that contains a day. Weeks begin on Monday."""
    if period == "day":
        return day, day
    if period == "week":
        monday = day - timedelta(days=day.weekday())
        return monday, monday + timedelta(days=6)
    months = 3 if period == "quarter" else 1
    first = (day.month - 1) // months * months + 1
    last = first + months - 1
    return date(day.year, first, 1), date(day.year, last, monthrange(day.year, last)[1])


def naked_period_pocs(sessions: Sequence[CompletedSession], *, cut: bool) -> tuple[PeriodPoc, ...]:
    """Return the naked POCs of the weeks, then of the months, at the close of the newest session, newest first.

    A period counts if it has ended: the weekday after the newest session is in a later one. Incomplete sessions test a
    POC but are not part of a period. At most ten of each kind are returned. sessions: of one contract, ascending. cut:
    whether earlier sessions of the contract were left out, so that the first period may lack sessions; it is skipped.
    """
    if not sessions:
        return ()
    newest = sessions[-1].trade_date
    following = newest + timedelta(days=3 if newest.weekday() == _FRIDAY else 1)
    found: list[PeriodPoc] = []
    for period in CARRIED_PERIODS:
        pocs = _pocs(sessions, period, period_of(following, period)[0], cut=cut)
        naked = [
            poc
            for poc in pocs
            if not any(s.ladder.prints_at(poc.price_ticks) for s in sessions if s.trade_date > poc.last)
        ]
        found += naked[::-1][:MAX_LISTED]
    return tuple(found)


def _pocs(sessions: Sequence[CompletedSession], period: Period, until: date, *, cut: bool) -> list[PeriodPoc]:
    """Return the POCs of the periods that begin before a date, oldest first."""
    pocs: list[PeriodPoc] = []
    groups = groupby(sessions, key=lambda session: period_of(session.trade_date, period)[0])
    for number, (start, group) in enumerate(groups):
        whole = [session for session in group if session.whole]
        if whole and start < until and not (cut and number == 0):
            price = _poc([session.ladder for session in whole])
            pocs.append(PeriodPoc(period, price, whole[0].trade_date, whole[-1].trade_date, len(whole)))
    return pocs


def _poc(ladders: Sequence[Ladder]) -> int:
    """Return the POC of the TPO counts of ladders added up."""
    low = min(ladder.low_ticks for ladder in ladders)
    steps = [0] * (max(ladder.high_ticks for ladder in ladders) - low + 2)
    for ladder in ladders:
        for bracket in ladder.brackets:
            steps[bracket.low_ticks - low] += 1
            steps[bracket.high_ticks - low + 1] -= 1
    return low + point_of_control(list(accumulate(steps[:-1])))[0]
