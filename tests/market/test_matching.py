"""The search for the settings of another platform: settings drawn at random are found, the nearest come first."""

import random
from dataclasses import replace
from datetime import date
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.market import match_oracle as oracle

from outcry.market.bar_columns import BarColumns, TradeColumns
from outcry.market.matching.counting import RecordingCounts
from outcry.market.matching.growth import Growth, trimmed
from outcry.market.matching.hours import choices
from outcry.market.matching.rows import LadderCounts, RowGrid, divided
from outcry.market.matching.scale import scales_of
from outcry.market.matching.search import Window, numbers_of, search
from outcry.market.matching.setting import (
    PERCENTS,
    ROW_TICKS,
    Sampling,
    Setting,
    cost,
    default_setting,
    differences,
)
from outcry.market.matching.target import Target
from outcry.market.methods import DALTON, PRESETS, Method, PocTie
from outcry.market.profile import value_area
from outcry.market.profile_kernels import window_ladder
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_MINUTE
from outcry.trades.reference_tables import load_reference

TICK_E9 = 250_000_000
CONTRACT = "ESZ2026"
DAY = date(2026, 11, 19)
HOURS = choices(load_reference().calendar, "ES", DAY)


def walk(seed: int, count: int) -> list[oracle.Trade]:
    """Return trades of a trade date in order of time: a random walk that reverts, busiest in regular hours."""
    rng = np.random.default_rng(seed)
    (start, end), (opened, closed) = HOURS["trade_date"][0], HOURS["rth"][0]
    at = np.sort(
        np.concatenate(
            [rng.integers(start, end, count // 3), rng.integers(opened, closed, count - count // 3)]
        )
    )
    steps = rng.choice([-1, 0, 1], count, p=(0.15, 0.7, 0.15))
    prices, price = [], 26_600
    for step in steps.tolist():
        price += step if abs(price + step - 26_600) < 90 else -step
        prices.append(price)
    return list(zip(at.tolist(), prices, rng.integers(1, 40, count).tolist(), strict=True))


def windows(trades: list[oracle.Trade]) -> list[Window]:
    at, price, size = (np.array(column, np.int64) for column in zip(*trades, strict=True))
    columns = TradeColumns(at, price, size)
    counted = [Window(CONTRACT, name, RecordingCounts(columns, segments)) for name, segments in HOURS.items()]
    return [window for window in counted if not window.counts.is_empty]


def drawn(chance: random.Random, counted: list[Window]) -> Setting:
    """Return any setting of the search."""
    sampling = chance.choice(list(counted[0].counts.samplings()))
    row_ticks = chance.choice(ROW_TICKS)
    step, pair = chance.choice([(1, "full"), (2, "full"), (2, "trim")])
    method = Method(
        "", sampling.basis, chance.choice(PERCENTS), step, pair, chance.choice(["up", "down", "both"]),
        chance.choice(["ge", "gt", "floor"]), chance.choice(get_args(PocTie)), chance.choice(["all", "printed"]),
        sampling.placement,
    )  # fmt: skip
    window, grid = chance.choice(counted), RowGrid(row_ticks)
    divisions = list(divided(window.counts.low, window.counts.high))
    if sampling.placement == "range" and divisions and chance.random() < 0.3:
        grid = chance.choice(divisions)
    label, _ = chance.choice(scales_of(sampling, grid))
    return Setting(CONTRACT, window.hours, sampling, grid.row_ticks, label, method, grid.row_count)


def target_of(levels: tuple[float, float, float, float], *, vpoc: bool) -> Target:
    poc, val, vah, by_volume = (int(level * TICK_E9) for level in levels)
    return Target(poc, val, vah, by_volume if vpoc else None, TICK_E9)


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(n, marks=pytest.mark.soak) for n in range(12, 100))]
)
def test_a_setting_drawn_at_random_is_found(seed: int) -> None:
    """The oracle computes the numbers. An answer at distance 0 has the same ones, within half a tick."""
    chance, trades = random.Random(seed), walk(seed, 4000)
    counted = windows(trades)
    setting = drawn(chance, counted)
    levels = oracle.levels(trades, HOURS[setting.hours], setting)
    own = next(window for window in counted if window.hours == setting.hours)
    assert [value / 2 for value in numbers_of(own, setting)] == list(levels)
    found = search(counted, target_of(levels, vpoc=bool(seed % 2)), CONTRACT)
    best = found.matches[0]
    assert best.distance == 0
    assert [
        abs(value / 2 - level) <= 0.5 for value, level in zip(best.numbers[:3], levels, strict=False)
    ] == [True] * 3
    ours = default_setting(CONTRACT)
    assert cost(best.setting, ours, trades=True) <= cost(setting, ours, trades=True)


