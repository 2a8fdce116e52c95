"""Profiles of several sessions: the ladders of their sessions added up, or with longer brackets.

Adding up ladders gives the same as folding all trades of the sessions into one ladder, whose brackets follow each
other. A bracket counts once at every row it traded, so the TPO counts of the sessions add up (rules §1).
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise

from outcry.market.ladder import MAX_ROWS, Bracket, Ladder, RangeTooWide, Source, bracket_windows, runs
from outcry.market.windows import Segment

#: Value areas of two sessions are one balance if they overlap by this share of the narrower one.
BALANCE_PERCENT = 50


@dataclass(frozen=True, slots=True)
class Counted:
    """A ladder, and the half-open windows (ns UTC) of all brackets that its sessions could have.

    A bracket's index is its place in `windows`.
    """

    ladder: Ladder
    windows: tuple[Segment, ...]


def merged(parts: Sequence[Counted]) -> Counted:
    """Return the sum of the ladders of sessions, which are in order of time. There must be at least one.

    Raises `RangeTooWide` if their prices are too far apart for one profile.
    """
    if len(parts) == 1:
        return parts[0]
    low = min(part.ladder.low_ticks for part in parts)
    high = max(part.ladder.high_ticks for part in parts)
    if high - low >= MAX_ROWS:
        raise RangeTooWide(low, high)
    brackets: list[Bracket] = []
    windows: list[Segment] = []
    volume = [0] * (high - low + 1)
    touched = [0] * (high - low + 1)
    for part in parts:
        brackets += (replace(bracket, index=bracket.index + len(windows)) for bracket in part.ladder.brackets)
        windows += part.windows
        for row, lots in enumerate(part.ladder.volume, part.ladder.low_ticks - low):
            volume[row] += lots
        for first, last in part.ladder.touched:
            touched[first - low : last - low + 1] = [1] * (last - first + 1)
    source: Source = "bars" if any(part.ladder.source == "bars" for part in parts) else "trades"
    return Counted(Ladder(tuple(brackets), low, tuple(volume), runs(touched, low), source), tuple(windows))


def with_brackets(ladder: Ladder, segments: Sequence[Segment], minutes: int, longer: int) -> Counted:
    """Return a ladder of brackets of `minutes` with brackets of `longer` minutes, a multiple of `minutes`.

    segments: the windows of the ladder's session. Every segment begins with a new bracket, so that brackets of either
    length begin together.
    """
    short, windows = bracket_windows(segments, minutes), bracket_windows(segments, longer)
    if longer == minutes:
        return Counted(ladder, windows)
    if longer % minutes:
        raise ValueError(f"brackets of {longer} minutes do not consist of brackets of {minutes} minutes")
    starts = [start for start, _ in windows]
    joined: dict[int, Bracket] = {}
    for bracket in ladder.brackets:
        index = bisect_right(starts, short[bracket.index][0]) - 1
        before = joined.get(index)
        joined[index] = replace(bracket, index=index) if before is None else Bracket(
            index, before.open_ticks, max(before.high_ticks, bracket.high_ticks),
            min(before.low_ticks, bracket.low_ticks), bracket.close_ticks, before.first_ns, bracket.last_ns,
        )  # fmt: skip
    return Counted(replace(ladder, brackets=tuple(joined[index] for index in sorted(joined))), windows)


def balances(areas: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the runs of two or more consecutive sessions that can be merged, as first and last index, both included.

    areas: lowest and highest tick of the value area of each session, in order of time. A session joins the run before
    it if its value area and that of the session before it overlap by at least half of the rows of the narrower one
    (`BALANCE_PERCENT`).
    """
    found: list[tuple[int, int]] = []
    first, before = 0, None
    for index, area in enumerate([*areas, None]):
        if before is not None and (area is None or not _overlap(before, area)):
            if index - first > 1:
                found.append((first, index - 1))
            first = index
        before = area
    return found


def dated_balances(
    areas: Sequence[tuple[date, tuple[int, int]]], left_out: Collection[date]
) -> list[tuple[date, date, int]]:
    """Return the sessions that can be merged as `balances` does: first and last date, and their number.

    areas: trade dates, ascending, with value areas. left_out: dates of sessions that are not among them. Sessions
    before and after such a date are not consecutive.
    """
    found: list[tuple[date, date, int]] = []
    breaks = [
        at
        for at, ((before, _), (after, _)) in enumerate(pairwise(areas), 1)
        if any(before < day < after for day in left_out)
    ]
    for start, end in pairwise([0, *breaks, len(areas)]):
        run = areas[start:end]
        for first, last in balances(area for _, area in run):
            found.append((run[first][0], run[last][0], last - first + 1))
    return found


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    shared = min(one[1], other[1]) - max(one[0], other[0]) + 1
    narrower = min(one[1] - one[0], other[1] - other[0]) + 1
    return shared * 100 >= narrower * BALANCE_PERCENT
