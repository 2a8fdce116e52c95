"""Scenarios (rules §7): each status and its near misses, worked by hand.

The prior session throughout, in ticks: low 80, VAL 90, POC 100, VAH 110, high 120. Ten brackets of 30 minutes; an
initial balance, if a test has one, is complete after 60 minutes."""

import re
from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path

import pytest

from outcry.market import bias
from outcry.market.alerts.edge import arm_ticks
from outcry.market.alerts.machine import Observation, QuietBand
from outcry.market.calendar import SessionKind
from outcry.market.levels import CarriedLevel, CarriedLevels
from outcry.market.opening import Opening, Prior
from outcry.market.playbook import LevelKind, ScenarioId, Status
from outcry.market.scenarios import AWAITED, NEVER, TRANSITIONS, Phase, Scenarios, Sign
from outcry.market.units import NANOS_PER_MINUTE

FRIDAY, THURSDAY = date(2026, 1, 2), date(2026, 1, 1)
PRIOR = Prior(FRIDAY, poc=100, vah=110, val=90, high=120, low=80, close=105)
OPENING = Opening(
    contract="ESH2026", root="ES", kind=SessionKind.RTH, trade_date=date(2026, 1, 5),
    segments=((0, 300 * NANOS_PER_MINUTE),), short=False, prior=PRIOR, carried=CarriedLevels((), (), ()),
)  # fmt: skip
HALF_HOUR = 30 * NANOS_PER_MINUTE

PENDING, ACTIVE, DONE, VOID = Status.PENDING, Status.ACTIVE, Status.DONE, Status.VOID


class Session:
    """A session in short form: it opens, trades in successive brackets, and closes them."""

    def __init__(self, first: int, *, opening: Opening = OPENING, ib: tuple[int, int] | None = None) -> None:
        self.scenarios = Scenarios(opening)
        self.ib = ib
        self.bracket = 0
        self.scenarios.opened(first)
        self.trade(first)

    @property
    def balance(self) -> tuple[int, int] | None:
        return self.ib if self.bracket >= 2 else None

    def trade(self, *prices: int, after_ns: int = 0) -> "Session":
        """Trade at the start of the current bracket, or `after_ns` later."""
        at_ns = self.bracket * HALF_HOUR + after_ns
        for price in prices:
            self.scenarios.traded(Observation(at_ns, price, price, price, price, at_ns), self.balance)
        return self

    def bar(self, low: int, high: int) -> "Session":
        """Show the last minute of the current bracket."""
        end = (self.bracket + 1) * HALF_HOUR
        self.scenarios.traded(Observation(end, low, low, high, low, end - NANOS_PER_MINUTE), self.balance)
        return self

    def close(self, *closes: int | None) -> "Session":
        """Close brackets in turn, each after a trade at its close; None: a bracket without trades."""
        for close in closes:
            if close is not None:
                self.trade(close)
            self.bracket += 1
            self.scenarios.bracket_closed(self.bracket - 1, self.bracket * HALF_HOUR, close)
        return self

    def status(self, id_: str) -> Status:
        return next(state.status for state in self.scenarios.states(self.balance) if state.id == id_)

    def reference(self, id_: str) -> tuple[str, int]:
        reference = next(state.reference for state in self.scenarios.states(self.balance) if state.id == id_)
        return reference.label, reference.price_ticks

    @property
    def listed(self) -> list[str]:
        return [state.id for state in self.scenarios.states(self.balance)]


def mirrored(opening: Opening) -> Opening:
    """Mirror an opening about price 100: 90 becomes 110."""
    prior, carried = opening.prior, opening.carried
    assert prior is not None
    return replace(
        opening,
        prior=replace(
            prior, poc=200 - prior.poc, vah=200 - prior.val, val=200 - prior.vah, high=200 - prior.low,
            low=200 - prior.high, close=200 - prior.close,
        ),
        carried=CarriedLevels(
            (),
            tuple(replace(level, price_ticks=200 - level.price_ticks) for level in carried.poor_lows),
            tuple(replace(level, price_ticks=200 - level.price_ticks) for level in carried.poor_highs),
        ),
    )  # fmt: skip


