"""The bias: five votes on where the auction leans, changed only at the close of brackets (rules §7)."""

from dataclasses import dataclass
from enum import StrEnum


class Bias(StrEnum):
    """The words of the interface and the decisions."""

    TREND_UP = "trend_up"
    TREND_DOWN = "trend_down"
    LEAN_UP = "lean_up"
    LEAN_DOWN = "lean_down"
    BALANCED = "balanced"
    NEUTRAL = "neutral"
    UNDETERMINED = "undetermined"


@dataclass(frozen=True, slots=True)
class Votes:
    """Each −1, 0 or +1: last price against prior value, developing POC against prior value, value above or below
    prior value, initial balance extended on one side, one-timeframing over the last three completed brackets."""

    last: int = 0
    poc: int = 0
    value: int = 0
    extension: int = 0
    one_timeframing: int = 0

    @property
    def total(self) -> int:
        """Their sum."""
        return self.last + self.poc + self.value + self.extension + self.one_timeframing


@dataclass(frozen=True, slots=True)
class BiasReading:
    """The bias in force, and the votes of the newest bracket close; `undetermined` before the first."""

    bias: Bias
    votes: Votes
