"""The levels of a setting, computed slowly from single trades: no arrays, no counts shared between settings."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from outcry.market.ladder import bracket_windows
from outcry.market.matching.setting import EXACT, RowLabel, Setting
from outcry.market.methods import Method
from outcry.market.profile import levels_of

#: Time (ns UTC), price (ticks), size (lots).
Trade = tuple[int, int, int]
Segments = Sequence[tuple[int, int]]


def bars(trades: Iterable[Trade], segments: Segments, minutes: int) -> list[tuple[int, int, int, int]]:
    """Return low, high, close and volume of each bar that traded."""
    of_bar: dict[int, list[Trade]] = defaultdict(list)
    for trade in trades:
        for index, (start, end) in enumerate(bracket_windows(segments, minutes)):
            if start <= trade[0] < end:
                of_bar[index].append(trade)
    return [
        (
            min(p for _, p, _ in rows),
            max(p for _, p, _ in rows),
            rows[-1][1],
            sum(size for _, _, size in rows),
        )
        for _, rows in sorted(of_bar.items())
    ]


def counted(
    trades: Sequence[Trade], segments: Segments, setting: Setting
) -> tuple[Counter[int], Counter[int]]:
    """Return the counts of each row, and the volume that the volume POC comes from."""
    sampling, height = setting.sampling, setting.row_ticks
    inside = [trade for trade in trades if any(start <= trade[0] < end for start, end in segments)]
    if sampling.placement == "close_up":
        tpos, volume = Counter[int](), Counter[int]()
        for _, _, close, size in bars(inside, segments, sampling.bar_minutes):
            tpos[-(-close // height)] += 1
            volume[-(-close // height)] += size
        return (tpos if sampling.basis == "tpo" else volume), volume
    if sampling.basis == "tpo":
        rows = Counter[int]()
        for low, high, _, _ in bars(inside, segments, sampling.bar_minutes):
            rows.update(range(low // height, high // height + 1))
        return rows, volume_of(inside, segments, EXACT, height)
    found = volume_of(inside, segments, sampling.bar_minutes, height)
    return found, found


def volume_of(inside: Sequence[Trade], segments: Segments, minutes: int, height: int) -> Counter[int]:
    """Return the volume at each row: exact, or of bars spread evenly with the remainder at the close."""
    volume = Counter[int]()
    if minutes == EXACT:
        for _, price, size in inside:
            volume[price // height] += size
        return volume
    for low, high, close, size in bars(inside, segments, minutes):
        share, rest = divmod(size, high - low + 1)
        for price in range(low, high + 1):
            volume[price // height] += share
        volume[close // height] += rest
    return volume


def levels(
    trades: Sequence[Trade], segments: Segments, setting: Setting
) -> tuple[float, float, float, float]:
    """Return POC, VAL, VAH and volume POC in ticks; halves occur for rows of an even height."""
    if setting.row_count or setting.shift_ticks:
        inside = [price for at, price, _ in trades if any(start <= at < end for start, end in segments)]
        low = min(inside) if setting.row_count else 0  # rows begin at the low of the profile
        moved = [(at, price - low, size) for at, price, size in trades]
        found = levels(moved, segments, replace(setting, row_count=0, shift_ticks=0))
        poc, val, vah, vpoc = (level + low + setting.shift_ticks for level in found)
        return poc, val, vah, vpoc
    rows, volume = counted(trades, segments, setting)
    poc, val, vah = row_levels(rows, setting.method)
    vpoc, _, _ = row_levels(volume, setting.method)
    label: RowLabel | None = None if setting.sampling.placement == "close_up" else setting.label
    height = setting.row_ticks
    low, middle, high = poc_val_vah_offsets(label, height)
    return poc * height + middle, val * height + low, vah * height + high, vpoc * height + middle


def poc_val_vah_offsets(label: RowLabel | None, height: int) -> tuple[float, float, float]:
    """Return what VAL, POC and VAH lie above the lowest tick of their row, in ticks."""
    match label:
        case None | "bottom":
            return 0, 0, 0
        case "ticks":
            return 0, (height - 1) // 2, height - 1
        case "middle":
            return (height - 1) / 2, (height - 1) / 2, (height - 1) / 2
        case "edges":
            return 0, height / 2, height


def row_levels(rows: Counter[int], method: Method) -> tuple[int, int, int]:
    """Return POC, VAL and VAH as rows counted from price 0."""
    first = min(rows)
    poc, val, vah, _ = levels_of([rows[row] for row in range(first, max(rows) + 1)], method)
    return first + poc, first + val, first + vah
