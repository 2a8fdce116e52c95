"""Day types and open types (rules §7), worked by hand from brackets."""

import pytest

from outcry.market.day_type import DayType, OpenType, day_type, open_type
from outcry.market.ladder import Bracket, Ladder
from outcry.market.profile import profile_of


def session(*brackets: tuple[int, int, int, int]) -> Ladder:
    """Return a ladder of brackets (open, high, low, close)."""
    low, high = min(b[2] for b in brackets), max(b[1] for b in brackets)
    parts = tuple(Bracket(i, o, h, lo, c, i, i) for i, (o, h, lo, c) in enumerate(brackets))
    return Ladder(parts, low, (1,) * (high - low + 1), ((low, high),), "trades")


def named(*brackets: tuple[int, int, int, int], adr20: int | None = None) -> DayType:
    return day_type(profile_of(session(*brackets), 2), adr20)


def test_normal_when_the_initial_balance_contains_the_day() -> None:
    assert named((50, 100, 0, 60), (60, 90, 10, 50), (50, 70, 30, 40)) is DayType.NORMAL


def test_non_trend_when_the_range_is_narrow_against_the_average() -> None:
    day = ((50, 60, 40, 55), (55, 60, 40, 50), (50, 58, 42, 50))
    assert named(*day, adr20=100) is DayType.NON_TREND
    assert named(*day, adr20=30) is DayType.NORMAL


def test_normal_variation_extends_one_side_up_to_double() -> None:
    assert named((0, 50, 0, 40), (40, 50, 5, 45), (45, 90, 40, 60)) is DayType.NORMAL_VARIATION


def test_neutral_extends_both_sides_and_neutral_extreme_closes_at_an_end() -> None:
    day = ((50, 60, 40, 50), (50, 60, 40, 50), (50, 70, 50, 60), (60, 60, 20, 30))
    assert named(*day, (30, 50, 30, 45)) is DayType.NEUTRAL
    assert named(*day, (30, 30, 20, 21)) is DayType.NEUTRAL_EXTREME


@pytest.mark.parametrize(("flip", "want"), [(False, DayType.TREND_UP), (True, DayType.TREND_DOWN)])
def test_trend_opens_at_one_end_and_closes_at_the_other(flip: bool, want: DayType) -> None:
    up = [(0, 12, 0, 10), (10, 20, 8, 20), (20, 34, 16, 33), (33, 48, 30, 47), (47, 60, 44, 59)]
    day = [(-o, -low, -high, -c) for o, high, low, c in up] if flip else up
    assert named(*day) is want


#: ES of 8 October 2013: 14 half-hours as (open, high, low, close), in ticks above its low. The range is 92 ticks, that
#: of the first hour 24. It opened at 83 (0.90) and closed at 5 (0.05). Nine half-hours printed the widest rows.
ES_2013_10_08 = (
    (83, 92, 68, 88), (88, 90, 73, 83), (83, 83, 53, 57), (57, 60, 45, 54), (53, 54, 29, 41), (41, 41, 25, 30),
    (31, 41, 20, 37), (37, 42, 24, 35), (35, 40, 21, 23), (23, 30, 10, 27), (28, 31, 13, 22), (22, 36, 13, 33),
    (34, 36, 0, 5), (6, 14, 2, 5),
)  # fmt: skip


def test_a_one_sided_day_is_a_trend_although_nine_of_14_half_hours_overlap() -> None:
    assert named(*ES_2013_10_08) is DayType.TREND_DOWN
    # The cash session has 13 brackets; nine are still fewer than ten.
    assert named(*ES_2013_10_08[:-1]) is DayType.TREND_DOWN
    assert named(*((-o, -low, -high, -c) for o, high, low, c in ES_2013_10_08)) is DayType.TREND_UP


@pytest.mark.parametrize(("meet", "want"), [(10, DayType.TREND_UP), (11, DayType.NORMAL_VARIATION)])
def test_a_day_that_balances_most_of_the_time_is_not_a_trend(meet: int, want: DayType) -> None:
    """14 half-hours: A and B at 0 to 20, then `meet` at 21 to 40, and the rest rise to 100; three quarters are 10.5."""
    rest = [(40, 100, 41, 90), (90, 100, 70, 100)] if meet == 10 else [(40, 100, 41, 100)]
    day = [(0, 20, 0, 15), (15, 20, 0, 20), *[(30, 40, 21, 35)] * meet, *rest]
    assert len(day) == 14
    assert named(*day) is want


def test_a_b_shaped_profile_is_not_a_trend() -> None:
    """A and B at 80 to 100, C falls to 0, and eleven half-hours stay at 0 to 20: it closed low and balanced there."""
    day = [(100, 100, 80, 90), (90, 100, 80, 82), (82, 82, 0, 10), *[(10, 20, 0, 10)] * 11]
    assert named(*day) is DayType.NORMAL_VARIATION


def test_six_overlapping_half_hours_are_few_on_a_short_day() -> None:
    """Six of eight are three quarters; six of seven are more, but still only six."""
    stair = [(0, 10, 0, 8), (8, 12, 2, 12), *[(12, 20, 12, 18)] * 4]
    for more in ([(20, 40, 20, 40)], [(20, 30, 20, 28), (28, 40, 28, 40)]):
        assert named(*stair, *more) is DayType.TREND_UP


def test_a_wide_row_prevents_a_trend() -> None:
    day = [(0, 12, 0, 10), (10, 20, 8, 20)] + [(20, 60, 16, 59)] * 7
    assert named(*day) is DayType.NORMAL_VARIATION


