"""Times for heartbeats, because Tradovate's own heartbeats have none.

A heartbeat promises that all earlier trades have arrived. Its time is our clock minus the lag of the vendor's clock,
minus one second because ticks may arrive in another order within a second.
"""

import asyncio
from collections import deque

from outcry.base.clock import Clock
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import Heartbeat

#: Ticks may arrive out of order by less than this, according to the vendor.
REORDERING_NS = NANOS_PER_SECOND
#: Longest interval between heartbeats while frames arrive. After a vendor heartbeat, one second is enough.
MAX_INTERVAL_S = 2.0
_DELAYS_RETAINED = 256


class HeartbeatClock:
    """Computes the times of heartbeats in one session. Intervals are divided by `speedup`."""

    def __init__(self, clock: Clock, speedup: float) -> None:
        self._clock, self._speedup = clock, speedup
        self._delays_ns: deque[int] = deque(maxlen=_DELAYS_RETAINED)
        self._sent_ns = 0
        self._sent_s = 0.0

    def observe(self, at_ns: int) -> None:
        """Record that a message with this vendor timestamp was just received."""
        self._delays_ns.append(self._clock.now_ns() - at_ns)

    @property
    def at_ns(self) -> int:
        """Return the time (ns UTC) before which no more trades will arrive."""
        behind_ns = max(0, min(self._delays_ns, default=0))
        return self._clock.now_ns() - behind_ns - REORDERING_NS

    def due_heartbeat(self, *, idle: bool) -> Heartbeat | None:
        """Return a heartbeat if one is due; heartbeat times never go back.

        idle: whether the vendor's last message was only a heartbeat.
        """
        now_s = asyncio.get_running_loop().time()
        is_late = now_s - self._sent_s >= MAX_INTERVAL_S / self._speedup
        if not (idle or is_late):
            return None
        at_ns = max(self.at_ns, self._sent_ns)
        if not is_late and at_ns - self._sent_ns < NANOS_PER_SECOND:
            return None
        self._sent_ns, self._sent_s = at_ns, now_s
        return Heartbeat(at_ns)
