"""Random walks through every alert machine, compared with an oracle over the whole tape (`structure_oracle`)."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.market.structure_oracle import Bar, Bracket, Event, Revised, alerts
from tests.market.structure_tape import MINUTE, OPEN_NS, PRIOR, at, opening

from outcry.market.alerts import ib_break, naked_poc, poor, va_accept, va_reject, va_test
from outcry.market.alerts.machine import AlertType, Fired, Observation, QuietBand
from outcry.market.alerts.session_alerts import SessionAlerts
from outcry.market.levels import CarriedLevel
from outcry.market.opening import Opening, Prior

SECOND = 1_000_000_000
FAMILIES = {module.__name__: module for module in (va_test, va_reject, va_accept, ib_break, naked_poc, poor)}

STEPS_NS = [
    0, 0, 1, SECOND // 2, SECOND, 5 * SECOND, 20 * SECOND, MINUTE, 2 * MINUTE, 4 * MINUTE, 5 * MINUTE, 16 * MINUTE,
    31 * MINUTE,
]  # fmt: skip
MOVES = [-45, -21, -9, -8, -5, -3, -2, -1, -1, 0, 1, 1, 2, 3, 5, 8, 9, 21, 45]
#: One session: how wide prior value is (None: no prior), where it opens, bars or trades, and its steps: nanoseconds
#: on, ticks on, and whether the observation is too stale to be shown.
STEP = st.tuples(st.sampled_from(STEPS_NS), st.sampled_from(MOVES), st.sampled_from([False] * 9 + [True]))
WIDTHS = st.sampled_from([None, 3, 12, 12, 40, 40, 101])
LEVEL = st.integers(940, 1030)


@st.composite
def sessions(draw: st.DrawFn) -> tuple[Opening, list[Event]]:
    width = draw(WIDTHS)
    prior = (
        None
        if width is None
        else Prior(PRIOR.trade_date, 1000 - width // 2, 1000, 1000 - width, 1020, 940, 990)
    )
    pocs, highs, lows = (dated(draw(st.lists(LEVEL, max_size=4))) for _ in range(3))
    steps = draw(st.lists(STEP, max_size=120))
    return opening(prior, pocs, highs, lows), tape_of(draw(LEVEL), steps, bars=draw(st.booleans()))


def dated(prices: list[int]) -> tuple[CarriedLevel, ...]:
    """Return levels newest first, as they are carried."""
    return tuple(
        CarriedLevel(price, date(2025, 12, 31) - timedelta(days)) for days, price in enumerate(prices)
    )


def tape_of(start: int, steps: list[tuple[int, int, bool]], bars: bool) -> list[Event]:
    """Return the events that the machines' caller sends.

    Bars and brackets close two seconds after their end. A closed one includes trades that were too stale to be shown.
    The balance is reported when the hour is over or when it moves.
    """
    return list(_laid_out(list(_walk(start, steps, bars))))


def _walk(start: int, steps: list[tuple[int, int, bool]], bars: bool) -> Iterator[tuple[Observation, bool]]:
    when, price = OPEN_NS, start
    for on_ns, on_ticks, stale in steps:
        before, price = price, price + on_ticks
        if bars:
            when += max(MINUTE, on_ns // MINUTE * MINUTE)
            low, high = min(before, price), max(before, price) + on_ns % 3
        else:
            when += on_ns
            low = high = price
        if when > OPEN_NS + 390 * MINUTE - (not bars):
            return
        yield Observation(when, before, low, high, price, when - MINUTE if bars else when), stale


def _laid_out(walk: list[tuple[Observation, bool]]) -> Iterator[Event]:
    """Yield events: trades decide which bars and brackets close; `ends` are the pending ones, in order."""
    ends = sorted(
        [(at(5 * n), "bar", 5 * n) for n in range(1, 79)]
        + [(at(30 * n), "bracket", n - 1) for n in range(1, 14)],
        key=lambda end: (end[0], end[1] == "bracket"),
    )
    reported: tuple[int, int] | None = None
    for upto, (seen, stale) in enumerate(walk):
        while ends and ends[0][0] + 2 * SECOND <= seen.at_ns:
            yield from _closed(ends.pop(0), walk[:upto])
        hour = [one for one, _ in walk[: upto + 1] if one.slot_ns < at(60)]
        if seen.slot_ns >= at(60) and hour and not stale:
            ib = max(one.high for one in hour), min(one.low for one in hour)
            if ib != reported:
                reported = ib
                yield Revised(ib)
        if reported and seen.at_ns % 7 == 0:  # now and then a late trade moves it
            reported = reported[0] + 1, reported[1]
            yield Revised(reported)
        if not stale:
            yield seen
    for end in ends:
        yield from _closed(end, walk)


def _closed(end: tuple[int, str, int], walk: list[tuple[Observation, bool]]) -> Iterator[Event]:
    at_ns, what, number = end
    length = 5 * MINUTE if what == "bar" else 30 * MINUTE
    closes = [one.close for one, _ in walk if at_ns - length <= one.slot_ns < at_ns]
    if what == "bracket":
        yield Bracket(number, at_ns, closes[-1] if closes else None)
    elif closes:
        yield Bar(at_ns, closes[-1])


class Caller:
    """Drives a structure through a tape; `skips`: omits observations in the quiet band."""

    def __init__(self, structure: SessionAlerts, skips: bool = False) -> None:
        self.structure, self.skips = structure, skips
        self.ib: tuple[int, int] | None = None
        self.left_out = 0

    def show(self, event: Event) -> list[Fired]:
        if isinstance(event, Bar):
            return self.structure.bar_closed(
                event.at_ns, event.close, (event.at_ns - 1 - OPEN_NS) // (30 * MINUTE)
            )
        if isinstance(event, Bracket):
            return self.structure.bracket_closed(event.index, event.at_ns, event.close)
        if isinstance(event, Revised):
            self.ib = event.ib
            self.structure.revise_ib(event.ib)
            return []
        if self.skips and inside(self.structure.quiet(), event):
            self.left_out += 1
            return []
        bracket = (event.slot_ns - OPEN_NS) // (30 * MINUTE)
        return self.structure.traded(event, bracket, self.ib, (event.high, event.low))


def inside(quiet: QuietBand, seen: Observation) -> bool:
    return quiet.low < seen.low and seen.high < quiet.high and seen.at_ns < quiet.until_ns


@given(sessions())
@settings(max_examples=250, deadline=None)
def test_alerts_equal_those_of_the_oracle(session: tuple[Opening, list[Event]]) -> None:
    opened, tape = session
    caller = Caller(SessionAlerts(opened))
    found = [(k, alert) for k, event in enumerate(tape) for alert in caller.show(event)]
    assert [(k, a.type, a.at_ns, a.price_ticks, a.ref) for k, a in found] == alerts(tape, opened)
    _check_limits(opened, [alert for _, alert in found])
    _check_keys([alert for _, alert in found])


def _check_limits(opened: Opening, found: list[Fired]) -> None:
    counts = Counter((alert.type, alert.ref) for alert in found)
    most = {"va-test": 3, "va-reject": 2, "va-accept": 2, "ib-break": 1, "naked-poc": 1, "poor": 7}
    for (kind, ref), count in counts.items():
        family = next(name for name in most if kind.value.startswith(name))
        levels = sum(str(level.made_on) == ref for level in opened.carried.naked_pocs) or 1
        assert count <= most[family] * levels


def _check_keys(found: list[Fired]) -> None:
    """Assert that keys ascend within a type, are never before the event, and later only after preceding keys."""
    last: dict[AlertType, int] = {}
    for alert in found:
        ms = alert.at_ns // 1_000_000
        assert alert.key_ms == max(ms, last.get(alert.type, 0) + 1)
        last[alert.type] = alert.key_ms


@given(sessions())
@settings(max_examples=200, deadline=None)
def test_observations_in_the_quiet_band_may_be_omitted(session: tuple[Opening, list[Event]]) -> None:
    opened, tape = session
    whole, sparing = Caller(SessionAlerts(opened)), Caller(SessionAlerts(opened), skips=True)
    for event in tape:
        assert whole.show(event) == sparing.show(event)
        assert whole.structure.dump() == sparing.structure.dump()
        assert whole.structure.quiet() == sparing.structure.quiet()


@given(sessions())
@settings(max_examples=200, deadline=None)
def test_a_machine_does_not_change_within_its_quiet_band(session: tuple[Opening, list[Event]]) -> None:
    """A machine that is shown observations in its own band fires nothing and does not change."""
    opened, tape = session
    caller = Caller(SessionAlerts(opened))
    for event in tape:
        if isinstance(event, Observation):
            for family in caller.structure._families:
                for machine in family.machines:
                    if inside(machine.quiet, event):
                        before = machine.dump(), machine.quiet
                        assert machine.traded(event) is None
                        assert (machine.dump(), machine.quiet) == before
        caller.show(event)


@given(sessions(), st.integers(0, 200), st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_dump_can_be_restored_at_any_event(
    session: tuple[Opening, list[Event]], cut: int, skips: bool
) -> None:
    opened, tape = session
    caller = Caller(SessionAlerts(opened), skips)
    for event in tape[:cut]:
        caller.show(event)
    kept = json.dumps(caller.structure.dump())
    again = Caller(SessionAlerts.load(Opening.load(opened.dump()), json.loads(kept)), skips)
    again.ib = caller.ib
    assert json.dumps(again.structure.dump()) == kept
    assert again.structure.quiet() == caller.structure.quiet()
    for event in tape[cut:]:
        assert again.show(event) == caller.show(event)
    assert again.structure.dump() == caller.structure.dump()


@given(sessions(), st.integers(0, 200))
@settings(max_examples=100, deadline=None)
def test_muting_changes_nothing_but_the_alerts(session: tuple[Opening, list[Event]], cut: int) -> None:
    opened, tape = session
    loud, hushed = Caller(SessionAlerts(opened)), Caller(SessionAlerts(opened))
    hushed.structure.silence(on=True)
    for event in tape[:cut]:
        loud.show(event)
        assert hushed.show(event) == []
    hushed.structure.silence(on=False)
    assert hushed.structure.dump() == loud.structure.dump()
    for event in tape[cut:]:
        assert hushed.show(event) == loud.show(event)


def long_sessions(count: int) -> Iterator[tuple[Opening, list[Event]]]:
    """Generate complete sessions, the same in each run.

    One in ten begins with an hour without trades, one in ten with trades that were all too stale to be shown.
    """
    random = Random(1)
    for n in range(count):
        steps = [(random.choice(STEPS_NS), random.choice(MOVES), random.random() < 0.2) for _ in range(300)]
        if n % 10 == 0:
            steps = [(on_ns, on_ticks, k < 30) for k, (on_ns, on_ticks, _) in enumerate(steps)]
        elif n % 10 == 1:
            steps[0] = (61 * MINUTE, 0, False)
        width = random.choice([12, 40])
        prior = Prior(PRIOR.trade_date, 1000 - width // 2, 1000, 1000 - width, 1020, 940, 990)
        levels = [dated([random.randint(940, 1030) for _ in range(2)]) for _ in range(3)]
        yield opening(prior, *levels), tape_of(random.randint(950, 1010), steps, bars=n % 3 == 0)


def test_alerts_of_complete_sessions_equal_those_of_the_oracle() -> None:
    kinds: Counter[AlertType] = Counter()
    params = {name: module.PARAMS for name, module in FAMILIES.items()}
    for opened, tape in long_sessions(60):
        caller = Caller(SessionAlerts(opened), skips=True)
        found = [(k, alert) for k, event in enumerate(tape) for alert in caller.show(event)]
        assert [(k, a.type, a.at_ns, a.price_ticks, a.ref) for k, a in found] == alerts(tape, opened)
        kinds.update(alert.type for _, alert in found)
        for _, alert in found:
            (family,) = (
                name for name in params if alert.type.replace("-", "_").startswith(name.rpartition(".")[2])
            )
            assert tuple(alert.params) == params[family]
            json.dumps(dict(alert.params))
    assert min(kinds[kind] for kind in AlertType) >= 10


class ReadTable(dict[tuple[object, object], object]):
    """A transition table that knows which rows were read. Compiled machines read it too."""

    def __init__(self, table: Mapping[tuple[object, object], object]) -> None:
        super().__init__(table)
        self.read = set[tuple[object, object]]()

    def __getitem__(self, pair: tuple[object, object]) -> object:
        self.read.add(pair)
        return super().__getitem__(pair)


def test_every_row_of_every_table_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three hundred walks go through all of them, save those that the balance alone can make (worked by hand)."""
    tables = {name: ReadTable(module.TRANSITIONS) for name, module in FAMILIES.items()}
    for name, module in FAMILIES.items():
        monkeypatch.setattr(module, "TRANSITIONS", tables[name])
    for opened, tape in long_sessions(300):
        caller = Caller(SessionAlerts(opened))
        for event in tape:
            caller.show(event)
    ib = ib_break.Phase, ib_break.Sign
    by_hand = {(ib[0].ABSENT, ib[1].EMPTY), (ib[0].WATCHING, ib[1].EMPTY), (ib[0].BROKEN, ib[1].EMPTY),
               (ib[0].ABSENT, ib[1].FORMED)}  # fmt: skip
    by_hand.add((va_accept.Phase.ONCE, va_accept.Sign.BEYOND))  # no caller leaves brackets out
    missing = {name: set(table) - table.read - by_hand for name, table in tables.items()}
    assert missing == {name: set() for name in FAMILIES}
