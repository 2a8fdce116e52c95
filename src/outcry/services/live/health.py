"""Whether a feed can be believed now: its link, its subscription, its market and its clock, each judged by itself.

Rules kept (feeds §2): the link is judged by any message, by our own clock; the market by the feed's, against how often
it usually trades at this hour; drift is the least delay seen, for every larger one may be the network's.
"""

from collections import deque
from dataclasses import dataclass, field

from outcry.core.units import NANOS_PER_MINUTE, NANOS_PER_MS, NANOS_PER_SECOND

#: Without any message for this long the link is taken for dead: feeds beat every few seconds.
LINK_TIMEOUT_S = 15.0
#: A market is quiet too long when it has not traded for this many of its usual intervals, within bounds.
QUIET_INTERVALS = 60
SHORTEST_QUIET_NS = 30 * NANOS_PER_SECOND
LONGEST_QUIET_NS = 30 * NANOS_PER_MINUTE
_INTERVALS_KEPT = 256
#: Beyond this drift the feed's clock, or ours, is wrong, and somebody should know.
MAX_DRIFT_NS = 500 * NANOS_PER_MS
_DELAYS_KEPT = 512


@dataclass(slots=True)
class Health:
    """One stream's. Times of the loop in seconds, of the market in ns UTC."""

    connected: bool = False
    subscribed: bool = True
    caught_up: bool = False
    ended: bool = False
    refused: str = ""
    heard_s: float = 0.0
    reconnects: int = 0
    _trades_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_INTERVALS_KEPT))
    _delays_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_DELAYS_KEPT))

    def heard(self, now_s: float) -> None:
        """Any message came."""
        self.heard_s = now_s

    def traded(self, at_ns: int, delay_ns: int | None) -> None:
        """Trades came: the newest's event time, and its delay if the feed tells event from receipt."""
        if not self._trades_ns or at_ns > self._trades_ns[-1]:
            self._trades_ns.append(at_ns)
        if delay_ns is not None:
            self._delays_ns.append(delay_ns)

    def link_stale(self, now_s: float) -> bool:
        """Whether the link has been silent for too long."""
        return now_s - self.heard_s > LINK_TIMEOUT_S

    def market_stale(self, market_ns: int) -> bool:
        """Whether the market has been silent for too long, as it has traded lately."""
        if len(self._trades_ns) < 2:
            return False
        return market_ns - self._trades_ns[-1] > self.quiet_limit_ns

    @property
    def quiet_limit_ns(self) -> int:
        """How long the market may be silent."""
        first, last = self._trades_ns[0], self._trades_ns[-1]
        usual = (last - first) // max(1, len(self._trades_ns) - 1)
        return min(max(usual * QUIET_INTERVALS, SHORTEST_QUIET_NS), LONGEST_QUIET_NS)

    @property
    def drift_ns(self) -> int | None:
        """The least delay from event to receipt seen lately; None where nothing tells. Below 0: clocks disagree."""
        return min(self._delays_ns, default=None)

    def session_changed(self) -> None:
        """How often it traded an hour ago says nothing of the session that begins."""
        self._trades_ns.clear()
