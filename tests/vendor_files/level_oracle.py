"""Compute levels, profiles and carried-forward lists a second time, from the documented rules and with plain lists.

It imports nothing of Outcry. Prices are whole ticks and times are aware datetimes; windows are half-open. The rules are
those of `docs/explanation/levels.md` and `docs/reference/profiles.md`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from math import isqrt

BRACKET = timedelta(minutes=30)
HOUR = timedelta(hours=1)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True)
class Trade:
    """A trade: time, price in ticks, size, and the aggressor's side (`B`, `A` or `N`)."""

    at: datetime
    price: int
    size: int
    side: str = "N"


@dataclass(frozen=True)
class Bar:
    """A minute: its START, prices in ticks, volume."""

    at: datetime
    open: int
    high: int
    low: int
    close: int
    volume: int


@dataclass
class Profile:
    """Letters (numbers of brackets) and volume of each tick, and the facts that need the order of trades."""

    letters: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    volume: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    delta: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    unknown: int = 0
    opened: int = 0
    closed: int = 0
    hour: tuple[int, int] | None = None
    last_bracket: int = -1

    @property
    def low(self) -> int:
        return min(self.letters)

    @property
    def high(self) -> int:
        return max(self.letters)

    @property
    def tpos(self) -> dict[int, int]:
        return {tick: len(self.letters.get(tick, ())) for tick in range(self.low, self.high + 1)}

    @property
    def volumes(self) -> dict[int, int]:
        return {tick: self.volume.get(tick, 0) for tick in range(self.low, self.high + 1)}


def profile_of(rows: Iterable[Trade | Bar], start: datetime, end: datetime) -> Profile:
    """Return the profile of the rows in `[start, end)`, which may come in any order."""
    inside = sorted((row for row in rows if start <= row.at < end), key=lambda row: row.at)
    assert inside, "the session has no rows"
    found, ranges = Profile(), dict[int, tuple[int, int]]()
    for row in inside:
        low, high = (row.price, row.price) if isinstance(row, Trade) else (row.low, row.high)
        bracket = (row.at - start) // BRACKET
        old = ranges.get(bracket, (low, high))
        ranges[bracket] = min(old[0], low), max(old[1], high)
        if row.at < start + HOUR:
            hour = found.hour or (low, high)
            found.hour = min(hour[0], low), max(hour[1], high)
        _add_volume(found, row)
    for bracket, (low, high) in ranges.items():
        for tick in range(low, high + 1):
            found.letters[tick].add(bracket)
    first, last = inside[0], inside[-1]
    found.opened = first.price if isinstance(first, Trade) else first.open
    found.closed = last.price if isinstance(last, Trade) else last.close
    found.last_bracket = max(ranges)
    return found


def _add_volume(found: Profile, row: Trade | Bar) -> None:
    if isinstance(row, Trade):
        found.volume[row.price] += row.size
        found.delta[row.price] += {"B": row.size, "A": -row.size, "N": 0}[row.side]
        found.unknown += row.size if row.side == "N" else 0
        return
    ticks = range(row.low, row.high + 1)
    for tick in ticks:
        found.volume[tick] += row.volume // len(ticks)
    found.volume[row.close] += row.volume % len(ticks)


def merged(profiles: Sequence[Profile]) -> Profile:
    """Return one profile of several days: each bracket of each day counts for itself."""
    found = Profile()
    for number, each in enumerate(profiles):
        for tick, brackets in each.letters.items():
            found.letters[tick] |= {1000 * number + bracket for bracket in brackets}
        for tick, volume in each.volume.items():
            found.volume[tick] += volume
            found.delta[tick] += each.delta.get(tick, 0)
        found.unknown += each.unknown
    found.opened, found.closed = profiles[0].opened, profiles[-1].closed
    found.last_bracket = 1000 * (len(profiles) - 1) + profiles[-1].last_bracket
    return found