@pytest.mark.parametrize("shift", [-260, 41, 200])
@pytest.mark.parametrize(
    ("basis", "percent", "row_ticks"), [("tpo", 70, 1), ("volume", 68, 1), ("tpo", 75, 4)]
)
def test_a_back_adjusted_contract_is_named(shift: int, basis: str, percent: int, row_ticks: int) -> None:
    """All levels are moved by the difference of two contracts. Without the volume POC several shifts may fit."""
    trades = walk(5, 4000)
    sampling = Sampling("tpo", "range", 30) if basis == "tpo" else Sampling("volume", "range", 0)
    method = replace(DALTON, name="", basis=sampling.basis, percent=percent)
    setting = Setting(CONTRACT, "rth", sampling, row_ticks, "ticks", method, shift_ticks=shift)
    levels = oracle.levels(trades, HOURS["rth"], setting)
    best = search(windows(trades), target_of(levels, vpoc=True), CONTRACT).matches[0]
    assert (best.distance, best.setting.shift_ticks) == (0, shift)
    parts = {
        part: value for part, value, _ in differences(best.setting, default_setting(CONTRACT), trades=True)
    }
    assert parts["shift"] == shift


def test_a_shift_does_not_replace_a_near_setting() -> None:
    """A level that is one tick off our own is nearer than any shift, though a shift could fit all three levels."""
    trades = walk(6, 4000)
    counted = windows(trades)
    rth = next(window for window in counted if window.hours == "rth")
    poc, val, vah, vpoc = (value / 2 for value in numbers_of(rth, default_setting(CONTRACT)))
    found = search(counted, target_of((poc + 1, val, vah, vpoc), vpoc=True), CONTRACT).matches
    assert found[0].distance <= 1
    assert found[0].setting.shift_ticks == 0


def test_rows_that_divide_the_range() -> None:
    """Prices 100 to 219 are 120 ticks: 24 rows of 5, 20 of 6, 50 of 3 (2.4 rounded up); 40 also of 3, so left out.

    100 and more rows are of 2 (1.2 rounded up) and 1 tick, and 1 is no division; 30 rows are of 4.
    """
    assert [(grid.row_count, grid.row_ticks) for grid in divided(100, 219)] == [
        (24, 5), (50, 3), (100, 2), (20, 6), (30, 4),
    ]  # fmt: skip
    assert {grid.anchor_ticks for grid in divided(100, 219)} == {100}


def test_our_own_numbers_come_first() -> None:
    counted = windows(walk(1, 3000))
    ours = next(window for window in counted if window.hours == "rth")
    numbers = numbers_of(ours, default_setting(CONTRACT))
    found = search(counted, target_of(tuple(value / 2 for value in numbers), vpoc=True), CONTRACT)
    assert replace(found.matches[0].setting.method, name="dalton") == DALTON
    assert found.matches[0].setting.hours == "rth"
    assert found.ours is not None
    assert (found.ours.distance, found.ours.numbers) == (0, numbers)


def test_numbers_of_nobody_give_the_nearest() -> None:
    """A POC above the day's high by 40 ticks is at least so far from every POC, unless all prices are shifted."""
    trades = walk(2, 3000)
    top = max(price for _, price, _ in trades) + 40
    found = search(windows(trades), target_of((top, top - 60, top, 0), vpoc=False), CONTRACT)
    ranks = [match.rank for match in found.matches]
    assert ranks == sorted(ranks)
    assert min(match.distance for match in found.matches) > 0
    assert all(match.setting.shift_ticks or match.distance >= 30 for match in found.matches)
    assert found.ours is not None
    assert found.ours.distance >= 40


def test_the_nearest_is_no_farther_than_any_drawn_setting() -> None:
    """The bound of the search leaves out nothing that is nearer than what it lists."""
    trades = walk(3, 3000)
    counted = windows(trades)
    of_hours = {window.hours: window for window in counted}
    target = target_of((26_611, 26_570, 26_633, 26_590), vpoc=True)
    best = search(counted, target, CONTRACT).matches[0].distance
    chance = random.Random(3)
    for _ in range(300):
        setting = drawn(chance, counted)
        assert target.distance(numbers_of(of_hours[setting.hours], setting)) >= best


def test_bars_have_no_exact_volume() -> None:
    """Two minute bars; the volume of the first, 10 lots over 5 ticks, and of the second, 7 over 2, spread evenly.

    Ticks 100 to 104 get 2 lots each, 103 and 104 then 3 more, and 1 remains at the close of the second bar, 103.
    """
    opened = HOURS["rth"][0][0]
    at = np.array([opened, opened + NANOS_PER_MINUTE])
    low, high, close = np.array([100, 103]), np.array([104, 104]), np.array([101, 103])
    counts = RecordingCounts(BarColumns(at, low, high, low, close, np.array([10, 7])), HOURS["rth"])
    assert counts.finest == 1
    assert counts.count(Sampling("volume", "range", 1), 1)[:2] == (100, [2, 2, 2, 6, 5])
    assert counts.count(Sampling("tpo", "range", 30), 2) == (50, [1, 1, 1], [0, 1, 2])
    assert counts.count(Sampling("volume", "close_up", 1), 2)[:2] == (51, [10, 7])
    assert {sampling.bar_minutes for sampling in counts.samplings()} == {1, 5, 15, 30, 60}


