"""The scenarios of a session: what each waits for, and where it stands (rules §7).

Rules kept: every scenario moves by one table of phases and signs; a condition counts from the moment its phase awaits
it, so one order of events gives one outcome; what is done or void stays so until the session ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from outcry.market.alerts.machine import NEVER_NS, SILENCE, Observation, Quiet, move
from outcry.market.opening import Opening
from outcry.market.playbook import Condition, ScenarioState, Status
from outcry.market.scenario_rules import ScenarioId, ScenarioRule, scenario_rules
from outcry.market.units import NANOS_PER_HOUR

_IDS = tuple(ScenarioId)  # an enumeration is slow to be gone through


class Phase(StrEnum):
    """WAITING: `if` does not hold yet. READY: it does, unconfirmed. HALFWAY: active, and past a first of two prices."""

    WAITING = "waiting"
    READY = "ready"
    ACTIVE = "active"
    HALFWAY = "halfway"
    DONE = "done"
    VOID = "void"

    @property
    def status(self) -> Status:
        """As answers name it."""
        if self in {Phase.WAITING, Phase.READY}:
            return Status.PENDING
        return Status.ACTIVE if self is Phase.HALFWAY else Status(self.value)


class Sign(StrEnum):
    """Which condition was met; IMPOSSIBLE: the session opened where `if` can no longer hold."""

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

#: What each phase looks for, in order of precedence; other signs never come.
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
    """Where one scenario stands. run, run_index: brackets in a row that met `confirm`, and the newest of them.

    since_ns: when the phase began. A bracket that had ended by then says nothing of it, though it may be sealed later.
    HALFWAY is active still: what invalidates has been awaited since ACTIVE began.
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
        """Count a bracket that met `confirm`; whether it is the last of as many in a row."""
        self.run = self.run + 1 if self.run_index == index - 1 else 1
        self.run_index = index
        return self.run >= times


