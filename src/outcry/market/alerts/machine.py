"""Types shared by the alert state machines: observations, fired alerts, quiet bands and transitions.

An observation is a trade or bar. A sign is an event of a state machine: it moves the machine from one phase to another.
Machines use event time only. A machine changes state at the observation that fires its alert, not at a later price.
Each machine lists every pair of phase and sign: in its transition table, or as impossible (rules §6).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeVar

Severity = Literal["info", "warn", "critical"]
Value = int | str | bool | None | list[int]

#: Larger than any price: the open side of a quiet band.
BEYOND_TICKS = 2**62
NEVER_NS = 2**63 - 1


class AlertType(StrEnum):
    """The eleven types of market-structure alerts. If one event fires several, they fire in this order (rules §6)."""

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
        """Return the severity of alerts of this type."""
        if self in {
            AlertType.IB_BREAK_UP, AlertType.IB_BREAK_DOWN, AlertType.VA_REJECT_HIGH, AlertType.VA_REJECT_LOW
        }:  # fmt: skip
            return "critical"
        if self in {AlertType.VA_ACCEPT_ABOVE, AlertType.VA_ACCEPT_BELOW, AlertType.NAKED_POC}:
            return "warn"
        return "info"


@dataclass(frozen=True, slots=True)
class Observation:
    """A trade (all four prices are equal) or a completed bar. Times are ns UTC, prices ticks.

    at_ns: time of the trade, or end of the bar. slot_ns: time of the trade, or start of the bar; it determines the
    bracket (half-hour period) of the observation.
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
        """Return the observed price nearest to `price_ticks`. A bar counts as trading every price of its range."""
        return min(max(price_ticks, self.low), self.high)


@dataclass(frozen=True, slots=True)
class Fired:
    """A fired alert. key_ms: the milliseconds in its key, which make the key unique for its type within the session.

    at_ns: exchange time of the trade that fired the alert, or end of the bar that confirmed it. price_ticks: price of
    that trade, or close of that bar. ref: label of the level, or the date of the session that made it. params: measured
    values; prices in ticks. bracket: index of the bracket (half-hour period) in which the alert fired.
    """

    type: AlertType
    at_ns: int
    price_ticks: int
    ref: str
    params: Mapping[str, Value]
    bracket: int
    key_ms: int


@dataclass(frozen=True, slots=True)
class QuietBand:
    """A price band in which trades change no state machine: in ticks strictly between `low` and `high`.

    It is valid for trades before `until_ns`.
    """

    low: int
    high: int
    until_ns: int

    def join(self, other: "QuietBand") -> "QuietBand":
        """Return the intersection of both bands, in which a trade changes no state machine of either band."""
        return QuietBand(
            max(self.low, other.low), min(self.high, other.high), min(self.until_ns, other.until_ns)
        )


ALWAYS_QUIET = QuietBand(-BEYOND_TICKS, BEYOND_TICKS, NEVER_NS)


class MissingTransition(Exception):
    """A pair of phase and sign is missing in a transition table. This is a bug."""


Phase = TypeVar("Phase", bound=StrEnum)
Sign = TypeVar("Sign", bound=StrEnum)


def move(table: Mapping[tuple[Phase, Sign], Phase], phase: Phase, sign: Sign) -> Phase:
    """Return the phase that follows `phase` when the event `sign` occurs.

    Raises `MissingTransition` for a pair that is not in the table.
    """
    try:
        return table[phase, sign]
    except KeyError:
        raise MissingTransition(f"no transition from {phase!r} by {sign!r}") from None
