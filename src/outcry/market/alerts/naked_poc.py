"""`naked-poc`: price tests a point of control that no regular session has traded at since (rules §4, §6).

A trade at exactly that price, or a bar whose range includes it, is a test. A gap over it is not. Each level fires once.
"""

from collections.abc import Mapping
from enum import StrEnum

from outcry.market.alerts.edge import NEVER_QUIET
from outcry.market.alerts.machine import (
    ALWAYS_QUIET,
    BEYOND_TICKS,
    NEVER_NS,
    AlertType,
    Observation,
    QuietBand,
    Value,
    move,
)
from outcry.market.levels import CarriedLevel

PARAMS = ("level", "reached", "observed", "formedOn", "ageSessions", "basis", "distanceAtOpen")


class Phase(StrEnum):
    """State of a naked POC: session not open yet, price below or above the POC, or POC tested."""

    UNOPENED = "unopened"
    PRICE_BELOW = "price_below"
    PRICE_ABOVE = "price_above"
    TESTED = "tested"


class Sign(StrEnum):
    """Event of the state machine: where a trade or bar is relative to the naked POC."""

    BELOW = "traded below it"
    ABOVE = "traded above it"
    AT = "traded at it (fires)"


TRANSITIONS: Mapping[tuple[Phase, Sign], Phase] = {
    (Phase.UNOPENED, Sign.BELOW): Phase.PRICE_BELOW,
    (Phase.UNOPENED, Sign.ABOVE): Phase.PRICE_ABOVE,
    (Phase.UNOPENED, Sign.AT): Phase.TESTED,
    (Phase.PRICE_BELOW, Sign.ABOVE): Phase.PRICE_ABOVE,  # a gap over it
    (Phase.PRICE_BELOW, Sign.AT): Phase.TESTED,
    (Phase.PRICE_ABOVE, Sign.BELOW): Phase.PRICE_BELOW,
    (Phase.PRICE_ABOVE, Sign.AT): Phase.TESTED,
}
#: A side is a sign only when it changes, and a tested level has no further signs.
NEVER = frozenset({
    (Phase.PRICE_BELOW, Sign.BELOW),
    (Phase.PRICE_ABOVE, Sign.ABOVE),
    (Phase.TESTED, Sign.BELOW),
    (Phase.TESTED, Sign.ABOVE),
    (Phase.TESTED, Sign.AT),
})  # fmt: skip


class NakedPoc:
    """State machine of one naked point of control."""

    __slots__ = ("_at_open", "_level", "_phase", "quiet", "ref", "type")

    def __init__(self, level: CarriedLevel) -> None:
        self.type = AlertType.NAKED_POC
        self.ref = str(level.made_on)
        self._level = level
        self._phase = Phase.UNOPENED
        self._at_open = 0  # ticks from the session's first price to the level
        self.quiet = self._band()

    def traded(self, seen: Observation) -> Mapping[str, Value] | None:
        """Evaluate a trade or bar; return the alert's parameters if it fires, else None."""
        level = self._level
        if self._phase is Phase.TESTED:
            return None
        if self._phase is Phase.UNOPENED:
            self._at_open = abs(level.price_ticks - seen.opened)
        params: dict[str, Value] | None = None
        if seen.high < level.price_ticks:
            if self._phase is not Phase.PRICE_BELOW:
                self._move(Sign.BELOW)
        elif seen.low > level.price_ticks:
            if self._phase is not Phase.PRICE_ABOVE:
                self._move(Sign.ABOVE)
        else:
            self._move(Sign.AT)
            params = {
                "level": level.price_ticks,
                "reached": level.price_ticks,
                "observed": seen.kind,
                "formedOn": self.ref,
                "ageSessions": level.age_sessions,
                "basis": "tpo",
                "distanceAtOpen": self._at_open,
            }
        self.quiet = self._band()
        return params

    def _move(self, sign: Sign) -> None:
        self._phase = move(TRANSITIONS, self._phase, sign)

    def _band(self) -> QuietBand:
        match self._phase:
            case Phase.UNOPENED:
                return NEVER_QUIET
            case Phase.PRICE_BELOW:
                return QuietBand(-BEYOND_TICKS, self._level.price_ticks, NEVER_NS)
            case Phase.PRICE_ABOVE:
                return QuietBand(self._level.price_ticks, BEYOND_TICKS, NEVER_NS)
            case Phase.TESTED:
                return ALWAYS_QUIET

    def dump(self) -> list[int | str]:
        """Return the machine's state as the arguments of `restore`."""
        return [self._phase.value, self._at_open]

    def restore(self, phase: str, at_open: int) -> None:
        """Restore the state that `dump` returned."""
        self._phase, self._at_open = Phase(phase), at_open
        self.quiet = self._band()
