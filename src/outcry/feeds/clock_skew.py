"""Limit on how far a vendor's clock may be ahead of ours.

Heartbeats and the end of history advance market time. Without a limit, one wrong vendor timestamp in the future would
make all later trades look late.
"""

from outcry.base.clock import Clock
from outcry.market.units import NANOS_PER_HOUR

#: A larger difference is an error in the timestamp.
MAX_CLOCK_SKEW_NS = NANOS_PER_HOUR


def limit_clock_skew(at_ns: int, clock: Clock) -> int:
    """Return a vendor's timestamp (ns UTC), limited to `MAX_CLOCK_SKEW_NS` after our clock's time."""
    return min(at_ns, clock.now_ns() + MAX_CLOCK_SKEW_NS)
