"""The bias: five votes on the direction of the auction, counted at bracket closes (rules §7).

The first bracket close sets the bias. The bias changes only after two consecutive closes disagree with it, so that the
noise of one bracket does not change it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, cast

from outcry.market.alerts.machine import move
from outcry.market.ladder import Bracket
from outcry.market.opening import Prior
from outcry.market.profile import SessionProfile


class Bias(StrEnum):
    """The directions of the bias, by the names that API responses use."""

    TREND_UP = "trend_up"
    TREND_DOWN = "trend_down"
    LEAN_UP = "lean_up"
    LEAN_DOWN = "lean_down"
    BALANCED = "balanced"
    NEUTRAL = "neutral"
    UNDETERMINED = "undetermined"


@dataclass(frozen=True, slots=True)
class Votes:
    """The five votes on the direction of the auction, each −1, 0 or +1.

    last, poc: whether the last price and the developing POC are above or below prior value. value: whether the value
    area is above or below prior value. extension: the side on which price has extended the initial balance, if it has
    extended only one side. one_timeframing: direction of the last three completed brackets.
    """

    last: int = 0
    poc: int = 0
    value: int = 0
    extension: int = 0
    one_timeframing: int = 0

    @property
    def total(self) -> int:
        """Return the sum of the votes."""
        return self.last + self.poc + self.value + self.extension + self.one_timeframing


@dataclass(frozen=True, slots=True)
class BiasReading:
    """The current bias, and the votes of the latest bracket close.

    Before the first close the bias is `undetermined`.
    """

    bias: Bias
    votes: Votes


def votes(
    profile: SessionProfile, prior: Prior | None, brackets: Sequence[Bracket], *, ib_complete: bool
) -> Votes:
    """Count the votes at the close of a bracket.

    prior: levels of the prior session; None without a completed one, and then the first three votes are 0. brackets:
    completed brackets with trades, ascending. ib_complete: whether the first hour is over and has an initial balance;
    otherwise the vote on its extension is 0.
    """
    return Votes(
        last=_against(profile.close, prior),
        poc=_against(profile.poc, prior),
        value=_migration(profile, prior),
        extension=(profile.high > profile.ib_high) - (profile.low < profile.ib_low) if ib_complete else 0,
        one_timeframing=_one_timeframing(brackets),
    )


def _against(price_ticks: int, prior: Prior | None) -> int:
    """Return a vote: 1 for a price above prior value, −1 for one below it, 0 for one inside it or at its edge."""
    return (price_ticks > prior.vah) - (price_ticks < prior.val) if prior else 0


def _migration(profile: SessionProfile, prior: Prior | None) -> int:
    """Return a vote: 1 if both edges of value are above the prior session's, −1 if both are below, else 0."""
    if prior is None:
        return 0
    up = profile.vah > prior.vah and profile.val > prior.val
    down = profile.vah < prior.vah and profile.val < prior.val
    return up - down


def _one_timeframing(brackets: Sequence[Bracket]) -> int:
    """Return a vote: 1 if no bracket traded below the one before it, −1 if none traded above the one before it.

    Only the last three brackets count. The vote is 0 if both are true or neither is, or if the brackets are not
    consecutive.
    """
    newest = brackets[-3:]
    if len(newest) < 3 or newest[2].index - newest[0].index != 2:
        return 0
    up = all(after.low_ticks >= before.low_ticks for before, after in pairwise(newest))
    down = all(after.high_ticks <= before.high_ticks for before, after in pairwise(newest))
    return up - down


def candidate(counted: Votes, *, both_sides_broken: bool) -> Bias:
    """Return the bias that the votes of one bracket close support."""
    if both_sides_broken:
        return Bias.NEUTRAL
    total = counted.total
    if total >= 2:
        return Bias.TREND_UP if total >= 4 and counted.extension == 1 else Bias.LEAN_UP
    if total <= -2:
        return Bias.TREND_DOWN if total <= -4 and counted.extension == -1 else Bias.LEAN_DOWN
    return Bias.BALANCED


class Phase(StrEnum):
    """Phase of the bias: not set, confirmed, or contradicted by the latest bracket close."""

    UNSET = "unset"
    HELD = "held"
    DOUBTED = "doubted"


class Sign(StrEnum):
    """How a bracket close relates to the current bias."""

    AGREES = "agrees"
    DIFFERS = "differs"


TRANSITIONS: dict[tuple[Phase, Sign], Phase] = {
    (Phase.UNSET, Sign.DIFFERS): Phase.HELD,
    (Phase.HELD, Sign.AGREES): Phase.HELD,
    (Phase.HELD, Sign.DIFFERS): Phase.DOUBTED,
    (Phase.DOUBTED, Sign.AGREES): Phase.HELD,
    (Phase.DOUBTED, Sign.DIFFERS): Phase.HELD,
}

#: No close supports `undetermined`.
NEVER = frozenset({(Phase.UNSET, Sign.AGREES)})


class BiasMachine:
    """The bias of one session, moved by its bracket closes."""

    __slots__ = ("_bias", "_phase", "_votes")

    def __init__(self) -> None:
        self._phase, self._bias, self._votes = Phase.UNSET, Bias.UNDETERMINED, Votes()

    @property
    def reading(self) -> BiasReading:
        """Return the current bias and the latest votes."""
        return BiasReading(self._bias, self._votes)

    def bracket_closed(self, counted: Votes, *, both_sides_broken: bool) -> None:
        """Evaluate a bracket close. both_sides_broken: the session has traded beyond both sides of its complete IB."""
        spoken = candidate(counted, both_sides_broken=both_sides_broken)
        sign = Sign.AGREES if spoken is self._bias else Sign.DIFFERS
        self._phase = move(TRANSITIONS, self._phase, sign)
        if self._phase is Phase.HELD:  # confirmed, set for the first time, or contradicted twice in a row
            self._bias = spoken
        self._votes = counted

    def dump(self) -> list[object]:
        """Return the state as JSON values."""
        v = self._votes
        return [
            self._phase.value, self._bias.value, [v.last, v.poc, v.value, v.extension, v.one_timeframing],
        ]  # fmt: skip

    @staticmethod
    def load(state: object) -> "BiasMachine":
        """Restore the state from the result of `dump`."""
        phase, bias, counted = cast("list[Any]", state)
        machine = BiasMachine()
        machine._phase, machine._bias, machine._votes = Phase(phase), Bias(bias), Votes(*counted)
        return machine
