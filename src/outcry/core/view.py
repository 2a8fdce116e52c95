"""A session as it stands, for whoever describes it: what is worked out of its ladder, bias and scenarios.

Rule kept: a capture holds nothing that changes later, so that a view is worked out while the fold goes on.
"""

from dataclasses import dataclass

from outcry.core.bias import BiasReading
from outcry.core.calendar import SessionKind
from outcry.core.ladder import IB_BRACKETS, Ladder
from outcry.core.opening import Opening
from outcry.core.playbook import LevelLine, ScenarioState, level_lines
from outcry.core.profile import SessionProfile, profile_of


@dataclass(frozen=True, slots=True)
class LiveView:
    """A session as it stands. Prices in ticks, times ns UTC.

    last_ticks: price of the newest trade that stands. last_ns: exchange time of the newest event folded in, taken
    back since or not; revision: how often folded trades were amended since. overnight: high and low; of an ETH
    session, its own so far. ib_complete: whether the first 60 minutes are over. night: the ladder of the overnight
    session before an RTH session, where it was folded here.
    """

    opening: Opening
    ladder: Ladder
    profile: SessionProfile
    last_ticks: int
    last_ns: int
    ib_complete: bool
    overnight: tuple[int, int] | None
    bias: BiasReading
    levels: tuple[LevelLine, ...]
    scenarios: tuple[ScenarioState, ...]
    revision: int
    night: Ladder | None = None


@dataclass(frozen=True, slots=True)
class Capture:
    """What a view is worked out of: taken in microseconds, so that the fold can go on meanwhile."""

    opening: Opening
    ladder: Ladder
    last_ns: int
    ib_complete: bool
    bias: BiasReading
    scenarios: tuple[ScenarioState, ...]
    revision: int
    night: Ladder | None = None

    def view(self) -> LiveView:
        """Work the levels out."""
        profile, last_ticks = profile_of(self.ladder, IB_BRACKETS), self.ladder.close_ticks
        overnight = self.opening.overnight
        if self.opening.kind is SessionKind.ETH:
            overnight = (profile.high, profile.low)
        lines = level_lines(profile, self.opening, last_ticks, ib_complete=self.ib_complete)
        return LiveView(
            self.opening, self.ladder, profile, last_ticks, self.last_ns, self.ib_complete, overnight,
            self.bias, lines, self.scenarios, self.revision, self.night,
        )  # fmt: skip
