"""Brackets, letters and rows: rules §1, and known bugs of other programs."""

import pytest

from outcry.market.fold import OutsideSession, SessionFold
from outcry.market.ladder import RangeTooWide, bracket_windows, letter
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_MINUTE

MIN = NANOS_PER_MINUTE


def fold(*trades: tuple[int, int, int], minutes: int = 390) -> SessionFold:
    session = SessionFold(bracket_windows([(0, minutes * MIN)], 30))
    session.trades(trades)
    return session


def test_brackets_start_at_the_open_and_the_last_may_be_short() -> None:
    # 09:30 to 16:15 is 405 minutes: thirteen of 30 and one of 15.
    windows = bracket_windows([(0, 405 * MIN)], 30)
    assert len(windows) == 14
    assert windows[0] == (0, 30 * MIN)
    assert windows[-1] == (390 * MIN, 405 * MIN)


def test_brackets_restart_after_a_break_and_letters_continue() -> None:
    windows = bracket_windows([(0, 45 * MIN), (105 * MIN, 165 * MIN)], 30)
    assert [(a // MIN, b // MIN) for a, b in windows] == [(0, 30), (30, 45), (105, 135), (135, 165)]


@pytest.mark.parametrize("minutes", [0, -30, 45, 7])
def test_a_bracket_must_divide_an_hour(minutes: int) -> None:
    with pytest.raises(ValueError, match="divide an hour"):
        bracket_windows([(0, NANOS_PER_HOUR)], minutes)


def test_a_session_of_23_hours_has_46_different_letters() -> None:
    marks = [letter(index) for index in range(46)]
    assert marks[0] == "A"
    assert marks[25] == "Z"
    assert marks[26] == "a"
    assert len(set(marks)) == 46


def test_letters_after_all_single_characters_are_still_different() -> None:
    marks = [letter(index) for index in range(500)]
    assert len(set(marks)) == 500
    assert marks[62] == "AA"


def test_a_bracket_prints_every_row_of_its_range_including_its_high() -> None:
    # Bracket A trades 10 and 14 only, B trades 14 only: rows 10 to 14, and two TPOs at 14 (a half-open high drops it).
    ladder = fold((0, 10, 1), (1, 14, 1), (30 * MIN, 14, 1)).ladder()
    assert ladder is not None
    assert ladder.tpo_counts() == [1, 1, 1, 1, 2]
    assert ladder.letters() == ["A", "A", "A", "A", "AB"]
    assert ladder.touched == ((10, 10), (14, 14))


def test_volume_is_contracts_not_money() -> None:
    ladder = fold((0, 6_700, 3), (1, 6_701, 2), (2, 6_700, 4)).ladder()
    assert ladder is not None
    assert ladder.volume == (7, 2)


def test_no_row_is_dropped_however_wide_the_range() -> None:
    ladder = fold(*((at, at * 7 - 900, 1) for at in range(400))).ladder()
    assert ladder is not None
    assert sum(ladder.volume) == 400
    assert (ladder.low_ticks, ladder.high_ticks) == (-900, 399 * 7 - 900)


def test_an_impossible_price_range_is_refused() -> None:
    with pytest.raises(RangeTooWide, match="1,000,000 rows"):
        fold((0, 10, 1), (1, 2_000_000, 1))


def test_the_end_of_a_bracket_belongs_to_the_next() -> None:
    ladder = fold((30 * MIN - 1, 5, 1), (30 * MIN, 9, 1)).ladder()
    assert ladder is not None
    assert [(b.index, b.low_ticks, b.high_ticks) for b in ladder.brackets] == [(0, 5, 5), (1, 9, 9)]


@pytest.mark.parametrize("at_ns", [-1, 390 * MIN])
def test_a_trade_outside_the_session_is_refused(at_ns: int) -> None:
    with pytest.raises(OutsideSession):
        fold((at_ns, 5, 1))


def test_a_late_trade_belongs_to_its_own_bracket_and_changes_no_close() -> None:
    # 09:31 at 5, 10:05 at 9, then a late trade of 09:32 at 3: it widens A, whose close is its latest trade by time.
    ladder = fold((MIN, 5, 1), (35 * MIN, 9, 1), (2 * MIN, 3, 1), (36 * MIN, 8, 1)).ladder()
    assert ladder is not None
    a, b = ladder.brackets
    assert (a.open_ticks, a.high_ticks, a.low_ticks, a.close_ticks) == (5, 5, 3, 3)
    assert (b.open_ticks, b.high_ticks, b.low_ticks, b.close_ticks) == (9, 9, 8, 8)


def test_of_equal_times_the_first_trade_opens_and_the_last_closes() -> None:
    ladder = fold((5, 10, 1), (5, 12, 1), (5, 11, 1)).ladder()
    assert ladder is not None
    assert (ladder.open_ticks, ladder.close_ticks) == (10, 11)


def test_a_bar_spreads_its_volume_evenly_and_the_remainder_goes_to_its_close() -> None:
    # 14 lots over rows 10 to 13: three each, two left over for the close at 12.
    session = SessionFold(bracket_windows([(0, 60 * MIN)], 30))
    session.bar(0, 11, 13, 10, 12, 14)
    ladder = session.ladder()
    assert ladder is not None
    assert ladder.volume == (3, 3, 5, 3)
    assert ladder.touched == ((10, 13),)
    assert ladder.source == "bars"


def test_bars_touch_only_their_own_ranges_although_the_bracket_prints_between() -> None:
    # Two bars of one bracket, 10–11 and 14–15: the bracket prints 10 to 15, but nothing traded at 12 or 13.
    session = SessionFold(bracket_windows([(0, 60 * MIN)], 30))
    session.bar(0, 10, 11, 10, 11, 1)
    session.bar(MIN, 14, 15, 14, 15, 1)
    ladder = session.ladder()
    assert ladder is not None
    assert ladder.tpo_counts() == [1] * 6
    assert ladder.touched == ((10, 11), (14, 15))
    assert not ladder.prints_at(12)
    assert ladder.prints_at(14)


def test_an_empty_session_has_no_rows() -> None:
    assert fold().ladder() is None