class Mirror(Session):
    """A session with all prices mirrored about 100."""

    def __init__(self, first: int, *, opening: Opening = OPENING, ib: tuple[int, int] | None = None) -> None:
        turned = (200 - ib[1], 200 - ib[0]) if ib else None
        super().__init__(200 - first, opening=mirrored(opening), ib=turned)

    def trade(self, *prices: int, after_ns: int = 0) -> Session:
        if not getattr(self, "opened", False):
            self.opened = True  # the first price is already mirrored
            return super().trade(*prices, after_ns=after_ns)
        return super().trade(*(200 - price for price in prices), after_ns=after_ns)

    def bar(self, low: int, high: int) -> Session:
        return super().bar(200 - high, 200 - low)

    def close(self, *closes: int | None) -> Session:
        for close in closes:
            if close is not None:
                self.trade(close)
            self.bracket += 1
            turned = None if close is None else 200 - close
            self.scenarios.bracket_closed(self.bracket - 1, self.bracket * HALF_HOUR, turned)
        return self


#: Names of the scenarios, and of their mirror images.
UP = ("accept_above", "value_return_from_above", "ib_failure_up", "gap_up_held", "poor_high_repair")
DOWN = ("accept_below", "value_return_from_below", "ib_failure_down", "gap_down_held", "poor_low_repair")
SIDES = [pytest.param(Session, UP, id="up"), pytest.param(Mirror, DOWN, id="down")]
Names = tuple[str, str, str, str, str]
sides = pytest.mark.parametrize(("begin", "names"), SIDES)


# -- accepted beyond value, target at the prior extreme


@sides
def test_acceptance_pending_active_done(begin: type[Session], names: Names) -> None:
    """In value; above it; A and B close at 111 > 110; the prior high of 120 trades."""
    day = begin(100)
    assert day.status(names[0]) is PENDING
    assert day.close(111).status(names[0]) is PENDING
    assert day.close(111).status(names[0]) is ACTIVE
    assert day.trade(119).status(names[0]) is ACTIVE
    assert day.trade(120).status(names[0]) is DONE
    assert day.close(100, 100).status(names[0]) is DONE


@sides
@pytest.mark.parametrize(
    "closes",
    [
        (111, 110),  # the edge belongs to value
        (111, 110, 111),  # one of three
        (111, None, 111),  # a bracket without trades between
        (None, 111),
    ],
)
def test_near_misses_of_acceptance(
    begin: type[Session], names: Names, closes: tuple[int | None, ...]
) -> None:
    assert begin(100).close(*closes).status(names[0]) is PENDING


@sides
def test_acceptance_after_a_gap_without_trades_takes_two_in_a_row(begin: type[Session], names: Names) -> None:
    assert begin(100).close(111, None, 111, 112).status(names[0]) is ACTIVE


@sides
def test_acceptance_is_void_once_a_bracket_closes_back_in_value(begin: type[Session], names: Names) -> None:
    day = begin(100).close(111, 111)
    assert day.trade(105).status(names[0]) is ACTIVE  # a trade in value is not a close
    assert day.close(111).status(names[0]) is ACTIVE
    assert day.close(110).status(names[0]) is VOID
    assert day.close(115, 115).trade(125).status(names[0]) is VOID


@sides
def test_the_prior_extreme_counts_after_acceptance_only(begin: type[Session], names: Names) -> None:
    """120 trades in B before its close confirms; only the next trade there counts."""
    day = begin(100).close(111).trade(120).close(115)
    assert day.status(names[0]) is ACTIVE
    assert day.trade(125).status(names[0]) is DONE


@sides
def test_acceptance_from_an_open_beyond_value(begin: type[Session], names: Names) -> None:
    assert begin(115).close(116, 112).status(names[0]) is ACTIVE


def test_a_close_without_an_observed_trade_counts_as_traded() -> None:
    """The last trades of A and B were late, so the machines saw only 100."""
    day = Session(100)
    for index in range(2):
        day.scenarios.bracket_closed(index, (index + 1) * HALF_HOUR, 111)
    assert day.status("accept_above") is ACTIVE


def test_no_acceptance_target_if_value_reaches_the_prior_extreme() -> None:
    day = Session(100, opening=replace(OPENING, prior=replace(PRIOR, high=110, low=90)))
    assert "accept_above" not in day.listed
    assert "accept_below" not in day.listed


# -- opened outside value, returned for two brackets


