"""Profiles of several sessions: cases worked by hand, and the merged ladder against one fold of all trades."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outcry.market.composite import Counted, balances, merged, with_brackets
from outcry.market.kernels import BulkFold
from outcry.market.ladder import Ladder, RangeTooWide, bracket_windows
from outcry.market.units import NANOS_PER_MINUTE as MINUTE
from outcry.market.windows import Segment

#: Three sessions: one with a break, one whose last bracket is short, one of a single bracket.
SESSIONS: list[tuple[Segment, ...]] = [
    ((0, 95 * MINUTE), (120 * MINUTE, 200 * MINUTE)),
    ((1000 * MINUTE, 1070 * MINUTE),),
    ((2000 * MINUTE, 2030 * MINUTE),),
]
Row = tuple[int, int, int]


def rows(segments: tuple[Segment, ...]) -> st.SearchStrategy[list[Row]]:
    times = st.one_of(*(st.integers(start, end - 1) for start, end in segments))
    return st.lists(st.tuples(times, st.integers(-40, 40), st.integers(1, 99)), min_size=1, max_size=20)


def folded(windows: tuple[Segment, ...], trades: list[Row], *, bars: bool) -> Ladder:
    at, price, size = np.array(trades, np.int64).reshape(-1, 3).T
    fold = BulkFold(windows)
    if bars:
        fold.bars(at, price, price + size % 7, price, price, size)
    else:
        fold.trades(at, price, size)
    ladder = fold.ladder()
    assert ladder is not None
    return ladder


@given(st.tuples(*map(rows, SESSIONS)), st.booleans(), st.sampled_from([15, 30, 60]))
def test_merged_sessions_equal_one_fold_of_all_their_trades(
    days: tuple[list[Row], ...], bars: bool, minutes: int
) -> None:
    windows = [bracket_windows(segments, minutes) for segments in SESSIONS]
    parts = [Counted(folded(w, day, bars=bars), w) for w, day in zip(windows, days, strict=True)]
    together = tuple(window for each in windows for window in each)
    everything = folded(together, [trade for day in days for trade in day], bars=bars)
    assert merged(parts) == Counted(everything, together)
    assert merged([merged(parts[:2]), parts[2]]) == merged(parts)  # in any steps


@given(rows(SESSIONS[0]), st.booleans(), st.sampled_from([(15, 30), (15, 60), (30, 60), (30, 30)]))
def test_longer_brackets_equal_a_fold_with_them(
    trades: list[Row], bars: bool, lengths: tuple[int, int]
) -> None:
    short, long = (bracket_windows(SESSIONS[0], minutes) for minutes in lengths)
    found = with_brackets(folded(short, trades, bars=bars), SESSIONS[0], *lengths)
    assert found == Counted(folded(long, trades, bars=bars), long)


def test_the_counts_of_two_sessions_by_hand() -> None:
    """Day 1 trades 10–12 in bracket A and 11 in B, day 2 trades 11–13 in A: TPOs are 1, 3, 2, 1 from 10 to 13."""
    first = folded(
        bracket_windows(SESSIONS[1], 30),
        [(1000 * MINUTE, 10, 1), (1001 * MINUTE, 12, 2), (1031 * MINUTE, 11, 4)],
        bars=False,
    )
    second = folded(
        bracket_windows(SESSIONS[2], 30), [(2000 * MINUTE, 13, 8), (2001 * MINUTE, 11, 16)], bars=False
    )
    both = merged(
        [Counted(first, bracket_windows(SESSIONS[1], 30)), Counted(second, bracket_windows(SESSIONS[2], 30))]
    )
    assert both.ladder.tpo_counts() == [1, 3, 2, 1]
    assert both.ladder.volume == (1, 20, 2, 8)
    assert [bracket.index for bracket in both.ladder.brackets] == [0, 1, 3]
    assert (both.ladder.open_ticks, both.ladder.close_ticks) == (10, 11)


def test_brackets_that_do_not_divide_longer_ones_are_refused() -> None:
    ladder = folded(bracket_windows(SESSIONS[2], 30), [(2000 * MINUTE, 1, 1)], bars=False)
    with pytest.raises(ValueError, match="15 minutes do not consist of brackets of 30"):
        with_brackets(ladder, SESSIONS[2], 30, 15)


def test_sessions_too_far_apart_are_refused() -> None:
    windows = bracket_windows(SESSIONS[2], 30)
    parts = [
        Counted(folded(windows, [(2000 * MINUTE, price, 1)], bars=False), windows) for price in (0, 2_000_000)
    ]
    with pytest.raises(RangeTooWide):
        merged(parts)


def test_balances_by_hand() -> None:
    """Merge sessions whose value areas share half of the narrower one.

    10–19 and 15–24 share 5 of 10 rows: half, one balance. 15–24 and 24–27 share 1 of 4 rows: not. 24–27 and 20–40 share
    4 of 4, and 20–40 and 26–30 share 5 of 5: one balance of three.
    """
    assert balances([(10, 19), (15, 24), (24, 27), (20, 40), (26, 30)]) == [(0, 1), (2, 4)]
    assert balances([(10, 19), (16, 25)]) == []  # 4 of 10 rows
    assert balances([(10, 19)]) == []
    assert balances([]) == []


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=12))
def test_every_session_is_in_the_balance_that_its_overlaps_give(drawn: list[tuple[int, int]]) -> None:
    """Compare with sets of rows: sessions i and i+1 are in one run exactly if they share half of the smaller set."""
    areas = [set(range(low, low + height + 1)) for low, height in drawn]
    joined = [2 * len(a & b) >= min(len(a), len(b)) for a, b in pairwise(areas)]
    found = balances([(min(area), max(area)) for area in areas])
    assert [any(first <= i and i + 1 <= last for first, last in found) for i in range(len(joined))] == joined
