"""Day and open types (rules §7), each drawn by hand from brackets."""

import pytest

from outcry.core.daytype import DayType, OpenType, day_type, open_type
from outcry.core.ladder import Bracket, Ladder
from outcry.core.profile import profile_of


def session(*brackets: tuple[int, int, int, int]) -> Ladder:
    """Brackets as (open, high, low, close)."""
    low, high = min(b[2] for b in brackets), max(b[1] for b in brackets)
    parts = tuple(Bracket(i, o, h, lo, c, i, i) for i, (o, h, lo, c) in enumerate(brackets))
    return Ladder(parts, low, (1,) * (high - low + 1), ((low, high),), "trades")


def named(*brackets: tuple[int, int, int, int], adr20: int | None = None) -> DayType:
    return day_type(profile_of(session(*brackets), 2), adr20)


def test_normal_the_initial_balance_holds_the_day() -> None:
    assert named((50, 100, 0, 60), (60, 90, 10, 50), (50, 70, 30, 40)) is DayType.NORMAL


def test_non_trend_is_narrow_against_the_average() -> None:
    day = ((50, 60, 40, 55), (55, 60, 40, 50), (50, 58, 42, 50))
    assert named(*day, adr20=100) is DayType.NON_TREND
    assert named(*day, adr20=30) is DayType.NORMAL


def test_normal_variation_extends_one_side_to_at_most_double() -> None:
    assert named((0, 50, 0, 40), (40, 50, 5, 45), (45, 90, 40, 60)) is DayType.NORMAL_VARIATION


def test_neutral_extends_both_sides_and_its_extreme_closes_at_an_end() -> None:
    day = ((50, 60, 40, 50), (50, 60, 40, 50), (50, 70, 50, 60), (60, 60, 20, 30))
    assert named(*day, (30, 50, 30, 45)) is DayType.NEUTRAL
    assert named(*day, (30, 30, 20, 21)) is DayType.NEUTRAL_EXTREME


@pytest.mark.parametrize(("flip", "want"), [(False, DayType.TREND_UP), (True, DayType.TREND_DOWN)])
def test_trend_opens_at_one_end_and_closes_at_the_other(flip: bool, want: DayType) -> None:
    up = [(0, 12, 0, 10), (10, 20, 8, 20), (20, 34, 16, 33), (33, 48, 30, 47), (47, 60, 44, 59)]
    day = [(-o, -low, -high, -c) for o, high, low, c in up] if flip else up
    assert named(*day) is want


def test_a_wide_row_is_no_trend() -> None:
    day = [(0, 12, 0, 10), (10, 20, 8, 20)] + [(20, 60, 16, 59)] * 7
    assert named(*day) is DayType.NORMAL_VARIATION


def test_double_distribution_has_two_bodies_and_single_prints_between() -> None:
    # A and B at 0–20, C runs up alone through 21–39, D to F at 40–60.
    day = [(0, 20, 0, 10), (10, 20, 0, 20), (20, 60, 20, 55), (55, 60, 40, 50), (50, 60, 40, 50)]
    assert named(*day) is DayType.DOUBLE_DISTRIBUTION


# -- opens


def opened(
    *brackets: tuple[int, int, int, int], known: tuple[int, ...] = (), prior: tuple[int, int] | None = None
) -> OpenType | None:
    return open_type(session(*brackets), known, prior)


def test_an_open_is_not_named_before_two_brackets() -> None:
    assert opened((50, 60, 40, 55)) is None


def test_open_drive_goes_and_does_not_look_back() -> None:
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