def in_rows(counts: Mapping[int, int], ticks: int) -> dict[int, int]:
    """Add up volumes of rows of several ticks, numbered from price 0."""
    rows = dict.fromkeys(range(min(counts) // ticks, max(counts) // ticks + 1), 0)
    for tick, count in counts.items():
        rows[tick // ticks] += count
    return rows


def tpos_in_rows(letters: Mapping[int, set[int]], ticks: int) -> dict[int, int]:
    """Count the brackets in rows of several ticks: a bracket counts once in a row."""
    rows: dict[int, set[int]] = {
        row: set() for row in range(min(letters) // ticks, max(letters) // ticks + 1)
    }
    for tick, brackets in letters.items():
        rows[tick // ticks] |= brackets
    return {row: len(brackets) for row, brackets in rows.items()}


def candidates(counts: Mapping[int, int]) -> list[int]:
    return sorted(row for row in counts if counts[row] == max(counts.values()))


def poc(counts: Mapping[int, int]) -> int:
    """Most; of several the nearest to the middle, then the side with more, then the lower."""
    middle = Fraction(min(counts) + max(counts), 2)
    tied = candidates(counts)
    nearest = [row for row in tied if abs(row - middle) == min(abs(one - middle) for one in tied)]
    above = sum(count for row, count in counts.items() if row > middle)
    below = sum(count for row, count in counts.items() if row < middle)
    return max(nearest) if above > below else min(nearest)


def value_area(counts: Mapping[int, int]) -> tuple[int, int]:
    """Grow from the POC two rows at a time until it has 70 %: return its lowest and highest row."""
    bottom, top, total = min(counts), max(counts), sum(counts.values())
    low = high = poc(counts)
    while 100 * sum(counts[row] for row in range(low, high + 1)) < 70 * total:
        above = [counts[row] for row in (high + 1, high + 2) if row <= top]
        below = [counts[row] for row in (low - 1, low - 2) if row >= bottom]
        if above and (not below or sum(above) >= sum(below)):
            high += len(above)
        else:
            low -= len(below)
    start = poc(counts)
    while low < start and not counts[low]:
        low += 1
    while high > start and not counts[high]:
        high -= 1
    return low, high


def tails(found: Profile) -> tuple[int, int]:
    """Return the lengths of the upper and the lower tail in ticks."""
    tpos = found.tpos
    upper = lower = 0
    while found.high - upper >= found.low and tpos[found.high - upper] == 1:
        upper += 1
    while found.low + lower <= found.high and tpos[found.low + lower] == 1:
        lower += 1
    return upper, lower


def single_prints(found: Profile) -> list[tuple[int, int]]:
    """Return zones of at least two single TPOs between rows of two or more, lowest first."""
    tpos, zones, start = found.tpos, list[tuple[int, int]](), None
    upper, lower = tails(found)
    for tick in range(found.low + lower, found.high - upper + 2):
        if tick <= found.high - upper and tpos[tick] == 1:
            start = tick if start is None else start
        elif start is not None:
            zones += [(start, tick - 1)] if tick - start >= 2 else []
            start = None
    return zones


def excess(found: Profile) -> tuple[bool, bool]:
    """Return whether the high and the low have a tail of two rows that the last bracket did not make."""
    upper, lower = tails(found)
    late = {found.last_bracket}
    return (
        upper >= 2 and found.letters[found.high] != late,
        lower >= 2 and found.letters[found.low] != late,
    )


def vwap(volumes: Mapping[int, int]) -> tuple[Fraction, Fraction]:
    """Return the volume-weighted average price in ticks, and the variance."""
    total = sum(volumes.values())
    mean = Fraction(sum(tick * volume for tick, volume in volumes.items()), total)
    return mean, sum((volume * (tick - mean) ** 2 for tick, volume in volumes.items()), Fraction(0)) / total


def root(value: Fraction, unit: int) -> Fraction:
    """Return the square root, rounded down to one in `unit`."""
    return Fraction(isqrt(value.numerator * unit**2 // value.denominator), unit)


def letter_text(brackets: Iterable[int]) -> str:
    """Return the letters of up to 62 brackets."""
    return "".join(LETTERS[bracket] for bracket in sorted(brackets))


def naked(days: Sequence[tuple[str, Profile, Sequence[Trade | Bar]]]) -> list[tuple[int, str]]:
    """Return POCs that no later day traded at, newest first, at most ten. Each day: name, profile, rows of its RTH."""
    found = list[tuple[int, str]]()
    for index, (name, profile, _) in enumerate(days):
        level = poc(profile.tpos)
        if not any(_at(row, level) for _, _, rows in days[index + 1 :] for row in rows):
            found.append((level, name))
    return found[::-1][:10]


def _at(row: Trade | Bar, level: int) -> bool:
    return row.price == level if isinstance(row, Trade) else row.low <= level <= row.high


def poor(days: Sequence[tuple[str, Profile, Sequence[Trade | Bar]]], *, high: bool) -> list[tuple[int, str]]:
    """Return poor highs or lows that no later day traded beyond, newest first, at most ten."""
    found = list[tuple[int, str]]()
    for index, (name, profile, _) in enumerate(days):
        upper, lower = tails(profile)
        level = profile.high if high else profile.low
        later = [each for _, each, _ in days[index + 1 :]]
        beyond = any(each.high > level if high else each.low < level for each in later)
        if (upper if high else lower) < 2 and not beyond:
            found.append((level, name))
    return found[::-1][:10]
