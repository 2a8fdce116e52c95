"""`va-reject-*`, worked by hand: VAH 1000, VAL 960, arm 8. A poke is 1001 or more, a close back is 999 or less."""

import pytest
from tests.market.structure_tape import Tape, at, fired_alerts

HIGH, LOW = "va-reject-high", "va-reject-low"


def rejects(found: list) -> list[tuple[str, int]]:
    return [one for one in fired_alerts(found) if one[0] in {HIGH, LOW}]


def test_a_poke_and_a_close_back_fire() -> None:
    tape = Tape()
    tape.trade(0, 990)
    assert rejects(tape.trade(2, 1001)) == []
    tape.trade(3, 1004)
    tape.trade(4, 999)
    (alert,) = tape.five(5, 999)
    assert (alert.type, alert.ref, alert.price_ticks, alert.at_ns, alert.bracket) == (
        HIGH,
        "VAH",
        999,
        at(5),
        0,
    )
    assert alert.key_ms == 1_767_623_700_000
    assert alert.type.severity == "critical"
    assert alert.params == {
        "level": 1000, "reached": None, "observed": None, "vah": 1000, "val": 960, "poc": 980, "tolTicks": None,
        "approach": "inside", "probeExtreme": 1004, "probeTicks": 4, "secondsOutside": 180, "brackets": None,
    }  # fmt: skip


def test_the_lower_edge_mirrors() -> None:
    tape = Tape()
    tape.trade(0, 970)
    tape.trade(2, 959)
    tape.trade(3, 955)
    (alert,) = tape.five(5, 961)
    assert (alert.type, alert.ref, alert.price_ticks) == (LOW, "VAL", 961)
    assert (alert.params["probeExtreme"], alert.params["probeTicks"]) == (955, 5)


def test_a_trade_at_the_edge_is_no_poke() -> None:
    tape = Tape()
    tape.trade(0, 990)
    tape.trade(2, 1000)
    assert tape.five(5, 990) == []


def test_a_close_at_the_edge_is_not_back() -> None:
    tape = Tape()
    tape.trade(0, 990)
    tape.trade(2, 1001)
    assert tape.five(5, 1000) == []
    assert rejects(tape.five(10, 999)) == [(HIGH, 999)]


@pytest.mark.parametrize(("ns", "fires"), [(0, True), (-1, False)])
def test_thirty_minutes_from_the_first_poke(ns: int, fires: bool) -> None:
    """Poked at minute 5: the bar that ends at minute 35 is the last in time; poked 1 ns earlier, it is late."""
    tape = Tape()
    tape.trade(0, 990)
    tape.trade(5, 1001, ns)
    for minute in range(10, 35, 5):
        tape.trade(minute, 1002)  # later pokes do not start it anew
        assert tape.five(minute, 1001) == []
    assert rejects(tape.five(35, 999)) == ([(HIGH, 999)] if fires else [])


def test_a_late_close_inside_arms_at_once() -> None:
    tape = Tape()
    tape.trade(0, 990)
    tape.trade(4, 1001)
    assert tape.five(35, 999) == []
    tape.trade(36, 1001)
    assert rejects(tape.five(40, 999)) == [(HIGH, 999)]


def test_after_a_late_close_outside_price_must_return_first() -> None:
    tape = Tape()
    tape.trade(0, 990)
    tape.trade(4, 1001)
    assert tape.five(35, 1000) == []
    tape.trade(36, 1000)  # at the edge: not inside yet
    tape.trade(37, 1001)
    assert tape.five(40, 999) == []  # no trade was inside, so this was no new probe
    tape.trade(41, 999)
    tape.trade(42, 1001)
    assert rejects(tape.five(45, 999)) == [(HIGH, 999)]


def fired() -> Tape:
    """Return a tape with a reject at minute 5."""
    tape = Tape()
    tape.trade(0, 990)
    tape.trade(2, 1001)
    assert rejects(tape.five(5, 999)) == [(HIGH, 999)]
    return tape


def test_no_other_reject_within_thirty_minutes() -> None:
    tape = fired()
    tape.trade(35, 980, -1)
    tape.trade(36, 1001)
    assert tape.five(40, 999) == []


def test_no_other_reject_before_price_was_an_arm_inside() -> None:
    tape = fired()
    tape.trade(35, 993)  # 7 inside
    tape.trade(36, 1001)
    assert tape.five(40, 999) == []
    tape.trade(41, 992)
    tape.trade(42, 1001)
    assert rejects(tape.five(45, 999)) == [(HIGH, 999)]


def test_armed_again_at_exactly_thirty_minutes_and_twice_at_most() -> None:
    tape = fired()
    tape.trade(35, 992)
    tape.trade(35, 1001, 1)
    assert rejects(tape.five(40, 999)) == [(HIGH, 999)]
    for minute in (80, 160):
        tape.trade(minute, 970)
        tape.trade(minute + 1, 1001)
        assert tape.five(minute + 5, 999) == []