def test_a_stored_profile_has_the_counts_of_its_recording() -> None:
    """The ladder of a session has its half-hours and its volume, in rows of any height."""
    trades = walk(4, 2000)
    at, price, size = (np.array(column, np.int64) for column in zip(*trades, strict=True))
    columns = TradeColumns(at, price, size)
    ladder = window_ladder(columns, HOURS["rth"], 30)
    assert ladder is not None
    stored, recorded = LadderCounts([ladder]), RecordingCounts(columns, HOURS["rth"])
    for sampling in stored.samplings():
        assert sampling in recorded.samplings()
        for row_ticks in ROW_TICKS:
            assert stored.count(sampling, row_ticks) == recorded.count(sampling, row_ticks)
            anchored = (
                stored.count(sampling, row_ticks, stored.low),
                recorded.count(sampling, row_ticks, recorded.low),
            )
            assert anchored[0] == anchored[1]
            assert anchored[0].first == 0


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=25).filter(any),
    st.data(),
)
def test_a_recorded_growth_stops_where_the_value_area_ends(counts: list[int], data: st.DataObject) -> None:
    poc = data.draw(st.sampled_from([row for row, count in enumerate(counts) if count]))
    step, pair = data.draw(st.sampled_from([(1, "full"), (2, "full"), (2, "trim")]))
    method = Method(
        "", percent=data.draw(st.integers(1, 100)), step=step, pair=pair,
        side_tie=data.draw(st.sampled_from(["up", "down", "both"])),
        stop=data.draw(st.sampled_from(["ge", "gt", "floor"])),
    )  # fmt: skip
    growth = Growth(counts, poc, method)
    area = growth.reached(method.needed(sum(counts)))
    assert area is not None
    assert (*trimmed(counts, poc, area), area.captured) == value_area(counts, poc, method)
    if not growth.met_tie:
        assert growth.areas == Growth(counts, poc, replace(method, side_tie="down")).areas


@pytest.mark.parametrize(
    ("given_e9", "half_ticks", "distance"),
    [
        (6650_250_000_000, 53202, 0),
        (6650_250_000_000, 53203, 0),  # the middle of two ticks, half a tick above
        (6650_300_000_000, 53202, 0),  # 6650.25 rounded to one decimal
        (6650_500_000_000, 53202, 1),
        (6650_000_000_000, 53203, 1),
        (6655_250_000_000, 53202, 20),
    ],
)
def test_distances_in_ticks(given_e9: int, half_ticks: int, distance: int) -> None:
    target = Target(given_e9, given_e9, given_e9, given_e9, TICK_E9)
    assert target.from_poc(half_ticks) == target.from_vpoc(half_ticks) == distance
    assert target.from_area(half_ticks, half_ticks) == 2 * distance


def test_differences_name_each_part_once() -> None:
    """A volume POC differs in what is counted; its bars differ only if trades are recorded and it uses bars."""
    ours = default_setting(CONTRACT)
    volume = replace(
        ours, sampling=Sampling("volume", "range", 1), method=replace(DALTON, basis="volume", percent=68)
    )
    assert differences(ours, ours, trades=True) == []
    assert [part for part, _, _ in differences(volume, ours, trades=False)] == ["basis", "percent"]
    assert [part for part, _, _ in differences(volume, ours, trades=True)] == ["basis", "bars", "percent"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_named_and_costs_no_more_than_one_difference(name: str) -> None:
    method = PRESETS[name]
    minutes = 30 if (method.basis, method.placement) == ("tpo", "range") else 1
    setting = replace(
        default_setting(CONTRACT),
        sampling=Sampling(method.basis, method.placement, minutes),
        method=replace(method, name=""),
    )
    assert setting.preset == name
    assert cost(setting, default_setting(CONTRACT), trades=False) <= 1 + (method.basis == "volume")


def test_hours_of_a_trade_date() -> None:
    """ES on 2026-11-19, in UTC: New York is five hours behind, Chicago six."""
    midnight = 20_776 * 24 * NANOS_PER_HOUR  # days from 1970-01-01 to 2026-11-19
    quarter = 15 * NANOS_PER_MINUTE

    def at(*quarters: int) -> tuple[int, int]:
        return midnight + quarters[0] * quarter, midnight + quarters[1] * quarter

    assert HOURS["rth"] == (at(58, 85),)
    assert HOURS["rth:cash"] == (at(58, 84),)
    assert HOURS["overnight"] == (at(-11, -8), at(-4, 58))
    assert HOURS["full"] == (at(-11, -8), at(-4, 58), at(58, 85))
    assert HOURS["trade_date"] == (at(-4, 88),)
    assert HOURS["day@UTC"] == (at(0, 96),)
    assert HOURS["rth@UTC"] == (at(38, 65),)
    assert HOURS["rth@America/Chicago"] == (at(62, 89),)
    assert "rth@America/New_York" not in HOURS  # the product's own zone
    assert "rth@Europe/London" not in HOURS  # in winter the same as UTC
    assert choices(load_reference().calendar, "ES", date(2026, 11, 26)) == {}  # Thanksgiving
