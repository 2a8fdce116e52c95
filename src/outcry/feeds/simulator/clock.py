"""The clock of a demonstration: always in market hours, at the speed of the real clock.

Rules kept: what it says is a function of when the real clock began and what it says now; it never goes back. It begins
in the middle of a morning of trading, and leaves out every stretch in which the markets are shut. A product that
trades through weekends (crypto) keeps no such stretch open: nobody would watch it alone.
"""

import threading
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from outcry.base.clock import Clock
from outcry.feeds.replay_pacing import Timeline
from outcry.market.calendar import Calendar, SessionKind
from outcry.market.units import NANOS_PER_SECOND
from outcry.market.windows import LONGEST_CLOSURE_DAYS, Segment, clipped

NEW_YORK = ZoneInfo("America/New_York")
#: Every initial balance is over or about to be: much has happened, and more is about to.
BEGINS = time(10, 20)
_FARTHEST = 30  # days back to an ordinary trade date
_AHEAD = 35  # days worked out at a time


class DemoClock:
    """Market time for a demonstration. Implements `Clock`; safe to call from several threads.

    roots: the products shown; all have full regular hours on the trade date it begins. began_ns: when the real clock
    began (ns UTC), of an earlier run to go on with; None: now.
    """

    def __init__(
        self, real: Clock, calendar: Calendar, roots: Iterable[str], *, began_ns: int | None = None
    ) -> None:
        self._real, self._calendar, self._roots = real, calendar, tuple(roots)
        self.began_ns = real.now_ns() if began_ns is None else began_ns
        #: The trade date it begins in, and the instant (ns UTC).
        self.trade_date = self._newest_ordinary(_instant(self.began_ns).astimezone(NEW_YORK).date())
        self.start_ns = (
            int(datetime.combine(self.trade_date, BEGINS, NEW_YORK).timestamp()) * NANOS_PER_SECOND
        )
        self._watched = self._shut_on_saturdays() or self._roots
        self._timeline, self._length, self._worked_out = Timeline(((self.start_ns, self.start_ns + 1),)), 0, 0
        self._played = 0
        self._lock = threading.Lock()

    def now_ns(self) -> int:
        """See `Clock`."""
        with self._lock:
            self._played = max(self._played, self._real.now_ns() - self.began_ns)
            while self._played >= self._length:
                self._work_out()
            return self._timeline.at(self._played)

    def _newest_ordinary(self, day: date) -> date:
        for back in range(_FARTHEST):
            found = day - timedelta(days=back)
            regular = [self._calendar.session(root, found, SessionKind.RTH) for root in self._roots]
            if all(session is not None and not session.short for session in regular):
                return found
        raise ValueError(
            f"no trade date on which all of {', '.join(self._roots)} trade within {_FARTHEST} days"
        )

    def _shut_on_saturdays(self) -> tuple[str, ...]:
        """The products that are shut on Saturdays; one Saturday may be a holiday, two in a row are not."""
        days = timedelta(days=(5 - self.trade_date.weekday()) % 7)
        noon = datetime.combine(self.trade_date + days, time(12), UTC)
        saturdays = [int(noon.timestamp() + week * 7 * 86_400) * NANOS_PER_SECOND for week in range(2)]
        return tuple(
            root
            for root in self._roots
            if not any(self._calendar.session_at(root, saturday) for saturday in saturdays)
        )

    def _work_out(self) -> None:
        """Lay out another stretch of weeks."""
        self._worked_out += _AHEAD
        last = self.trade_date + timedelta(days=self._worked_out)
        stretches: list[Segment] = []
        for root in self._watched:
            # the night before a later trade date may begin in these weeks
            after = last + timedelta(days=LONGEST_CLOSURE_DAYS)
            for session in self._calendar.sessions(root, self.trade_date, after):
                stretches += session.segments
        until_ns = int(datetime.combine(last, BEGINS, NEW_YORK).timestamp()) * NANOS_PER_SECOND
        open_now = clipped(stretches, self.start_ns, until_ns)
        self._timeline = Timeline(open_now)
        self._length = sum(end - start for start, end in open_now)


def _instant(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC)
