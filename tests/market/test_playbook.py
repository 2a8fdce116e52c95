"""Conditions and the table of levels (rules §7), in ticks unless stated otherwise."""

from dataclasses import replace
from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outcry.market.calendar import SessionKind
from outcry.market.levels import CarriedLevel, CarriedLevels
from outcry.market.opening import Opening, Prior
from outcry.market.playbook import (
    Condition,
    LevelKind,
    LevelLine,
    Op,
    Reference,
    ReferenceKind,
    level_lines,
)
from outcry.market.profile import SessionProfile
from outcry.market.units import NANOS_PER_HOUR, PRICE_SCALE

FRIDAY, THURSDAY, WEDNESDAY = date(2026, 1, 2), date(2026, 1, 1), date(2025, 12, 31)
NOTHING = CarriedLevels((), (), ())

#: Every level far from all others, so that tests choose which ones merge.
PRIOR = Prior(FRIDAY, poc=1000, vah=1100, val=900, high=1200, low=800, close=1050)
OPENING = Opening(
    contract="ESH2026", root="ES", kind=SessionKind.RTH, trade_date=date(2026, 1, 5),
    segments=((0, 6 * NANOS_PER_HOUR),), short=False, prior=PRIOR, carried=NOTHING,
)  # fmt: skip
PROFILE = SessionProfile(
    poc=1400, val=1380, vah=1420, poc_candidates=(1400,), vpoc=1410, high=1440, low=1360,
    open=1400, close=1400, ib_high=1435, ib_low=1365, tpos=(1,) * 81, upper_tail_rows=1, lower_tail_rows=1,
    upper_tail_provisional=False, lower_tail_provisional=False, single_prints=(), brackets=2,
)  # fmt: skip


def table(opening: Opening, profile: SessionProfile = PROFILE, *, complete: bool = False) -> dict[int, str]:
    lines = level_lines(profile, opening, ib_complete=complete)
    return {line.price_ticks: line.label for line in lines}


# -- conditions


@pytest.mark.parametrize(
    ("op", "meets"),
    [
        (">", [False, False, True]),
        (">=", [False, True, True]),
        ("<", [True, False, False]),
        ("<=", [True, True, False]),
    ],
)
def test_a_bound_holds_for_prices_beyond_it(op: Op, meets: list[bool]) -> None:
    condition = Condition("trade", op, 100)
    assert [condition.met(price, price) for price in (99, 100, 101)] == meets


def test_a_bar_satisfies_a_bound_with_its_range() -> None:
    assert Condition("trade", ">", 100).met(90, 101)
    assert not Condition("trade", ">", 100).met(90, 100)
    assert Condition("trade", "<", 100).met(99, 120)
    assert not Condition("trade", "<", 100).met(100, 120)


def test_a_range_includes_both_ends() -> None:
    condition = Condition("bracket_close", "in", 90, to_ticks=110)
    assert [condition.met(price, price) for price in (89, 90, 100, 110, 111)] == [
        False,
        True,
        True,
        True,
        False,
    ]


QUARTER, ONE, SIXTY_FOURTH = PRICE_SCALE // 4, PRICE_SCALE, PRICE_SCALE // 64


