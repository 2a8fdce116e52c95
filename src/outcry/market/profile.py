"""Computes levels from a ladder: point of control, value area, tails, single prints, poor extremes.

Pure functions over integer counts, one for each row (price). Index 0 of `counts` is the lowest row. Sources: rules §1,
§2, §5.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outcry.market.ladder import Ladder, runs
from outcry.market.methods import DALTON, Method


def point_of_control(counts: Sequence[int], method: Method = DALTON) -> tuple[int, tuple[int, ...]]:
    """Return the index of the row with the largest count, and all rows tied for it, ascending.

    `counts` must not be empty. By default the tied row nearest to the centre of the range wins. If two are equally
    near, the one on the side of the centre with more counts wins, then the lower one (as mypivots does).
    """
    most = max(counts)
    first = counts.index(most)
    if counts.count(most) == 1:
        return first, (first,)
    tied = tuple(index for index in range(first, len(counts)) if counts[index] == most)
    if method.poc_tie == "lowest":
        return first, tied
    centre2 = len(counts) - 1  # twice the centre's index, so that a centre between two rows is an integer
    if method.poc_tie == "middle_row":
        centre2 = 2 * ((len(counts) - 1) // 2)
    elif method.poc_tie == "half_length":
        centre2 = len(counts)
    nearest = min(abs(2 * index - centre2) for index in tied)
    low, *rest = (index for index in tied if abs(2 * index - centre2) == nearest)
    if not rest or method.poc_tie in {"centre_low", "middle_row", "half_length"}:
        return low, tied
    if method.poc_tie == "centre_high":
        return rest[0], tied
    above = sum(counts[(centre2 // 2) + 1 :])
    below = sum(counts[: (centre2 + 1) // 2])
    return (rest[0] if above > below else low), tied


def value_area(counts: Sequence[int], poc: int, method: Method = DALTON) -> tuple[int, int, int]:
    """Return the lowest and highest row of the value area, both included, and the sum of its counts.

    The area grows from the point of control. At the end of the range a side adds the rows it has left. A side without
    rows left loses the comparison. Rows that did not trade count as zero. An edge is never on such a row, because a
    distant trade would then drag the edge across a gap.
    """
    rows, top, low, high = list(counts), len(counts) - 1, poc, poc
    captured, needed = rows[poc], method.needed(sum(rows))
    step, tie, whole_pairs = method.step, method.side_tie, method.pair == "full"
    above, below = _sum(rows, high + 1, high + 1 + step), _sum(rows, low - step, low)
    while captured < needed and (low > 0 or high < top):
        grows_up = low == 0 or (high < top and (above > below or (above == below and tie != "down")))
        grows_down = high == top or (low > 0 and (below > above or (above == below and tie != "up")))
        if grows_up:
            end = min(high + step, top)
            while high < end and (whole_pairs or captured < needed):
                high += 1
                captured += rows[high]
            above = _sum(rows, high + 1, high + 1 + step)
        if grows_down:
            end = max(low - step, 0)
            while low > end and (whole_pairs or captured < needed):
                low -= 1
                captured += rows[low]
            below = _sum(rows, low - step, low)
    while rows[high] == 0 and high > poc:
        high -= 1
    while rows[low] == 0 and low < poc:
        low += 1
    return low, high, captured


def _sum(rows: list[int], first: int, end: int) -> int:
    """Return the sum of the existing rows from `first` to `end` (excluded).

    A loop is faster than a slice when this module is compiled.
    """
    total = 0
    for row in range(max(0, first), min(end, len(rows))):
        total += rows[row]
    return total


def levels_of(counts: Sequence[int], method: Method = DALTON) -> tuple[int, int, int, tuple[int, ...]]:
    """Return POC, VAL and VAH as indices of `counts`, and the rows tied for the POC.

    The method decides whether rows that did not trade count as rows.
    """
    if method.rows == "all":
        poc, tied = point_of_control(counts, method)
        low, high, _ = value_area(counts, poc, method)
        return poc, low, high, tied
    at = [index for index, count in enumerate(counts) if count]
    printed = [counts[index] for index in at]
    poc, tied = point_of_control(printed, method)
    low, high, _ = value_area(printed, poc, method)
    return at[poc], at[low], at[high], tuple(at[index] for index in tied)


@dataclass(frozen=True, slots=True)
class SessionProfile:
    """Levels of one session. Prices are in ticks, and ranges include both ends.

    `poc`, `val` and `vah` are computed from the method's basis (TPOs by default), `vpoc` from volume.
    `upper_tail_rows`: number of single prints from the high downwards. A tail made in the last bracket is
    `provisional`, because no later bracket has closed without trading in it again. `single_prints`: zones of two rows
    or more inside the profile. `ib_*`: the range of the first 60 minutes. `brackets`: number of brackets that traded.
    """

    poc: int
    val: int
    vah: int
    poc_candidates: tuple[int, ...]
    vpoc: int
    high: int
    low: int
    open: int
    close: int
    ib_high: int
    ib_low: int
    tpos: tuple[int, ...]
    upper_tail_rows: int
    lower_tail_rows: int
    upper_tail_provisional: bool
    lower_tail_provisional: bool
    single_prints: tuple[tuple[int, int], ...]
    brackets: int

    @property
    def poor_high(self) -> bool:
        """Return whether there are fewer than two single prints at the high (preset `dalton`, rules §5).

        The auction at such a high is unfinished.
        """
        return self.upper_tail_rows < 2

    @property
    def poor_low(self) -> bool:
        """Return whether there are fewer than two single prints at the low: the auction there is unfinished."""
        return self.lower_tail_rows < 2

    @property
    def excess_high(self) -> bool:
        """Return whether there are two or more single prints at the high, made before the last bracket."""
        return self.upper_tail_rows >= 2 and not self.upper_tail_provisional

    @property
    def excess_low(self) -> bool:
        """Return whether there are two or more single prints at the low, made before the last bracket."""
        return self.lower_tail_rows >= 2 and not self.lower_tail_provisional


@dataclass(frozen=True, slots=True)
class TpoLevels:
    """Levels that follow from TPO counts alone, as indices of the counts.

    `levels`: the result of `levels_of`. The other fields mean the same as in `SessionProfile`.
    """

    levels: tuple[int, int, int, tuple[int, ...]]
    upper_tail_rows: int
    lower_tail_rows: int
    single_prints: tuple[tuple[int, int], ...]


def tpo_levels_of(tpos: tuple[int, ...], method: Method) -> TpoLevels:
    """Compute the levels that follow from TPO counts alone."""
    return TpoLevels(levels_of(tpos, method), _tail(tpos[::-1]), _tail(tpos), _interior(tpos))


def profile_of(
    ladder: Ladder,
    ib_brackets: int,
    method: Method = DALTON,
    tpo_levels: Callable[[tuple[int, ...], Method], TpoLevels] = tpo_levels_of,
) -> SessionProfile:
    """Compute the session's levels (POC, value area, tails and others) from its ladder.

    `ib_brackets`: as in `initial_balance`. `tpo_levels`: `tpo_levels_of`, or a function that caches its results.
    """
    tpos = tuple(ladder.tpo_counts())
    low = ladder.low_ticks
    found = tpo_levels(tpos, method)
    poc, val, vah, tied = found.levels if method.basis == "tpo" else levels_of(ladder.volume, method)
    vpoc, _ = point_of_control(_volume_counts(ladder), method)
    ib_high, ib_low = initial_balance(ladder, ib_brackets)
    last = ladder.brackets[-1]
    return SessionProfile(
        poc=low + poc,
        val=low + val,
        vah=low + vah,
        poc_candidates=tuple(low + index for index in tied),
        vpoc=low + vpoc,
        high=ladder.high_ticks,
        low=low,
        open=ladder.open_ticks,
        close=ladder.close_ticks,
        ib_high=ib_high,
        ib_low=ib_low,
        tpos=tpos,
        upper_tail_rows=found.upper_tail_rows,
        lower_tail_rows=found.lower_tail_rows,
        upper_tail_provisional=found.upper_tail_rows > 0 and last.high_ticks == ladder.high_ticks,
        lower_tail_provisional=found.lower_tail_rows > 0 and last.low_ticks == low,
        single_prints=tuple((low + start, low + end) for start, end in found.single_prints),
        brackets=len(ladder.brackets),
    )


def initial_balance(ladder: Ladder, ib_brackets: int) -> tuple[int, int]:
    """Return the highest and lowest price (ticks) of the first 60 minutes of a session (rules §3.1).

    `ib_brackets`: number of brackets that begin within 60 minutes of the session's open (2 of 30 minutes). If nothing
    traded in that hour, the first bracket that traded is the initial balance.
    """
    first_hour = [b for b in ladder.brackets if b.index < ib_brackets] or list(ladder.brackets[:1])
    return max(bracket.high_ticks for bracket in first_hour), min(bracket.low_ticks for bracket in first_hour)


def volume_area(ladder: Ladder, method: Method = DALTON) -> tuple[int, int]:
    """Return the lowest and highest price (ticks) of the value area that is computed from volume.

    It is not part of `SessionProfile`, because few answers contain it and its computation takes long.
    """
    counts = _volume_counts(ladder)
    low, high, _ = value_area(counts, point_of_control(counts, method)[0], method)
    return ladder.low_ticks + low, ladder.low_ticks + high


def _volume_counts(ladder: Ladder) -> Sequence[int]:
    """Return the volume at each row; of a feed without sizes the TPOs, because it has no volume."""
    return ladder.volume if any(ladder.volume) else ladder.tpo_counts()


def _tail(tpos: Sequence[int]) -> int:
    """Return the number of consecutive single prints from an extreme inwards. `tpos` begins at the extreme."""
    return next((index for index, count in enumerate(tpos) if count != 1), len(tpos))


def _interior(tpos: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the zones of two or more single-print rows inside the profile (rules §5), as indices of `tpos`.

    The row on either side of such a zone has two TPOs or more.
    """
    singles = runs([count == 1 for count in tpos], 0)
    wide = [
        (start, end)
        for start, end in singles
        if end > start > 0 and end < len(tpos) - 1 and tpos[start - 1] >= 2 and tpos[end + 1] >= 2
    ]
    return tuple(wide)
