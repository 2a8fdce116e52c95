"""Levels under chosen settings: cases worked by hand, and any trades and bars against an independent oracle."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.market import profile_oracle as oracle

from outcry.market.bar_columns import BarColumns, Columns, TradeColumns
from outcry.market.ladder import bracket_windows
from outcry.market.methods import PRESETS
from outcry.market.profile_kernels import window_levels
from outcry.market.profile_settings import ProfileSettings, WindowLevels
from outcry.market.units import NANOS_PER_MINUTE
from outcry.trades.reference_tables import load_reference

SEGMENTS = ((0, 95 * NANOS_PER_MINUTE), (120 * NANOS_PER_MINUTE, 200 * NANOS_PER_MINUTE))
MINUTES = st.integers(-10, 215)
METHODS = st.sampled_from(
    [
        PRESETS[name]
        for name in ("dalton", "cbot_1row", "dva68", "quantick", "earnforex", "linnsoft_a", "chart_patterns")
    ]
)
SETTINGS = st.builds(
    ProfileSettings,
    method=METHODS,
    bracket_minutes=st.sampled_from([15, 30, 60]),
    row_ticks=st.integers(1, 9),
    percent=st.none() | st.integers(1, 100),
    basis=st.sampled_from([None, "tpo", "volume"]),
)
TRADES = st.lists(st.tuples(MINUTES, st.integers(-60, 60), st.integers(0, 50)), max_size=40)
BARS = st.lists(
    st.tuples(MINUTES, st.integers(-60, 60), st.integers(0, 12), st.floats(0, 1), st.integers(0, 900)),
    max_size=30,
)


def trades(rows: list[tuple[int, int, int]]) -> TradeColumns:
    """Return columns of `(minute, ticks, lots)`."""
    at, price, size = np.array(rows, np.int64).reshape(-1, 3).T
    return TradeColumns(at * NANOS_PER_MINUTE, price, size)


def bracket_of(minute: int, minutes: int) -> int | None:
    at = minute * NANOS_PER_MINUTE
    return next((i for i, (a, b) in enumerate(bracket_windows(SEGMENTS, minutes)) if a <= at < b), None)


def check(
    columns: Columns,
    ranges: Sequence[tuple[int, int, int, Mapping[int, oracle.Count]]],
    settings: ProfileSettings,
) -> None:
    found = window_levels(columns, SEGMENTS, settings)
    if not ranges:
        assert found is None
        return
    expected = oracle.levels(oracle.of_ranges(ranges, settings.row_ticks), settings.rule, settings.row_ticks)
    assert found is not None
    assert {name: value for name, value in asdict(found).items() if name in expected} == expected
    assert (found.low, found.high) == (
        min(low for _, low, _, _ in ranges),
        max(high for _, _, high, _ in ranges),
    )


@given(TRADES, SETTINGS)
def test_trades_against_the_oracle(rows: list[tuple[int, int, int]], settings: ProfileSettings) -> None:
    ranges = [
        (bracket, price, price, {price: size})
        for minute, price, size in rows
        if size and (bracket := bracket_of(minute, settings.bracket_minutes)) is not None
    ]
    check(trades(rows), ranges, settings)


@given(BARS, SETTINGS)
def test_bars_against_the_oracle(
    drawn: list[tuple[int, int, int, float, int]], settings: ProfileSettings
) -> None:
    bars = [
        (minute, low, low + height, low + int(height * at), lots) for minute, low, height, at, lots in drawn
    ]
    at, low, high, close, lots = np.array(bars, np.int64).reshape(-1, 5).T
    columns = BarColumns(at * NANOS_PER_MINUTE, low, high, low, close, lots)
    ranges = [
        (bracket, low, high, oracle.spread(low, high, close, lots))
        for minute, low, high, close, lots in bars
        if lots and (bracket := bracket_of(minute, settings.bracket_minutes)) is not None
    ]
    check(columns, ranges, settings)


def test_rows_of_four_ticks_by_hand() -> None:
    """Count rows from price 0: ticks 100–103 are row 25, 104–107 row 26.

    Bracket A (minutes 0–29) trades 101–104, so it prints rows 25 and 26; B (30–59) trades 102–103, row 25. TPOs: row 25
    has 2, row 26 has 1; 70 % of 3 is 2.1, so both rows are value. The POC is the lower middle tick of row 25: 101.
    Volume: row 25 has 5 + 1 + 1 = 7 of 9, which is more than 70 % (6.3), so the volume area is row 25 alone.
    """
    columns = trades([(0, 101, 5), (1, 104, 2), (30, 102, 1), (31, 103, 1)])
    found = window_levels(columns, SEGMENTS, ProfileSettings(row_ticks=4))
    assert found == WindowLevels(
        poc=101, val=100, vah=107, vpoc=101, volume_val=100, volume_vah=103, poc_candidates=(101,), high=104, low=101,
        open=101, close=103,
    )  # fmt: skip


def test_closes_are_rounded_up_to_a_row() -> None:
    """Count closes only (LEAN): 101 and 102 round up to 104 (row 26 of 4 ticks), 105 to 108. Rows are single prices.

    Volume 3 + 4 = 7 at 104 and 1 at 108: 7 of 8 is more than 70 %, so POC and value area are 104.
    """
    columns = trades([(0, 101, 3), (1, 105, 1), (2, 102, 4), (3, 90, 0)])
    found = window_levels(columns, SEGMENTS, ProfileSettings(method=PRESETS["lean"], row_ticks=4))
    assert found is not None
    assert (found.poc, found.val, found.vah, found.high, found.low) == (104, 104, 104, 105, 101)


def test_the_hours_of_a_date() -> None:
    """Select ES on 2024-07-02: 09:30 to 16:15 (cash: 16:00) New York time, and the overnight session before it."""
    calendar, day = load_reference().calendar, date(2024, 7, 2)
    regular = ProfileSettings().segments(calendar, "ES", day)
    cash = ProfileSettings(variant="cash").segments(calendar, "ES", day)
    overnight = ProfileSettings(hours="overnight").segments(calendar, "ES", day)
    minutes = [sum(end - start for start, end in window) // NANOS_PER_MINUTE for window in (regular, cash)]
    assert minutes == [405, 390]
    assert overnight[-1][1] == regular[0][0]
    assert ProfileSettings(hours="full").segments(calendar, "ES", day) == (*overnight, *regular)
    assert ProfileSettings().segments(calendar, "ES", date(2024, 7, 6)) == ()


@pytest.mark.parametrize(
    ("bracket", "row", "percent", "problem"),
    [
        (25, 1, 70, "bracket of 25"),
        (30, 0, 70, "row of 0"),
        (30, 401, 70, "row of 401"),
        (30, 1, 101, "of 101 %"),
    ],
)
def test_impossible_settings_are_refused(bracket: int, row: int, percent: int, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ProfileSettings(bracket_minutes=bracket, row_ticks=row, percent=percent)
