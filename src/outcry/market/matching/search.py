"""Searches the settings whose levels are nearest to those of another platform.

The search is a tree. For every window (contract and hours), sampling and row height the rows are counted once. A count
whose POCs are all too far away is never searched. Below a count, each value area grows once for all percentages and
stop rules (`growth`). The bound is the distance of the farthest levels that would still be listed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outcry.market.matching.branch import Branch, search_branch
from outcry.market.matching.growth import Growth, trimmed
from outcry.market.matching.nearest import Match, Nearest
from outcry.market.matching.rows import RowCounts, WindowCounts
from outcry.market.matching.scale import poc_row, printed, scales_of
from outcry.market.matching.setting import EXACT, ROW_TICKS, Sampling, Setting, default_setting
from outcry.market.matching.target import Numbers, Target
from outcry.market.row_label import RowScale


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
    for branch in sorted(_branches(windows, target), key=lambda branch: branch.bound):
        if branch.bound > nearest.bound:
            break
        search_branch(branch, target, nearest)
    own = next((w for w in windows if (w.contract, w.hours) == (contract, ours.hours)), None)
    return Found(own and Match.of(ours, numbers_of(own, ours), target), nearest.matches(), trades)


def numbers_of(window: Window, setting: Setting) -> Numbers:
    """Return the levels of one setting in half ticks."""
    method, sampling = setting.method, setting.sampling
    rows, volume = _counted(window.counts, sampling, setting.row_ticks)
    scale = RowScale(setting.row_ticks, setting.label, ceiling=sampling.placement == "close_up")
    at = list(range(len(rows.counts))) if method.rows == "all" else printed(rows)
    counts = [rows.counts[index] for index in at]
    poc = at.index(poc_row(rows, method) - rows.first)
    area = Growth(counts, poc, method).reached(method.needed(sum(counts)))
    assert area is not None, "a growth without limits ends with all rows"
    low, high = trimmed(counts, poc, area)
    return Numbers(
        scale.poc(rows.first + at[poc]), scale.val(rows.first + at[low]), scale.vah(rows.first + at[high]),
        scale.poc(poc_row(volume, method)),
    )  # fmt: skip


def _counted(counts: WindowCounts, sampling: Sampling, row_ticks: int) -> tuple[RowCounts, RowCounts]:
    """Return the counts of a sampling, and those that the volume POC beside it comes from.

    These are the volume at the same closes, or the finest volume that is recorded.
    """
    rows = counts.count(sampling, row_ticks)
    if sampling.basis == "volume":
        return rows, rows
    bars = sampling.bar_minutes if sampling.placement == "close_up" else counts.finest
    return rows, counts.count(Sampling("volume", sampling.placement, bars), row_ticks)


def _branches(windows: Sequence[Window], target: Target) -> Iterator[Branch]:
    for window in windows:
        for sampling in window.counts.samplings():
            for row_ticks in ROW_TICKS:
                rows, volume = _counted(window.counts, sampling, row_ticks)
                bound = min(
                    min(target.from_poc(scale.poc(rows.first + index)) for index in rows.tied)
                    + min(target.from_vpoc(scale.poc(volume.first + index)) for index in volume.tied)
                    for _, scale in scales_of(sampling, row_ticks)
                )
                yield Branch(bound, window.contract, window.hours, sampling, row_ticks, rows, volume)
