"""`va-accept-*`, worked by hand: two consecutive brackets that close at 1001 or more (959 or less)."""

import pytest
from tests.market.structure_tape import Tape, at, fired_alerts

ABOVE, BELOW = "va-accept-above", "va-accept-below"


def closes(*prices: int | None) -> list[list[tuple[str, int]]]:
    tape = Tape()
    return [fired_alerts(tape.bracket(index, price)) for index, price in enumerate(prices)]


def test_two_closes_beyond_fire() -> None:
    tape = Tape()
    assert tape.bracket(0, 1001) == []
    (alert,) = tape.bracket(1, 1005)
    assert (alert.type, alert.ref, alert.price_ticks, alert.at_ns, alert.bracket) == (
        ABOVE,
        "VAH",
        1005,
        at(60),
        1,
    )
    assert alert.type.severity == "warn"
    assert alert.params == {
        "level": 1000, "reached": None, "observed": None, "vah": 1000, "val": 960, "poc": 980, "tolTicks": None,
        "approach": None, "probeExtreme": None, "probeTicks": None, "secondsOutside": None, "brackets": [0, 1],
    }  # fmt: skip


def test_the_lower_edge_mirrors_the_upper() -> None:
    tape = Tape()
    tape.bracket(0, 980)
    tape.bracket(1, 959)
    (alert,) = tape.bracket(2, 950)
    assert (alert.type, alert.ref, alert.params["brackets"]) == (BELOW, "VAL", [1, 2])


@pytest.mark.parametrize("between", [1000, 980, None, 950])
def test_a_bracket_between_breaks_the_pair(between: int | None) -> None:
    assert closes(1001, between, 1001) == [[], [], []]
    assert closes(1001, between, 1001, 1001)[3] == [(ABOVE, 1001)]


def test_a_close_at_the_edge_is_inside() -> None:
    assert closes(1000, 1001, 1000, 1001) == [[], [], [], []]
    assert closes(960, 960) == [[], []]


def test_omitted_brackets_break_the_pair_too() -> None:
    tape = Tape()
    tape.bracket(0, 1001)
    assert tape.bracket(2, 1001) == []
    assert fired_alerts(tape.bracket(3, 1001)) == [(ABOVE, 1001)]


def test_another_acceptance_needs_a_close_back_inside() -> None:
    assert closes(1001, 1001, 1001, 1001, None, 1001, 1001) == [[], [(ABOVE, 1001)], [], [], [], [], []]
    assert closes(1001, 1001, 1000, 1001, 1002) == [[], [(ABOVE, 1001)], [], [], [(ABOVE, 1002)]]


def test_at_most_two_per_session_and_side() -> None:
    found = closes(1001, 1001, 990, 1001, 1001, 990, 1001, 1001, 990, 959, 959)
    assert [bool(one) for one in found] == [
        False, True, False, False, True, False, False, False, False, False, True,
    ]  # fmt: skip
    assert found[-1] == [(BELOW, 959)]


def test_after_two_acceptances_nothing_fires() -> None:
    assert closes(1001, 1001, 990, 1001, 1001, None, 1001, 1001, 990, 1001, 1001)[5:] == [[]] * 6


def test_a_session_that_opens_above_is_accepted_at_the_close_of_its_second_bracket() -> None:
    tape = Tape()
    tape.trade(0, 1010)
    tape.bracket(0, 1012)
    assert fired_alerts(tape.bracket(1, 1015)) == [(ABOVE, 1015)]
