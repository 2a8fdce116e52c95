"""`va-accept-above` and `va-accept-below`: price is accepted outside the prior value area (rules §6).

Acceptance means that two consecutive completed brackets close at least one tick beyond the edge. A bracket without
trades interrupts the count. After an acceptance, the next one counts only after a bracket has closed back inside. At
most two alerts per session and side are reported. Later acceptances still disarm the reject alert of their edge.
"""

from collections.abc import Mapping
from enum import StrEnum
from itertools import product

from outcry.market.alerts.edge import VA_PARAMS, ValueEdge
from outcry.market.alerts.machine import AlertType, Value, move

MOST = 2
PARAMS = VA_PARAMS


class Phase(StrEnum):
    """Progress towards acceptance beyond an edge: no close beyond it, one such close, or accepted."""

    WAITING = "waiting"
    ONCE = "once"
    ACCEPTED = "accepted"


class Sign(StrEnum):
    """Event of the state machine: where a bracket closed relative to the edge."""

    BEYOND = "closed beyond"
    BEYOND_AGAIN = "the next one closed beyond (fires)"
    BEYOND_UNREPORTED = "the next one closed beyond, third time or later"
    BACK = "closed inside"
    EMPTY = "nothing traded"


TRANSITIONS: Mapping[tuple[Phase, Sign], Phase] = {
    (Phase.WAITING, Sign.BEYOND): Phase.ONCE,
    (Phase.WAITING, Sign.BACK): Phase.WAITING,
    (Phase.WAITING, Sign.EMPTY): Phase.WAITING,
    (Phase.ONCE, Sign.BEYOND): Phase.ONCE,  # not consecutive: brackets between them were not reported
    (Phase.ONCE, Sign.BEYOND_AGAIN): Phase.ACCEPTED,
    (Phase.ONCE, Sign.BEYOND_UNREPORTED): Phase.ACCEPTED,
    (Phase.ONCE, Sign.BACK): Phase.WAITING,
    (Phase.ONCE, Sign.EMPTY): Phase.WAITING,
    (Phase.ACCEPTED, Sign.BEYOND): Phase.ACCEPTED,
    (Phase.ACCEPTED, Sign.BACK): Phase.WAITING,
    (Phase.ACCEPTED, Sign.EMPTY): Phase.ACCEPTED,
}
#: A second close needs a first one.
NEVER = frozenset(product((Phase.WAITING, Phase.ACCEPTED), (Sign.BEYOND_AGAIN, Sign.BEYOND_UNREPORTED)))


class EdgeAccept:
    """State machine of the acceptance alert beyond one edge of prior value."""

    __slots__ = ("_count", "_edge", "_index", "_phase", "ref", "type")

    def __init__(self, edge: ValueEdge) -> None:
        self.type = AlertType.VA_ACCEPT_ABOVE if edge.sign > 0 else AlertType.VA_ACCEPT_BELOW
        self.ref = edge.ref
        self._edge = edge
        self._phase = Phase.WAITING
        self._count = 0
        self._index = -1  # index of the newest bracket that closed beyond

    def bracket_closed(self, index: int, close_ticks: int | None) -> bool:
        """Evaluate the close of a bracket (None: nothing traded); return whether it completes an acceptance."""
        if close_ticks is None:
            self._move(Sign.EMPTY)
            return False
        if not self.is_beyond(close_ticks):
            self._move(Sign.BACK)
            return False
        again = self._phase is Phase.ONCE and index == self._index + 1
        self._index = index
        if not again:
            self._move(Sign.BEYOND)
            return False
        self._count += 1
        self._move(Sign.BEYOND_AGAIN if self._count <= MOST else Sign.BEYOND_UNREPORTED)
        return True

    def params(self) -> Mapping[str, Value] | None:
        """Return the parameters of an alert for the newest acceptance.

        Returns None if the session has reached its limit of alerts on this side.
        """
        return self._edge.params(brackets=[self._index - 1, self._index]) if self._count <= MOST else None

    def is_beyond(self, close_ticks: int) -> bool:
        """Return whether a close is at least one tick beyond the edge."""
        return self._edge.beyond(close_ticks) >= 1

    def _move(self, sign: Sign) -> None:
        self._phase = move(TRANSITIONS, self._phase, sign)

    def dump(self) -> list[int | str]:
        """Return the machine's state as the arguments of `restore`."""
        return [self._phase.value, self._count, self._index]

    def restore(self, phase: str, count: int, index: int) -> None:
        """Restore the state that `dump` returned."""
        self._phase, self._count, self._index = Phase(phase), count, index
