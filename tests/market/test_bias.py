"""The votes and the bias (rules §7). Prior value throughout: VAL 90, POC 100, VAH 110; its edges belong to value."""

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

#: In the middle of prior value, nothing beyond the initial balance: no vote.
MIDDLE = SessionProfile(
    poc=100, val=95, vah=105, poc_candidates=(100,), vpoc=100, volume_va=(95, 105), high=108, low=92, open=100,
    close=100, ib_high=108, ib_low=92, tpos=(1,) * 17, upper_tail_rows=1, lower_tail_rows=1,
    upper_tail_provisional=False, lower_tail_provisional=False, single_prints=(), brackets=2,
)  # fmt: skip


def brackets(*ranges: tuple[int, int], skip: int | None = None) -> list[Bracket]:
    """Brackets of (low, high), A first; one index may be left out, as where nothing traded."""
    numbers = [n for n in range(len(ranges) + 1) if n != skip]
    return [
        Bracket(index, low, high, low, high, index, index)
        for index, (low, high) in zip(numbers, ranges, strict=False)
    ]


def counted(profile: SessionProfile = MIDDLE, *ranges: tuple[int, int], complete: bool = True) -> Votes:
    return votes(profile, PRIOR, brackets(*ranges), ib_complete=complete)


# -- votes


def test_in_the_middle_of_value_no_one_votes() -> None:
    assert counted() == Votes()


@pytest.mark.parametrize(("price", "want"), [(111, 1), (110, 0), (100, 0), (90, 0), (89, -1)])
def test_last_and_poc_are_beyond_the_edges_or_not(price: int, want: int) -> None:
    assert counted(replace(MIDDLE, close=price)) == Votes(last=want)
    assert counted(replace(MIDDLE, poc=price)) == Votes(poc=want)


@pytest.mark.parametrize(
    ("val", "vah", "want"),
    [
        (91, 111, 1),  # both edges above
        (90, 111, 0),  # the lower where it was
        (91, 110, 0),  # the upper where it was
        (89, 109, -1),
        (90, 109, 0),
        (89, 110, 0),
        (89, 111, 0),  # wider
        (91, 109, 0),  # narrower
    ],
)
def test_value_moves_with_both_edges(val: int, vah: int, want: int) -> None:
    assert counted(replace(MIDDLE, val=val, vah=vah)) == Votes(value=want)


@pytest.mark.parametrize(
    ("low", "high", "want"), [(92, 109, 1), (91, 108, -1), (92, 108, 0), (91, 109, 0), (80, 109, 0)]
)
def test_the_balance_is_extended_on_one_side_only(low: int, high: int, want: int) -> None:
    extended = replace(MIDDLE, low=low, high=high)
    assert counted(extended) == Votes(extension=want)
    assert counted(extended, complete=False) == Votes()


@pytest.mark.parametrize(
    ("ranges", "want"),
    [
        ([(10, 20), (10, 25), (11, 22)], 1),  # lows 10, 10, 11; highs 20, 25, 22
        ([(10, 20), (12, 25), (11, 30)], 0),  # the last takes out the low before it
        ([(10, 20), (8, 20), (9, 19)], -1),  # highs 20, 20, 19; lows 10, 8, 9
        ([(10, 20), (8, 19), (7, 20)], 0),
        ([(10, 20), (11, 19), (12, 18)], 0),  # narrowing: both
        ([(10, 20), (10, 20), (10, 20)], 0),  # alike: both
        ([(10, 20), (12, 22)], 0),  # two are too few
        ([(10, 20), (5, 9), (6, 12), (7, 15)], 1),  # the first is the fourth from last and no longer counts
    ],
)
def test_one_timeframing_over_three_brackets(ranges: list[tuple[int, int]], want: int) -> None:
    assert counted(MIDDLE, *ranges) == Votes(one_timeframing=want)


def test_a_bracket_without_trades_ends_one_timeframing() -> None:
    rising = [(10, 20), (12, 22), (14, 24)]
    assert votes(MIDDLE, PRIOR, brackets(*rising, skip=1), ib_complete=True) == Votes()
    assert votes(MIDDLE, PRIOR, brackets(*rising, skip=0), ib_complete=True) == Votes(one_timeframing=1)


