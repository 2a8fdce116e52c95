"""One branch of the search: counted rows, and every method that can compute levels from them."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, get_args

from outcry.market.matching.growth import Growth, trimmed
from outcry.market.matching.nearest import SHIFT_TICKS, Match, Nearest
from outcry.market.matching.rows import RowCounts, RowGrid
from outcry.market.matching.scale import poc_row, printed, scales_of
from outcry.market.matching.setting import PERCENTS, Sampling, Setting
from outcry.market.matching.target import Numbers, Target
from outcry.market.methods import DALTON, PRESETS, Method, PocTie
from outcry.market.row_label import RowLabel, RowScale

_POC_TIES: Sequence[PocTie] = get_args(PocTie)
#: Every step and pair rule; with one row at a time there are no pairs.
_STEPS = (DALTON, replace(DALTON, step=1), replace(DALTON, pair="trim"))
_SIDE_TIES = ("up", "down", "both")
#: Percentages and stop rules, most usual first.
_ENDS = tuple(
    replace(DALTON, percent=percent, stop=stop) for percent in PERCENTS for stop in ("ge", "gt", "floor")
)
_UNNAMED = tuple(replace(preset, name="") for preset in PRESETS.values())
_LEAST_PERCENT = min(PERCENTS)


class Branch(NamedTuple):
    """Counted rows of a contract in some hours, and the least distance that a setting with them can have.

    volume: the rows that the volume POC comes from.
    """

    bound: int
    contract: str
    hours: str
    sampling: Sampling
    grid: RowGrid
    rows: RowCounts
    volume: RowCounts


class _Label(NamedTuple):
    """A label of rows, and the distance that its POC and volume POC already have."""

    name: RowLabel
    scale: RowScale
    distance: int


@dataclass(frozen=True, slots=True)
class _Pocs:
    """The POC of some counts under tie rules that lead to the same one.

    at: the row of each count, counted from price 0. poc: index of a count. vpoc: a row. method: the part of the method
    that is decided. shift: ticks that the given prices are above those of the rows.
    """

    at: Sequence[int]
    counts: Sequence[int]
    poc: int
    vpoc: int
    ties: Sequence[PocTie]
    method: Method
    labels: Sequence[_Label]
    shift: int = 0

    @property
    def total(self) -> int:
        """Return the sum of all counts."""
        return sum(self.counts)


class _Reach(NamedTuple):
    """The indices that the lowest and the highest count of a near enough value area can have, ends included."""

    low: tuple[int, int]
    high: tuple[int, int]

    def areas(self, growth: Growth) -> Iterator[int]:
        """Yield the indices of the near enough areas of a growth, largest first."""
        for index in reversed(range(len(growth.areas))):
            area = growth.areas[index]
            if area.low > self.low[1] or area.high < self.high[0]:
                return
            if area.low >= self.low[0] and area.high <= self.high[1]:
                yield index


def search_branch(branch: Branch, target: Target, nearest: Nearest) -> None:
    """Add all settings of a branch that are near enough."""
    for poc, vpoc, ties, at, counts, method in _choices(branch):
        labels = [
            _Label(name, scale, distance)
            for name, scale in scales_of(branch.sampling, branch.grid)
            if (distance := target.from_poc(scale.poc(poc)) + target.from_vpoc(scale.poc(vpoc)))
            <= nearest.bound
        ]
        if labels:
            pocs = _Pocs(at, counts, bisect_left(at, poc), vpoc, ties, method, labels)
            _search_areas(branch, pocs, target, nearest)


def search_shifted(branch: Branch, target: Target, nearest: Nearest) -> None:
    """Add the settings of a branch that are near enough after a shift that brings the POCs together."""
    for poc, vpoc, ties, at, counts, method in _choices(branch):
        for name, scale in scales_of(branch.sampling, branch.grid):
            shift = target.shift(scale.poc(poc))
            if abs(shift) <= SHIFT_TICKS:
                continue
            moved = target.moved(-shift)
            distance = SHIFT_TICKS + moved.from_poc(scale.poc(poc)) + moved.from_vpoc(scale.poc(vpoc))
            if distance <= nearest.bound:
                labels = [_Label(name, scale, distance)]
                pocs = _Pocs(at, counts, bisect_left(at, poc), vpoc, ties, method, labels, shift)
                _search_areas(branch, pocs, moved, nearest)


class _Choice(NamedTuple):
    """A POC and volume POC (rows) with the tie rules that choose them; the fields that follow are those of `_Pocs`."""

    poc: int
    vpoc: int
    ties: Sequence[PocTie]
    at: Sequence[int]
    counts: Sequence[int]
    method: Method


def _choices(branch: Branch) -> Iterator[_Choice]:
    """Yield the POCs of a branch, with and without the rows that did not trade."""
    rows, sampling = branch.rows, branch.sampling
    method = replace(DALTON, name="", basis=sampling.basis, placement=sampling.placement)
    variants = [(method, list(range(len(rows.counts))))]
    if 0 in rows.counts:
        variants.append((replace(method, rows="printed"), printed(rows)))
    for variant, indices in variants:
        at, counts = [rows.first + index for index in indices], [rows.counts[index] for index in indices]
        for (poc, vpoc), ties in _pocs(branch, variant).items():
            yield _Choice(poc, vpoc, ties, at, counts, replace(variant, poc_tie=ties[0]))


def _pocs(branch: Branch, method: Method) -> dict[tuple[int, int], list[PocTie]]:
    """Return the POCs and volume POCs (rows) that the tie rules choose, each with those rules."""
    rows, volume = branch.rows, branch.volume
    if len(rows.tied) == len(volume.tied) == 1:
        return {(poc_row(rows, method), poc_row(volume, method)): list(_POC_TIES)}
    found: dict[tuple[int, int], list[PocTie]] = {}
    for tie in _POC_TIES:
        tied = replace(method, poc_tie=tie)
        found.setdefault((poc_row(rows, tied), poc_row(volume, tied)), []).append(tie)
    return found


def _search_areas(branch: Branch, pocs: _Pocs, target: Target, nearest: Nearest) -> None:
    """Grow the value areas of one POC by every rule, and add the settings of those that are near enough."""
    reach = _reach(pocs, target, nearest.bound)
    within = sum(pocs.counts[reach.low[0] : reach.high[1] + 1])
    if within < pocs.total * _LEAST_PERCENT // 100:
        return
    for steps in _STEPS:
        for side_tie in _SIDE_TIES:
            method = replace(pocs.method, step=steps.step, pair=steps.pair, side_tie=side_tie)
            growth = Growth(pocs.counts, pocs.poc, method, (reach.low[0], reach.high[1]))
            for index in reach.areas(growth):
                _add_area(branch, pocs, method, growth, index, target, nearest)
            if not growth.met_tie:
                break  # the side tie decides nothing


def _reach(pocs: _Pocs, target: Target, bound: int) -> _Reach:
    """Return which ends of a value area are within the bound under any label."""
    at, counts = pocs.at, pocs.counts
    lows: list[int] = []
    highs: list[int] = []
    for label in pocs.labels:
        near_val, near_vah = target.within(bound - label.distance)
        lows += label.scale.rows_of_val(*near_val)
        highs += label.scale.rows_of_vah(*near_vah)
    low, high = bisect_left(at, min(lows)), bisect_right(at, max(highs)) - 1
    while low > 0 and counts[low - 1] == 0:  # an area does not end at rows that did not trade
        low -= 1
    while high < len(counts) - 1 and counts[high + 1] == 0:
        high += 1
    return _Reach((low, bisect_right(at, max(lows)) - 1), (bisect_left(at, min(highs)), high))


def _add_area(
    branch: Branch, pocs: _Pocs, method: Method, growth: Growth, index: int, target: Target, nearest: Nearest
) -> None:  # fmt: skip
    """Add the settings that stop at one area of a growth, under every label that is near enough."""
    low, high = trimmed(pocs.counts, pocs.poc, growth.areas[index])
    methods: list[Method] | None = None
    for name, scale, distance in pocs.labels:
        val, vah = scale.val(pocs.at[low]), scale.vah(pocs.at[high])
        whole = distance + target.from_area(val, vah)
        if whole <= nearest.bound:
            methods = _methods(growth, index, method, pocs) if methods is None else methods
            numbers = Numbers(scale.poc(pocs.at[pocs.poc]), val, vah, scale.poc(pocs.vpoc)).moved(
                2 * pocs.shift
            )
            apart = whole - (SHIFT_TICKS if pocs.shift else 0)
            for each in methods:
                setting = Setting(
                    branch.contract, branch.hours, branch.sampling, branch.grid.row_ticks, name, each,
                    branch.grid.row_count, pocs.shift,
                )  # fmt: skip
                nearest.add(Match(setting, numbers, apart))


def _methods(growth: Growth, index: int, method: Method, pocs: _Pocs) -> list[Method]:
    """Return the methods that stop at an area: the most usual percentage and stop rule, and all presets."""
    total = pocs.total
    more_than, at_most = growth.needs(index)
    usual = next((end for end in _ENDS if more_than < end.needed(total) <= at_most), None)
    found = [] if usual is None else [replace(method, percent=usual.percent, stop=usual.stop)]
    return found + [
        preset
        for preset in _UNNAMED
        if more_than < preset.needed(total) <= at_most
        and _is_alike(preset, method, pocs, met_tie=growth.met_tie)
    ]


def _is_alike(preset: Method, method: Method, pocs: _Pocs, *, met_tie: bool) -> bool:
    """Return whether a preset differs from a method in nothing that decides, except percentage and stop rule."""
    return (
        (preset.basis, preset.placement, preset.rows) == (method.basis, method.placement, method.rows)
        and (preset.step, preset.pair) == (method.step, method.pair)
        and (preset.side_tie == method.side_tie or not met_tie)
        and preset.poc_tie in pocs.ties
    )