# -- limits of a trend: A and B at 0 to 20, C to F upwards in steps


def stairs(*, opened: int = 0, close: int = 100) -> DayType:
    return named(
        (opened, 20, 0, 15), (15, 20, 0, 20), (20, 45, 18, 42), (42, 62, 38, 60), (60, 82, 55, 80), (80, 100, 76, close)
    )  # fmt: skip


def test_a_trend_opens_and_closes_in_the_outer_fifths_edges_included() -> None:
    assert stairs() is DayType.TREND_UP
    assert (stairs(close=80), stairs(close=79)) == (DayType.TREND_UP, DayType.NORMAL_VARIATION)
    assert stairs(opened=20) is DayType.TREND_UP
    wider = ((21, 22, 0, 15), (15, 20, 0, 20), (20, 45, 18, 42), (42, 62, 38, 60), (60, 100, 55, 100))
    assert named(*wider) is DayType.NORMAL_VARIATION  # opened at 21 of 100


@pytest.mark.parametrize(("high", "want"), [(40, DayType.NORMAL_VARIATION), (41, DayType.TREND_UP)])
def test_a_trend_covers_more_than_twice_the_balance(high: int, want: DayType) -> None:
    assert named((0, 20, 0, 15), (15, 20, 0, 20), (20, high, 18, high)) is want


def test_a_tick_beyond_the_other_side_makes_the_day_neutral() -> None:
    """C trades one tick below the balance before the rise."""
    day = ((0, 20, 0, 15), (15, 20, 0, 10), (10, 45, -1, 42), (42, 62, 38, 60), (60, 82, 55, 80))
    assert named(*day, (80, 100, 76, 100)) is DayType.NEUTRAL_EXTREME
    assert named(*day, (80, 100, 76, 79)) is DayType.NEUTRAL  # 80 of 101 is less than four fifths


# -- limits of the other types


@pytest.mark.parametrize(("high", "want"), [(100, DayType.NORMAL), (101, DayType.NORMAL_VARIATION)])
def test_normal_up_to_a_balance_of_85_percent(high: int, want: DayType) -> None:
    """A balance of 85 of 101 ticks is less than 85 %."""
    assert named((40, 85, 0, 40), (40, 80, 0, 60), (60, high, 50, 70)) is want


@pytest.mark.parametrize(
    ("adr20", "want"), [(100, DayType.NON_TREND), (99, DayType.NORMAL), (None, DayType.NORMAL)]
)
def test_non_trend_up_to_60_of_100(adr20: int | None, want: DayType) -> None:
    assert named((30, 60, 0, 30), (30, 50, 10, 40), (40, 55, 20, 30), adr20=adr20) is want


@pytest.mark.parametrize(("high", "want"), [(55, DayType.NON_TREND), (56, DayType.NORMAL)])
def test_non_trend_extends_at_most_a_tenth_of_the_balance(high: int, want: DayType) -> None:
    """The balance is 50, so five ticks beyond are a tenth. Fifty of 56 are more than 85 %."""
    assert named((30, 50, 0, 30), (30, 50, 10, 40), (40, high, 20, 30), adr20=1000) is want


@pytest.mark.parametrize(("upper", "want"), [(3, DayType.DOUBLE_DISTRIBUTION), (1, DayType.TREND_UP)])
def test_each_body_of_a_double_distribution_holds_a_quarter(upper: int, want: DayType) -> None:
    """C alone trades at 21 to 44. With three half-hours after it, 45 to 60 holds 64 of 133 TPOs, and 0 to 20 holds 45.
    With one after it and three more before it, 45 to 60 holds 32 of 164, less than a quarter."""
    below = [] if upper == 3 else [(10, 20, 0, 18)] * 3
    day = [(0, 20, 0, 10), (10, 20, 0, 20), *below, (18, 60, 18, 55), *[(55, 60, 45, 60)] * upper]
    assert named(*day) is want


def test_double_distribution_has_two_bodies_and_single_prints_between() -> None:
    # A and B at 0–20, C runs up alone through 21–39, D to F at 40–60.
    day = [(0, 20, 0, 10), (10, 20, 0, 20), (20, 60, 20, 55), (55, 60, 40, 50), (50, 60, 40, 50)]
    assert named(*day) is DayType.DOUBLE_DISTRIBUTION


# -- opens


def opened(
    *brackets: tuple[int, int, int, int], known: tuple[int, ...] = (), prior: tuple[int, int] | None = None
) -> OpenType | None:
    return open_type(session(*brackets), known, prior)


def test_the_open_type_needs_two_brackets() -> None:
    assert opened((50, 60, 40, 55)) is None


def test_open_drive_moves_away_without_returning() -> None:
    assert opened((50, 70, 49, 68), (68, 90, 66, 88)) is OpenType.DRIVE


def test_open_test_drive_tests_a_known_level_first() -> None:
    drive = ((50, 70, 44, 68), (68, 90, 66, 88))
    assert opened(*drive, known=(42,)) is OpenType.TEST_DRIVE
    assert opened(*drive, known=(20,)) is OpenType.AUCTION_IN


def test_open_rejection_reverse_fails_one_way_and_closes_beyond_the_open() -> None:
    assert opened((50, 52, 30, 32), (32, 70, 31, 66)) is OpenType.REJECTION_REVERSE


def test_open_auction_inside_or_outside_the_prior_range() -> None:
    auction = ((50, 60, 40, 52), (52, 60, 40, 51))
    assert opened(*auction, prior=(30, 70)) is OpenType.AUCTION_IN
    assert opened(*auction, prior=(55, 70)) is OpenType.AUCTION_OUT