def test_both_edges_are_independent() -> None:
    """One wide bar pokes beyond both edges and closes in value; the high fires before the low."""
    tape = Tape()
    tape.trade(0, 980)
    tape.trade(1, 1001)
    tape.trade(2, 959)
    assert rejects(tape.five(5, 980)) == [(HIGH, 980), (LOW, 980)]


# -- sessions that open beyond


def test_a_session_that_opens_beyond_waits_for_a_price_in_value() -> None:
    tape = Tape()
    tape.trade(0, 1010)
    tape.trade(1, 1020)
    assert tape.five(5, 999) == []
    tape.trade(6, 1000)
    assert tape.five(10, 999) == []  # in value now, and no poke since
    tape.trade(11, 1001)
    assert rejects(tape.five(15, 999)) == [(HIGH, 999)]


def test_an_open_below_leaves_the_upper_edge_armed() -> None:
    tape = Tape()
    tape.trade(0, 950)
    tape.trade(1, 1001)
    assert rejects(tape.five(5, 999)) == [(HIGH, 999)]


# -- acceptance


def probing_at_the_second_bracket(first_close: int) -> Tape:
    """Return a tape on which a probe begins at minute 51; brackets 0 and 1 close at `first_close` and 1001."""
    tape = Tape()
    tape.trade(0, 990)
    tape.bracket(0, first_close)
    tape.trade(51, 1001)
    assert tape.five(60, 1001) == []
    tape.bracket(1, 1001)
    return tape


def test_acceptance_disarms() -> None:
    assert rejects(probing_at_the_second_bracket(1000).five(65, 999)) == [(HIGH, 999)]
    tape = probing_at_the_second_bracket(1001)  # two closes beyond: accepted
    assert tape.five(65, 999) == []
    tape.trade(66, 990)
    tape.trade(67, 1001)
    assert tape.five(70, 999) == []


def test_a_bracket_that_closes_back_arms() -> None:
    tape = probing_at_the_second_bracket(1001)
    tape.bracket(2, 1000)  # at the edge: inside
    tape.trade(91, 1001)
    assert rejects(tape.five(95, 999)) == [(HIGH, 999)]


def test_a_bracket_without_a_trade_does_not_arm() -> None:
    tape = probing_at_the_second_bracket(1001)
    tape.bracket(2, None)
    tape.trade(91, 1001)
    assert tape.five(95, 999) == []


def test_acceptance_does_not_reset_the_conditions_of_another_reject() -> None:
    """Worked by hand: rejected at minute 5, accepted at 60.

    Bracket 2 closes at 999 at minute 90: back, but price was never more than 2 inside since, and arm is 8. The poke at
    91 does not count; after a trade at 992, 8 inside, that at 97 does.
    """
    tape = fired()
    tape.trade(20, 1001)
    tape.bracket(0, 1001)
    assert fired_alerts(tape.bracket(1, 1001)) == [("va-accept-above", 1001)]
    tape.trade(89, 998)
    tape.bracket(2, 999)
    tape.trade(91, 1001)
    assert tape.five(95, 999) == []
    tape.trade(96, 992)
    tape.trade(97, 1001)
    assert rejects(tape.five(100, 999)) == [(HIGH, 999)]


def test_the_arm_inside_counts_from_the_close_of_the_bracket() -> None:
    """Worked by hand: rejected at minute 55, accepted at 60, back at 90.

    980 at 89 was before the bracket closed and does not enable the poke at 91; 980 at 96 enables that at 97.
    """
    tape = Tape()
    tape.trade(0, 990)
    tape.bracket(0, 1001)
    tape.trade(51, 1001)
    assert rejects(tape.five(55, 999)) == [(HIGH, 999)]
    tape.trade(59, 1001)
    assert fired_alerts(tape.bracket(1, 1001)) == [("va-accept-above", 1001)]
    tape.trade(89, 980)
    tape.bracket(2, 980)
    tape.trade(91, 1001)
    assert tape.five(95, 999) == []
    tape.trade(96, 980)
    tape.trade(97, 1001)
    assert rejects(tape.five(100, 999)) == [(HIGH, 999)]


def test_a_third_acceptance_disarms_although_it_fires_no_alert() -> None:
    """Worked by hand: brackets 0 and 1, 3 and 4, 6 and 7 close beyond, 2 and 5 back.

    The third acceptance fires no alert, and a probe that was active when it came fires nothing; bracket 8 closes back,
    and the next probe fires.
    """
    tape = Tape()
    tape.trade(0, 990)
    fired = [
        fired_alerts(tape.bracket(n, close))
        for n, close in enumerate((1001, 1001, 999, 1001, 1001, 999, 1001))
    ]
    assert [bool(one) for one in fired] == [False, True, False, False, True, False, False]
    tape.trade(231, 1001)
    assert tape.bracket(7, 1001) == []
    assert tape.five(245, 999) == []
    tape.bracket(8, 999)
    tape.trade(271, 1001)
    assert rejects(tape.five(275, 999)) == [(HIGH, 999)]


