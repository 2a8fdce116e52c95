"""Searches the settings whose levels are nearest to those of another platform.

The search is a tree. For every window (contract and hours), sampling and row height the rows are counted once. A count
whose POCs are all too far away is never searched. Below a count, each value area grows once for all percentages and
stop rules (`growth`). The bound is the distance of the farthest levels that would still be listed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outcry.market.matching.branch import Branch, search_branch, search_shifted
from outcry.market.matching.growth import Growth, trimmed
from outcry.market.matching.nearest import SHIFT_TICKS, Match, Nearest
from outcry.market.matching.rows import RowCounts, RowGrid, WindowCounts, divided
from outcry.market.matching.scale import poc_row, printed, scales_of
from outcry.market.matching.setting import EXACT, ROW_TICKS, Sampling, Setting, default_setting, hours_cost
from outcry.market.matching.target import Numbers, Target
from outcry.market.row_label import RowScale

_SHIFTED_GRIDS = frozenset(map(RowGrid, (1, 2, 4)))
_MOST_SHIFTED_COST = 2


@dataclass(frozen=True, slots=True)
class Window:
    """The counts of a contract in some hours, which have the names that a `Setting` has."""

    contract: str
    hours: str
    counts: WindowCounts


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search: our own setting, if its window has data, and the nearest settings.

    trades: whether the recording has trades, not bars only.
    """

    ours: Match | None
    matches: Sequence[Match]
    trades: bool


def search(windows: Sequence[Window], target: Target, contract: str) -> Found:
    """Return the settings of the windows that are nearest to a target.

    windows: those with trades. contract: the contract of our own answer.
    """
    ours = default_setting(contract)
    trades = any(window.counts.finest == EXACT for window in windows)
    nearest = Nearest(ours, trades=trades)
    branches = sorted(_branches(windows, target), key=lambda branch: branch.bound)
    for branch in branches:
        if branch.bound > nearest.bound:
            break
        search_branch(branch, target, nearest)
    for branch in branches if nearest.bound >= SHIFT_TICKS else ():
        if _may_be_shifted(branch, contract, trades=trades):
            search_shifted(branch, target, nearest)
    own = next((w for w in windows if (w.contract, w.hours) == (contract, ours.hours)), None)
    return Found(own and Match.of(ours, numbers_of(own, ours), target), nearest.matches(), trades)


def numbers_of(window: Window, setting: Setting) -> Numbers:
    """Return the levels of one setting in half ticks."""
    method, sampling = setting.method, setting.sampling
    anchor = window.counts.low if setting.row_count else 0
    rows, volume = _counted(window.counts, sampling, RowGrid(setting.row_ticks, anchor))
    scale = RowScale(setting.row_ticks, setting.label, sampling.placement == "close_up", anchor)
    at = list(range(len(rows.counts))) if method.rows == "all" else printed(rows)
    counts = [rows.counts[index] for index in at]
    poc = at.index(poc_row(rows, method) - rows.first)
    area = Growth(counts, poc, method).reached(method.needed(sum(counts)))
    assert area is not None, "a growth without limits ends with all rows"
    low, high = trimmed(counts, poc, area)
    return Numbers(
        scale.poc(rows.first + at[poc]), scale.val(rows.first + at[low]), scale.vah(rows.first + at[high]),
        scale.poc(poc_row(volume, method)),
    ).moved(2 * setting.shift_ticks)  # fmt: skip


def _counted(counts: WindowCounts, sampling: Sampling, grid: RowGrid) -> tuple[RowCounts, RowCounts]:
    """Return the counts of a sampling, and those that the volume POC beside it comes from.

    These are the volume at the same closes, or the finest volume that is recorded.
    """
    rows = counts.count(sampling, grid.row_ticks, grid.anchor_ticks)
    if sampling.basis == "volume":
        return rows, rows
    bars = sampling.bar_minutes if sampling.placement == "close_up" else counts.finest
    volume = Sampling("volume", sampling.placement, bars)
    return rows, counts.count(volume, grid.row_ticks, grid.anchor_ticks)


def _branches(windows: Sequence[Window], target: Target) -> Iterator[Branch]:
    for window in windows:
        fixed = [RowGrid(row_ticks) for row_ticks in ROW_TICKS]
        grids = [*fixed, *divided(window.counts.low, window.counts.high)]
        for sampling in window.counts.samplings():
            for grid in fixed if sampling.placement == "close_up" else grids:
                rows, volume = _counted(window.counts, sampling, grid)
                bound = min(
                    min(target.from_poc(scale.poc(rows.first + index)) for index in rows.tied)
                    + min(target.from_vpoc(scale.poc(volume.first + index)) for index in volume.tied)
                    for _, scale in scales_of(sampling, grid)
                )
                yield Branch(bound, window.contract, window.hours, sampling, grid, rows, volume)


def _may_be_shifted(branch: Branch, contract: str, *, trades: bool) -> bool:
    """Return whether levels of a branch are compared after a shift of all prices.

    A shift fits almost any POC, so only settings that are usual otherwise have one.
    """
    return (
        branch.contract == contract
        and hours_cost(branch.hours) <= _MOST_SHIFTED_COST
        and branch.sampling.is_usual(trades=trades)
        and branch.grid in _SHIFTED_GRIDS
    )
