"""`ib-break-*`, `naked-poc`, `poor-*`, worked by hand."""

from datetime import date

import pytest
from tests.market.structure_tape import PRIOR, Tape, fired_alerts, opening

from outcry.market.levels import CarriedLevel
from outcry.market.opening import Prior

UP, DOWN = "ib-break-up", "ib-break-down"


def breaks(found: list) -> list[tuple[str, int]]:
    return [one for one in fired_alerts(found) if one[0] in {UP, DOWN}]


def level(price: int, day: int, **more: int) -> CarriedLevel:
    return CarriedLevel(price, date(2025, 12, day), **more)


# -- the initial balance: 985 to 970 by default, 15 ticks


def balanced() -> Tape:
    tape = Tape(opening(prior=None))
    tape.trade(0, 970)
    tape.trade(30, 985)
    return tape


def test_the_first_trade_beyond_the_balance_fires() -> None:
    """Half of 15 ticks is 7.5: the 150 % extension lies 8 beyond, at 993."""
    tape = balanced()
    assert tape.trade(61, 985) == []
    (alert,) = tape.trade(62, 986)
    assert (alert.type, alert.ref, alert.price_ticks, alert.bracket) == (UP, "IBH", 986, 2)
    assert alert.type.severity == "critical"
    assert alert.params == {
        "level": 985, "reached": 986, "observed": "trade", "ibHigh": 985, "ibLow": 970, "ibRange": 15, "breakTicks": 1,
        "otherSideBroken": False, "ext150": 993, "ext200": 1000,
    }  # fmt: skip


def test_a_break_of_the_other_side_reports_both_broken() -> None:
    tape = balanced()
    assert breaks(tape.trade(61, 990)) == [(UP, 990)]
    (alert,) = tape.trade(70, 968)
    assert (alert.type, alert.ref) == (DOWN, "IBL")
    assert alert.params == {
        "level": 970, "reached": 968, "observed": "trade", "ibHigh": 985, "ibLow": 970, "ibRange": 15, "breakTicks": 2,
        "otherSideBroken": True, "ext150": 962, "ext200": 955,
    }  # fmt: skip


def test_the_lower_side_alone() -> None:
    (alert,) = balanced().trade(61, 969)
    assert (alert.type, alert.params["breakTicks"], alert.params["otherSideBroken"]) == (DOWN, 1, False)


def test_each_side_breaks_once_per_session() -> None:
    tape = balanced()
    assert breaks(tape.trade(61, 990)) == [(UP, 990)]
    assert [tape.trade(minute, price) for minute, price in ((62, 995), (63, 980), (64, 999))] == [[], [], []]


@pytest.mark.parametrize(("ns", "fires"), [(-1, False), (0, True)])
def test_the_balance_forms_until_the_first_hour_ends(ns: int, fires: bool) -> None:
    assert breaks(balanced().trade(60, 990, ns)) == ([(UP, 990)] if fires else [])


def test_a_trade_in_the_last_nanosecond_belongs_to_the_balance() -> None:
    tape = balanced()
    tape.trade(60, 990, -1)
    assert tape.trade(60, 990) == []
    assert breaks(tape.trade(60, 991, 1)) == [(UP, 991)]


def test_the_last_bar_of_the_hour_breaks_nothing() -> None:
    tape = Tape(opening(prior=None))
    tape.bar(1, 970, 985, 980)
    assert tape.bar(60, 980, 990, 990) == []
    assert tape.bar(61, 985, 990, 990) == []
    assert breaks(tape.bar(62, 985, 991, 985)) == [(UP, 985)]


def test_a_bar_may_break_both_sides() -> None:
    tape = Tape(opening(prior=None))
    tape.bar(1, 970, 985, 980)
    found = tape.bar(61, 960, 990, 980)
    assert breaks(found) == [(UP, 980), (DOWN, 980)]
    assert [(alert.params["breakTicks"], alert.params["otherSideBroken"]) for alert in found] == [
        (5, True),
        (10, True),
    ]


def test_without_a_trade_in_the_first_hour_nothing_breaks() -> None:
    tape = Tape(opening(prior=None))
    assert [tape.trade(61, 980), tape.trade(62, 2000), tape.trade(63, 1)] == [[], [], []]


def test_a_late_trade_creates_or_moves_the_balance() -> None:
    tape = Tape(opening(prior=None))
    tape.trade(61, 980)
    tape.ib = (985, 975)
    tape.structure.revise_ib(tape.ib)
    assert tape.trade(62, 985) == []
    tape.ib = (990, 975)
    tape.structure.revise_ib(tape.ib)
    assert tape.trade(63, 990) == []
    assert breaks(tape.trade(64, 991)) == [(UP, 991)]
    tape.ib = (1000, 975)
    tape.structure.revise_ib(tape.ib)
    assert tape.trade(65, 1001) == []  # once per side, however the balance moves


def test_a_cancelled_balance_does_not_break() -> None:
    tape = balanced()
    tape.trade(61, 980)
    tape.structure.revise_ib(None)
    tape.ib, tape._first_hour = None, []
    assert tape.trade(62, 1000) == []


# -- naked POCs