def awaited(rule: ScenarioRule, phase: Phase) -> list[tuple[Sign, Condition]]:
    """What a scenario looks for in a phase, in order of precedence.

    A close that invalidates is no sign until the scenario is active: before, it is only no confirmation.
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
    """The scenarios of one session, regular or overnight. Prices in ticks, times ns UTC.

    Call `opened` first, then `traded` and `bracket_closed` in order of event time; inside `quiet()` `traded` may be
    skipped.
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
        "_watched",
    )

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._open_ticks: int | None = None
        self._ib: tuple[int, int] | None = None
        self._hour_over = False
        self._tracks = {id_: _Track() for id_ in _IDS}
        self._lay_out()

    def opened(self, first_price: int) -> None:
        """The session's first price: of its first trade, or the open of its first bar."""
        self._open_ticks = first_price
        self._lay_out()
        for rule in self._rules:
            if rule.if_.observable == "open":
                met = rule.if_.met(first_price, first_price)
                self._tracks[rule.id].take(Sign.IF if met else Sign.IMPOSSIBLE, -1)
        self._watch()

    def traded(self, seen: Observation, ib: tuple[int, int] | None) -> None:
        """Something traded. ib: high and low once the first hour is over and there is one, else None.

        Of one bar that meets two conditions no one can tell which was first: an invalidation goes before the rest.
        """
        if not self._hour_over and seen.slot_ns >= self._opening.open_ns + NANOS_PER_HOUR:
            self._hour_over = True
            self._watch()
        self.revise_ib(ib)
        moved = True
        while moved:  # one trade may do several steps: a price that revisits a poor high may be beyond it
            moved = False
            for track, sign, condition in self._watched:
                if condition.met(seen.low, seen.high):
                    track.take(sign, seen.slot_ns)
                    self._watch()
                    moved = True
                    break

    def revise_ib(self, ib: tuple[int, int] | None) -> None:
        """The initial balance of an hour that is over: a late trade may still move it."""
        if ib is not None and ib != self._ib:
            self._ib = ib
            self._lay_out()

    def bracket_closed(self, index: int, at_ns: int, close: int | None) -> None:
        """A bracket has ended at `at_ns`, its last price `close`; None: nothing traded in it, so it ends any run."""
        if close is None:
            return
        for rule in self._rules:
            track = self._tracks[rule.id]
            if track.phase is Phase.WAITING and rule.if_.observable == "trade" and rule.if_.met(close, close):
                track.take(Sign.IF, at_ns - 1)  # a close was traded, though it came too late to be shown
            if at_ns <= track.since_ns:
                continue
            for sign, condition in awaited(rule, track.phase):
                if condition.observable != "bracket_close" or not condition.met(close, close):
                    continue
                if sign is not Sign.CONFIRM or track.confirmed(index, condition.times):
                    track.take(sign, at_ns)
                    break
        self._watch()

    def quiet(self) -> Quiet:
        """Where `traded` would change nothing, until something else is called."""
        return self._quiet

    def states(self, ib: tuple[int, int] | None) -> tuple[ScenarioState, ...]:
        """Every scenario that exists, in the order of `ScenarioId`. ib: as for `traded`."""
        if ib is not None and ib != self._ib:  # the hour is over and nothing was shown since
            return self._told(scenario_rules(self._opening, self._open_ticks, ib))
        if self._states is None:
            self._states = self._told(self._rules)
        return self._states

    def dump(self) -> list[object]:
        """The whole state, as JSON holds it; the opening is kept elsewhere."""
        tracks = [[t.phase.value, t.run, t.run_index, t.since_ns] for t in self._tracks.values()]
        return [self._open_ticks, self._ib and list(self._ib), self._hour_over, tracks]

    @staticmethod
    def load(opening: Opening, state: object) -> "Scenarios":
        """Read what `dump` wrote of a session that opened so."""
        open_ticks, ib, hour_over, tracks = cast("list[Any]", state)
        found = Scenarios(opening)
        found._open_ticks, found._hour_over = open_ticks, hour_over
        found._ib = (ib[0], ib[1]) if ib else None
        found._tracks = {
            id_: _Track(Phase(phase), *more) for id_, (phase, *more) in zip(_IDS, tracks, strict=True)
        }
        found._lay_out()
        return found

    def _told(self, found: Sequence[ScenarioRule]) -> tuple[ScenarioState, ...]:
        states: list[ScenarioState] = []
        for rule in found:
            phase = self._tracks[rule.id].phase
            half = rule.half if phase in {Phase.WAITING, Phase.READY, Phase.ACTIVE} else None
            states.append(
                ScenarioState(
                    id=rule.id, if_=rule.if_, then=rule.then, reference=half[0] if half else rule.reference,
                    confirm=rule.confirm, invalidate=rule.invalidate, status=phase.status,
                )
            )  # fmt: skip
        return tuple(states)

    def _lay_out(self) -> None:
        """The open or the initial balance has become known, or moved: so have conditions."""
        self._rules = scenario_rules(self._opening, self._open_ticks, self._ib)
        self._watch()

    def _watch(self) -> None:
        """Something changed: gather the conditions on trades that are awaited now, and the band that meets none."""
        self._states: tuple[ScenarioState, ...] | None = None
        self._watched = [
            (self._tracks[rule.id], sign, condition)
            for rule in self._rules
            for sign, condition in awaited(rule, self._tracks[rule.id].phase)
            if condition.observable == "trade"
        ]
        hour_ends_ns = self._opening.open_ns + NANOS_PER_HOUR
        quiet = Quiet(SILENCE.low, SILENCE.high, NEVER_NS if self._hour_over else hour_ends_ns)
        for _, _, condition in self._watched:
            quiet = quiet.join(_unmet(condition))
        self._quiet = quiet


def _unmet(condition: Condition) -> Quiet:
    """The band that does not meet a condition on trades; those are bounds, never ranges."""
    if condition.op in {">", ">="}:
        return Quiet(SILENCE.low, condition.price_ticks + (condition.op == ">"), NEVER_NS)
    return Quiet(condition.price_ticks - (condition.op == "<"), SILENCE.high, NEVER_NS)
