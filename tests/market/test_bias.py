"""Votes and bias (rules §7). Prior value area in all tests: VAL 90, POC 100, VAH 110; its edges belong to value."""

import json
from dataclasses import replace
from datetime import date
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outcry.market.bias import (
    NEVER,
    TRANSITIONS,
    Bias,
    BiasMachine,
    BiasReading,
    Phase,
    Sign,
    Votes,
    candidate,
    votes,
)
from outcry.market.ladder import Bracket
from outcry.market.opening import Prior
from outcry.market.profile import SessionProfile

PRIOR = Prior(date(2026, 1, 2), poc=100, vah=110, val=90, high=120, low=80, close=105)

#: In the middle of prior value, without an extension of the initial balance: no votes.
MIDDLE = SessionProfile(
    poc=100, val=95, vah=105, poc_candidates=(100,), vpoc=100, high=108, low=92, open=100,
    close=100, ib_high=108, ib_low=92, tpos=(1,) * 17, upper_tail_rows=1, lower_tail_rows=1,
    upper_tail_provisional=False, lower_tail_provisional=False, single_prints=(), brackets=2,
)  # fmt: skip


def brackets(*ranges: tuple[int, int], skip: int | None = None) -> list[Bracket]:
    """Return brackets of (low, high), A first; `skip`: index of a bracket without trades."""
    numbers = [n for n in range(len(ranges) + 1) if n != skip]
    return [
        Bracket(index, low, high, low, high, index, index)
        for index, (low, high) in zip(numbers, ranges, strict=False)
    ]


def counted(profile: SessionProfile = MIDDLE, *ranges: tuple[int, int], complete: bool = True) -> Votes:
    return votes(profile, PRIOR, brackets(*ranges), ib_complete=complete)


# -- votes


def test_a_session_in_the_middle_of_value_has_no_votes() -> None:
    assert counted() == Votes()


@pytest.mark.parametrize(("price", "want"), [(111, 1), (110, 0), (100, 0), (90, 0), (89, -1)])
def test_last_and_poc_vote_only_beyond_the_edges_of_value(price: int, want: int) -> None:
    assert counted(replace(MIDDLE, close=price)) == Votes(last=want)
    assert counted(replace(MIDDLE, poc=price)) == Votes(poc=want)


@pytest.mark.parametrize(
    ("val", "vah", "want"),
    [
        (91, 111, 1),  # both edges above
        (90, 111, 0),  # the lower edge unchanged
        (91, 110, 0),  # the upper edge unchanged
        (89, 109, -1),
        (90, 109, 0),
        (89, 110, 0),
        (89, 111, 0),  # wider
        (91, 109, 0),  # narrower
    ],
)
def test_value_votes_when_both_edges_move(val: int, vah: int, want: int) -> None:
    assert counted(replace(MIDDLE, val=val, vah=vah)) == Votes(value=want)


@pytest.mark.parametrize(
    ("low", "high", "want"), [(92, 109, 1), (91, 108, -1), (92, 108, 0), (91, 109, 0), (80, 109, 0)]
)
def test_an_extension_votes_on_one_side_only(low: int, high: int, want: int) -> None:
    extended = replace(MIDDLE, low=low, high=high)
    assert counted(extended) == Votes(extension=want)
    assert counted(extended, complete=False) == Votes()


@pytest.mark.parametrize(
    ("ranges", "want"),
    [
        ([(10, 20), (10, 25), (11, 22)], 1),  # lows 10, 10, 11; highs 20, 25, 22
        ([(10, 20), (12, 25), (11, 30)], 0),  # the last low is below the previous one
        ([(10, 20), (8, 20), (9, 19)], -1),  # highs 20, 20, 19; lows 10, 8, 9
        ([(10, 20), (8, 19), (7, 20)], 0),
        ([(10, 20), (11, 19), (12, 18)], 0),  # narrowing: both directions
        ([(10, 20), (10, 20), (10, 20)], 0),  # equal: both directions
        ([(10, 20), (12, 22)], 0),  # two brackets are too few
        ([(10, 20), (5, 9), (6, 12), (7, 15)], 1),  # the first bracket is not among the last three
    ],
)
def test_one_timeframing_over_three_brackets(ranges: list[tuple[int, int]], want: int) -> None:
    assert counted(MIDDLE, *ranges) == Votes(one_timeframing=want)


def test_a_bracket_without_trades_ends_one_timeframing() -> None:
    rising = [(10, 20), (12, 22), (14, 24)]
    assert votes(MIDDLE, PRIOR, brackets(*rising, skip=1), ib_complete=True) == Votes()
    assert votes(MIDDLE, PRIOR, brackets(*rising, skip=0), ib_complete=True) == Votes(one_timeframing=1)


def test_without_a_prior_session_only_extension_and_timeframing_vote() -> None:
    up = replace(MIDDLE, close=200, poc=200, val=190, vah=210, high=210)
    rising = brackets((10, 20), (12, 22), (14, 24))
    assert votes(up, None, rising, ib_complete=True) == Votes(extension=1, one_timeframing=1)
    assert votes(up, PRIOR, rising, ib_complete=True) == Votes(1, 1, 1, 1, 1)


# -- candidates