@pytest.mark.parametrize(
    ("condition", "tick_e9", "want"),
    [
        (Condition("open", ">", 6622), QUARTER, "open > 1655.50"),
        (Condition("trade", ">=", 6624), QUARTER, "trade >= 1656.00"),
        (Condition("bracket_close", ">", 6622, times=2), QUARTER, "bracket_close > 1655.50 x2"),
        (
            Condition("bracket_close", "in", 6561, times=2, to_ticks=6622),
            QUARTER,
            "bracket_close in 1640.25..1655.50 x2",
        ),
        (Condition("trade", "<", 44000), ONE, "trade < 44000"),
        (Condition("trade", "<=", -3763), PRICE_SCALE // 100, "trade <= -37.63"),  # crude oil, April 2020
        (Condition("trade", "<=", 7105), SIXTY_FOURTH, "trade <= 111.015625"),  # 111 and 1/64
        (Condition("trade", "<=", 7104), SIXTY_FOURTH, "trade <= 111.000000"),
        (Condition("trade", "<", 13_001), 500, "trade < 0.0065005"),  # yen, ticks of 0.0000005
    ],
)
def test_a_condition_in_prices(condition: Condition, tick_e9: int, want: str) -> None:
    assert condition.text(tick_e9) == want


@pytest.mark.parametrize(
    ("price_ticks", "tick_e9", "want"),
    [(28146, QUARTER, "Prior low 7036.50"), (28000, QUARTER, "Prior low 7000.00"), (44000, ONE, "Prior low 44000"),
     (7104, SIXTY_FOURTH, "Prior low 111.000000")],
)  # fmt: skip
def test_the_target_level_has_the_decimals_of_the_conditions(
    price_ticks: int, tick_e9: int, want: str
) -> None:
    """7036.5 is 28 146 quarters; conditions have two decimals, and so has their target."""
    condition = Condition("trade", "<", price_ticks)
    assert Reference(ReferenceKind.PRIOR_LOW, price_ticks).text(tick_e9) == want
    assert want.removeprefix("Prior low ") == condition.text(tick_e9).removeprefix("trade < ")


# -- the table


def test_levels_of_the_prior_session_and_the_developing_one_high_to_low() -> None:
    assert table(OPENING) == {
        1420: "dVAH", 1410: "dVPOC", 1400: "dPOC", 1380: "dVAL", 1200: "Prior high", 1100: "VAH", 1050: "Prior close",
        1000: "POC / Prior mid", 900: "VAL", 800: "Prior low",
    }  # fmt: skip
    assert list(table(OPENING)) == sorted(table(OPENING), reverse=True)


def test_side_and_distance_are_from_the_last_price() -> None:
    lines = {line.label: line for line in level_lines(PROFILE, OPENING, ib_complete=False)}
    assert lines["dPOC"] == LevelLine(1400, "dPOC", LevelKind.DEV_POC)
    found = {label: (line.side(1400), line.distance_ticks(1400)) for label, line in lines.items()}
    assert (found["dPOC"], found["dVAH"], found["VAH"]) == (("at", 0), ("above", 20), ("below", 300))


def test_the_balance_has_lines_once_it_is_complete() -> None:
    """70 ticks wide, 1365 to 1435: half of it beyond is 1470 and 1330, all of it 1505 and 1295."""
    added = table(OPENING, complete=True).items() - table(OPENING).items()
    assert dict(added) == {
        1435: "IBH", 1365: "IBL", 1470: "IB 150% up", 1330: "IB 150% down", 1505: "IB 200% up", 1295: "IB 200% down",
    }  # fmt: skip


def test_half_of_an_odd_balance_is_rounded_away_from_it() -> None:
    """71 ticks wide: 35.5 beyond becomes 36."""
    lines = table(OPENING, replace(PROFILE, ib_high=1436), complete=True)
    assert (lines[1472], lines[1329]) == ("IB 150% up", "IB 150% down")
    assert (lines[1507], lines[1294]) == ("IB 200% up", "IB 200% down")


def test_a_balance_of_one_price_has_no_multiples() -> None:
    lines = table(OPENING, replace(PROFILE, ib_high=1390, ib_low=1390), complete=True)
    assert lines[1390] == "IBH / IBL"
    assert not any("%" in label for label in lines.values())


def test_the_middle_of_an_odd_range_is_rounded_down() -> None:
    lines = table(replace(OPENING, prior=replace(PRIOR, high=1201, poc=950)))
    assert lines[1000] == "Prior mid"


def test_overnight_and_older_levels() -> None:
    carried = CarriedLevels(
        (CarriedLevel(700, THURSDAY), CarriedLevel(600, WEDNESDAY)),
        (CarriedLevel(1600, THURSDAY),),
        (CarriedLevel(500, WEDNESDAY),),
    )
    lines = table(replace(OPENING, overnight=(1150, 850), carried=carried))
    assert {price: lines[price] for price in (1600, 1150, 850, 700, 600, 500)} == {
        1600: "Poor high 2026-01-01", 1150: "ONH", 850: "ONL", 700: "nPOC 2026-01-01", 600: "nPOC 2025-12-31",
        500: "Poor low 2025-12-31",
    }  # fmt: skip


def test_levels_left_by_the_prior_session_have_lines_of_their_own() -> None:
    carried = CarriedLevels(
        (CarriedLevel(1000, FRIDAY),), (CarriedLevel(1200, FRIDAY),), (CarriedLevel(800, FRIDAY),)
    )
    lines = table(replace(OPENING, carried=carried))
    assert (lines[1200], lines[1000], lines[800]) == (
        "Prior high (poor)",
        "POC / Prior mid",
        "Prior low (poor)",
    )
    assert len(lines) == len(table(OPENING))


def test_single_prints_are_shown_by_their_edges() -> None:
    lines = table(OPENING, replace(PROFILE, single_prints=((1387, 1393), (1405, 1406))))
    assert (lines[1387], lines[1393]) == ("SP low", "SP high")
    assert lines[1406] == "SP high / SP low"


def test_without_a_prior_session_only_the_session_has_lines() -> None:
    assert table(replace(OPENING, prior=None)) == {1420: "dVAH", 1410: "dVPOC", 1400: "dPOC", 1380: "dVAL"}


@pytest.mark.parametrize(
    ("apart", "merged"), [(0, True), (1, True), (2, True), (3, False), (-2, True), (-3, False)]
)
def test_levels_within_two_ticks_are_one_line(apart: int, merged: bool) -> None:
    """The overnight high is the stronger level: the line has its price, kind and first name."""
    carried = CarriedLevels((), (CarriedLevel(1200 - apart, FRIDAY),), ())
    opening = replace(
        OPENING, overnight=(1200, 850), carried=carried, prior=replace(PRIOR, high=1200 - apart)
    )
    lines = {line.price_ticks: line for line in level_lines(PROFILE, opening, ib_complete=False)}
    if merged:
        assert (lines[1200].label, lines[1200].kind) == ("ONH / Prior high (poor)", "on_high")
    else:
        assert (lines[1200].label, lines[1200 - apart].label) == ("ONH", "Prior high (poor)")


def test_lines_do_not_chain() -> None:
    """VAH 1100, ONH 1102, prior high 1104: the first two merge; the prior high is four from that line's price."""
    opening = replace(OPENING, overnight=(1102, 850), prior=replace(PRIOR, high=1104))
    lines = table(opening)
    assert (lines[1100], lines[1104]) == ("VAH / ONH", "Prior high")


def test_a_level_between_two_lines_joins_the_nearer_or_the_stronger_of_equals() -> None:
    """VAH 1100 and prior high 1103 stay two lines; a close at 1102 is nearer the second."""
    lines = table(replace(OPENING, prior=replace(PRIOR, high=1103, close=1102)))
    assert (lines[1100], lines[1103]) == ("VAH", "Prior high / Prior close")
    lines = table(replace(OPENING, prior=replace(PRIOR, high=1104, close=1102)))
    assert (lines[1100], lines[1104]) == ("VAH / Prior close", "Prior high")


PRICES = st.integers(1000, 1060)


@given(st.lists(PRICES, min_size=6, max_size=6), st.tuples(PRICES, PRICES), st.lists(PRICES, max_size=10))
def test_any_table(prior: list[int], night: tuple[int, int], naked: list[int]) -> None:
    """Lines are sorted and more than two ticks apart; every level is within two ticks of the line that names it."""
    poc, vah, val, high, low, close = prior
    pocs = tuple(CarriedLevel(price, date(2025, 1, 1 + at)) for at, price in enumerate(naked))
    opening = replace(
        OPENING, prior=Prior(FRIDAY, poc, vah, val, high, low, close), overnight=night,
        carried=CarriedLevels(pocs, (), ()),
    )  # fmt: skip
    found = level_lines(PROFILE, opening, ib_complete=False)
    prices = [line.price_ticks for line in found]
    assert all(before - after > 2 for before, after in pairwise(prices))
    named = {name: line.price_ticks for line in found for name in line.label.split(" / ")}
    levels = {
        "POC": poc, "VAH": vah, "VAL": val, "Prior high": high, "Prior low": low, "Prior close": close,
        "ONH": night[0], "ONL": night[1], **{f"nPOC {level.made_on}": level.price_ticks for level in pocs},
    }  # fmt: skip
    assert all(abs(named[name] - price) <= 2 for name, price in levels.items())
    assert named["VAH"] == vah  # the strongest level is never moved


@given(PRICES, PRICES)
def test_side_and_distance_of_any_price(price: int, last: int) -> None:
    line = LevelLine(price, "VAH", LevelKind.PRIOR_VAH)
    sign = {"above": 1, "below": -1, "at": 0}[line.side(last)]
    assert (price - last, line.distance_ticks(last)) == (sign * line.distance_ticks(last), abs(price - last))
