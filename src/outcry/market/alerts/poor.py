"""`poor-high` and `poor-low`: price returns to an extreme where the auction was unfinished (rules §5, §6).

The first observation (trade or bar) within the tolerance fires the alert. Its outcome is `repaired` if price traded at
least one tick beyond the extreme, else `revisit`. After a revisit the alert can fire again once an hour has passed and
price is at least the distance `arm` away. If price trades beyond the extreme before that, or jumps over the tolerance,
the extreme is repaired without an alert. Repaired is final.
"""

from collections.abc import Mapping
from enum import StrEnum
from itertools import product

from outcry.market.alerts.edge import LONG_AGO_NS, TOLERANCE_TICKS, Edge
from outcry.market.alerts.machine import ALWAYS_QUIET, AlertType, Observation, QuietBand, Value, move
from outcry.market.levels import CarriedLevel
from outcry.market.units import NANOS_PER_HOUR

REST_NS = NANOS_PER_HOUR
PARAMS = ("level", "reached", "observed", "formedOn", "event", "extremeTpos", "tailRows", "repairTicks")


class Phase(StrEnum):
    """State of the alert on a poor extreme: armed, resting after it fired, price near again, or repaired."""

    ARMED = "armed"
    RESTING = "resting"
    NEAR = "near"
    REPAIRED = "repaired"


class Sign(StrEnum):
    """Event of the state machine: a trade or bar near, beyond or far from the extreme, or the end of the rest."""

    REVISITED = "within tol, not beyond (fires: revisit)"
    REPAIRED = "within tol and beyond (fires: repaired)"
    PASSED = "beyond"
    RESTED = "60 min gone"
    FAR = "at least arm away"


TRANSITIONS: Mapping[tuple[Phase, Sign], Phase] = {
    (Phase.ARMED, Sign.REVISITED): Phase.RESTING,
    (Phase.ARMED, Sign.REPAIRED): Phase.REPAIRED,
    (Phase.ARMED, Sign.PASSED): Phase.REPAIRED,  # jumped over the tolerance
    (Phase.RESTING, Sign.PASSED): Phase.REPAIRED,
    (Phase.RESTING, Sign.RESTED): Phase.NEAR,
    (Phase.NEAR, Sign.PASSED): Phase.REPAIRED,
    (Phase.NEAR, Sign.FAR): Phase.ARMED,
}
#: A level fires only while armed, and never after its repair. Other signs occur only in the phase that expects them.
NEVER = frozenset({
    *product((Phase.RESTING, Phase.NEAR, Phase.REPAIRED), (Sign.REVISITED, Sign.REPAIRED)),
    *product((Phase.ARMED, Phase.NEAR, Phase.REPAIRED), (Sign.RESTED,)),
    *product((Phase.ARMED, Phase.RESTING, Phase.REPAIRED), (Sign.FAR,)),
    (Phase.REPAIRED, Sign.PASSED),
})  # fmt: skip


class PoorExtreme:
    """State machine of one poor high (`upper`) or poor low."""

    __slots__ = ("_edge", "_fired_ns", "_level", "_phase", "quiet", "ref", "type")

    def __init__(self, level: CarriedLevel, arm: int, *, upper: bool) -> None:
        self.type = AlertType.POOR_HIGH if upper else AlertType.POOR_LOW
        self.ref = str(level.made_on)
        self._level = level
        self._edge = Edge(level.price_ticks, 1 if upper else -1, arm)
        self._phase = Phase.ARMED
        self._fired_ns = LONG_AGO_NS
        self.quiet = self._band()

    def traded(self, seen: Observation) -> Mapping[str, Value] | None:
        """Evaluate a trade or bar; return the alert's parameters if it fires, else None."""
        edge = self._edge
        params = None
        furthest = edge.furthest(seen)
        if self._phase is Phase.ARMED and edge.touched(seen):
            self._fired_ns = seen.at_ns
            self._move(Sign.REPAIRED if furthest >= 1 else Sign.REVISITED)
            params = self._measured(seen, max(0, furthest))
        elif self._phase is not Phase.REPAIRED and furthest >= 1:
            self._move(Sign.PASSED)
        if self._phase is Phase.RESTING and seen.at_ns >= self._fired_ns + REST_NS:
            self._move(Sign.RESTED)
        if self._phase is Phase.NEAR and edge.beyond(seen.close) <= -edge.arm:
            self._move(Sign.FAR)
        self.quiet = self._band()
        return params

    def _measured(self, seen: Observation, beyond: int) -> Mapping[str, Value]:
        edge = self._edge
        return {
            "level": edge.ticks,
            "reached": edge.ticks + edge.sign * beyond if beyond else seen.nearest(edge.ticks),
            "observed": seen.kind,
            "formedOn": self.ref,
            "event": "repaired" if beyond else "revisit",
            "extremeTpos": self._level.tpos,
            "tailRows": self._level.tail_rows,
            "repairTicks": beyond,
        }

    def _move(self, sign: Sign) -> None:
        self._phase = move(TRANSITIONS, self._phase, sign)

    def _band(self) -> QuietBand:
        edge = self._edge
        match self._phase:
            case Phase.ARMED:
                return edge.quiet(outer=-TOLERANCE_TICKS)
            case Phase.RESTING:
                return edge.quiet(outer=1, until_ns=self._fired_ns + REST_NS)
            case Phase.NEAR:
                return edge.quiet(inner=-edge.arm, outer=1)
            case Phase.REPAIRED:
                return ALWAYS_QUIET

    def dump(self) -> list[int | str]:
        """Return the machine's state as the arguments of `restore`."""
        return [self._phase.value, self._fired_ns]

    def restore(self, phase: str, fired_ns: int) -> None:
        """Restore the state that `dump` returned."""
        self._phase, self._fired_ns = Phase(phase), fired_ns
        self.quiet = self._band()
