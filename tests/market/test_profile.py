"""POC, value area, tails and single prints: published examples, and cases worked by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from outcry.market.ladder import Bracket, Ladder
from outcry.market.methods import DALTON, PRESETS, Method
from outcry.market.profile import levels_of, point_of_control, profile_of, value_area


def dense(rows: dict[int, int]) -> tuple[int, list[int]]:
    """Return the lowest of the published rows (price → count), and a count for every price from there up."""
    low, high = min(rows), max(rows)
    return low, [rows.get(price, 0) for price in range(low, high + 1)]


def example(shared: Path, name: str) -> dict[str, Any]:
    published = json.loads((shared / "vectors" / "published_examples.json").read_text())
    return next(entry for entry in published if entry["id"] == name)


def area(rows: dict[int, int], method: Method) -> tuple[int, int, int]:
    low, counts = dense(rows)
    poc, val, vah, _ = levels_of(counts, method)
    return low + poc, low + val, low + vah


@pytest.mark.parametrize(
    ("preset", "expected"),
    [("cbot_1row", "expected"), ("dalton", "two_row_full_pair"), ("quantick", "two_row_trim")],
)
def test_the_cbot_table_distinguishes_the_methods(shared: Path, preset: str, expected: str) -> None:
    entry = example(shared, "cbot-70pct-volume")
    want = entry["expected"] if expected == "expected" else entry["derived"][expected]
    low, counts = dense({int(price): count for price, count in entry["rows"].items()})
    poc, _ = point_of_control(counts, PRESETS[preset])
    val, vah, captured = value_area(counts, poc, PRESETS[preset])
    assert low + poc == entry["expected"]["poc"]
    assert (low + val, low + vah, captured) == (want["val"], want["vah"], want["captured"])


@pytest.mark.parametrize(
    ("method", "want"),
    [
        (Method("one up", step=1, side_tie="up"), "one_row_tie_up"),
        (Method("one down", step=1, side_tie="down"), "one_row_tie_down"),
        (DALTON, "two_row_any_tie"),
        (Method("two down", side_tie="down"), "two_row_any_tie"),
    ],
)
def test_the_cbot_tpo_counts(shared: Path, method: Method, want: str) -> None:
    entry = example(shared, "cbot-70pct-tpo-counts")
    found = area({int(price): count for price, count in entry["rows"].items()}, method)
    assert found == (entry["expected"]["poc"], entry["derived"][want]["val"], entry["derived"][want]["vah"])


@pytest.mark.parametrize(
    "name", ["quantick-symmetric", "quantick-one-sided", "quantick-pair-tie", "quantick-gap"]
)
def test_the_trimmed_two_row_examples(shared: Path, name: str) -> None:
    entry = example(shared, name)
    found = area({int(price): count for price, count in entry["rows"].items()}, PRESETS["quantick"])
    assert found == tuple(entry["expected"][level] for level in ("poc", "val", "vah"))


def test_a_far_print_across_a_gap_moves_no_edge(shared: Path) -> None:
    entry = example(shared, "quantick-gap")
    found = area({int(price): count for price, count in entry["rows"].items()}, DALTON)
    assert found[1:] == (100, 102)


def test_the_whole_share_takes_every_printed_row(shared: Path) -> None:
    entry = example(shared, "quantick-all")
    found = area({int(price): count for price, count in entry["rows"].items()}, Method("all", percent=100))
    assert found == (12, 10, 20)


def test_the_poc_tie_of_the_lowest(shared: Path) -> None:
    entry = example(shared, "quantick-poc-tie")
    low, counts = dense({int(price): count for price, count in entry["rows"].items()})
    assert low + point_of_control(counts, PRESETS["quantick"])[0] == entry["expected"]["poc"]


def test_the_midmax_of_py_market_profile(shared: Path) -> None:
    method = PRESETS["py_market_profile"]
    for counts, index in example(shared, "pymp-midmax")["cases"]:
        units = [round(count * 10**9) for count in counts]  # the peer counts floats
        assert point_of_control(units, method)[0] == index


def test_the_amazon_rows_of_py_market_profile(shared: Path) -> None:
    entry = example(shared, "pymp-readme-amzn")
    prices = sorted(float(price) for price in entry["rows"])
    counts = {round(float(price) * 100): count for price, count in entry["rows"].items()}
    poc, val, vah = area(counts, PRESETS["py_market_profile"])
    want = entry["expected"]
    assert (poc / 100, val / 100, vah / 100) == (want["poc"], want["val"], want["vah"])
    assert prices[0] == 1739.25


def test_daltons_figure_grows_below_first() -> None:
    # Mind over Markets, fig. A1.1: POC volume 22,168; the pair above holds 34,491, the pair below 43,773.
    counts = [0, 20_000, 23_773, 22_168, 17_000, 17_491, 0]
    low, high, _ = value_area(counts, 3, Method("first step", percent=50))
    assert (low, high) == (1, 3)


# -- ties of the point of control: nearest the centre, then the heavier side, then lower


@pytest.mark.parametrize(
    ("counts", "poc"),
    [
        ([1, 3, 1, 1, 3, 3, 1], 4),  # centre is row 3: 4 is one away, 1 and 5 two
        ([1, 4, 2, 4, 1], 1),  # rows 1 and 3 equally near row 2, five TPOs each side: the lower
        ([1, 4, 2, 4, 2], 3),  # … six above, five below: the heavier side
        ([2, 4, 2, 4, 1], 1),  # … six below, five above
        ([1, 4, 4, 2], 2),  # the centre lies between the tied rows; 6 above it, 5 below
        ([2, 4, 4, 1], 1),
        ([1, 4, 4, 1], 1),
        ([5], 0),
        ([3, 3], 0),
    ],
)
def test_poc_ties(counts: list[int], poc: int) -> None:
    assert point_of_control(counts)[0] == poc


def test_all_tied_rows_are_reported() -> None:
    assert point_of_control([2, 5, 1, 5, 5])[1] == (1, 3, 4)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_the_value_area_is_anchored_on_the_poc_of_the_same_method(preset: str) -> None:
    # Another program anchors the POC and the value area on different tied rows.
    counts = [1, 6, 2, 1, 6, 1, 1, 6, 1]
    poc, val, vah, tied = levels_of(counts, PRESETS[preset])
    assert poc in tied
    assert val <= poc <= vah


def test_rows_without_volume() -> None:
    for preset in PRESETS.values():
        assert levels_of([0, 3, 0, 0], preset)[:3] == (1, 1, 1)
    assert value_area([0, 0, 0], 1)[:2] == (1, 1)


def test_dva68_exceeds_its_share() -> None:
    # 68 of 100 at the POC satisfies "at least 68 %"; `dva68` must exceed it and takes the 22 above.
    counts = [10, 68, 22]
    assert value_area(counts, 1, Method("ge", percent=68))[:2] == (1, 1)
    assert value_area(counts, 1, PRESETS["dva68"]) == (1, 2, 90)


def test_the_share_is_compared_in_integers() -> None:
    # 7 of 10 is exactly 70 %; a product of floats would require 7.000000000000001.
    assert value_area([1, 7, 2], 1, PRESETS["cbot_1row"])[:2] == (1, 1)


# -- tails, poor extremes, single prints: rules §5


def session(*ranges: tuple[int, int]) -> Ladder:
    """Return a ladder whose brackets trade from the first to the second number, in order; volume one a row."""
    low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
    brackets = tuple(
        Bracket(index, bottom, top, bottom, top, index, index) for index, (bottom, top) in enumerate(ranges)
    )
    return Ladder(brackets, low, (1,) * (high - low + 1), ((low, high),), "trades")


def test_a_tail_of_two_is_excess_and_one_or_none_is_poor() -> None:
    two = profile_of(session((10, 20), (10, 18)), 2)
    assert (two.upper_tail_rows, two.poor_high) == (2, False)
    one = profile_of(session((10, 20), (10, 19)), 2)
    assert (one.upper_tail_rows, one.poor_high) == (1, True)
    none = profile_of(session((10, 20), (10, 20)), 2)
    assert (none.upper_tail_rows, none.poor_high) == (0, True)


def test_the_low_mirrors_the_high() -> None:
    found = profile_of(session((10, 20), (13, 20)), 2)
    assert (found.lower_tail_rows, found.poor_low) == (3, False)
    assert found.poor_high


def test_a_tail_in_the_last_bracket_is_provisional() -> None:
    assert not profile_of(session((10, 20), (10, 15)), 2).upper_tail_provisional
    assert profile_of(session((10, 15), (10, 20)), 2).upper_tail_provisional


def test_interior_single_prints_are_zones_of_two_rows_between_wider_ones() -> None:
    # Rows 15 and 16 belong to A alone, between two brackets below and two above; the tail at 20 to 21 is no zone.
    found = profile_of(session((10, 21), (10, 14), (17, 19)), 2)
    assert found.single_prints == ((15, 16),)
    # one row alone is not a zone
    assert profile_of(session((10, 21), (10, 14), (16, 19)), 2).single_prints == ()


def test_the_initial_balance_is_two_brackets_not_three() -> None:
    found = profile_of(session((10, 12), (9, 13), (5, 20)), 2)
    assert (found.ib_low, found.ib_high) == (9, 13)


def test_without_volume_the_volume_poc_is_that_of_tpos() -> None:
    ladder = session((10, 12), (11, 11))
    found = profile_of(Ladder(ladder.brackets, 10, (0, 0, 0), (), "bars"), 2)
    assert found.vpoc == 11
