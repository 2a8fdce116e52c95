"""Naked POCs, poor extremes and their repair (rules §4, §5), worked by hand."""

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

from outcry.market.ladder import Bracket, Ladder
from outcry.market.levels import CarriedLevels, CompletedSession, carried_levels, spent
from outcry.market.profile import profile_of

FIRST = date(2024, 3, 4)


def completed(
    day: int, *ranges: tuple[int, int], touched: tuple[tuple[int, int], ...] = ()
) -> CompletedSession:
    """Return a session whose brackets trade these ranges; `touched`: ranges with trades, by default the whole range."""
    low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
    brackets = tuple(Bracket(i, a, b, a, b, i, i) for i, (a, b) in enumerate(ranges))
    ladder = Ladder(brackets, low, (1,) * (high - low + 1), touched or ((low, high),), "trades")
    return CompletedSession(FIRST + timedelta(days=day), ladder, profile_of(ladder, 2))


def prices(levels: tuple) -> list[int]:
    return [level.price_ticks for level in levels]


def test_the_published_example_of_mypivots(shared: Path) -> None:
    """POCs at 1120, 1145 and 1165; Tuesday and Wednesday stay above each earlier POC; Thursday trades 1150 to 1170."""
    entry = next(
        e
        for e in json.loads((shared / "vectors" / "published_examples.json").read_text())
        if e["id"] == "mypivots-vpoc"
    )
    days = [
        completed(0, (1110, 1130), (1120, 1120)),
        completed(1, (1135, 1155), (1145, 1145)),
        completed(2, (1156, 1175), (1165, 1165)),
        completed(3, (1150, 1170), (1152, 1152)),
    ]
    assert [day.profile.poc for day in days[:3]] == [1120, 1145, 1165]
    naked = prices(carried_levels(days).naked_pocs)
    assert [p for p in naked if p != 1152] == sorted(map(int, entry["expected_naked"]), reverse=True)
    assert not set(map(int, entry["expected_touched"])) & set(naked)


def test_the_newest_poc_is_naked_and_listed_first() -> None:
    days = [completed(0, (10, 20), (15, 15)), completed(1, (30, 40), (35, 35))]
    found = carried_levels(days).naked_pocs
    assert [(level.price_ticks, level.made_on) for level in found] == [
        (35, FIRST + timedelta(days=1)),
        (15, FIRST),
    ]


def test_a_gap_over_a_poc_does_not_test_it_but_a_print_does() -> None:
    first = completed(0, (10, 20), (15, 15))
    # the later session's range covers 15, but nothing traded between 12 and 18
    gap = completed(1, (5, 25), (24, 24), touched=((5, 12), (18, 25)))
    assert 15 in prices(carried_levels([first, gap]).naked_pocs)
    touch = completed(1, (5, 25), (24, 24), touched=((5, 12), (15, 15), (18, 25)))
    assert 15 not in prices(carried_levels([first, touch]).naked_pocs)


def test_a_poor_high_is_repaired_one_tick_beyond_not_at_it() -> None:
    poor = completed(0, (10, 20), (10, 20))
    assert prices(carried_levels([poor]).poor_highs) == [20]
    touched = completed(1, (12, 20), (12, 17))
    assert prices(carried_levels([poor, touched]).poor_highs) == [20]
    beyond = completed(2, (12, 21), (12, 17))
    assert prices(carried_levels([poor, touched, beyond]).poor_highs) == []


def test_a_poor_low_is_repaired_one_tick_beyond_not_at_it() -> None:
    poor = completed(0, (10, 20), (10, 20))
    assert prices(carried_levels([poor, completed(1, (10, 18), (14, 18))]).poor_lows) == [10]
    assert prices(carried_levels([poor, completed(1, (9, 18), (14, 18))]).poor_lows) == []


def test_look_back_is_60_sessions_for_pocs_20_for_extremes_and_ten_are_listed() -> None:
    # Each day trades entirely above the previous one, so no POC is tested, but highs are repaired.
    days = [completed(day, (100 * day, 100 * day + 20), (100 * day, 100 * day + 20)) for day in range(70)]
    found = carried_levels(days)
    assert len(found.naked_pocs) == 10
    assert len(found.poor_lows) == 10
    assert found.naked_pocs[0].made_on == days[-1].trade_date
    assert prices(found.poor_highs) == [6920]  # every other high was passed the next day


def test_old_levels_expire() -> None:
    # One old level far below everything that follows; the days that follow repeat themselves.
    old = completed(0, (10, 20), (10, 20))
    later = [completed(1 + day, (1000, 1050), (1003, 1047)) for day in range(60)]  # no poor ends
    assert 10 in prices(carried_levels([old, *later[:19]]).poor_lows)
    assert 10 not in prices(carried_levels([old, *later[:20]]).poor_lows)
    poc = old.profile.poc
    assert poc in prices(carried_levels([old, *later[:59]]).naked_pocs)
    assert poc not in prices(carried_levels([old, *later[:60]]).naked_pocs)


def test_a_partial_session_tests_and_repairs_but_adds_no_level() -> None:
    old = completed(0, (10, 20), (10, 20))
    piece = replace(completed(1, (9, 30), (15, 29)), whole=False)
    last = completed(2, (100, 140), (103, 137))
    found = carried_levels([old, piece, last])
    assert prices(found.naked_pocs) == [last.profile.poc]
    assert (prices(found.poor_highs), prices(found.poor_lows)) == ([], [])


def test_levels_used_up_by_the_open_session() -> None:
    """A POC at 15 and a poor range from 10 to 20: 15 is traded, the high is met, the low is passed by one tick."""
    before = carried_levels([completed(0, (10, 20), (10, 20), (15, 15))])
    assert (prices(before.naked_pocs), prices(before.poor_highs), prices(before.poor_lows)) == (
        [15],
        [20],
        [10],
    )
    inside = completed(1, (12, 20), touched=((12, 14), (16, 20))).ladder
    assert spent(before, inside) == CarriedLevels((), (), ())
    down = completed(1, (9, 20)).ladder
    assert spent(before, down) == CarriedLevels(before.naked_pocs, (), before.poor_lows)
    up = completed(1, (16, 21)).ladder
    assert spent(before, up) == CarriedLevels((), before.poor_highs, ())