def test_a_trade_at_a_naked_poc_fires_once() -> None:
    tape = Tape(opening(pocs=(level(985, 30, age_sessions=2),)))
    tape.trade(0, 975)
    assert tape.trade(1, 984) == []
    (alert,) = tape.trade(2, 985)
    assert (alert.type, alert.ref, alert.price_ticks) == ("naked-poc", "2025-12-30", 985)
    assert alert.type.severity == "warn"
    assert alert.params == {
        "level": 985, "reached": 985, "observed": "trade", "formedOn": "2025-12-30", "ageSessions": 2, "basis": "tpo",
        "distanceAtOpen": 10,
    }  # fmt: skip
    assert [tape.trade(3, 985), tape.trade(200, 975), tape.trade(300, 985)] == [[], [], []]


def test_the_distance_at_the_open_is_from_either_side_and_from_the_open_of_a_first_bar() -> None:
    above = Tape(opening(pocs=(level(985, 30),)))
    above.trade(0, 997)
    (alert,) = above.trade(1, 985)
    assert alert.params["distanceAtOpen"] == 12
    bars = Tape(opening(pocs=(level(985, 30),)))
    bars.bar(1, 990, 999, 995, opened=992)
    (alert,) = bars.bar(2, 985, 995, 990)
    assert alert.params["distanceAtOpen"] == 7


def test_a_bar_reports_the_level_it_reached_not_its_close() -> None:
    """Each bar closes on the near side of the level its range reached."""
    tape = Tape(opening(pocs=(level(985, 30),)))
    tape.bar(1, 970, 972, 972)
    (alert,) = tape.bar(2, 980, 990, 983)
    assert alert.price_ticks == 983
    assert [alert.params[name] for name in ("level", "reached", "observed")] == [985, 985, "bar"]
    broken = Tape(opening(prior=None))
    broken.bar(30, 970, 985, 980)
    (up,) = broken.bar(62, 982, 987, 984)
    assert up.price_ticks == 984  # below the level it broke
    assert [up.params[name] for name in ("level", "reached", "observed")] == [985, 987, "bar"]
    (down,) = broken.bar(63, 967, 984, 975)
    assert [down.params[name] for name in ("level", "reached", "observed")] == [970, 967, "bar"]


def test_a_gap_over_a_poc_does_not_test_it() -> None:
    tape = Tape(opening(pocs=(level(985, 30),)))
    assert [tape.trade(0, 984), tape.trade(1, 986), tape.trade(2, 984)] == [[], [], []]
    assert fired_alerts(tape.trade(3, 985)) == [("naked-poc", 985)]


def test_an_open_at_a_poc_tests_it() -> None:
    (alert,) = Tape(opening(pocs=(level(985, 30),))).trade(0, 985)
    assert (alert.type, alert.params["distanceAtOpen"]) == ("naked-poc", 0)


@pytest.mark.parametrize(("low", "high", "fires"), [(985, 990, True), (980, 985, True), (986, 990, False)])
def test_a_bar_tests_with_its_range(low: int, high: int, fires: bool) -> None:
    tape = Tape(opening(pocs=(level(985, 30),)))
    tape.bar(1, 970, 972, 972)
    assert bool(tape.bar(2, low, high, high)) is fires


def test_a_bar_that_skips_a_poc_does_not_test_it_and_one_that_spans_it_does() -> None:
    tape = Tape(opening(pocs=(level(985, 30),)))
    tape.bar(1, 986, 990, 988)
    assert tape.bar(2, 975, 984, 980) == []
    assert fired_alerts(tape.bar(3, 980, 990, 988)) == [("naked-poc", 988)]


# -- poor extremes


def far(
    highs: tuple[CarriedLevel, ...] = (), lows: tuple[CarriedLevel, ...] = (), prior: Prior | None = None
) -> Tape:
    """Return a tape with a balance too wide to break."""
    return Tape(opening(prior, highs=highs, lows=lows), balance=(5000, -5000))


def test_a_poor_high_is_revisited() -> None:
    tape = far(highs=(level(990, 29, age_sessions=3, tpos=4, tail_rows=1),))
    tape.trade(0, 980)
    assert tape.trade(1, 987) == []
    (alert,) = tape.trade(2, 988)
    assert (alert.type, alert.ref, alert.price_ticks) == ("poor-high", "2025-12-29", 988)
    assert alert.type.severity == "info"
    assert alert.params == {
        "level": 990, "reached": 988, "observed": "trade", "formedOn": "2025-12-29", "event": "revisit",
        "extremeTpos": 4, "tailRows": 1, "repairTicks": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("price", "event", "ticks"), [(990, "revisit", 0), (991, "repaired", 1), (992, "repaired", 2)]
)
def test_one_tick_beyond_repairs(price: int, event: str, ticks: int) -> None:
    tape = far(highs=(level(990, 29),))
    tape.trade(0, 980)
    (alert,) = tape.trade(1, price)
    assert (alert.params["event"], alert.params["repairTicks"]) == (event, ticks)


def test_a_poor_extreme_is_armed_from_the_open() -> None:
    assert fired_alerts(far(highs=(level(990, 29),)).trade(0, 988)) == [("poor-high", 988)]