def test_without_a_prior_only_the_session_itself_votes() -> None:
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
def test_what_a_close_speaks_for(count: Votes, want: Bias) -> None:
    assert candidate(count, both_sides_broken=False) is want
    assert candidate(count, both_sides_broken=True) is Bias.NEUTRAL


# -- the machine

UP, FLAT, DOWN, TREND = Votes(1, 1), Votes(), Votes(-1, -1), Votes(1, 1, 1, 1)


def told(*counts: Votes) -> list[Bias]:
    """The bias in force after each close."""
    machine, found = BiasMachine(), []
    for count in counts:
        machine.bracket_closed(count, both_sides_broken=False)
        found.append(machine.reading.bias)
    return found


def test_before_the_first_close_it_is_undetermined() -> None:
    assert BiasMachine().reading == BiasReading(Bias.UNDETERMINED, Votes())


def test_the_first_close_sets_it_at_once() -> None:
    assert told(UP) == [Bias.LEAN_UP]


def test_it_is_left_after_two_closes_in_a_row() -> None:
    assert told(UP, FLAT, FLAT) == [Bias.LEAN_UP, Bias.LEAN_UP, Bias.BALANCED]


def test_one_that_agrees_between_them_begins_the_count_anew() -> None:
    assert told(UP, FLAT, UP, FLAT, UP, FLAT) == [Bias.LEAN_UP] * 6


def test_of_two_that_differ_the_second_is_taken() -> None:
    assert told(UP, FLAT, DOWN) == [Bias.LEAN_UP, Bias.LEAN_UP, Bias.LEAN_DOWN]


def test_after_a_change_it_takes_two_again() -> None:
    assert told(UP, DOWN, DOWN, UP, UP)[2:] == [Bias.LEAN_DOWN, Bias.LEAN_DOWN, Bias.LEAN_UP]


def test_a_stronger_word_for_the_same_side_is_another_bias() -> None:
    assert told(UP, TREND, TREND) == [Bias.LEAN_UP, Bias.LEAN_UP, Bias.TREND_UP]


def test_both_sides_broken_is_neutral_after_two_closes() -> None:
    machine = BiasMachine()
    machine.bracket_closed(UP, both_sides_broken=False)
    machine.bracket_closed(UP, both_sides_broken=True)
    assert machine.reading == BiasReading(Bias.LEAN_UP, UP)
    machine.bracket_closed(DOWN, both_sides_broken=True)
    assert machine.reading == BiasReading(Bias.NEUTRAL, DOWN)


def test_the_votes_told_are_the_newest_though_the_bias_stays() -> None:
    machine = BiasMachine()
    machine.bracket_closed(UP, both_sides_broken=False)
    machine.bracket_closed(DOWN, both_sides_broken=False)
    assert machine.reading == BiasReading(Bias.LEAN_UP, DOWN)


def test_every_pair_is_in_the_table_or_named_as_never() -> None:
    assert set(TRANSITIONS) | NEVER == set(product(Phase, Sign))
    assert not set(TRANSITIONS) & NEVER


VOTE = st.integers(-1, 1)
CLOSES = st.lists(st.tuples(st.builds(Votes, VOTE, VOTE, VOTE, VOTE, VOTE), st.booleans()), max_size=20)


@given(CLOSES)
def test_the_bias_is_what_two_closes_leave(closes: list[tuple[Votes, bool]]) -> None:
    """Oracle, from the sentence of the rule: walk the list of what each close speaks for; leave the state at a close
    that differs if the one before it was counted against the state too, and then count from zero."""
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
def test_it_can_be_cut_anywhere(closes: list[tuple[Votes, bool]], cut: int) -> None:
    whole, parts = BiasMachine(), BiasMachine()
    for at, (count, both) in enumerate(closes):
        if at == cut:
            parts = BiasMachine.load(json.loads(json.dumps(parts.dump())))
        whole.bracket_closed(count, both_sides_broken=both)
        parts.bracket_closed(count, both_sides_broken=both)
    assert parts.dump() == whole.dump()
