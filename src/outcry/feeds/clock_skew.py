"""How far a vendor's clock is believed to be ahead of ours.

Rule kept: a time that sets what is taken for the present (that history is complete, a heartbeat) is never further ahead
than this, whatever a vendor stamps: one wrong stamp would else make everything after it look late.
"""

from outcry.base.clock import Clock
from outcry.market.units import NANOS_PER_HOUR

#: Clocks that differ by more are not clocks.
MAX_CLOCK_SKEW_NS = NANOS_PER_HOUR


def limit_clock_skew(at_ns: int, clock: Clock) -> int:
    """A vendor's time as far as it is believed (ns UTC)."""
    return min(at_ns, clock.now_ns() + MAX_CLOCK_SKEW_NS)
