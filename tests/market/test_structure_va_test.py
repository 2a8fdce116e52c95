"""`va-test-*`, worked by hand: VAH 1000, VAL 960, tolerance 2 (998 to 1002, 958 to 962), arm 8, rest 15 minutes."""

import pytest
from tests.market.structure_tape import PRIOR, Tape, fired_alerts, opening

from outcry.market.opening import Prior

HIGH, LOW = "va-test-high", "va-test-low"


def test_the_first_touch_after_being_away_fires() -> None:
    tape = Tape()
    assert tape.trade(0, 992) == []  # 8 away
    assert tape.trade(1, 997) == []  # 3 away: one tick short of the tolerance
    (alert,) = tape.trade(2, 998)
    assert (alert.type, alert.ref, alert.price_ticks, alert.bracket) == (HIGH, "VAH", 998, 0)
    assert alert.key_ms == alert.at_ns // 1_000_000 == 1_767_623_520_000
    assert alert.type.severity == "info"
    assert alert.params == {
        "level": 1000, "reached": 998, "observed": "trade", "vah": 1000, "val": 960, "poc": 980, "tolTicks": 2,
        "approach": "inside", "probeExtreme": None,
        "probeTicks": None, "secondsOutside": None, "brackets": None,
    }  # fmt: skip


def test_seven_ticks_away_is_not_away() -> None:
    tape = Tape()
    assert [tape.trade(0, 993), tape.trade(1, 998), tape.trade(2, 1000)] == [[], [], []]


@pytest.mark.parametrize(("width", "away", "fires"), [(100, 10, True), (101, 10, False), (101, 11, True)])
def test_a_wide_value_area_requires_a_tenth_of_it(width: int, away: int, fires: bool) -> None:
    """100 wide: 10 ticks; 101 wide: 10.1, rounded up to 11."""
    tape = Tape(opening(Prior(PRIOR.trade_date, 950, 1000, 1000 - width, 1020, 880, 950)))
    tape.trade(0, 1000 - away)
    assert fired_alerts(tape.trade(1, 1000)) == ([(HIGH, 1000)] if fires else [])


def test_a_touch_from_above_fires_too() -> None:
    """Opened in value, jumped over the edge to 1003, one tick beyond the tolerance, and came back down."""
    tape = Tape()
    tape.trade(0, 990)
    assert tape.trade(1, 1003) == []
    (alert,) = tape.trade(2, 1002)
    assert (alert.price_ticks, alert.params["approach"]) == (1002, "outside")


def test_armed_above_the_edge_is_armed_outside_value() -> None:
    """The rest ends at minute 16; 8 above arms."""
    tape = Tape()
    tape.trade(0, 990)
    assert fired_alerts(tape.trade(1, 1000)) == [(HIGH, 1000)]
    tape.trade(17, 1008)
    (alert,) = tape.trade(18, 1001)
    assert alert.params["approach"] == "outside"


def test_it_stays_latched_until_fifteen_minutes_and_an_arm_away() -> None:
    tape = Tape()
    tape.trade(0, 990)
    assert fired_alerts(tape.trade(1, 1000)) == [(HIGH, 1000)]
    assert tape.trade(2, 999) == []  # still at the edge
    assert tape.trade(3, 985) == []  # away, but too early
    assert tape.trade(4, 1000) == []  # so it is not armed
    assert tape.trade(16, 985, -1) == []  # one nanosecond too early
    assert tape.trade(16, 1000) == []
    assert tape.trade(17, 993) == []  # one tick too near
    assert tape.trade(18, 1000) == []
    assert tape.trade(19, 992) == []
    assert fired_alerts(tape.trade(19, 998, 1)) == [(HIGH, 998)]


def test_an_arm_away_at_exactly_fifteen_minutes_arms() -> None:
    tape = Tape()
    tape.trade(0, 990)
    tape.trade(1, 1000)
    tape.trade(16, 992)
    assert fired_alerts(tape.trade(16, 1000, 1)) == [(HIGH, 1000)]


def test_at_most_three_per_session() -> None:
    tape = Tape()
    found = []
    for minute in range(0, 100, 20):
        tape.trade(minute, 990)
        found.append(len(tape.trade(minute + 1, 1000)))
    assert found == [1, 1, 1, 0, 0]


@pytest.mark.parametrize("opened", [1001, 1020])
def test_a_session_that_opens_beyond_waits_for_a_price_in_value(opened: int) -> None:
    tape = Tape()
    assert tape.trade(0, opened) == []
    assert tape.trade(1, 1012) == []
    assert tape.trade(2, 1001) == []  # within the tolerance, and not in value
    assert tape.trade(3, 1012) == []
    assert tape.trade(4, 1000) == []  # in value, because the edge belongs to it; now it must move away
    assert tape.trade(5, 993) == []
    assert tape.trade(6, 1000) == []
    assert tape.trade(7, 992) == []
    assert fired_alerts(tape.trade(8, 1000)) == [(HIGH, 1000)]


def test_an_entry_far_inside_arms_at_once() -> None:
    tape = Tape()
    tape.trade(0, 1020)
    tape.trade(1, 990)
    assert fired_alerts(tape.trade(2, 1001)) == [(HIGH, 1001)]


def test_a_jump_over_all_of_value_is_not_in_value() -> None:
    tape = Tape()
    tape.trade(0, 1020)
    tape.trade(1, 950)
    assert tape.trade(2, 1001) == []


