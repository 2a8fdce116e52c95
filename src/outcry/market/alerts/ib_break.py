"""`ib-break-up` and `ib-break-down`: the first trade beyond the initial balance, once per side (rules §6).

Neither alert fires during the first hour. If nothing traded in the first hour, there is no initial balance, and so no
alert. The caller computes the balance and includes late trades.
"""

from collections.abc import Mapping
from enum import StrEnum

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
from outcry.market.units import NANOS_PER_HOUR

PARAMS = (
    "level", "reached", "observed", "ibHigh", "ibLow", "ibRange", "breakTicks", "otherSideBroken", "ext150", "ext200",
)  # fmt: skip


class Phase(StrEnum):
    """State of one side of the initial balance: no balance yet, watched for a break, or broken."""

    FORMING = "forming"
    ABSENT = "absent"
    WATCHING = "watching"
    BROKEN = "broken"


class Sign(StrEnum):
    """Event of the state machine: the first hour is over, or a trade or bar went beyond the initial balance.

    A late trade of the first hour can also cause `FORMED`.
    """

    FORMED = "first hour over, something traded in it"
    EMPTY = "first hour over, nothing traded in it"
    BROKE = "traded 1 tick or more beyond (fires)"


TRANSITIONS: Mapping[tuple[Phase, Sign], Phase] = {
    (Phase.FORMING, Sign.FORMED): Phase.WATCHING,
    (Phase.FORMING, Sign.EMPTY): Phase.ABSENT,
    (Phase.ABSENT, Sign.FORMED): Phase.WATCHING,  # a late trade is the first one of the hour
    (Phase.ABSENT, Sign.EMPTY): Phase.ABSENT,
    (Phase.WATCHING, Sign.FORMED): Phase.WATCHING,
    (Phase.WATCHING, Sign.EMPTY): Phase.ABSENT,  # the only trade of the hour was busted
    (Phase.WATCHING, Sign.BROKE): Phase.BROKEN,
    (Phase.BROKEN, Sign.FORMED): Phase.BROKEN,
    (Phase.BROKEN, Sign.EMPTY): Phase.BROKEN,
}
#: Only a watched side can break, and only once.
NEVER = frozenset({
    (Phase.FORMING, Sign.BROKE),
    (Phase.ABSENT, Sign.BROKE),
    (Phase.BROKEN, Sign.BROKE),
})  # fmt: skip


class Balance:
    """The initial balance (high, low) once it exists, and the session's high and low.

    The machines of both sides share one `Balance`.
    """

    __slots__ = ("extremes", "hour_ns", "ib")

    def __init__(self, open_ns: int) -> None:
        self.hour_ns = open_ns + NANOS_PER_HOUR
        self.ib: tuple[int, int] | None = None
        self.extremes: tuple[int, int] = (0, 0)


class BalanceBreak:
    """State machine of the alert on one side of the initial balance."""

    __slots__ = ("_balance", "_phase", "_upper", "quiet", "ref", "type")

    def __init__(self, balance: Balance, *, upper: bool) -> None:
        self.type = AlertType.IB_BREAK_UP if upper else AlertType.IB_BREAK_DOWN
        self.ref = "IBH" if upper else "IBL"
        self._balance = balance
        self._upper = upper
        self._phase = Phase.FORMING
        self.quiet = self._band()

    def traded(self, seen: Observation) -> Mapping[str, Value] | None:
        """Evaluate a trade or bar; return the alert's parameters if it fires, else None."""
        if seen.slot_ns < self._balance.hour_ns:
            return None
        if self._phase is Phase.FORMING:
            self._move(Sign.FORMED if self._balance.ib else Sign.EMPTY)
        params = self._broken_by(seen) if self._phase is Phase.WATCHING else None
        self.quiet = self._band()
        return params

    def revised(self) -> None:
        """Update the machine after the initial balance was set, or changed by a late trade."""
        if self._phase is not Phase.FORMING:
            self._move(Sign.FORMED if self._balance.ib else Sign.EMPTY)
        self.quiet = self._band()

    def _broken_by(self, seen: Observation) -> Mapping[str, Value] | None:
        if self._balance.ib is None:
            return None
        high, low = self._balance.ib
        beyond = seen.high - high if self._upper else low - seen.low
        if beyond < 1:
            return None
        self._move(Sign.BROKE)
        session_high, session_low = self._balance.extremes
        half = -(-(high - low) // 2)  # half ticks are rounded away from the balance
        return {
            "level": high if self._upper else low,
            "reached": seen.high if self._upper else seen.low,
            "observed": seen.kind,
            "ibHigh": high,
            "ibLow": low,
            "ibRange": high - low,
            "breakTicks": beyond,
            "otherSideBroken": session_low < low if self._upper else session_high > high,
            "ext150": high + half if self._upper else low - half,
            "ext200": high + (high - low) if self._upper else low - (high - low),
        }

    def _move(self, sign: Sign) -> None:
        self._phase = move(TRANSITIONS, self._phase, sign)

    def _band(self) -> QuietBand:
        if self._phase is Phase.FORMING:
            return QuietBand(-BEYOND_TICKS, BEYOND_TICKS, self._balance.hour_ns)
        if self._phase is not Phase.WATCHING or self._balance.ib is None:
            return ALWAYS_QUIET
        high, low = self._balance.ib
        if self._upper:
            return QuietBand(-BEYOND_TICKS, high + 1, NEVER_NS)
        return QuietBand(low - 1, BEYOND_TICKS, NEVER_NS)

    def dump(self) -> list[int | str]:
        """Return the machine's state as the arguments of `restore`. The balance is stored separately."""
        return [self._phase.value]

    def restore(self, phase: str) -> None:
        """Restore the state that `dump` returned."""
        self._phase = Phase(phase)
        self.quiet = self._band()