@sides
def test_return_to_value_pending_active_done(begin: type[Session], names: Names) -> None:
    """Opened at 115 above 110; A closes at 110, B at 90, both in value; VAL at 90 trades again."""
    day = begin(115)
    assert day.status(names[1]) is PENDING
    assert day.close(110).status(names[1]) is PENDING
    assert day.close(91).status(names[1]) is ACTIVE
    assert day.reference(names[1]) == (("VAL", 90) if begin is Session else ("VAH", 110))
    assert day.trade(91).status(names[1]) is ACTIVE
    assert day.trade(90).status(names[1]) is DONE


@sides
@pytest.mark.parametrize("closes", [(110, 111), (110, 111, 110), (110, None, 110), (110, 89), (89, 110)])
def test_near_misses_of_a_return_to_value(
    begin: type[Session], names: Names, closes: tuple[int | None, ...]
) -> None:
    """One close in value; or the second one beyond the other edge, which is outside value too."""
    assert begin(115).close(*closes).status(names[1]) is PENDING


@sides
@pytest.mark.parametrize(("first", "want"), [(111, PENDING), (110, VOID), (100, VOID), (89, VOID)])
def test_return_to_value_needs_an_open_outside(
    begin: type[Session], names: Names, first: int, want: Status
) -> None:
    assert begin(first).status(names[1]) is want


@sides
def test_return_to_value_is_void_once_a_bracket_closes_outside_again(
    begin: type[Session], names: Names
) -> None:
    day = begin(115).close(105, 105)
    assert day.trade(112).status(names[1]) is ACTIVE
    assert day.close(110).status(names[1]) is ACTIVE
    assert day.close(111).status(names[1]) is VOID
    assert day.close(105, 105).trade(90).status(names[1]) is VOID


def test_the_other_side_of_value_stays_void_for_the_session() -> None:
    assert Session(115).close(85, 100, 100).status("value_return_from_below") is VOID


def test_value_of_one_price_has_no_other_edge() -> None:
    day = Session(115, opening=replace(OPENING, prior=replace(PRIOR, vah=100, val=100)))
    assert "value_return_from_above" not in day.listed


# -- a break of the initial balance that fails


@sides
def test_failed_break_pending_active_halfway_done(begin: type[Session], names: Names) -> None:
    """IB 95 to 105; C trades 106 and closes at 105; the middle is 100, the other side 95."""
    day = begin(100, ib=(105, 95)).close(100, 100)
    assert day.status(names[2]) is PENDING
    assert day.trade(106).status(names[2]) is PENDING
    assert day.close(105).status(names[2]) is ACTIVE
    assert day.reference(names[2]) == ("IB mid", 100)
    assert day.trade(101).reference(names[2]) == ("IB mid", 100)
    assert day.trade(100).status(names[2]) is ACTIVE
    assert day.reference(names[2]) == (("IBL", 95) if begin is Session else ("IBH", 105))
    assert day.trade(96).status(names[2]) is ACTIVE
    assert day.trade(95).status(names[2]) is DONE


@sides
def test_one_trade_may_pass_middle_and_other_side(begin: type[Session], names: Names) -> None:
    day = begin(100, ib=(105, 95)).close(100, 100).trade(106).close(104)
    assert day.trade(94).status(names[2]) is DONE


@sides
def test_near_misses_of_a_failed_break(begin: type[Session], names: Names) -> None:
    day = begin(100, ib=(105, 95)).close(100, 100)
    assert day.close(105).status(names[2]) is PENDING  # its edge was traded, not broken
    assert day.trade(106).close(106).status(names[2]) is PENDING  # broken, and closed beyond
    assert day.close(94).status(names[2]) is PENDING  # closed beyond the other side: not inside
    assert day.close(None).status(names[2]) is PENDING
    assert day.close(95).status(names[2]) is ACTIVE  # at its edge is inside


@sides
def test_failed_break_is_void_once_a_bracket_closes_beyond_again(begin: type[Session], names: Names) -> None:
    day = begin(100, ib=(105, 95)).close(100, 100).trade(106).close(104)
    assert day.trade(107).status(names[2]) is ACTIVE
    assert day.close(106).status(names[2]) is VOID
    half = begin(100, ib=(105, 95)).close(100, 100).trade(106).close(104).trade(100)
    assert half.close(106).status(names[2]) is VOID
    assert half.trade(95).status(names[2]) is VOID