def test_acceptance_above_does_not_affect_the_lower_edge() -> None:
    tape = probing_at_the_second_bracket(1001)
    tape.trade(61, 959)
    assert rejects(tape.five(65, 961)) == [(LOW, 961)]


def test_brackets_of_stale_trades_disarm_before_the_first_observation() -> None:
    tape = Tape()
    tape.bracket(0, 1001)
    assert fired_alerts(tape.bracket(1, 1001)) == [("va-accept-above", 1001)]
    tape.trade(61, 990)
    tape.trade(62, 1001)
    assert tape.five(65, 999) == []
    tape.bracket(2, 999)
    tape.trade(91, 1001)
    assert rejects(tape.five(95, 999)) == [(HIGH, 999)]


def test_the_maximum_of_rejects_survives_acceptance() -> None:
    tape = fired()
    tape.trade(35, 992)
    tape.trade(36, 1001)
    tape.five(40, 999)
    tape.bracket(1, 1001)
    assert fired_alerts(tape.bracket(2, 1001)) == [("va-accept-above", 1001)]
    tape.bracket(3, 990)
    tape.trade(130, 1001)
    assert tape.five(135, 999) == []


# -- a bar closes some time after its end, when trades of the next one were already shown


@pytest.mark.parametrize("ns", [0, 500_000_000])
def test_a_poke_after_the_end_of_a_bar_is_not_rejected_by_its_close(ns: int) -> None:
    tape = Tape()
    tape.trade(0, 990)
    tape.trade(5, 1001, ns)
    assert tape.five(5, 990) == []
    assert rejects(tape.five(10, 990)) == [(HIGH, 990)]


# -- bars


def test_a_bar_pokes_with_its_range() -> None:
    """The bar that ends at minute 5 belongs to the five minutes that end there."""
    tape = Tape()
    tape.bar(1, 988, 990, 990)
    tape.bar(5, 990, 1003, 998)
    (alert,) = [one for one in tape.five(5, 998) if one.type == HIGH]
    assert (alert.params["probeTicks"], alert.params["secondsOutside"]) == (3, 0)


def test_a_bar_returns_with_its_close() -> None:
    """Lapsed at minute 35; a wick to 990 with a close at the edge is not inside, a close at 999 is."""
    tape = Tape()
    tape.bar(1, 988, 990, 990)
    tape.bar(3, 990, 1001, 1001)
    tape.five(35, 1001)
    tape.bar(36, 990, 1002, 1000)
    tape.bar(37, 1000, 1003, 1002)
    assert tape.five(40, 999) == []
    tape.bar(41, 998, 1002, 999)
    tape.bar(42, 999, 1001, 999)
    assert rejects(tape.five(45, 999)) == [(HIGH, 999)]


def test_a_bar_that_entered_value_and_closed_beyond_is_not_inside() -> None:
    tape = Tape()
    tape.bar(1, 1005, 1010, 1006, opened=1008)
    tape.bar(2, 998, 1006, 1003, opened=1006)
    tape.bar(3, 1001, 1004, 1001)
    assert tape.five(5, 999) == []


def test_a_bar_that_closed_in_value_is_inside_whatever_its_range() -> None:
    tape = Tape()
    tape.bar(1, 1005, 1010, 1006)
    tape.bar(2, 998, 1006, 999)
    tape.bar(3, 1001, 1004, 1001)
    assert rejects(tape.five(5, 999)) == [(HIGH, 999)]


@pytest.mark.parametrize(("opened", "fires"), [(1000, True), (1001, False)])
def test_the_open_of_the_first_bar_decides_whether_the_session_opened_beyond(
    opened: int, fires: bool
) -> None:
    """The range straddles the edge in both cases.

    What counts is the session's open, and then the close of the bar, which is beyond.
    """
    tape = Tape()
    tape.bar(1, 990, 1004, 1002, opened=opened)
    assert bool(rejects(tape.five(5, 999))) is fires


def test_a_first_bar_that_opens_beyond_and_closes_in_value_is_inside_without_a_poke() -> None:
    tape = Tape()
    tape.bar(1, 990, 1004, 999, opened=1003)
    assert rejects(tape.five(5, 998)) == []
    tape.bar(6, 998, 1001, 999, opened=999)
    assert rejects(tape.five(10, 999)) == [(HIGH, 999)]
