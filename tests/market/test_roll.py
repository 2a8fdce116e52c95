"""The front contract by volume (rules §9), worked by hand."""

from collections.abc import Callable
from datetime import date, timedelta

import pytest

from outcry.market.instruments import Contract
from outcry.market.roll import RollRule, front_on, fronts
from outcry.trades.reference_tables import load_reference

H, M, U = (Contract("ES", 2024, month) for month in (3, 6, 9))
DAY = date(2024, 3, 4)
FAR = date(2030, 1, 1)


def until_tomorrow(contract: Contract) -> date:
    return DAY + timedelta(days=1) if contract == H else FAR


def days(*volumes: dict[Contract, int]) -> dict[date, dict[Contract, int]]:
    return {DAY + timedelta(days=n): of_day for n, of_day in enumerate(volumes)}


def names(
    volumes: dict[date, dict[Contract, int]], roll_sessions: int = 1, deadline: date = FAR
) -> list[Contract]:
    return [front.contract for front in fronts(volumes, rule(roll_sessions, lambda _contract: deadline))]


def rule(roll_sessions: int, deadline: Callable[[Contract], date]) -> RollRule:
    return RollRule(
        roll_sessions, deadline, lambda c: Contract("ES", c.year + c.month // 12, c.month % 12 + 3)
    )


def test_rolls_on_the_trade_date_after_volume_has_moved() -> None:
    assert names(days({H: 9, M: 1}, {H: 4, M: 5}, {H: 1, M: 9})) == [H, H, M]


def test_equal_volume_is_not_more() -> None:
    assert names(days({H: 9, M: 1}, {H: 5, M: 5}, {H: 9, M: 1})) == [H, H, H]


def test_never_goes_back() -> None:
    assert names(days({H: 9, M: 1}, {H: 4, M: 5}, {H: 9, M: 1}, {H: 9, M: 1})) == [H, H, M, M]


def test_metals_and_energy_require_two_consecutive_sessions() -> None:
    assert names(days({H: 9, M: 1}, {H: 4, M: 5}, {H: 9, M: 1}, {H: 4, M: 5}, {H: 4, M: 5}, {}), 2) == [
        H,
        H,
        H,
        H,
        H,
        M,
    ]


def test_the_deadline_rolls_without_volume() -> None:
    found = fronts(days({H: 9, M: 1}, {H: 9, M: 1}, {H: 9, M: 1}), rule(1, until_tomorrow))
    assert [(f.contract, f.rolled_from) for f in found] == [(H, None), (M, H), (M, H)]


def test_the_first_front_has_the_most_volume_and_the_nearest_expiry_of_equals() -> None:
    assert names(days({U: 2, H: 1, M: 7})) == [M]
    assert names(days({U: 7, M: 7})) == [M]


def test_a_front_without_a_session_is_replaced_by_a_traded_contract() -> None:
    assert names(days({H: 9}, {M: 3}, {M: 3}, {M: 3}, {M: 3})) == [H, H, H, H, M]


def test_a_missing_day_of_the_front_is_not_a_day_without_volume() -> None:
    assert names(days({H: 9}, {M: 2}, {H: 9, M: 2}, {H: 9, M: 2})) == [H, H, H, H]


def test_the_deadline_counts_volumes_of_earlier_dates_only() -> None:
    """On the deadline U trades more than M, but M led the session before.

    The deadline's own volume is unknown at its open. U leads M in that session and becomes front on the next date."""
    found = fronts(days({H: 9, M: 3, U: 1}, {H: 1, M: 2, U: 8}, {M: 1, U: 9}), rule(1, until_tomorrow))
    assert [(f.contract, f.rolled_from) for f in found] == [(H, None), (M, H), (U, M)]


@pytest.mark.parametrize("known", [1, 2, 3, 4])
def test_the_next_session_has_the_front_that_history_yields(known: int) -> None:
    volumes = days({H: 9, M: 1}, {H: 9, M: 1}, {H: 9, M: 1}, {M: 5, U: 6}, {M: 1, U: 9})
    dates = sorted(volumes)
    before = {day: volumes[day] for day in dates[:known]}
    by_history = fronts(volumes, rule(1, until_tomorrow))[known]
    assert front_on(before, dates[known], volumes[dates[known]], rule(1, until_tomorrow)) == by_history


def test_without_sessions_volume_chooses_no_front() -> None:
    assert front_on({}, DAY, [H], rule(1, until_tomorrow)) is None


def test_rolled_from_names_neighbours_only() -> None:
    """After a gap of six years the front is another contract, but there was no roll from one to the other."""
    old, new = Contract("ES", 2018, 3), H
    volumes = {date(2018, 3, 1): {old: 9}, DAY: {new: 9}}
    found = fronts(volumes, rule(1, lambda c: date(2018, 3, 14) if c == old else FAR))
    assert [(f.contract, f.rolled_from) for f in found] == [(old, None), (new, None)]


def test_after_a_hole_a_contract_past_its_deadline_is_not_chosen() -> None:
    """H is past its deadline on the first date after the gap, so M becomes front although H is nearer."""
    old = Contract("ES", 2018, 3)
    deadlines = {old: date(2018, 3, 14), H: DAY}
    volumes = {date(2018, 3, 1): {old: 9}, DAY: {H: 9, M: 8}}
    assert fronts(volumes, rule(1, lambda c: deadlines.get(c, FAR)))[-1].contract == M


def test_es_rolls_on_the_deadline_of_december_2013() -> None:
    """ESZ3 ends on Friday 2013-12-20, so ESH4 is front from Wednesday the 18th, two business days before.

    This holds in history and live, although ESZ3 still trades more."""
    reference = load_reference()
    z, h = Contract("ES", 2013, 12), Contract("ES", 2014, 3)
    lots = {z: 9, h: 1}
    monday, tuesday, wednesday = (date(2013, 12, day) for day in (16, 17, 18))
    es = RollRule.of(reference.universe, "ES")
    found = fronts({monday: lots, tuesday: lots, wednesday: lots}, es)
    assert [(f.contract, f.rolled_from) for f in found] == [(z, None), (z, None), (h, z)]
    live = front_on({monday: lots, tuesday: lots}, wednesday, [z, h], es)
    assert live == found[-1]