def test_a_bracket_that_ended_before_the_break_does_not_fail_it() -> None:
    """B is sealed two seconds after its end, and C broke out during them. C's own close counts."""
    day = Session(100, ib=(105, 95)).close(100)
    day.bracket = 2
    day.trade(106, after_ns=1)
    day.scenarios.bracket_closed(1, 2 * HALF_HOUR, 100)
    assert day.status("ib_failure_up") is PENDING
    day.bracket = 2
    assert day.close(100).status("ib_failure_up") is ACTIVE


def test_a_break_in_the_last_bar_of_a_bracket_is_before_its_close() -> None:
    day = Session(100, ib=(105, 95)).close(100, 100).bar(100, 106)
    assert day.close(100).status("ib_failure_up") is ACTIVE


def test_the_balance_is_listed_once_it_is_complete() -> None:
    day = Session(100, ib=(105, 95)).close(100)
    assert "ib_failure_up" not in day.listed
    assert "ib_failure_up" in day.close(100).listed
    assert "ib_failure_up" not in Session(100, ib=(105, 105)).close(100, 100).listed
    assert "ib_failure_up" not in Session(100).close(100, 100).listed


def test_the_middle_of_an_odd_balance_is_rounded_down() -> None:
    for id_ in ("ib_failure_up", "ib_failure_down"):
        assert Session(100, ib=(106, 95)).close(100, 100).reference(id_) == ("IB mid", 100)


def test_a_late_trade_moves_the_balance_and_its_conditions() -> None:
    day = Session(100, ib=(105, 95)).close(100, 100)
    day.trade(100)
    day.ib = (107, 95)
    day.scenarios.revise_ib(day.ib)
    assert day.trade(106).close(106).status("ib_failure_up") is PENDING
    assert day.trade(108).close(107).status("ib_failure_up") is ACTIVE
    assert day.reference("ib_failure_up") == ("IB mid", 101)  # of 95 and 107


# -- a gap that holds


@sides
def test_held_gap_pending_active_done(begin: type[Session], names: Names) -> None:
    """Opened at 125 above 120; A never trades 120; IB 122 to 130; D trades beyond it."""
    day = begin(125, ib=(130, 122)).trade(121)
    assert day.status(names[3]) is PENDING
    assert day.reference(names[3]) == (("Prior high", 120) if begin is Session else ("Prior low", 80))
    assert day.close(128).status(names[3]) is ACTIVE
    assert day.trade(131).status(names[3]) is ACTIVE  # the hour is not over: this widens the balance
    assert day.close(129).status(names[3]) is ACTIVE
    assert day.reference(names[3]) == (("IBH", 130) if begin is Session else ("IBL", 70))
    assert day.trade(130).status(names[3]) is ACTIVE
    assert day.trade(131).status(names[3]) is DONE
    assert day.trade(110).status(names[3]) is DONE


@sides
@pytest.mark.parametrize(("first", "want"), [(121, PENDING), (120, VOID), (100, VOID), (79, VOID)])
def test_a_gap_is_an_open_beyond_the_prior_range(
    begin: type[Session], names: Names, first: int, want: Status
) -> None:
    assert begin(first).status(names[3]) is want


@sides
def test_a_gap_filled_in_the_first_bracket_is_void(begin: type[Session], names: Names) -> None:
    assert begin(125).trade(121).status(names[3]) is PENDING
    assert begin(125).trade(120).status(names[3]) is VOID
    assert begin(125).trade(120).close(130).status(names[3]) is VOID


@sides
def test_a_held_gap_filled_later_is_void(begin: type[Session], names: Names) -> None:
    day = begin(125).close(125)
    assert day.trade(121).status(names[3]) is ACTIVE
    assert day.trade(120).status(names[3]) is VOID


@sides
def test_a_first_bracket_without_trades_confirms_nothing(begin: type[Session], names: Names) -> None:
    day = begin(125)
    day.scenarios.bracket_closed(0, HALF_HOUR, None)
    assert day.status(names[3]) is PENDING
    day.bracket = 1
    assert day.close(125).status(names[3]) is ACTIVE


@sides
def test_of_a_bar_that_fills_and_extends_the_filling_counts(begin: type[Session], names: Names) -> None:
    day = begin(125, ib=(130, 122)).close(125, 125)
    assert day.bar(120, 131).status(names[3]) is VOID