@pytest.mark.parametrize(
    ("count", "want"),
    [
        (Votes(1, 1, 1, 1, 1), Bias.TREND_UP),
        (Votes(1, 1, 1, 1, 0), Bias.TREND_UP),
        (Votes(1, 1, 1, 0, 1), Bias.LEAN_UP),  # four, but the balance is not extended
        (Votes(1, 1, 0, 1, 0), Bias.LEAN_UP),
        (Votes(1, 1, 0, 0, 0), Bias.LEAN_UP),
        (Votes(1, 0, 0, 0, 0), Bias.BALANCED),
        (Votes(1, -1, 0, 1, -1), Bias.BALANCED),
        (Votes(-1, 0, 0, 0, 0), Bias.BALANCED),
        (Votes(-1, -1, 0, 0, 0), Bias.LEAN_DOWN),
        (Votes(-1, -1, -1, 0, -1), Bias.LEAN_DOWN),
        (Votes(0, -1, -1, -1, -1), Bias.TREND_DOWN),
    ],
)
def test_candidate_of_a_close(count: Votes, want: Bias) -> None:
    assert candidate(count, both_sides_broken=False) is want
    assert candidate(count, both_sides_broken=True) is Bias.NEUTRAL


# -- the machine

UP, FLAT, DOWN, TREND = Votes(1, 1), Votes(), Votes(-1, -1), Votes(1, 1, 1, 1)


def bias_after_closes(*counts: Votes) -> list[Bias]:
    """Return the bias after each close."""
    machine, found = BiasMachine(), []
    for count in counts:
        machine.bracket_closed(count, both_sides_broken=False)
        found.append(machine.reading.bias)
    return found


def test_the_bias_is_undetermined_before_the_first_close() -> None:
    assert BiasMachine().reading == BiasReading(Bias.UNDETERMINED, Votes())


def test_the_first_close_sets_the_bias_at_once() -> None:
    assert bias_after_closes(UP) == [Bias.LEAN_UP]


def test_the_bias_changes_after_two_closes_that_disagree() -> None:
    assert bias_after_closes(UP, FLAT, FLAT) == [Bias.LEAN_UP, Bias.LEAN_UP, Bias.BALANCED]


def test_a_close_that_agrees_restarts_the_count() -> None:
    assert bias_after_closes(UP, FLAT, UP, FLAT, UP, FLAT) == [Bias.LEAN_UP] * 6


def test_of_two_closes_that_disagree_the_second_decides() -> None:
    assert bias_after_closes(UP, FLAT, DOWN) == [Bias.LEAN_UP, Bias.LEAN_UP, Bias.LEAN_DOWN]


def test_another_change_needs_two_closes_again() -> None:
    assert bias_after_closes(UP, DOWN, DOWN, UP, UP)[2:] == [Bias.LEAN_DOWN, Bias.LEAN_DOWN, Bias.LEAN_UP]


def test_lean_and_strong_of_one_side_are_different_biases() -> None:
    assert bias_after_closes(UP, TREND, TREND) == [Bias.LEAN_UP, Bias.LEAN_UP, Bias.TREND_UP]


def test_both_sides_broken_is_neutral_after_two_closes() -> None:
    machine = BiasMachine()
    machine.bracket_closed(UP, both_sides_broken=False)
    machine.bracket_closed(UP, both_sides_broken=True)
    assert machine.reading == BiasReading(Bias.LEAN_UP, UP)
    machine.bracket_closed(DOWN, both_sides_broken=True)
    assert machine.reading == BiasReading(Bias.NEUTRAL, DOWN)


def test_votes_are_updated_while_the_bias_stays() -> None:
    machine = BiasMachine()
    machine.bracket_closed(UP, both_sides_broken=False)
    machine.bracket_closed(DOWN, both_sides_broken=False)
    assert machine.reading == BiasReading(Bias.LEAN_UP, DOWN)


def test_every_pair_of_phase_and_sign_is_in_the_table_or_named_as_impossible() -> None:
    assert set(TRANSITIONS) | NEVER == set(product(Phase, Sign))
    assert not set(TRANSITIONS) & NEVER


VOTE = st.integers(-1, 1)
CLOSES = st.lists(st.tuples(st.builds(Votes, VOTE, VOTE, VOTE, VOTE, VOTE), st.booleans()), max_size=20)


@given(CLOSES)
def test_the_bias_equals_an_oracle_of_two_closes(closes: list[tuple[Votes, bool]]) -> None:
    """Compare with an oracle written from the rule.

    It walks the candidates of the closes. The bias changes at a close that disagrees if the close before it was counted
    as disagreeing too; the count then restarts from zero.
    """
    machine = BiasMachine()
    state, against = Bias.UNDETERMINED, 0
    for count, both in closes:
        machine.bracket_closed(count, both_sides_broken=both)
        spoken = candidate(count, both_sides_broken=both)
        against = against + 1 if spoken is not state else 0
        if against == 2 or state is Bias.UNDETERMINED:
            state, against = spoken, 0
        assert machine.reading == BiasReading(state, count)


@given(CLOSES, st.integers(0, 20))
def test_the_bias_can_be_restored_at_any_close(closes: list[tuple[Votes, bool]], cut: int) -> None:
    whole, parts = BiasMachine(), BiasMachine()
    for at, (count, both) in enumerate(closes):
        if at == cut:
            parts = BiasMachine.load(json.loads(json.dumps(parts.dump())))
        whole.bracket_closed(count, both_sides_broken=both)
        parts.bracket_closed(count, both_sides_broken=both)
    assert parts.dump() == whole.dump()
