"""Computes levels from a ladder: point of control, value area, tails, single prints, poor extremes.

Pure functions over rows of integer counts; index 0 of `counts` is the lowest row. Sources: rules §1, §2, §5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from outcry.market.ladder import Ladder, runs
from outcry.market.methods import DALTON, Method


def point_of_control(counts: Sequence[int], method: Method = DALTON) -> tuple[int, tuple[int, ...]]:
    """Return the index of the row with the largest count, and all rows tied for it, ascending.

    `counts` must not be empty. Default tie (mypivots): nearest to the centre of the range, then the side of the centre
    with more counts, then lower.
    """
    most = max(counts)
    tied = tuple(index for index, count in enumerate(counts) if count == most)
    if len(tied) == 1 or method.poc_tie == "lowest":
        return tied[0], tied
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
    """Return the lowest and highest row of the value area, both included, and its total.

    It grows from the point of control. At the end of the range a side adds its remaining rows, and a side without rows
    loses. Rows without prints count as zero. An edge is never on such a row, or a distant print would drag it across a
    gap.
    """
    total, captured, low, high = sum(counts), counts[poc], poc, poc
    while not method.reached(captured, total) and (low > 0 or high < len(counts) - 1):
        above = counts[high + 1 : high + 1 + method.step]
        below = counts[max(0, low - method.step) : low][::-1]
        for side in _sides(above, below, method):
            rows = above if side == "up" else below
            for count in rows:
                if method.pair == "trim" and method.reached(captured, total):
                    break
                captured += count
                high, low = (high + 1, low) if side == "up" else (high, low - 1)
    while counts[high] == 0 and high > poc:
        high -= 1
    while counts[low] == 0 and low < poc:
        low += 1
    return low, high, captured


def _sides(above: Sequence[int], below: Sequence[int], method: Method) -> tuple[str, ...]:
    """Return whether the value area grows up, down or both. Both sides grow only if the method does so for a tie."""
    if not above or not below:
        return ("up",) if above else ("down",)
    if sum(above) == sum(below):
        return ("up", "down") if method.side_tie == "both" else (method.side_tie,)
    return ("up",) if sum(above) > sum(below) else ("down",)


def levels_of(counts: Sequence[int], method: Method = DALTON) -> tuple[int, int, int, tuple[int, ...]]:
    """Return POC, VAL and VAH as indices of `counts`, and the tied rows, by the method's definition of a row."""
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

    `poc`, `val`, `vah` are of the method's basis (TPOs by default), `vpoc` and `volume_va` of volume.
    `upper_tail_rows`: single prints from the high downwards. A tail made in the last bracket is `provisional`, because
    no bracket has closed without re-entering it. `single_prints`: interior zones of two rows or more. `ib_*`: the range
    of the first 60 minutes. `brackets`: number of brackets that traded.
    """

    poc: int
    val: int
    vah: int
    poc_candidates: tuple[int, ...]
    vpoc: int
    volume_va: tuple[int, int]
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

        Such an auction is unfinished.
        """
        return self.upper_tail_rows < 2

    @property
    def poor_low(self) -> bool:
        """Return whether there are fewer than two single prints at the low."""
        return self.lower_tail_rows < 2


def profile_of(ladder: Ladder, ib_brackets: int, method: Method = DALTON) -> SessionProfile:
    """Compute the session's levels (POC, value area, tails and others) from its ladder.

    `ib_brackets`: number of brackets that begin within 60 minutes of the session's open (2 of 30 minutes). If nothing
    traded in that hour, the first bracket that traded is the initial balance.
    """
    tpos = ladder.tpo_counts()
    low = ladder.low_ticks
    poc, val, vah, tied = levels_of(tpos if method.basis == "tpo" else ladder.volume, method)
    volume = (
        ladder.volume if any(ladder.volume) else tpos
    )  # a feed without sizes has no volume POC, so that of the TPOs is used
    vpoc, _ = point_of_control(volume, method)
    volume_low, volume_high, _ = value_area(volume, vpoc, method)
    upper, lower = _tail(tpos[::-1]), _tail(tpos)
    first_hour = [b for b in ladder.brackets if b.index < ib_brackets] or list(ladder.brackets[:1])
    last = ladder.brackets[-1]
    return SessionProfile(
        poc=low + poc,
        val=low + val,
        vah=low + vah,
        poc_candidates=tuple(low + index for index in tied),
        vpoc=low + vpoc,
        volume_va=(low + volume_low, low + volume_high),
        high=ladder.high_ticks,
        low=low,
        open=ladder.open_ticks,
        close=ladder.close_ticks,
        ib_high=max(bracket.high_ticks for bracket in first_hour),
        ib_low=min(bracket.low_ticks for bracket in first_hour),
        tpos=tuple(tpos),
        upper_tail_rows=upper,
        lower_tail_rows=lower,
        upper_tail_provisional=upper > 0 and last.high_ticks == ladder.high_ticks,
        lower_tail_provisional=lower > 0 and last.low_ticks == low,
        single_prints=_interior(tpos, low),
        brackets=len(ladder.brackets),
    )


def _tail(tpos: Sequence[int]) -> int:
    """Return the number of rows of single prints at an extreme. `tpos` begins at the extreme."""
    return next((index for index, count in enumerate(tpos) if count != 1), len(tpos))


def _interior(tpos: Sequence[int], low: int) -> tuple[tuple[int, int], ...]:
    """Return the zones of two or more single-print rows inside the profile (rules §5).

    They lie between rows of two TPOs or more.
    """
    singles = runs([count == 1 for count in tpos], low)
    wide = [
        (start, end)
        for start, end in singles
        if end > start > low and end < low + len(tpos) - 1
        and tpos[start - low - 1] >= 2 and tpos[end - low + 1] >= 2
    ]  # fmt: skip
    return tuple(wide)
