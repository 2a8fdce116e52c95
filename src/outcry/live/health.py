"""Health of a feed, determined separately for its connection, subscription, market and clock.

The connection is a state machine with a transition table. The connection is stale if no messages arrive, measured by
our clock. The market is stale if no trades arrive for longer than it usually pauses, measured by the feed's clock.
Clock drift is the smallest delay observed from event to receipt, because a longer delay can be due to the network
(docs/contribute/feeds.md).
"""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from outcry.market.alerts.machine import move
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_MS, NANOS_PER_SECOND

#: Without a message for this long the link is stale, because feeds send heartbeats every few seconds.
LINK_TIMEOUT_S = 15.0
#: A market is stale when it has not traded for this many of its usual intervals, within bounds.
QUIET_INTERVALS = 60
SHORTEST_QUIET_NS = 30 * NANOS_PER_SECOND
LONGEST_QUIET_NS = 30 * NANOS_PER_MINUTE
_INTERVALS_KEPT = 256
#: Beyond this drift the feed's clock or ours is wrong, and the operator is informed.
MAX_DRIFT_NS = 500 * NANOS_PER_MS
_DELAYS_KEPT = 512


class Phase(StrEnum):
    """The state of the connection to a feed. The value is the code that users see."""

    CONNECTING = "connecting"
    CATCHING_UP = "catching_up"
    CURRENT = "current"
    LOST = "disconnected"
    REFUSED = "refused"
    ENDED = "ended"


class Sign(StrEnum):
    """An event that moves the connection to another phase."""

    OPENED = "opened"  # the feed is being opened
    HEARD = "heard"  # a message was received
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
    (Phase.LOST, Sign.OPENED): Phase.LOST,  # until a message is received
    (Phase.LOST, Sign.HEARD): Phase.CATCHING_UP,
    (Phase.LOST, Sign.BROKE): Phase.LOST,
    (Phase.LOST, Sign.REFUSED): Phase.REFUSED,
    (Phase.REFUSED, Sign.OPENED): Phase.CONNECTING,
    (Phase.ENDED, Sign.OPENED): Phase.CONNECTING,
}
#: Pairs that never occur: a message precedes each event, and an ended feed sends nothing.
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
    """The health of one stream: its connection, subscription, market and clock.

    Times of the event loop are in seconds, those of the market in ns UTC. refusal: the code with which the feed refused
    the stream. behind: whether the feed is delivering past events.
    """

    phase: Phase = Phase.CONNECTING
    subscribed: bool = True
    behind: bool = False
    refusal: str = ""
    heard_s: float = 0.0
    _trades_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_INTERVALS_KEPT))
    _delays_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_DELAYS_KEPT))

    def take(self, sign: Sign) -> None:
        """Apply an event (`Sign`) to the phase of the connection."""
        self.phase = move(TRANSITIONS, self.phase, sign)
        if sign is Sign.BROKE:  # the next connection reports it again
            self.behind = False

    def heard(self, now_s: float) -> None:
        """Record that a message was received."""
        self.heard_s = now_s
        if self.phase is not Phase.CURRENT:
            self.take(Sign.HEARD)

    def trouble(self, now_s: float) -> str:
        """Return a stable code for why the connection is unreliable; empty if it is reliable."""
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
        """Record that trades arrived: the time of the newest, and its delay if the feed reports event times."""
        if not self._trades_ns or at_ns > self._trades_ns[-1]:
            self._trades_ns.append(at_ns)
        if delay_ns is not None:
            self._delays_ns.append(delay_ns)

    def market_stale(self, market_ns: int, latest_ns: int) -> bool:
        """Return whether the market has paused for longer than usual.

        market_ns: the feed's time now. latest_ns: the time of the newest trade. Both in ns UTC.
        """
        return market_ns - latest_ns > self.quiet_limit_ns

    @property
    def quiet_limit_ns(self) -> int:
        """How long (ns) the market may pause before it is stale; the maximum until its usual pauses are measured."""
        if len(self._trades_ns) < 2:
            return LONGEST_QUIET_NS
        first, last = self._trades_ns[0], self._trades_ns[-1]
        usual = (last - first) // (len(self._trades_ns) - 1)
        return min(max(usual * QUIET_INTERVALS, SHORTEST_QUIET_NS), LONGEST_QUIET_NS)

    @property
    def drift_ns(self) -> int | None:
        """The smallest recent delay (ns) from event to receipt; None if unknown.

        Negative if the feed's clock is ahead of ours.
        """
        return min(self._delays_ns, default=None)

    def session_changed(self) -> None:
        """Forget the measured intervals between trades, because trading frequency differs between sessions."""
        self._trades_ns.clear()
