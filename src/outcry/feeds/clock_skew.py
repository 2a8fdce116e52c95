"""A vendor's clock, and the limit on how far it may be ahead of ours.

Heartbeats and the end of history advance market time. Without a limit, one wrong vendor timestamp in the future would
make all later trades look late.
"""

from email.utils import parsedate_to_datetime

from outcry.base.clock import Clock
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_SECOND

#: A larger difference is an error in the timestamp.
MAX_CLOCK_SKEW_NS = NANOS_PER_HOUR


def limit_clock_skew(at_ns: int, clock: Clock) -> int:
    """Return a vendor's timestamp (ns UTC), limited to `MAX_CLOCK_SKEW_NS` after our clock's time."""
    return min(at_ns, clock.now_ns() + MAX_CLOCK_SKEW_NS)


class VendorClock:
    """A vendor's clock, read from the `Date` headers of its HTTP responses."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._offset_ns = clock, 0

    def now_ns(self) -> int:
        """Return the current time by the vendor's clock (ns UTC), at most a second behind.

        It is the time of the last `Date` header plus the time that has passed since.
        """
        return self._clock.now_ns() + self._offset_ns

    def note(self, date_header: str | None) -> None:
        """Update the offset of the vendor's clock from a `Date` header; ignore a missing or invalid one."""
        try:
            sent_ns = int(parsedate_to_datetime(date_header or "").timestamp()) * NANOS_PER_SECOND
        except (ValueError, OverflowError):
            return
        self._offset_ns = limit_clock_skew(sent_ns, self._clock) - self._clock.now_ns()
