"""The search for the settings of another platform, with settings drawn at random over simulated sessions."""

import random
from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from time import process_time
from typing import get_args

from bench.figures import Figure, at_least, at_most
from bench.market import DAYS, TICK_E9, regular_session, trades
from bench.measurement import Size, pinned

from outcry.market.bar_columns import TradeColumns
from outcry.market.matching.counting import RecordingCounts
from outcry.market.matching.hours import choices
from outcry.market.matching.rows import RowGrid, divided
from outcry.market.matching.scale import scales_of
from outcry.market.matching.search import Window, numbers_of, search
from outcry.market.matching.setting import PERCENTS, ROW_TICKS, Setting
from outcry.market.matching.target import Target
from outcry.market.methods import DALTON, PocTie
from outcry.trades.reference_tables import load_reference

CONTRACT = "ESH2024"


def goals(size: Size) -> Iterator[Figure]:
    """Count the sessions whose settings are found, and measure the slowest search."""
    sessions, count = size.of((100, 300_000), (20, 300_000), (2, 20_000))
    taken: list[float] = []
    found = 0
    with pinned():
        for seed in range(sessions):
            chance, columns = random.Random(seed), _trade_date(count, seed)
            window, setting = _drawn(chance, _windows(columns))
            poc, val, vah, _ = (value * TICK_E9 // 2 for value in numbers_of(window, setting))
            target = Target(poc, val, vah, None, TICK_E9)
            began = process_time()
            matches = search(_windows(columns), target, CONTRACT).matches
            taken.append(process_time() - began)
            found += matches[0].distance == 0
    note = f"{sessions} sessions of {count // 1000} k trades, each with other settings"
    yield Figure("settings of a platform found", 100 * found / sessions, "%", note, goal=at_least(95))
    slowest = f"median {median(taken):.2f} s, counting included"
    yield Figure("… slowest search", max(taken), "CPU-s", slowest, goal=at_most(2))


def _trade_date(count: int, seed: int) -> TradeColumns:
    """Return the trades of a whole trade date."""
    calendar = load_reference().calendar
    ((opened, closed),) = regular_session()
    around = calendar.trade_dates("ES", opened, closed)[0].segments
    return TradeColumns(*trades(count, (around[0][0], around[-1][1]), seed))


def _windows(columns: TradeColumns) -> list[Window]:
    hours = choices(load_reference().calendar, "ES", DAYS[0])
    counted = {name: RecordingCounts(columns, segments) for name, segments in hours.items()}
    return [Window(CONTRACT, name, counts) for name, counts in counted.items() if not counts.is_empty]


def _drawn(chance: random.Random, windows: list[Window]) -> tuple[Window, Setting]:
    """Return a window and any setting of the search."""
    window = chance.choice(windows)
    sampling, row_ticks = chance.choice(list(window.counts.samplings())), chance.choice(ROW_TICKS)
    steps = chance.choice([DALTON, replace(DALTON, step=1), replace(DALTON, pair="trim")])
    method = replace(
        steps, name="", basis=sampling.basis, placement=sampling.placement, percent=chance.choice(PERCENTS),
        side_tie=chance.choice(["up", "down", "both"]), stop=chance.choice(["ge", "gt", "floor"]),
        poc_tie=chance.choice(get_args(PocTie)), rows=chance.choice(["all", "printed"]),
    )  # fmt: skip
    grid, divisions = RowGrid(row_ticks), list(divided(window.counts.low, window.counts.high))
    if sampling.placement == "range" and divisions and chance.random() < 0.2:
        grid = chance.choice(divisions)
    label, _ = chance.choice(scales_of(sampling, grid))
    setting = Setting(CONTRACT, window.hours, sampling, grid.row_ticks, label, method, grid.row_count)
    return window, setting
