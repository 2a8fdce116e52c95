"""Clock of the demo: always in market hours, at the speed of the real clock.

It depends only on when it was started and on the real clock, and it never goes back. It starts in the middle of a
trading morning and skips all times when the markets are closed. Markets that trade on Saturdays (crypto) are left out
here; otherwise the demo would spend weekends with only these markets open.
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
#: New York time of the start. By then the initial balances are complete or nearly so.
START_TIME = time(10, 20)
_MAX_DAYS_BACK = 30
_DAYS_PER_EXTENSION = 35


class DemoClock:
    """Market time of the demo. Implements `Clock`; thread-safe.

    On the trade date at which the clock starts, all products of `roots` have full regular hours. `began_ns`: the real
    time (ns UTC) at which an earlier run started, to continue that run; None starts now.
    """

    def __init__(
        self, real: Clock, calendar: Calendar, roots: Iterable[str], *, began_ns: int | None = None
    ) -> None:
        self._real, self._calendar, self._roots = real, calendar, tuple(roots)
        self.began_ns = real.now_ns() if began_ns is None else began_ns
        #: The trade date and the market time (ns UTC) at which it starts.
        self.trade_date = self._newest_ordinary(_utc(self.began_ns).astimezone(NEW_YORK).date())
        self.start_ns = (
            int(datetime.combine(self.trade_date, START_TIME, NEW_YORK).timestamp()) * NANOS_PER_SECOND
        )
        self._clock_roots = self._shut_on_saturdays() or self._roots
        self._timeline, self._length, self._days_laid_out = (
            Timeline(((self.start_ns, self.start_ns + 1),)),
            0,
            0,
        )
        self._played = 0
        self._lock = threading.Lock()

    def now_ns(self) -> int:
        """Return the market time (ns UTC); it never goes back."""
        with self._lock:
            self._played = max(self._played, self._real.now_ns() - self.began_ns)
            while self._played >= self._length:
                self._extend()
            return self._timeline.at(self._played)

    def _newest_ordinary(self, day: date) -> date:
        for back in range(_MAX_DAYS_BACK):
            found = day - timedelta(days=back)
            regular = [self._calendar.session(root, found, SessionKind.RTH) for root in self._roots]
            if all(session is not None and not session.short for session in regular):
                return found
        raise ValueError(
            f"no trade date on which all of {', '.join(self._roots)} trade within {_MAX_DAYS_BACK} days"
        )

    def _shut_on_saturdays(self) -> tuple[str, ...]:
        """Return the products that are closed on Saturdays.

        Two Saturdays in a row are checked, because one may be a holiday.
        """
        days = timedelta(days=(5 - self.trade_date.weekday()) % 7)
        noon = datetime.combine(self.trade_date + days, time(12), UTC)
        saturdays = [int(noon.timestamp() + week * 7 * 86_400) * NANOS_PER_SECOND for week in range(2)]
        return tuple(
            root
            for root in self._roots
            if not any(self._calendar.session_at(root, saturday) for saturday in saturdays)
        )

    def _extend(self) -> None:
        """Add the trading hours of the next weeks to the timeline."""
        self._days_laid_out += _DAYS_PER_EXTENSION
        last = self.trade_date + timedelta(days=self._days_laid_out)
        stretches: list[Segment] = []
        for root in self._clock_roots:
            # the overnight session of a later trade date may begin in these weeks
            after = last + timedelta(days=LONGEST_CLOSURE_DAYS)
            for session in self._calendar.sessions(root, self.trade_date, after):
                stretches += session.segments
        until_ns = int(datetime.combine(last, START_TIME, NEW_YORK).timestamp()) * NANOS_PER_SECOND
        open_now = clipped(stretches, self.start_ns, until_ns)
        self._timeline = Timeline(open_now)
        self._length = sum(end - start for start, end in open_now)


def _utc(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC)
