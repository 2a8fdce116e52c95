"""Compute levels of a profile a second time from the rules (rules §1, §2), slowly: with sets and fractions.

It shares no code with `outcry.market` beyond `Method`, which is data. A profile is `letters`, the set of brackets that
printed at each row, and `volume`, the exact volume of each row.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from outcry.market.methods import Method

Count = int | Fraction


@dataclass(frozen=True)
class Counted:
    """Brackets and volume at each row; a row is counted from price 0."""

    letters: Mapping[int, set[int]]
    volume: Mapping[int, Count]


def of_ranges(ranges: Iterable[tuple[int, int, int, Mapping[int, Count]]], row_ticks: int) -> Counted:
    """Count `(bracket, low, high, volume at each tick)`: a bracket prints at every row between its low and high."""
    brackets: dict[int, tuple[int, int]] = {}
    volume: dict[int, Count] = defaultdict(int)
    for bracket, low, high, sizes in ranges:
        old = brackets.get(bracket, (low, high))
        brackets[bracket] = min(low, old[0]), max(high, old[1])
        for tick, size in sizes.items():
            volume[tick // row_ticks] += size
    letters: dict[int, set[int]] = defaultdict(set)
    for bracket, (low, high) in brackets.items():
        for tick in range(low, high + 1):
            letters[tick // row_ticks].add(bracket)
    return Counted(letters, volume)


def spread(low: int, high: int, close: int, volume: int) -> dict[int, Count]:
    """Spread a bar's volume evenly over its ticks; the remainder goes to its close (rules §2)."""
    sizes: dict[int, Count] = dict.fromkeys(range(low, high + 1), volume // (high - low + 1))
    sizes[close] += volume % (high - low + 1)
    return sizes


def point_of_control(counts: Mapping[int, Count], tie: str = "mypivots") -> int:
    """Return the row with the largest count; of several, the one that the tie rule names."""
    most = max(counts.values())
    tied = sorted(row for row, count in counts.items() if count == most)
    centre = Fraction(min(counts) + max(counts), 2)
    if tie == "lowest":
        return tied[0]
    nearest = [row for row in tied if abs(row - centre) == min(abs(other - centre) for other in tied)]
    if tie == "centre_high":
        return nearest[-1]
    above = sum(count for row, count in counts.items() if row > centre)
    below = sum(count for row, count in counts.items() if row < centre)
    return nearest[-1] if tie == "mypivots" and above > below else nearest[0]


def value_area(counts: Mapping[int, Count], poc: int, method: Method) -> tuple[int, int]:
    """Return the lowest and highest row of the value area, grown from the POC `method.step` rows at a time."""
    total = sum(counts.values())
    target = Fraction(total * method.percent, 100)
    if method.stop == "floor":
        target = Fraction(target.numerator // target.denominator)
    inside = {poc}

    def enough() -> bool:
        have = sum(counts.get(row, 0) for row in inside)
        return have > target if method.stop == "gt" else have >= target

    while not enough():
        upper = [row for row in range(max(inside) + 1, max(inside) + 1 + method.step) if row <= max(counts)]
        lower = [
            row for row in range(min(inside) - 1, min(inside) - 1 - method.step, -1) if row >= min(counts)
        ]
        if not upper and not lower:
            break
        up, down = (sum(counts.get(row, 0) for row in side) if side else -1 for side in (upper, lower))
        sides = (
            [upper]
            if up > down
            else [lower]
            if down > up
            else {"up": [upper], "down": [lower]}.get(method.side_tie, [upper, lower])
        )
        for side in sides:
            for row in side:
                if method.pair == "full" or not enough():
                    inside.add(row)
    printed = [row for row in inside if counts.get(row, 0) or row == poc]
    return min(printed), max(printed)


def levels(counted: Counted, method: Method, row_ticks: int) -> dict[str, int]:
    """Return POC, value area and vpoc in ticks: a POC at the middle of its row, an edge at its outer tick."""
    tpos = {row: len(letters) for row, letters in counted.letters.items()}
    volume = dict(counted.volume) if any(counted.volume.values()) else dict(tpos)
    rows = range(min(tpos), max(tpos) + 1)
    tpos, volume = ({row: counts.get(row, 0) for row in rows} for counts in (tpos, volume))
    basis = volume if method.basis == "volume" else tpos
    poc, vpoc = point_of_control(basis, method.poc_tie), point_of_control(volume, method.poc_tie)
    (val, vah), (low, high) = value_area(basis, poc, method), value_area(volume, vpoc, method)
    middle, top = (row_ticks - 1) // 2, row_ticks - 1
    return {
        "poc": poc * row_ticks + middle, "val": val * row_ticks, "vah": vah * row_ticks + top,
        "vpoc": vpoc * row_ticks + middle, "volume_val": low * row_ticks, "volume_vah": high * row_ticks + top,
    }  # fmt: skip
