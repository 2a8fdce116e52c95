"""State machines of a session's scenarios (rules §7).

All scenarios share one transition table. A condition counts only from the start of the phase that waits for it, so the
order of events determines the outcome. Once a scenario is done or void, it stays so until the session ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from outcry.market.alerts.machine import ALWAYS_QUIET, NEVER_NS, Observation, QuietBand, move
from outcry.market.opening import Opening
from outcry.market.playbook import Condition, ScenarioId, ScenarioState, Status
from outcry.market.scenario_rules import ScenarioRule, scenario_rules
from outcry.market.units import NANOS_PER_HOUR

_IDS = tuple(ScenarioId)  # iterating over an enum is slow


class Phase(StrEnum):
    """Progress of a scenario.

    WAITING: the condition `if` is not met. READY: `if` is met, but the scenario is not confirmed. HALFWAY: active, and
    the first of two targets is reached.
    """

    WAITING = "waiting"
    READY = "ready"
    ACTIVE = "active"
    HALFWAY = "halfway"
    DONE = "done"
    VOID = "void"

    @property
    def status(self) -> Status:
        """Return the status that API responses report for this phase."""
        if self in {Phase.WAITING, Phase.READY}:
            return Status.PENDING
        return Status.ACTIVE if self is Phase.HALFWAY else Status(self.value)


class Sign(StrEnum):
    """Which condition of a scenario was met.

    IMPOSSIBLE: the session opened at a price from which the condition `if` can no longer be met.
    """

    IF = "if"
    IMPOSSIBLE = "impossible"
    INVALIDATE = "invalidate"
    CONFIRM = "confirm"
    HALF = "half"
    REACH = "reach"


TRANSITIONS: dict[tuple[Phase, Sign], Phase] = {
    (Phase.WAITING, Sign.IF): Phase.READY,
    (Phase.WAITING, Sign.IMPOSSIBLE): Phase.VOID,
    (Phase.READY, Sign.INVALIDATE): Phase.VOID,
    (Phase.READY, Sign.CONFIRM): Phase.ACTIVE,
    (Phase.ACTIVE, Sign.INVALIDATE): Phase.VOID,
    (Phase.ACTIVE, Sign.HALF): Phase.HALFWAY,
    (Phase.ACTIVE, Sign.REACH): Phase.DONE,
    (Phase.HALFWAY, Sign.INVALIDATE): Phase.VOID,
    (Phase.HALFWAY, Sign.REACH): Phase.DONE,
}

#: Signs evaluated in each phase, by precedence. No other sign occurs in it.
AWAITED: dict[Phase, tuple[Sign, ...]] = {
    Phase.WAITING: (Sign.IF,),
    Phase.READY: (Sign.INVALIDATE, Sign.CONFIRM),
    Phase.ACTIVE: (Sign.INVALIDATE, Sign.HALF, Sign.REACH),
    Phase.HALFWAY: (Sign.INVALIDATE, Sign.REACH),
    Phase.DONE: (),
    Phase.VOID: (),
}

NEVER = frozenset(
    {(Phase.WAITING, sign) for sign in (Sign.INVALIDATE, Sign.CONFIRM, Sign.HALF, Sign.REACH)}
    | {(Phase.READY, sign) for sign in (Sign.IF, Sign.IMPOSSIBLE, Sign.HALF, Sign.REACH)}
    | {(Phase.ACTIVE, sign) for sign in (Sign.IF, Sign.IMPOSSIBLE, Sign.CONFIRM)}
    | {(Phase.HALFWAY, sign) for sign in (Sign.IF, Sign.IMPOSSIBLE, Sign.CONFIRM, Sign.HALF)}
    | {(phase, sign) for phase in (Phase.DONE, Phase.VOID) for sign in Sign}
)


@dataclass(slots=True)
class _Track:
    """State of one scenario.

    run: how many consecutive brackets have met the condition `confirm`. run_index: index of the newest of them.
    since_ns: start of the phase; brackets that ended before it do not count, even if they become final later. In phase
    HALFWAY it is the start of ACTIVE, because the same invalidation applies to both phases.
    """

    phase: Phase = Phase.WAITING
    run: int = 0
    run_index: int = -2
    since_ns: int = -1

    def take(self, sign: Sign, at_ns: int) -> None:
        self.phase = move(TRANSITIONS, self.phase, sign)
        self.run, self.run_index = 0, -2
        if self.phase is not Phase.HALFWAY:
            self.since_ns = at_ns

    def confirmed(self, index: int, times: int) -> bool:
        """Count a bracket that met `confirm`; return whether `times` consecutive brackets have met it now."""
        self.run = self.run + 1 if self.run_index == index - 1 else 1
        self.run_index = index
        return self.run >= times


def awaited(rule: ScenarioRule, phase: Phase) -> list[tuple[Sign, Condition]]:
    """Return the conditions to check for a scenario in a phase, each with the event (`Sign`) that it causes.

    The first condition that is met has precedence. A bracket close can invalidate a scenario only while the scenario is
    active. Before that, such a close does not confirm the scenario, and changes nothing else.
    """
    by_sign = {
        Sign.IF: rule.if_,
        Sign.INVALIDATE: rule.invalidate,
        Sign.CONFIRM: rule.confirm,
        Sign.HALF: rule.half and rule.half[1],
        Sign.REACH: rule.reach,
    }
    found: list[tuple[Sign, Condition]] = []
    for sign in AWAITED[phase]:
        condition = by_sign[sign]
        early = sign is Sign.INVALIDATE and phase is Phase.READY
        if condition and not (early and condition.observable == "bracket_close"):
            found.append((sign, condition))
    return found


class Scenarios:
    """The scenarios of one RTH or ETH session and their states. Prices are ticks, times ns UTC.

    Call `opened` first, then `traded` and `bracket_closed` in order of event time. Trades inside the band that `quiet`
    returns may be skipped.
    """

    __slots__ = (
        "_hour_over",
        "_ib",
        "_open_ticks",
        "_opening",
        "_quiet",
        "_rules",
        "_states",
        "_tracks",
        "_trade_conditions",
    )

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._open_ticks: int | None = None
        self._ib: tuple[int, int] | None = None
        self._hour_over = False
        self._tracks = {id_: _Track() for id_ in _IDS}
        self._states: tuple[ScenarioState, ...] | None = None
        self._recompute()

    def opened(self, first_price: int) -> None:
        """Record the session's first price: its first trade, or the open of its first bar."""
        self._open_ticks = first_price
        self._recompute()
        for rule in self._rules:
            if rule.if_.observable == "open":
                met = rule.if_.met(first_price, first_price)
                self._tracks[rule.id].take(Sign.IF if met else Sign.IMPOSSIBLE, -1)
        self._recompute_band()

    def traded(self, seen: Observation, ib: tuple[int, int] | None) -> None:
        """Evaluate a trade or bar.

        ib: the initial balance (high, low) after the first hour; None during that hour, or if there is none. If one bar
        meets two conditions, their order is unknown; invalidation takes precedence.
        """
        if not self._hour_over and seen.slot_ns >= self._opening.open_ns + NANOS_PER_HOUR:
            self._hour_over = True
            self._recompute_band()
        self.revise_ib(ib)
        moved = True
        while moved:  # one trade may cause several steps: it can revisit a poor high and exceed it
            moved = False
            for track, sign, condition in self._trade_conditions:
                if condition.met(seen.low, seen.high):
                    track.take(sign, seen.slot_ns)
                    self._recompute_band()
                    moved = True
                    break

    def revise_ib(self, ib: tuple[int, int] | None) -> None:
        """Set the initial balance after the first hour; a late trade may still change it."""
        if ib is not None and ib != self._ib:
            self._ib = ib
            self._recompute()

    def bracket_closed(self, index: int, at_ns: int, close: int | None) -> None:
        """Evaluate the close of a bracket that ended at `at_ns`.

        close: its last price. None: nothing traded, so a series of consecutive brackets ends.
        """
        if close is None:
            return
        for rule in self._rules:
            track = self._tracks[rule.id]
            if track.phase is Phase.WAITING and rule.if_.observable == "trade" and rule.if_.met(close, close):
                track.take(Sign.IF, at_ns - 1)  # the close is a trade as well, but came too late for `traded`
            if at_ns <= track.since_ns:
                continue
            for sign, condition in awaited(rule, track.phase):
                if condition.observable != "bracket_close" or not condition.met(close, close):
                    continue
                if sign is not Sign.CONFIRM or track.confirmed(index, condition.times):
                    track.take(sign, at_ns)
                    break
        self._recompute_band()

    def quiet(self) -> QuietBand:
        """Return the price band in which `traded` changes nothing. It is valid until another method is called."""
        return self._quiet

    def states(self, ib: tuple[int, int] | None) -> tuple[ScenarioState, ...]:
        """Return all scenarios that exist, in the order of `ScenarioId`. ib: the initial balance, as in `traded`."""
        if ib is not None and ib != self._ib:  # no trade has been evaluated since the first hour ended
            return self._states_of(scenario_rules(self._opening, self._open_ticks, ib))
        if self._states is None:
            self._states = self._states_of(self._rules)
        return self._states

    def dump(self) -> list[object]:
        """Return the state of all scenarios as JSON values, without the opening."""
        tracks = [[t.phase.value, t.run, t.run_index, t.since_ns] for t in self._tracks.values()]
        return [self._open_ticks, self._ib and list(self._ib), self._hour_over, tracks]

    @staticmethod
    def load(opening: Opening, state: object) -> "Scenarios":
        """Restore the scenarios from the result of `dump`, with the same opening as then."""
        open_ticks, ib, hour_over, tracks = cast("list[Any]", state)
        found = Scenarios(opening)
        found._open_ticks, found._hour_over = open_ticks, hour_over
        found._ib = (ib[0], ib[1]) if ib else None
        found._tracks = {
            id_: _Track(Phase(phase), *more) for id_, (phase, *more) in zip(_IDS, tracks, strict=True)
        }
        found._recompute()
        return found

    def _states_of(self, found: Sequence[ScenarioRule]) -> tuple[ScenarioState, ...]:
        states: list[ScenarioState] = []
        for rule in found:
            phase = self._tracks[rule.id].phase
            half = rule.half if phase in {Phase.WAITING, Phase.READY, Phase.ACTIVE} else None
            states.append(
                ScenarioState(
                    id=rule.id, if_=rule.if_, reference=half[0] if half else rule.reference, confirm=rule.confirm,
                    invalidate=rule.invalidate, status=phase.status,
                )
            )  # fmt: skip
        return tuple(states)

    def _recompute(self) -> None:
        """Recompute the scenarios' conditions after the open or the initial balance changed."""
        self._rules = scenario_rules(self._opening, self._open_ticks, self._ib)
        self._recompute_band()

    def _recompute_band(self) -> None:
        """Recompute which conditions on trades apply now, and the price band in which a trade meets none of them."""
        self._states = None
        self._trade_conditions = [
            (self._tracks[rule.id], sign, condition)
            for rule in self._rules
            for sign, condition in awaited(rule, self._tracks[rule.id].phase)
            if condition.observable == "trade"
        ]
        hour_ends_ns = self._opening.open_ns + NANOS_PER_HOUR
        quiet = QuietBand(ALWAYS_QUIET.low, ALWAYS_QUIET.high, NEVER_NS if self._hour_over else hour_ends_ns)
        for _, _, condition in self._trade_conditions:
            quiet = quiet.join(_unmet(condition))
        self._quiet = quiet


def _unmet(condition: Condition) -> QuietBand:
    """Return the price band in which trades do not meet a condition. The condition must be a bound, not a range."""
    if condition.op in {">", ">="}:
        return QuietBand(ALWAYS_QUIET.low, condition.price_ticks + (condition.op == ">"), NEVER_NS)
    return QuietBand(condition.price_ticks - (condition.op == "<"), ALWAYS_QUIET.high, NEVER_NS)
