"""Opening hours of products for display: whether a product trades now, until when, and what opens next.

They come from the calendar, not from feeds: a market whose feed is idle is still open.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.ladder import BRACKET_MINUTES, bracket_windows, letter
from outcry.market.units import NANOS_PER_SECOND

#: Longer than any period without regular hours.
_AROUND = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class Hours:
    """Whether a product trades at a given time, and what comes next. Times are ns UTC.

    session: the open session; None in a break or while closed. letter: letter of the current bracket, which ends at
    `bracket_ends_ns`. opens_ns: when trading resumes, if the product is closed now. regular_ns: the next open of
    regular hours; None if the calendar has none.
    """

    session: Session | None
    letter: str
    bracket_ends_ns: int | None
    opens_ns: int | None
    regular_ns: int | None


class OpeningHours:
    """Computes whether products are open, from the calendar. An unknown root (product symbol) raises `KeyError`."""

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar

    def at(self, root: str, now_ns: int) -> Hours:
        """Return the hours of a product at a time (ns UTC)."""
        session = self._calendar.session_at(root, now_ns)
        day = _date(now_ns)
        ahead = self._calendar.sessions(root, day - timedelta(days=1), day + _AROUND)
        opens = [start for each in ahead for start, _ in each.segments if start > now_ns]
        regular = [each.open_ns for each in ahead if each.kind is SessionKind.RTH and each.open_ns > now_ns]
        bracket = bracket_at(session, now_ns) if session else None
        return Hours(
            session=session,
            letter=letter(bracket[0]) if bracket else "",
            bracket_ends_ns=bracket[1] if bracket else None,
            opens_ns=None if session else min(opens, default=None),
            regular_ns=min(regular, default=None),
        )

    def sessions_since(self, root: str, made_on: date, today: date) -> int:
        """Return the age of a level in RTH sessions: 0 if created in the session of `today`, 1 in the one before."""
        found = self._calendar.sessions(root, made_on, today)
        return len({each.trade_date for each in found if each.kind is SessionKind.RTH} - {made_on})


def bracket_at(session: Session, at_ns: int) -> tuple[int, int] | None:
    """Return the index of the bracket (half-hour period) at a time, and the end of the bracket (ns UTC).

    Returns None outside the session's brackets.
    """
    windows = bracket_windows(session.segments, BRACKET_MINUTES)
    return next(((index, end) for index, (start, end) in enumerate(windows) if start <= at_ns < end), None)


def _date(at_ns: int) -> date:
    return datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC).date()