def test_a_jump_over_the_tolerance_repairs_without_an_alert() -> None:
    tape = far(highs=(level(990, 29),))
    tape.trade(0, 980)
    assert tape.trade(1, 993) == []
    assert [tape.trade(2, 990), tape.trade(100, 980), tape.trade(101, 989)] == [[], [], []]


def revisited() -> Tape:
    tape = far(highs=(level(990, 29),))
    tape.trade(0, 980)
    assert fired_alerts(tape.trade(1, 989)) == [("poor-high", 989)]
    return tape


def test_a_trade_beyond_during_the_rest_repairs_without_an_alert() -> None:
    tape = revisited()
    assert tape.trade(2, 991) == []
    tape.trade(62, 980)
    assert tape.trade(63, 990) == []


def test_a_trade_beyond_before_it_was_an_arm_away_repairs_without_an_alert() -> None:
    tape = revisited()
    tape.trade(62, 989)
    assert tape.trade(63, 991) == []
    tape.trade(64, 980)
    assert tape.trade(65, 990) == []


def test_a_trade_at_the_level_during_the_rest_does_not_repair() -> None:
    tape = revisited()
    tape.trade(2, 990)
    tape.trade(62, 980)
    assert fired_alerts(tape.trade(63, 990)) == [("poor-high", 990)]


def test_it_arms_again_after_an_hour_and_an_arm_away() -> None:
    tape = revisited()
    tape.trade(61, 980, -1)  # a nanosecond too early
    assert tape.trade(61, 990) == []
    tape.trade(62, 983)  # a tick too near
    assert tape.trade(63, 990) == []
    tape.trade(64, 982)
    assert fired_alerts(tape.trade(65, 990)) == [("poor-high", 990)]


def test_an_arm_away_at_exactly_one_hour_arms() -> None:
    tape = revisited()
    tape.trade(61, 982)
    assert fired_alerts(tape.trade(61, 988, 1)) == [("poor-high", 988)]


def test_a_repaired_level_fires_no_more() -> None:
    tape = far(highs=(level(990, 29),))
    assert fired_alerts(tape.trade(0, 991)) == [("poor-high", 991)]
    tape.trade(100, 970)
    assert [tape.trade(101, 990), tape.trade(102, 999)] == [[], []]


def test_a_poor_low_mirrors_a_poor_high() -> None:
    tape = far(lows=(level(970, 29),))
    tape.trade(0, 980)
    assert tape.trade(1, 973) == []
    assert fired_alerts(tape.trade(2, 972)) == [("poor-low", 972)]
    assert tape.trade(3, 969) == []  # repaired during the rest
    other = far(lows=(level(970, 29),))
    (alert,) = other.trade(0, 968)
    assert (alert.params["event"], alert.params["repairTicks"]) == ("repaired", 2)
    third = far(lows=(level(970, 29),))
    assert [third.trade(0, 967), third.trade(1, 970)] == [[], []]


def test_a_bar_repairs_with_its_range() -> None:
    tape = far(highs=(level(990, 29),))
    (alert,) = tape.bar(1, 980, 995, 985)
    assert (alert.price_ticks, alert.params["event"], alert.params["repairTicks"]) == (985, "repaired", 5)
    assert [alert.params[name] for name in ("level", "reached", "observed")] == [990, 995, "bar"]


@pytest.mark.parametrize(("high", "reached"), [(988, 988), (990, 990)])
def test_a_revisit_by_a_bar_reports_its_price_nearest_to_the_level(high: int, reached: int) -> None:
    (alert,) = far(highs=(level(990, 29),)).bar(1, 980, high, 982)
    assert [alert.params[name] for name in ("event", "level", "reached")] == ["revisit", 990, reached]


def test_a_bar_arms_again_with_its_close() -> None:
    tape = far(highs=(level(990, 29),))
    tape.bar(1, 985, 988, 985)
    tape.bar(61, 980, 985, 983)
    assert tape.bar(62, 983, 990, 983) == []
    tape.bar(63, 980, 985, 982)
    assert fired_alerts(tape.bar(64, 983, 990, 983)) == [("poor-high", 983)]


@pytest.mark.parametrize(
    ("prior", "away"), [(None, 8), (PRIOR, 8), (Prior(PRIOR.trade_date, 1050, 1100, 900, 1, 1, 1), 20)]
)
def test_the_arm_depends_on_prior_value(prior: Prior | None, away: int) -> None:
    """200 ticks of value: 20."""
    for price, fires in ((980 - away + 1, False), (980 - away, True)):
        tape = far((level(980, 29),), prior=prior)
        tape.trade(0, 979)
        tape.trade(61, price)
        assert bool([one for one in tape.trade(62, 979) if one.type == "poor-high"]) is fires


def test_levels_are_independent() -> None:
    tape = far((level(988, 30), level(985, 29)))
    tape.trade(0, 970)
    assert [alert.ref for alert in tape.trade(1, 984)] == ["2025-12-29"]
    assert [alert.ref for alert in tape.trade(2, 987)] == ["2025-12-30"]
