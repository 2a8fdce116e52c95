"""Types shared by the alert state machines: observations, fired alerts, quiet bands and transitions.

An observation is a trade or bar. A sign is the event that an observation means to a machine; it moves the machine from
one phase to another. Machines use event time only. A machine changes state at the observation that fires, not at a
later price. Every pair of phase and sign is in its table, or listed as impossible (rules §6).
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
    """A trade (all four prices are equal) or a completed bar. Times ns UTC, prices ticks.

    at_ns: time of the trade, or end of the bar. slot_ns: the time that determines its bracket (half-hour period): time
    of the trade, or start of the bar.
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
    """A fired alert. key_ms: milliseconds in its key, unique for its type within the session.

    at_ns: exchange time of the trade that fired it, or end of the bar that confirmed it. price_ticks: price of that
    trade or close. ref: label of the level, or the date of its session. params: measured values; prices in ticks.
    bracket: index of its bracket.
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
    """A price band in which trades change nothing: strictly between `low` and `high` (ticks), before `until_ns`."""

    low: int
    high: int
    until_ns: int

    def join(self, other: "QuietBand") -> "QuietBand":
        """Return the intersection of both bands, in which neither changes anything."""
        return QuietBand(
            max(self.low, other.low), min(self.high, other.high), min(self.until_ns, other.until_ns)
        )


ALWAYS_QUIET = QuietBand(-BEYOND_TICKS, BEYOND_TICKS, NEVER_NS)


class MissingTransition(Exception):
    """A pair of phase and sign is missing in a transition table. This is a bug."""


Phase = TypeVar("Phase", bound=StrEnum)
Sign = TypeVar("Sign", bound=StrEnum)


def move(table: Mapping[tuple[Phase, Sign], Phase], phase: Phase, sign: Sign) -> Phase:
    """Return the phase that follows on a sign (event).

    Raises `MissingTransition` for a pair that is not in the table.
    """
    try:
        return table[phase, sign]
    except KeyError:
        raise MissingTransition(f"no transition from {phase!r} by {sign!r}") from None