def test_an_open_at_the_edge_is_in_value() -> None:
    tape = Tape()
    tape.trade(0, 1000)
    tape.trade(1, 1008)
    assert fired_alerts(tape.trade(2, 1000)) == [(HIGH, 1000)]


def test_the_lower_edge_mirrors() -> None:
    tape = Tape()
    tape.trade(0, 968)  # 8 away
    assert tape.trade(1, 963) == []
    (alert,) = tape.trade(2, 962)
    assert (alert.type, alert.ref, alert.params["approach"]) == (LOW, "VAL", "inside")


def test_an_open_below_waits_for_value_at_the_lower_edge_only() -> None:
    """VAH is 50 away and armed from inside; VAL waits until 960 has traded."""
    tape = Tape()
    tape.trade(0, 950)
    assert tape.trade(1, 959) == []
    tape.trade(2, 940)
    assert tape.trade(3, 959) == []
    tape.trade(4, 960)
    tape.trade(5, 952)
    (alert,) = tape.trade(6, 958)
    assert (alert.type, alert.params["approach"]) == (LOW, "outside")
    assert fired_alerts(tape.trade(7, 998)) == [(HIGH, 998)]


# -- a reject replaces the test


def rejected() -> Tape:
    """Jumped over VAH at minute 1 and back at minute 4; the bar that ends at minute 5 closes inside: a reject."""
    tape = Tape()
    tape.trade(0, 990)
    tape.trade(1, 1003)
    tape.trade(4, 991)
    assert fired_alerts(tape.five(5, 991)) == [("va-reject-high", 991)]
    return tape


def test_a_touch_within_five_minutes_of_a_reject_is_muted_and_latches() -> None:
    tape = rejected()
    assert tape.trade(10, 998, -1) == []
    assert tape.trade(10, 998) == []  # latched by the previous touch
    tape.trade(25, 990, -2)
    assert tape.trade(25, 998, -1) == []  # a nanosecond short of 15 minutes when it was away
    tape.trade(25, 990, -1)
    assert fired_alerts(tape.trade(25, 998)) == [(HIGH, 998)]


def test_a_touch_at_exactly_five_minutes_fires() -> None:
    assert fired_alerts(rejected().trade(10, 998)) == [(HIGH, 998)]


def test_a_muted_touch_does_not_count() -> None:
    tape = rejected()
    tape.trade(6, 998)
    found = []
    for minute in range(30, 110, 20):
        tape.trade(minute, 990)
        found += fired_alerts(tape.trade(minute + 1, 998))
    assert found == [(HIGH, 998)] * 3


def test_a_reject_of_the_other_edge_mutes_nothing() -> None:
    tape = rejected()
    tape.trade(6, 980)
    assert fired_alerts(tape.trade(7, 962)) == [(LOW, 962)]


# -- bars


def test_a_bar_touches_with_its_range_and_latches_although_it_closed_away() -> None:
    """The wick of minute 2 reaches 998; its close is 10 away. Later wicks within the rest fire nothing."""
    tape = Tape()
    tape.bar(1, 985, 990, 990)
    assert fired_alerts(tape.bar(2, 988, 998, 990)) == [(HIGH, 990)]
    assert [tape.bar(minute, 988, 998, 990) for minute in range(3, 17)] == [[]] * 14
    # minute 17 ends the rest: it fires nothing itself, and arms by its close
    assert tape.bar(17, 988, 998, 990) == []
    assert fired_alerts(tape.bar(18, 988, 998, 990)) == [(HIGH, 990)]


def test_a_bar_arms_with_its_close_only() -> None:
    tape = Tape()
    tape.bar(1, 993, 996, 995)
    tape.bar(2, 980, 996, 995)  # was far away but closed near
    assert tape.bar(3, 995, 1000, 995) == []
    tape.bar(4, 980, 996, 992)
    assert fired_alerts(tape.bar(5, 992, 998, 997)) == [(HIGH, 997)]


def test_a_bar_that_ends_a_tick_short_does_not_touch() -> None:
    tape = Tape()
    tape.bar(1, 985, 990, 990)
    assert tape.bar(2, 985, 997, 997) == []
    assert tape.bar(3, 1003, 1010, 1004) == []


def test_the_open_of_the_first_bar_decides_whether_the_session_opened_beyond() -> None:
    tape = Tape()
    tape.bar(1, 998, 1012, 1010, opened=1000)  # opened in value, and 10 away: arms
    (alert,) = tape.bar(2, 1002, 1010, 1005)
    assert (alert.type, alert.price_ticks) == (HIGH, 1005)
    assert [alert.params[name] for name in ("level", "reached", "observed")] == [1000, 1002, "bar"]
    other = Tape()
    other.bar(1, 998, 1012, 1010, opened=1001)
    assert other.bar(2, 1002, 1010, 1005) == []


def test_a_bar_that_entered_value_and_closed_beyond_is_not_inside() -> None:
    tape = Tape()
    tape.bar(1, 1005, 1012, 1010)
    tape.bar(2, 998, 1010, 1003)
    tape.bar(3, 1003, 1012, 1012)
    assert tape.bar(4, 1001, 1012, 1005) == []


@pytest.mark.parametrize(
    ("low", "high", "close", "approach"), [(985, 1005, 990, "inside"), (995, 1010, 1009, "outside")]
)
def test_the_close_of_a_bar_decides_the_side_of_the_next_touch(
    low: int, high: int, close: int, approach: str
) -> None:
    tape = Tape()
    tape.bar(1, low, high, close, opened=998)
    (alert,) = tape.bar(2, 1000, 1000, 1000)
    assert alert.params["approach"] == approach
