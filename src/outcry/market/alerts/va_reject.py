"""`va-reject-high` and `va-reject-low`: price leaves the prior value area and soon closes back inside (rules §6).

The alert fires in two steps. From inside value, price trades at least one tick beyond the edge. Then, within 30 minutes
and before acceptance, a five-minute bar closes at least one tick inside.

After an alert the edge rearms when price trades at least the distance `arm` inside, 30 minutes later at the earliest.
There are at most two alerts a session. Acceptance beyond the edge disarms the alert until a bracket closes back inside.
If the alert has fired before, the edge must then rearm as well.
"""

from collections.abc import Mapping
from enum import StrEnum
from itertools import product

from outcry.market.alerts.edge import LONG_AGO_NS, NEVER_QUIET, VA_PARAMS, ValueEdge
from outcry.market.alerts.machine import ALWAYS_QUIET, AlertType, Observation, QuietBand, Value, move
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND

WITHIN_NS = 30 * NANOS_PER_MINUTE
REST_NS = 30 * NANOS_PER_MINUTE
MOST = 2
PARAMS = VA_PARAMS


class Phase(StrEnum):
    """Position of price relative to the edge, and whether the alert is armed."""

    UNOPENED = "unopened"
    OUTSIDE = "outside"
    INSIDE = "inside"
    PROBING = "probing"
    LAPSED = "lapsed"
    RESTING = "resting"
    RETURNING = "returning"
    DISARMED = "disarmed"
    SPENT = "spent"


class Sign(StrEnum):
    """Event of the state machine, caused by a trade or bar, a five-minute close or a bracket close."""

    OPENED = "opened in value or on its other side"
    OPENED_BEYOND = "opened beyond the edge"
    ENTERED = "traded in value"
    PROBED = "traded 1 tick or more beyond"
    EXTENDED = "traded further beyond"
    CLOSED_BACK = "5-min close inside within 30 min (fires)"
    CLOSED_BACK_LAST = "5-min close inside, second time (fires)"
    LATE = "5-min close after 30 min"
    BACK = "traded or closed 1 tick or more inside"
    RESTED = "30 min gone"
    DEEP = "traded arm or more inside"
    ACCEPTED = "accepted beyond"
    RETURNED = "a bracket closed back inside"
    RETURNED_AFTER = "a bracket closed back inside, after a reject"


TRANSITIONS: Mapping[tuple[Phase, Sign], Phase] = {
    (Phase.UNOPENED, Sign.OPENED): Phase.INSIDE,
    (Phase.UNOPENED, Sign.OPENED_BEYOND): Phase.OUTSIDE,
    (Phase.OUTSIDE, Sign.ENTERED): Phase.INSIDE,
    (Phase.INSIDE, Sign.PROBED): Phase.PROBING,
    (Phase.PROBING, Sign.EXTENDED): Phase.PROBING,
    (Phase.PROBING, Sign.CLOSED_BACK): Phase.RESTING,
    (Phase.PROBING, Sign.CLOSED_BACK_LAST): Phase.SPENT,
    (Phase.PROBING, Sign.LATE): Phase.LAPSED,
    (Phase.LAPSED, Sign.BACK): Phase.INSIDE,
    (Phase.RESTING, Sign.RESTED): Phase.RETURNING,
    (Phase.RETURNING, Sign.DEEP): Phase.INSIDE,
    (Phase.UNOPENED, Sign.ACCEPTED): Phase.DISARMED,  # brackets may close on trades too old to be evaluated
    (Phase.OUTSIDE, Sign.ACCEPTED): Phase.DISARMED,
    (Phase.INSIDE, Sign.ACCEPTED): Phase.DISARMED,
    (Phase.PROBING, Sign.ACCEPTED): Phase.DISARMED,
    (Phase.LAPSED, Sign.ACCEPTED): Phase.DISARMED,
    (Phase.RESTING, Sign.ACCEPTED): Phase.DISARMED,
    (Phase.RETURNING, Sign.ACCEPTED): Phase.DISARMED,
    (Phase.DISARMED, Sign.RETURNED): Phase.INSIDE,
    (Phase.DISARMED, Sign.RETURNED_AFTER): Phase.RESTING,
    (Phase.SPENT, Sign.ACCEPTED): Phase.SPENT,
}


def _all_but(*phases: Phase) -> tuple[Phase, ...]:
    return tuple(phase for phase in Phase if phase not in phases)


#: Each sign occurs only in the phase that expects it. Price cannot be accepted twice without a return in between, which
#: rearms the edge.
NEVER = frozenset({
    *product(_all_but(Phase.UNOPENED), (Sign.OPENED, Sign.OPENED_BEYOND)),
    *product(_all_but(Phase.OUTSIDE), (Sign.ENTERED,)),
    *product(_all_but(Phase.INSIDE), (Sign.PROBED,)),
    *product(_all_but(Phase.PROBING), (Sign.EXTENDED, Sign.CLOSED_BACK, Sign.CLOSED_BACK_LAST, Sign.LATE)),
    *product(_all_but(Phase.LAPSED), (Sign.BACK,)),
    *product(_all_but(Phase.RESTING), (Sign.RESTED,)),
    *product(_all_but(Phase.RETURNING), (Sign.DEEP,)),
    *product(_all_but(Phase.DISARMED), (Sign.RETURNED, Sign.RETURNED_AFTER)),
    (Phase.DISARMED, Sign.ACCEPTED),
})  # fmt: skip


