"""`va-test-high` and `va-test-low`: price returns to an edge of the prior value area (rules §6).

The first observation (trade or bar) within the tolerance fires the alert if price was at least the distance `arm` away
before, on either side. The edge rearms when 15 minutes have passed and price is that far away again. There are at most
three alerts a session. A session that opens beyond the edge must trade in value first. If price touches the edge within
5 minutes of a reject alert there, the test counts as fired but is not reported.
"""

from collections.abc import Mapping
from enum import StrEnum
from itertools import product

from outcry.market.alerts.edge import LONG_AGO_NS, NEVER_QUIET, TOLERANCE_TICKS, VA_PARAMS, ValueEdge
from outcry.market.alerts.machine import ALWAYS_QUIET, AlertType, Observation, QuietBand, Value, move
from outcry.market.units import NANOS_PER_MINUTE

REST_NS = 15 * NANOS_PER_MINUTE
AFTER_REJECT_NS = 5 * NANOS_PER_MINUTE
MOST = 3
PARAMS = VA_PARAMS


class Phase(StrEnum):
    """State of the test alert at one edge: whether it is armed, resting after it fired, or used up for the session."""

    UNOPENED = "unopened"
    OUTSIDE = "outside"
    NEAR = "near"
    ARMED = "armed"
    RESTING = "resting"
    SPENT = "spent"


class Sign(StrEnum):
    """Event of the state machine: a trade or bar near, beyond or far from the edge, or the end of the rest."""

    OPENED = "opened in value or on its other side"
    OPENED_BEYOND = "opened beyond the edge"
    ENTERED = "traded in value"
    FAR = "at least arm away"
    JUMPED = "jumped over the edge"
    TOUCHED = "within tol of the edge (fires)"
    TOUCHED_LAST = "within tol, third time (fires)"
    MUTED = "within tol, under 5 min after a reject"
    RESTED = "15 min gone"


TRANSITIONS: Mapping[tuple[Phase, Sign], Phase] = {
    (Phase.UNOPENED, Sign.OPENED): Phase.NEAR,
    (Phase.UNOPENED, Sign.OPENED_BEYOND): Phase.OUTSIDE,
    (Phase.OUTSIDE, Sign.ENTERED): Phase.NEAR,
    (Phase.NEAR, Sign.FAR): Phase.ARMED,
    (Phase.ARMED, Sign.JUMPED): Phase.ARMED,
    (Phase.ARMED, Sign.TOUCHED): Phase.RESTING,
    (Phase.ARMED, Sign.TOUCHED_LAST): Phase.SPENT,
    (Phase.ARMED, Sign.MUTED): Phase.RESTING,
    (Phase.RESTING, Sign.RESTED): Phase.NEAR,
}
_OPENED = (Phase.OUTSIDE, Phase.NEAR, Phase.ARMED, Phase.RESTING, Phase.SPENT)
#: Each sign occurs only in the phase that expects it.
NEVER = frozenset({
    *product(_OPENED, (Sign.OPENED, Sign.OPENED_BEYOND)),
    *product((Phase.UNOPENED, Phase.NEAR, Phase.ARMED, Phase.RESTING, Phase.SPENT), (Sign.ENTERED,)),
    *product((Phase.UNOPENED, Phase.OUTSIDE, Phase.ARMED, Phase.RESTING, Phase.SPENT), (Sign.FAR,)),
    *product(
        (Phase.UNOPENED, Phase.OUTSIDE, Phase.NEAR, Phase.RESTING, Phase.SPENT),
        (Sign.JUMPED, Sign.TOUCHED, Sign.TOUCHED_LAST, Sign.MUTED),
    ),
    *product((Phase.UNOPENED, Phase.OUTSIDE, Phase.NEAR, Phase.ARMED, Phase.SPENT), (Sign.RESTED,)),
})  # fmt: skip


class EdgeTest:
    """State machine of the test alert at one edge of prior value."""

    __slots__ = ("_count", "_edge", "_from", "_latched_ns", "_phase", "_rejected_ns", "quiet", "ref", "type")

    def __init__(self, edge: ValueEdge) -> None:
        self.type = AlertType.VA_TEST_HIGH if edge.sign > 0 else AlertType.VA_TEST_LOW
        self.ref = edge.ref
        self._edge = edge
        self._phase = Phase.UNOPENED
        self._from = 0  # position of the price while armed: 1 beyond the edge, −1 inside
        self._count = 0
        self._latched_ns = self._rejected_ns = LONG_AGO_NS
        self.quiet = self._band()

    def traded(self, seen: Observation) -> Mapping[str, Value] | None:
        """Evaluate a trade or bar; return the alert's parameters if it fires, else None."""
        edge = self._edge
        params = None
        if self._phase is Phase.UNOPENED:
            self._move(Sign.OPENED_BEYOND if edge.opened_beyond(seen) else Sign.OPENED)
        if self._phase is Phase.ARMED:
            params = self._approached(seen)
        if self._phase is Phase.OUTSIDE and edge.in_value(seen.close):
            self._move(Sign.ENTERED)
        if self._phase is Phase.RESTING and seen.at_ns >= self._latched_ns + REST_NS:
            self._move(Sign.RESTED)
        if self._phase is Phase.NEAR and abs(seen.close - edge.ticks) >= edge.arm:
            self._move(Sign.FAR)
            self._from = self._side(seen)
        self.quiet = self._band()
        return params

    def rejected(self, at_ns: int) -> None:
        """Mute test alerts for 5 minutes after a reject alert of this edge, because both are about the same event."""
        self._rejected_ns = at_ns

    def _approached(self, seen: Observation) -> Mapping[str, Value] | None:
        edge = self._edge
        if not edge.touched(seen):
            if self._side(seen) != self._from:
                self._move(Sign.JUMPED)
                self._from = -self._from
            return None
        self._latched_ns = seen.at_ns
        if seen.at_ns - self._rejected_ns < AFTER_REJECT_NS:
            self._move(Sign.MUTED)
            return None
        self._count += 1
        self._move(Sign.TOUCHED_LAST if self._count == MOST else Sign.TOUCHED)
        return edge.params(
            seen=seen, tolerance=TOLERANCE_TICKS, approach="outside" if self._from > 0 else "inside"
        )

    def _side(self, seen: Observation) -> int:
        return 1 if self._edge.beyond(seen.close) > 0 else -1

    def _move(self, sign: Sign) -> None:
        self._phase = move(TRANSITIONS, self._phase, sign)

    def _band(self) -> QuietBand:
        edge = self._edge
        match self._phase:
            case Phase.UNOPENED:
                return NEVER_QUIET
            case Phase.OUTSIDE:
                return edge.quiet(inner=0)
            case Phase.NEAR:
                return edge.quiet(inner=-edge.arm, outer=edge.arm)
            case Phase.ARMED:
                if self._from > 0:
                    return edge.quiet(inner=TOLERANCE_TICKS)
                return edge.quiet(outer=-TOLERANCE_TICKS)
            case Phase.RESTING:
                return edge.quiet(until_ns=self._latched_ns + REST_NS)
            case Phase.SPENT:
                return ALWAYS_QUIET

    def dump(self) -> list[int | str]:
        """Return the machine's state as the arguments of `restore`."""
        return [self._phase.value, self._from, self._count, self._latched_ns, self._rejected_ns]

    def restore(self, phase: str, came_from: int, count: int, latched_ns: int, rejected_ns: int) -> None:
        """Restore the state that `dump` returned."""
        self._phase, self._from, self._count = Phase(phase), came_from, count
        self._latched_ns, self._rejected_ns = latched_ns, rejected_ns
        self.quiet = self._band()
