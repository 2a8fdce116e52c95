"""Checks of bars: consistent prices, unique timestamps, a supported length, and volume per bar.

A file that fails a check is refused, with the place of the bar in the error; nothing is corrected.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND
from outcry.recordings.file_model import FileRefused
from outcry.trades.records import Quality

#: Number of bars whose volume never falls, and the growth factor, from which the volume counts as a running total.
RISING_BARS = 50
RISING_FACTOR = 3


class BarChecks:
    """The checks of the bars of one table, batch by batch."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: dict[Contract, int] = {}

    def check(
        self, contract: Contract, bars: NDArray[Any], quality: Quality | None, place: Callable[[int], str]
    ) -> Quality:
        """Refuse bars that are inconsistent or repeated, or whose volume is a running total.

        Return the `quality` (length) of the bars; if it is None, detect it. place: returns the place of a row for the
        error.
        """
        stamps = bars["ts_event"]
        refuse_broken_bars(bars, self._path, place)
        _refuse_running_totals(bars["volume"], self._path, place)
        refuse_repeats(stamps, self._last.get(contract), self._path, place)
        self._last[contract] = int(stamps[-1])
        if quality is not None:
            return quality
        name = self._path.name.lower()
        hint = Quality.BARS_1M if "1min" in name or "_1m" in name or "minute" in name else None
        return bar_length(stamps, self._path, "", hint=hint)


def refuse_broken_bars(bars: NDArray[Any], path: Path, place: Callable[[int], str]) -> None:
    """Refuse bars whose open or close lies outside their high-low range."""
    top = np.maximum(bars["open"], bars["close"])
    bottom = np.minimum(bars["open"], bars["close"])
    broken = np.flatnonzero((bars["high"] < top) | (bars["low"] > bottom) | (bars["high"] < bars["low"]))
    if len(broken):
        raise FileRefused(path, place(int(broken[0])), "a bar's open or close lies outside its high-low range",
                          "check the order of the columns; the file may be damaged")  # fmt: skip


def _refuse_running_totals(volumes: NDArray[Any], path: Path, place: Callable[[int], str]) -> None:
    """Refuse a volume column that is a running total.

    Such a column does not fall for at least 50 bars, and rises to at least three times its first value.
    """
    if len(volumes) < RISING_BARS:
        return
    falls = np.flatnonzero(np.diff(volumes.astype(np.int64)) < 0) + 1
    edges = np.concatenate(([0], falls, [len(volumes)]))
    for start, end in pairwise(edges):
        if end - start < RISING_BARS:
            continue
        first, last = max(1, int(volumes[start])), int(volumes[end - 1])
        if last >= RISING_FACTOR * first and len(np.unique(volumes[start:end])) > RISING_BARS * 4 // 5:
            raise FileRefused(path, place(int(start)),
                              f"the volume rises for {end - start} bars in a row, like a running total of the day",
                              "export the volume of each bar")  # fmt: skip


def bar_length(stamps: NDArray[np.int64], path: Path, place: str, *, hint: Quality | None = None) -> Quality:
    """Detect one-second or one-minute bars, by the greatest common divisor of the time between bars.

    `hint`: the length that the file's name states, for a file with too few bars to tell. Bars of any other length are
    refused.
    """
    steps = np.unique(np.abs(np.diff(stamps)))
    steps = steps[steps > 0]
    common = int(np.gcd.reduce(steps)) if len(steps) else 0
    whole_minutes = not (stamps % NANOS_PER_MINUTE).any()
    if hint is Quality.BARS_1M and whole_minutes:
        return Quality.BARS_1M
    if not common:
        raise FileRefused(path, place, "cannot tell the length of a single bar",
                          "put `1min` in the file name, or add more bars")  # fmt: skip
    if common % NANOS_PER_SECOND:
        raise FileRefused(
            path, place, "the timestamps of the bars are not whole seconds", "check whether these are trades"
        )
    if common % NANOS_PER_MINUTE == 0:
        if common > NANOS_PER_MINUTE:
            minutes = common // NANOS_PER_MINUTE
            raise FileRefused(path, place, f"bars of {minutes} minutes are too coarse for 30-minute brackets",
                              "export 1-minute bars")  # fmt: skip
        if not whole_minutes:
            raise FileRefused(path, place, "the timestamps of the minute bars are not whole minutes",
                              "export bars with timestamps on the minute")  # fmt: skip
        return Quality.BARS_1M
    if common != NANOS_PER_SECOND and len(steps) > 1:
        raise FileRefused(path, place, f"bars of {common // NANOS_PER_SECOND} seconds are not supported",
                          "export 1-second or 1-minute bars")  # fmt: skip
    return Quality.BARS_1S


def refuse_repeats(
    stamps: NDArray[np.int64], before: int | None, path: Path, place: Callable[[int], str]
) -> None:
    """Refuse consecutive bars with the same timestamp, whose volume would count twice."""
    previous = np.concatenate(([-1 if before is None else before], stamps[:-1]))
    repeats = np.flatnonzero(previous == stamps)
    if len(repeats):
        raise FileRefused(path, place(int(repeats[0])), "the bar has the same timestamp as the bar before it",
                          "export the file again without duplicates")  # fmt: skip