class EdgeReject:
    """State machine of the reject alert at one edge of prior value."""

    __slots__ = (
        "_count", "_edge", "_extreme", "_fired_ns", "_phase", "_probed_ns", "_probed_slot_ns", "quiet", "ref", "type",
    )  # fmt: skip

    def __init__(self, edge: ValueEdge) -> None:
        self.type = AlertType.VA_REJECT_HIGH if edge.sign > 0 else AlertType.VA_REJECT_LOW
        self.ref = edge.ref
        self._edge = edge
        self._phase = Phase.UNOPENED
        self._count = self._extreme = 0
        self._probed_ns = self._probed_slot_ns = self._fired_ns = LONG_AGO_NS
        self.quiet = self._band()

    def traded(self, seen: Observation) -> None:
        """Evaluate a trade or bar. A trade or bar never fires this alert; `bar_closed` does.

        For a bar, its range decides whether price went beyond the edge, and its close whether price returned inside.
        """
        edge = self._edge
        if self._phase is Phase.UNOPENED:
            self._move(Sign.OPENED_BEYOND if edge.opened_beyond(seen) else Sign.OPENED)
        furthest, close = edge.furthest(seen), edge.beyond(seen.close)
        if self._phase is Phase.INSIDE and furthest >= 1:
            self._move(Sign.PROBED)
            self._probed_ns, self._probed_slot_ns, self._extreme = seen.at_ns, seen.slot_ns, furthest
        elif self._phase is Phase.PROBING and furthest > self._extreme:
            self._move(Sign.EXTENDED)
            self._extreme = furthest
        elif self._phase is Phase.OUTSIDE and edge.in_value(seen.close):
            self._move(Sign.ENTERED)
        elif self._phase is Phase.LAPSED and close <= -1:
            self._move(Sign.BACK)
        if self._phase is Phase.RESTING and seen.at_ns >= self._fired_ns + REST_NS:
            self._move(Sign.RESTED)
        if self._phase is Phase.RETURNING and close <= -edge.arm:
            self._move(Sign.DEEP)
        self.quiet = self._band()

    def bar_closed(self, at_ns: int, close_ticks: int) -> Mapping[str, Value] | None:
        """Evaluate the close of a five-minute bar; return the alert's parameters if it fires.

        at_ns: end of the bar (ns UTC).
        """
        # a bar becomes final after its end; a probe since then belongs to the next bar
        if self._phase is not Phase.PROBING or self._probed_slot_ns >= at_ns:
            return None
        params = None
        inside = self._edge.beyond(close_ticks) <= -1
        if at_ns - self._probed_ns > WITHIN_NS:
            self._move(Sign.LATE)
            if inside:
                self._move(Sign.BACK)
        elif inside:
            self._count += 1
            self._fired_ns = at_ns
            self._move(Sign.CLOSED_BACK_LAST if self._count == MOST else Sign.CLOSED_BACK)
            outside = (at_ns - self._probed_ns) // NANOS_PER_SECOND
            params = self._edge.params(approach="inside", extreme=self._extreme, seconds=outside)
        self.quiet = self._band()
        return params

    def accepted(self) -> None:
        """Disarm the reject alert, because price was accepted beyond the edge."""
        self._move(Sign.ACCEPTED)
        self.quiet = self._band()

    def returned(self) -> None:
        """Arm the reject alert again, because a bracket closed inside the edge or at it."""
        if self._phase is Phase.DISARMED:
            self._move(Sign.RETURNED_AFTER if self._count else Sign.RETURNED)
            self.quiet = self._band()

    def _move(self, sign: Sign) -> None:
        self._phase = move(TRANSITIONS, self._phase, sign)

    def _band(self) -> QuietBand:
        edge = self._edge
        match self._phase:
            case Phase.UNOPENED:
                return NEVER_QUIET
            case Phase.OUTSIDE:
                return edge.quiet(inner=0)
            case Phase.INSIDE:
                return edge.quiet(outer=1)
            case Phase.PROBING:
                return edge.quiet(outer=self._extreme + 1)
            case Phase.LAPSED:
                return edge.quiet(inner=-1)
            case Phase.RESTING:
                return edge.quiet(until_ns=self._fired_ns + REST_NS)
            case Phase.RETURNING:
                return edge.quiet(inner=-edge.arm)
            case Phase.DISARMED | Phase.SPENT:
                return ALWAYS_QUIET

    def dump(self) -> list[int | str]:
        """Return the machine's state as the arguments of `restore`."""
        return [
            self._phase.value, self._count, self._extreme, self._probed_ns, self._probed_slot_ns, self._fired_ns,
        ]  # fmt: skip

    def restore(
        self, phase: str, count: int, extreme: int, probed_ns: int, probed_slot_ns: int, fired_ns: int
    ) -> None:
        """Restore the state that `dump` returned."""
        self._phase, self._count, self._extreme = Phase(phase), count, extreme
        self._probed_ns, self._probed_slot_ns, self._fired_ns = probed_ns, probed_slot_ns, fired_ns
        self.quiet = self._band()
