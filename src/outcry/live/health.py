"""Whether a feed can be believed now: its connection, its subscription, its market and its clock, each by itself.

Rules kept (docs/feeds.md): the connection is a table-driven state machine; the link is judged by any message, by our
own clock; the market by the feed's, against how often it has traded lately; drift is the least delay seen, for every
larger one may be the network's.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from outcry.market.alerts.machine import move
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_MS, NANOS_PER_SECOND

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


class Phase(StrEnum):
    """Where the connection to a feed stands; the value is the code readers are told."""

    CONNECTING = "connecting"
    CATCHING_UP = "catching_up"
    CURRENT = "current"
    LOST = "disconnected"
    REFUSED = "refused"
    ENDED = "ended"


class Sign(StrEnum):
    """What moves it."""

    OPENED = "opened"  # the feed is being asked
    HEARD = "heard"  # it sent anything
    CAUGHT_UP = "caught up"
    BROKE = "broke"
    REFUSED = "refused"
    ENDED = "ended"


TRANSITIONS: dict[tuple[Phase, Sign], Phase] = {
    (Phase.CONNECTING, Sign.OPENED): Phase.CONNECTING,
    (Phase.CONNECTING, Sign.HEARD): Phase.CATCHING_UP,
    (Phase.CONNECTING, Sign.BROKE): Phase.LOST,
    (Phase.CONNECTING, Sign.REFUSED): Phase.REFUSED,
    (Phase.CATCHING_UP, Sign.HEARD): Phase.CATCHING_UP,
    (Phase.CATCHING_UP, Sign.CAUGHT_UP): Phase.CURRENT,
    (Phase.CATCHING_UP, Sign.BROKE): Phase.LOST,
    (Phase.CATCHING_UP, Sign.REFUSED): Phase.REFUSED,
    (Phase.CATCHING_UP, Sign.ENDED): Phase.ENDED,
    (Phase.CURRENT, Sign.HEARD): Phase.CURRENT,
    (Phase.CURRENT, Sign.CAUGHT_UP): Phase.CURRENT,
    (Phase.CURRENT, Sign.BROKE): Phase.LOST,
    (Phase.CURRENT, Sign.REFUSED): Phase.REFUSED,
    (Phase.CURRENT, Sign.ENDED): Phase.ENDED,
    (Phase.LOST, Sign.OPENED): Phase.LOST,  # until something is heard of it
    (Phase.LOST, Sign.HEARD): Phase.CATCHING_UP,
    (Phase.LOST, Sign.BROKE): Phase.LOST,
    (Phase.LOST, Sign.REFUSED): Phase.REFUSED,
    (Phase.REFUSED, Sign.OPENED): Phase.CONNECTING,
    (Phase.ENDED, Sign.OPENED): Phase.CONNECTING,
}
#: What an open stream cannot bring about: every event is heard first, and what is over says nothing more.
NEVER: frozenset[tuple[Phase, Sign]] = frozenset(
    {
        (Phase.CONNECTING, Sign.CAUGHT_UP), (Phase.CONNECTING, Sign.ENDED),
        (Phase.CATCHING_UP, Sign.OPENED), (Phase.CURRENT, Sign.OPENED),
        (Phase.LOST, Sign.CAUGHT_UP), (Phase.LOST, Sign.ENDED),
        *((Phase.REFUSED, sign) for sign in Sign if sign is not Sign.OPENED),
        *((Phase.ENDED, sign) for sign in Sign if sign is not Sign.OPENED),
    }
)  # fmt: skip


@dataclass(slots=True)
class Health:
    """One stream's. Times of the loop in seconds, of the market in ns UTC. `refusal`: the feed's own code; `behind`: it
    sends news of the past."""

    phase: Phase = Phase.CONNECTING
    subscribed: bool = True
    behind: bool = False
    refusal: str = ""
    heard_s: float = 0.0
    _trades_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_INTERVALS_KEPT))
    _delays_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_DELAYS_KEPT))

    def take(self, sign: Sign) -> None:
        """Move the connection on."""
        self.phase = move(TRANSITIONS, self.phase, sign)
        if sign is Sign.BROKE:  # how far behind the next stream is it says itself
            self.behind = False

    def heard(self, now_s: float) -> None:
        """Any message came."""
        self.heard_s = now_s
        if self.phase is not Phase.CURRENT:
            self.take(Sign.HEARD)

    def trouble(self, now_s: float) -> str:
        """Why the feed cannot be believed, as a stable code; empty where it can."""
        if self.phase is Phase.REFUSED:
            return self.refusal
        if self.phase in {Phase.CONNECTING, Phase.LOST, Phase.ENDED}:
            return self.phase.value
        if not self.subscribed:
            return "unsubscribed"
        if self.phase is Phase.CATCHING_UP or self.behind:
            return Phase.CATCHING_UP.value
        return "stale_link" if now_s - self.heard_s > LINK_TIMEOUT_S else ""

    def traded(self, at_ns: int, delay_ns: int | None) -> None:
        """Trades came: the newest's event time, and its delay if the feed tells event from receipt."""
        if not self._trades_ns or at_ns > self._trades_ns[-1]:
            self._trades_ns.append(at_ns)
        if delay_ns is not None:
            self._delays_ns.append(delay_ns)

    def market_stale(self, market_ns: int, latest_ns: int) -> bool:
        """Whether the market has been silent for too long; `latest_ns`: its newest trade."""
        return market_ns - latest_ns > self.quiet_limit_ns

    @property
    def quiet_limit_ns(self) -> int:
        """How long the market may be silent: the longest, as long as nobody knows how often it trades."""
        if len(self._trades_ns) < 2:
            return LONGEST_QUIET_NS
        first, last = self._trades_ns[0], self._trades_ns[-1]
        usual = (last - first) // (len(self._trades_ns) - 1)
        return min(max(usual * QUIET_INTERVALS, SHORTEST_QUIET_NS), LONGEST_QUIET_NS)

    @property
    def drift_ns(self) -> int | None:
        """The least delay from event to receipt seen lately; None where nothing tells. Below 0: clocks disagree."""
        return min(self._delays_ns, default=None)

    def session_changed(self) -> None:
        """How often it traded an hour ago says nothing of the session that begins."""
        self._trades_ns.clear()