# -- a poor extreme repaired

#: Poor highs at 130 and 140 of Thursday and Friday. An arm is 8 ticks, because a tenth of value (20 wide) is less.
POOR = replace(
    OPENING, carried=CarriedLevels((), (CarriedLevel(140, FRIDAY), CarriedLevel(130, THURSDAY)), ())
)


@sides
def test_repair_pending_active_done(begin: type[Session], names: Names) -> None:
    day = begin(115, opening=POOR)
    assert day.reference(names[4])[1] == (130 if begin is Session else 70)
    assert day.trade(127).status(names[4]) is PENDING
    assert day.trade(128).status(names[4]) is ACTIVE  # within two ticks
    assert day.trade(130).status(names[4]) is ACTIVE
    assert day.trade(131).status(names[4]) is DONE


@sides
def test_a_trade_beyond_revisits_and_repairs_at_once(begin: type[Session], names: Names) -> None:
    assert begin(115, opening=POOR).trade(135).status(names[4]) is DONE


@sides
def test_a_revisit_that_leaves_again_is_void(begin: type[Session], names: Names) -> None:
    day = begin(115, opening=POOR)
    assert day.close(115).status(names[4]) is PENDING  # far away, but not yet revisited
    day.trade(129)
    assert day.close(123).status(names[4]) is ACTIVE  # seven ticks
    assert day.close(122).status(names[4]) is VOID  # eight
    assert day.trade(131).status(names[4]) is VOID


@sides
@pytest.mark.parametrize(("first", "price"), [(115, 130), (130, 130), (131, 140), (140, 140)])
def test_the_nearest_at_or_beyond_the_open_is_chosen(
    begin: type[Session], names: Names, first: int, price: int
) -> None:
    assert begin(first, opening=POOR).reference(names[4])[1] == (price if begin is Session else 200 - price)


@sides
def test_without_one_beyond_the_open_there_is_no_repair(begin: type[Session], names: Names) -> None:
    assert names[4] not in begin(141, opening=POOR).listed
    assert names[4] not in begin(100).listed


def test_a_repair_has_the_date_of_its_extreme() -> None:
    assert Session(115, opening=POOR).reference("poor_high_repair") == ("Poor high 2026-01-01", 130)


def test_a_bracket_that_ended_before_the_revisit_does_not_end_it() -> None:
    day = Session(115, opening=POOR)
    day.bracket = 1
    day.trade(129)
    day.scenarios.bracket_closed(0, HALF_HOUR, 115)
    assert day.status("poor_high_repair") is ACTIVE


def test_overnight_repairs_nothing() -> None:
    night = replace(POOR, kind=SessionKind.ETH)
    assert "poor_high_repair" not in Session(115, opening=night).listed
    assert "gap_up_held" in Session(115, opening=night).listed


@pytest.mark.parametrize(("width", "want"), [(20, 8), (80, 8), (81, 9), (90, 9), (91, 10)])
def test_an_arm_is_a_tenth_of_value_rounded_up_or_eight_ticks(width: int, want: int) -> None:
    assert arm_ticks(replace(PRIOR, val=100, vah=100 + width)) == want
    assert arm_ticks(None) == 8


# -- the list


def test_the_complete_list_and_its_conditions() -> None:
    """Opened at 115: beyond value, within the range. Ticks of 0.25, so 110 is 27.50."""
    found = Session(115, opening=POOR, ib=(118, 112)).close(115, 115).scenarios.states((118, 112))
    quarter = 250_000_000
    texts = [
        (
            state.id, *(one.text(quarter) for one in (state.if_, state.confirm, state.invalidate)),
            (state.reference.label, state.reference.price_ticks),
        )
        for state in found
    ]  # fmt: skip
    inside, balance = "bracket_close in 22.50..27.50 x2", "bracket_close in 28.00..29.50"
    assert texts == [
        ("accept_above", "trade > 27.50", "bracket_close > 27.50 x2", "bracket_close <= 27.50", ("Prior high", 120)),
        ("accept_below", "trade < 22.50", "bracket_close < 22.50 x2", "bracket_close >= 22.50", ("Prior low", 80)),
        ("value_return_from_above", "open > 27.50", inside, "bracket_close > 27.50", ("VAL", 90)),
        ("value_return_from_below", "open < 22.50", inside, "bracket_close < 22.50", ("VAH", 110)),
        ("ib_failure_up", "trade > 29.50", balance, "bracket_close > 29.50", ("IB mid", 115)),
        ("ib_failure_down", "trade < 28.00", balance, "bracket_close < 28.00", ("IB mid", 115)),
        ("gap_up_held", "open > 30.00", "bracket_close > 30.00", "trade <= 30.00", ("IBH", 118)),
        ("gap_down_held", "open < 20.00", "bracket_close < 20.00", "trade >= 20.00", ("IBL", 112)),
        ("poor_high_repair", "open <= 32.50", "trade >= 32.00", "bracket_close <= 30.50",
         ("Poor high 2026-01-01", 130)),
    ]  # fmt: skip


