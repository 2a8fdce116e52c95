"""What the alert machines share: what they are shown, what they say, and how a transition is looked up.

Rules kept (rules §6): a machine is driven by event time alone; it latches from the very observation that fired, never
from a later price; every pair of phase and sign is in its table, or named as one that cannot happen.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeVar

Severity = Literal["info", "warn", "critical"]
Value = int | str | bool | None | list[int]

#: No trade is above this, none below its negative: an open side of a quiet band.
BEYOND_TICKS = 2**62
NEVER_NS = 2**63 - 1


class AlertType(StrEnum):
    """The eleven market-structure alerts, in the order in which one event fires them (rules §6)."""

    IB_BREAK_UP = "ib-break-up"
    IB_BREAK_DOWN = "ib-break-down"
    VA_REJECT_HIGH = "va-reject-high"
    VA_REJECT_LOW = "va-reject-low"
    VA_ACCEPT_ABOVE = "va-accept-above"
    VA_ACCEPT_BELOW = "va-accept-below"
    NAKED_POC = "naked-poc"
    VA_TEST_HIGH = "va-test-high"
    VA_TEST_LOW = "va-test-low"
    POOR_HIGH = "poor-high"
    POOR_LOW = "poor-low"

    @property
    def severity(self) -> Severity:
        """As the interface gives it."""
        if self in {
            AlertType.IB_BREAK_UP, AlertType.IB_BREAK_DOWN, AlertType.VA_REJECT_HIGH, AlertType.VA_REJECT_LOW
        }:  # fmt: skip
            return "critical"
        if self in {AlertType.VA_ACCEPT_ABOVE, AlertType.VA_ACCEPT_BELOW, AlertType.NAKED_POC}:
            return "warn"
        return "info"


@dataclass(frozen=True, slots=True)
class Observation:
    """A trade, whose four prices are one, or a completed bar. Times ns UTC, prices ticks.

    at_ns: time of the trade, or end of the bar. slot_ns: the instant that decides its bracket: time of the trade, or
    start of the bar.
    """

    at_ns: int
    opened: int
    low: int
    high: int
    close: int
    slot_ns: int

    @property
    def kind(self) -> str:
        """`trade` or `bar`, as `params.observed` reports it."""
        return "bar" if self.slot_ns < self.at_ns else "trade"

    def nearest(self, price_ticks: int) -> int:
        """Return the traded price nearest to a price: that price itself where the range of a bar holds it."""
        return min(max(price_ticks, self.low), self.high)


@dataclass(frozen=True, slots=True)
class Fired:
    """An alert. `key_ms`: the milliseconds of its key, unique for its type within the session.

    at_ns: exchange time of the trade that fired it, or the close of the bar that confirmed it. price: that trade's or
    close's. ref: label of the level, or the date it was made. `params`: what was measured; prices in ticks.
    """

    type: AlertType
    at_ns: int
    price_ticks: int
    ref: str
    params: Mapping[str, Value]
    bracket: int
    key_ms: int


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing happens to a trade strictly between `low` and `high` (ticks) and before `until_ns`."""

    low: int
    high: int
    until_ns: int

    def join(self, other: "Quiet") -> "Quiet":
        """Where both are quiet."""
        return Quiet(max(self.low, other.low), min(self.high, other.high), min(self.until_ns, other.until_ns))


SILENCE = Quiet(-BEYOND_TICKS, BEYOND_TICKS, NEVER_NS)


class MissingTransition(Exception):
    """A pair of phase and sign that no table names: a fault of this program."""


Phase = TypeVar("Phase", bound=StrEnum)
Sign = TypeVar("Sign", bound=StrEnum)


def move(table: Mapping[tuple[Phase, Sign], Phase], phase: Phase, sign: Sign) -> Phase:
    """Look the next phase up; raise `MissingTransition` for a pair that is not in the table."""
    try:
        return table[phase, sign]
    except KeyError:
        raise MissingTransition(f"no way on from {phase!r} by {sign!r}") from None
