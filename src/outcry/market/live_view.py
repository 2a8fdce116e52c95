"""The current view of a live session, computed from its ladder, bias and scenarios.

A `Capture` is the immutable input of a view. So the view can be computed while the session continues, or in another
process. Loading a capture that another version wrote raises an error.
"""

import json
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any

from outcry.market.bias import Bias, BiasReading, Votes
from outcry.market.calendar import SessionKind
from outcry.market.ladder import IB_BRACKETS, Ladder
from outcry.market.opening import Opening
from outcry.market.playbook import (
    Condition,
    LevelLine,
    Reference,
    ReferenceKind,
    ScenarioId,
    ScenarioState,
    Status,
    level_lines,
)
from outcry.market.profile import SessionProfile, profile_of, tpo_levels_of
from outcry.market.snapshot import SnapshotMismatch, dump, load

#: Version of the encoding of captures.
VERSION = 1

_REFERENCE_KINDS = frozenset(ReferenceKind)


@dataclass(frozen=True, slots=True)
class LiveView:
    """The current state of a session. Prices are ticks, times ns UTC.

    last_ticks: price of the newest trade that was not busted. last_ns: exchange time of the newest event, including
    busted trades. ib_complete: whether the first 60 minutes are over. overnight: high and low of the overnight session;
    for an ETH session, its own high and low so far. revision: how often trades were busted or corrected after they were
    applied. overnight_ladder: ladder of the overnight session before an RTH session, if this process computed it.
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
    overnight_ladder: Ladder | None = None


@dataclass(frozen=True, slots=True)
class Capture:
    """Immutable state of a session, from which a view can be computed later.

    Taking a capture costs microseconds only, so the session is not delayed.
    """

    opening: Opening
    ladder: Ladder
    last_ns: int
    ib_complete: bool
    bias: BiasReading
    scenarios: tuple[ScenarioState, ...]
    revision: int
    overnight_ladder: Ladder | None = None

    def view(self) -> LiveView:
        """Compute the view: profile, levels and current state."""
        profile = profile_of(self.ladder, IB_BRACKETS, tpo_levels=_tpo_levels_of)
        overnight = self.opening.overnight
        if self.opening.kind is SessionKind.ETH:
            overnight = (profile.high, profile.low)
        lines = level_lines(profile, self.opening, ib_complete=self.ib_complete)
        return LiveView(
            self.opening, self.ladder, profile, self.ladder.close_ticks, self.last_ns, self.ib_complete, overnight,
            self.bias, lines, self.scenarios, self.revision, self.overnight_ladder,
        )  # fmt: skip

    def dump(self) -> bytes:
        """Encode the capture: a line with the version, then one line of canonical JSON for each part.

        The parts are the opening, the ladder, the overnight ladder (empty if there is none), and all other fields.
        """
        votes = self.bias.votes
        rest = [
            self.last_ns,
            self.ib_complete,
            self.revision,
            self.bias.bias,
            [votes.last, votes.poc, votes.value, votes.extension, votes.one_timeframing],
            [_scenario_list(scenario) for scenario in self.scenarios],
        ]
        lines = [
            b"%d" % VERSION,
            _opening_bytes(self.opening),
            dump(self.ladder),
            _overnight_bytes(self.overnight_ladder),
        ]
        return b"\n".join([*lines, json.dumps(rest, separators=(",", ":")).encode()])

    @staticmethod
    def load(data: bytes) -> "Capture":
        """Decode a capture from the result of `dump`. Raises `SnapshotMismatch`."""
        version, _, whole = data.partition(b"\n")
        if version != b"%d" % VERSION:
            raise SnapshotMismatch(f"capture of version {version[:8]!r}, this program reads {VERSION}")
        try:
            opening, ladder, overnight, rest = whole.split(b"\n")
            last_ns, ib_complete, revision, bias, votes, scenarios = json.loads(rest)
            return Capture(
                Opening.load(opening), load(ladder), last_ns, ib_complete, BiasReading(Bias(bias), Votes(*votes)),
                tuple(_scenario_of(*scenario) for scenario in scenarios), revision,
                load(overnight) if overnight else None,
            )  # fmt: skip
        except (ValueError, TypeError, LookupError) as problem:
            raise SnapshotMismatch(f"not a capture: {problem}") from problem


#: Few trades print a new row, so the TPO counts of most views are those of the view before.
_tpo_levels_of = lru_cache(maxsize=1024)(tpo_levels_of)


#: Hundreds of captures of a session share one opening and one overnight ladder.
@lru_cache(maxsize=1024)
def _opening_bytes(opening: Opening) -> bytes:
    return opening.dump()


@lru_cache(maxsize=1024)
def _overnight_bytes(overnight: Ladder | None) -> bytes:
    return dump(overnight) if overnight else b""


def _scenario_list(scenario: ScenarioState) -> list[object]:
    conditions = (scenario.if_, scenario.confirm, scenario.invalidate)
    return [
        scenario.id,
        scenario.then,
        [scenario.reference.label, scenario.reference.price_ticks],
        scenario.status,
        *([c.observable, c.op, c.price_ticks, c.times, c.to_ticks] for c in conditions),
    ]


def _scenario_of(
    id_: str, _then: str, reference: list[Any], status: str, *conditions: list[Any]
) -> ScenarioState:
    if_, confirm, invalidate = (Condition(*condition) for condition in conditions)
    return ScenarioState(ScenarioId(id_), if_, _reference_of(*reference), confirm, invalidate, Status(status))


def _reference_of(label: str, price_ticks: int) -> Reference:
    """Decode the label of a scenario's target level. Only the label of a poor extreme ends in a date."""
    if label in _REFERENCE_KINDS:
        return Reference(ReferenceKind(label), price_ticks)
    kind, _, made_on = label.rpartition(" ")
    return Reference(ReferenceKind(kind), price_ticks, date.fromisoformat(made_on))