def test_descriptions_contain_neither_prices_nor_advice() -> None:
    for state in Session(115, opening=POOR, ib=(118, 112)).close(115, 115).scenarios.states((118, 112)):
        assert state.then.startswith("would be consistent with ")
        assert not any(mark.isdigit() or mark == "%" for mark in state.then)


def test_without_a_prior_only_the_balance_has_scenarios() -> None:
    day = Session(100, opening=replace(OPENING, prior=None), ib=(105, 95))
    assert day.listed == []
    assert day.close(100, 100).listed == ["ib_failure_up", "ib_failure_down"]


def test_every_scenario_pair_is_in_the_table_or_named_as_impossible() -> None:
    assert set(TRANSITIONS) | NEVER == set(product(Phase, Sign))
    assert not set(TRANSITIONS) & NEVER


def test_pending_conditions_match_the_table() -> None:
    """IMPOSSIBLE alone is no condition, because it depends on the opening only."""
    asked = {(phase, sign) for phase, signs in AWAITED.items() for sign in signs}
    assert asked | {(Phase.WAITING, Sign.IMPOSSIBLE)} == set(TRANSITIONS)


def test_the_transitions_in_the_docs_match_the_tables() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "playbook.md").read_text()
    listed = [
        re.findall(r"^\| (\w+) \| (\w+) \| (\w+) \|$", table, re.MULTILINE)
        for table in re.findall(r"next state \|\n\|---\|---\|---\|\n(.*?)</details>", page, re.DOTALL)
    ]
    tables = (bias.TRANSITIONS, TRANSITIONS)
    expected = [sorted((old, sign, new) for (old, sign), new in table.items()) for table in tables]
    assert [sorted(rows) for rows in listed] == expected


def test_every_scenario_and_kind_of_level_is_in_the_documents() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "playbook.md").read_text()
    assert [name for name in (*ScenarioId, *LevelKind, *bias.Bias) if f"`{name}`" not in page] == []
    kinds = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| \d+ \|.*", page, re.MULTILINE)))
    assert kinds == list(LevelKind)  # in order of strength


def test_each_phase_has_its_status() -> None:
    assert {phase.value: phase.status.value for phase in Phase} == {
        "waiting": "pending", "ready": "pending", "active": "active", "halfway": "active", "done": "done",
        "void": "void",
    }  # fmt: skip


# -- quiet band


def test_the_band_ends_where_a_condition_begins_to_hold() -> None:
    """Opened in value at 100: only a trade above 110 or below 90 can begin an acceptance."""
    day = Session(100)
    assert day.scenarios.quiet() == QuietBand(89, 111, 60 * NANOS_PER_MINUTE)


def test_after_the_hour_the_balance_narrows_it_and_time_no_longer_does() -> None:
    day = Session(100, ib=(105, 95)).close(100, 100).trade(100)
    assert day.scenarios.quiet() == QuietBand(94, 106, 2**63 - 1)


def test_conditions_at_a_price_end_the_band_there() -> None:
    """Opened at 125: a trade at 120 fills the gap, at 128 it revisits the poor high."""
    assert Session(125, opening=POOR).scenarios.quiet() == QuietBand(120, 128, 60 * NANOS_PER_MINUTE)


def test_scenarios_are_in_the_order_of_their_names() -> None:
    day = Session(100, opening=POOR, ib=(105, 95)).close(100, 100)
    order = list(ScenarioId)
    assert day.listed == sorted(day.listed, key=lambda id_: order.index(ScenarioId(id_)))
