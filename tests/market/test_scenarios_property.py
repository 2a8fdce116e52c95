"""Random sessions through every scenario.

The table has a transition for every event, and statuses equal an oracle written from the rules' sentences. Calls inside
the quiet band may be skipped, and a session can be restored anywhere.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.market.test_scenarios import HALF_HOUR, OPENING, PRIOR

from outcry.market.alerts.machine import Observation
from outcry.market.levels import CarriedLevel, CarriedLevels
from outcry.market.playbook import Status
from outcry.market.scenarios import Scenarios

HOUR = 2 * HALF_HOUR
POOR = 124
FULL = CarriedLevels((), (CarriedLevel(POOR, PRIOR.trade_date),), (CarriedLevel(76, PRIOR.trade_date),))
DAY = replace(OPENING, carried=FULL)


@dataclass(frozen=True)
class Trade:
    at_ns: int
    price: int


@dataclass(frozen=True)
class Close:
    index: int
    at_ns: int
    price: int | None


Event = Trade | Close
Tape = list[Event]


@st.composite
def tapes(draw: st.DrawFn) -> Tape:
    """Generate up to ten brackets of up to six trades; a close is sealed after up to two trades of the next one."""
    price = draw(st.integers(70, 130))
    tape: Tape = [Trade(0, price)]
    step = st.one_of(st.integers(-3, 3), st.integers(-25, 25))
    for index in range(draw(st.integers(1, 10))):
        sealed: list[Event] = [tape.pop()] if isinstance(tape[-1], Close) else []
        last = price if index == 0 else None
        late = draw(st.integers(0, 2))
        for count in range(draw(st.integers(0, 6))):
            if sealed and count == late:
                tape += sealed
                sealed = []
            price = last = min(140, max(60, price + draw(step)))
            tape.append(Trade(index * HALF_HOUR + count + (index == 0), price))
        tape += [*sealed, Close(index, (index + 1) * HALF_HOUR, last)]
    return tape


def balance(tape: Sequence[Event]) -> tuple[int, int] | None:
    hour = [event.price for event in tape if isinstance(event, Trade) and event.at_ns < HOUR]
    return (max(hour), min(hour)) if hour else None


def tell(scenarios: Scenarios, event: Event, ib: tuple[int, int] | None) -> None:
    if isinstance(event, Close):
        scenarios.bracket_closed(event.index, event.at_ns, event.price)
    else:
        seen = Observation(event.at_ns, event.price, event.price, event.price, event.price, event.at_ns)
        scenarios.traded(seen, ib if event.at_ns >= HOUR else None)


def begun(tape: Tape) -> Scenarios:
    scenarios = Scenarios(DAY)
    first = tape[0]
    assert isinstance(first, Trade)
    scenarios.opened(first.price)
    return scenarios


# -- oracle: the rules' sentences, evaluated over the whole tape

Found = tuple[int, str] | None


def first_trade(tape: Tape, after: int, meets: Callable[[int], bool], since_ns: int = -1) -> int | None:
    return next(
        (
            at
            for at, event in enumerate(tape)
            if at > after and isinstance(event, Trade) and event.at_ns >= since_ns and meets(event.price)
        ),
        None,
    )


def first_close(
    tape: Tape, after: int, meets: Callable[[int], bool], *, since_ns: int = -1, times: int = 1
) -> int | None:
    """Return the first close after an index that completes this many in a row, all of them after it."""
    closes = {e.index: (at, e) for at, e in enumerate(tape) if isinstance(e, Close) and at > after}
    for index, (at, _) in sorted(closes.items()):
        row = [closes.get(index - back) for back in range(times)]
        if all(
            one is not None and one[1].at_ns > since_ns and one[1].price is not None and meets(one[1].price)
            for one in row
        ):
            return at
    return None


def outcome(active: int | None, done: int | None, void: int | None) -> Status:
    if active is None:
        return Status.PENDING
    ends = sorted((at, status) for at, status in ((done, Status.DONE), (void, Status.VOID)) if at is not None)
    return ends[0][1] if ends else Status.ACTIVE


def time_of(tape: Tape, at: int) -> int:
    return tape[at].at_ns


def accept_above(tape: Tape) -> Status:
    active = first_close(tape, -1, lambda p: p > 110, times=2)
    if active is None:
        return Status.PENDING
    done = first_trade(tape, active, lambda p: p >= 120)
    void = first_close(tape, active, lambda p: p <= 110)
    return outcome(active, done, void)


def return_from_above(tape: Tape) -> Status:
    assert isinstance(tape[0], Trade)
    if tape[0].price <= 110:
        return Status.VOID
    active = first_close(tape, -1, lambda p: 90 <= p <= 110, times=2)
    if active is None:
        return Status.PENDING
    done = first_trade(tape, active, lambda p: p <= 90)
    void = first_close(tape, active, lambda p: p > 110)
    return outcome(active, done, void)


def failed_break_up(tape: Tape) -> Status | None:
    ib = balance(tape)
    if ib is None or ib[0] == ib[1] or not any(e.at_ns >= HOUR and isinstance(e, Trade) for e in tape):
        return None
    high, low = ib
    broke = first_trade(tape, -1, lambda p: p > high, HOUR)
    if broke is None:
        return Status.PENDING
    active = first_close(tape, broke, lambda p: low <= p <= high, since_ns=time_of(tape, broke))
    if active is None:
        return Status.PENDING
    done = first_trade(tape, active, lambda p: p <= low)
    void = first_close(tape, active, lambda p: p > high)
    return outcome(active, done, void)


def held_gap_up(tape: Tape) -> Status:
    assert isinstance(tape[0], Trade)
    if tape[0].price <= 120:
        return Status.VOID
    filled = first_trade(tape, -1, lambda p: p <= 120)
    active = first_close(tape, -1, lambda p: p > 120)
    if filled is not None and (active is None or filled < active):
        return Status.VOID
    ib = balance(tape)
    if active is None:
        return Status.PENDING
    done = first_trade(tape, active, lambda p: p > ib[0], HOUR) if ib else None
    return outcome(active, done, filled)


def poor_high(tape: Tape) -> Status | None:
    assert isinstance(tape[0], Trade)
    if tape[0].price > POOR:
        return None
    active = first_trade(tape, -1, lambda p: p >= POOR - 2)
    if active is None:
        return Status.PENDING
    done = first_trade(tape, active - 1, lambda p: p > POOR)
    void = first_close(tape, active, lambda p: p <= POOR - 8, since_ns=time_of(tape, active))
    return outcome(active, done, void)


ORACLES: dict[str, Callable[[Tape], Status | None]] = {
    "accept_above": accept_above,
    "value_return_from_above": return_from_above,
    "ib_failure_up": failed_break_up,
    "gap_up_held": held_gap_up,
    "poor_high_repair": poor_high,
}


def statuses(scenarios: Scenarios, tape: Tape) -> dict[str, Status]:
    over = any(isinstance(event, Trade) and event.at_ns >= HOUR for event in tape)
    return {state.id: state.status for state in scenarios.states(balance(tape) if over else None)}


def mirror(tape: Tape) -> Tape:
    return [
        Trade(event.at_ns, 200 - event.price)
        if isinstance(event, Trade)
        else Close(event.index, event.at_ns, None if event.price is None else 200 - event.price)
        for event in tape
    ]


DOWN = {
    "accept_above": "accept_below",
    "value_return_from_above": "value_return_from_below",
    "ib_failure_up": "ib_failure_down",
    "gap_up_held": "gap_down_held",
    "poor_high_repair": "poor_low_repair",
}


def run(tape: Tape) -> Scenarios:
    scenarios, ib = begun(tape), balance(tape)
    for event in tape:
        tell(scenarios, event, ib)
    return scenarios


#: A bracket sealed late, after the trade that took the scenario half its way: it still invalidates.
SEALED_LATE: Tape = [
    Trade(0, 70),
    Close(0, HALF_HOUR, 70),
    Trade(HALF_HOUR, 73),
    Close(1, HOUR, 73),
    Trade(HOUR, 74),
    Trade(HOUR + 1, 73),
    Close(2, HOUR + HALF_HOUR, 73),
    Close(3, 2 * HOUR, None),
    Trade(2 * HOUR, 74),
    Trade(2 * HOUR + HALF_HOUR, 71),
    Close(4, 2 * HOUR + HALF_HOUR, 74),
    Close(5, 3 * HOUR, 71),
]


@example(SEALED_LATE)
@given(tapes())
@settings(max_examples=400)
def test_each_status_equals_the_rules_sentences(tape: Tape) -> None:
    """Compare the statuses at the end, and those of the mirrored tape."""
    told, turned = statuses(run(tape), tape), statuses(run(mirror(tape)), mirror(tape))
    for id_, oracle in ORACLES.items():
        assert told.get(id_) == oracle(tape), id_
        assert turned.get(DOWN[id_]) == oracle(tape), DOWN[id_]


@given(tapes())
@settings(max_examples=300)
def test_calls_inside_the_quiet_band_may_be_skipped(tape: Tape) -> None:
    every, few, ib = begun(tape), begun(tape), balance(tape)
    for event in tape:
        tell(every, event, ib)
        quiet = few.quiet()
        if isinstance(event, Close) or not (
            quiet.low < event.price < quiet.high and event.at_ns < quiet.until_ns
        ):
            tell(few, event, ib)
        assert few.dump() == every.dump()
        assert few.quiet() == every.quiet()
        assert few.states(None) == Scenarios.load(DAY, every.dump()).states(None)


@given(tapes(), st.integers(0, 70))
@settings(max_examples=200)
def test_a_session_can_be_restored_at_any_event(tape: Tape, cut: int) -> None:
    whole, parts, ib = begun(tape), begun(tape), balance(tape)
    for at, event in enumerate(tape):
        if at == cut:
            parts = Scenarios.load(DAY, json.loads(json.dumps(parts.dump())))
            assert parts.quiet() == whole.quiet()
        tell(whole, event, ib)
        tell(parts, event, ib)
    assert parts.dump() == whole.dump()
    assert parts.states(ib) == whole.states(ib)


@example([Trade(0, 100)])
@given(tapes())
@settings(max_examples=50)
def test_done_and_void_are_final(tape: Tape) -> None:
    scenarios, ib = begun(tape), balance(tape)
    ended: dict[str, Status] = {}
    for event in tape:
        tell(scenarios, event, ib)
        now = {state.id: state.status for state in scenarios.states(None)}
        assert {id_: now[id_] for id_ in ended} == ended
        ended |= {id_: status for id_, status in now.items() if status in {Status.DONE, Status.VOID}}
