"""Checks of bars: consistent prices, unique timestamps, a supported length, and volume per bar.

A file that fails a check is refused, with the place of the bar in the error; nothing is corrected.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND
from outcry.recordings.file_model import FileRefused
from outcry.recordings.formats.bad_rows import BadRows
from outcry.trades.records import Quality

#: Number of bars whose volume never falls, and the growth factor, from which the volume counts as a running total.
RISING_BARS = 50
RISING_FACTOR = 3
#: Number of rows from which any rise is a running total.
SURELY_RISING = 200
BROKEN = "a bar's open or close lies outside its high-low range"
REPEATED = "the bar has the same timestamp as the bar before it"


class BarChecks:
    """The checks of the bars of one table, batch by batch.

    bad: leaves out invalid bars; without it, such a bar refuses the file.
    """

    def __init__(self, path: Path, bad: BadRows | None = None) -> None:
        self._path, self._bad = path, bad
        self._last: dict[Contract, int] = {}

    def check(
        self, contract: Contract, bars: NDArray[Any], quality: Quality | None, place: Callable[[int], str]
    ) -> tuple[NDArray[np.intp], Quality | None]:
        """Refuse bars that are inconsistent or repeated, or leave them out.

        Return the indices of the other bars, and their `quality` (length); if it is None, detect it. place: returns the
        place of a row for the error.
        """
        kept = np.arange(len(bars))
        if self._bad:
            kept = self._valid(contract, bars, place, self._bad)
        else:
            refuse_broken_bars(bars, self._path, place)
            refuse_repeats(bars["ts_event"], self._last.get(contract), self._path, place)
        stamps = bars["ts_event"][kept]
        if len(stamps):
            self._last[contract] = int(stamps[-1])
        if quality is not None or not len(stamps):
            return kept, quality
        name = self._path.name.lower()
        hint = Quality.BARS_1M if "1min" in name or "_1m" in name or "minute" in name else None
        return kept, bar_length(stamps, self._path, "", hint=hint)

    def _valid(
        self, contract: Contract, bars: NDArray[Any], place: Callable[[int], str], bad: BadRows
    ) -> NDArray[np.intp]:
        """Return the indices of consistent bars; of bars with one timestamp, only the one with most volume."""
        keep = np.ones(len(bars), bool)
        for row in _broken(bars).tolist():
            bad.leave_out(lambda at=row: place(at), BROKEN)
            keep[row] = False
        stamps, volumes = bars["ts_event"].tolist(), bars["volume"].tolist()
        kept, latest = -1, self._last.get(contract)
        for row in np.flatnonzero(keep).tolist():
            repeats = stamps[row] == (stamps[kept] if kept >= 0 else latest)
            worse = row
            if repeats and kept >= 0 and volumes[row] > volumes[kept]:
                worse = kept
            if repeats:
                bad.leave_out(lambda at=worse: place(at), REPEATED)
                keep[worse] = False
            if not repeats or worse != row:
                kept = row
        return np.flatnonzero(keep)


def _broken(bars: NDArray[Any]) -> NDArray[np.intp]:
    """Return the bars whose open or close lies outside their high-low range."""
    top = np.maximum(bars["open"], bars["close"])
    bottom = np.minimum(bars["open"], bars["close"])
    return np.flatnonzero((bars["high"] < top) | (bars["low"] > bottom) | (bars["high"] < bars["low"]))


def refuse_broken_bars(bars: NDArray[Any], path: Path, place: Callable[[int], str]) -> None:
    """Refuse bars whose open or close lies outside their high-low range."""
    broken = _broken(bars)
    if len(broken):
        raise FileRefused(path, place(int(broken[0])), BROKEN,
                          "check the order of the columns; if only some rows are wrong, --bad-rows skip leaves them out"
                          )  # fmt: skip


def refuse_running_totals(volumes: NDArray[Any], path: Path, place: Callable[[int], str]) -> None:
    """Refuse a column of volumes or sizes that is a running total.

    Such a column does not fall for at least 50 rows, and rises to at least three times its first value; or it does not
    fall for 200 rows. place: returns the place of a row.
    """
    if len(volumes) < RISING_BARS:
        return
    falls = np.flatnonzero(np.diff(volumes.astype(np.int64)) < 0) + 1
    edges = np.concatenate(([0], falls, [len(volumes)]))
    lengths = np.diff(edges)
    for start, length in zip(
        edges[:-1][lengths >= RISING_BARS], lengths[lengths >= RISING_BARS], strict=True
    ):
        end = start + length
        first, last = max(1, int(volumes[start])), int(volumes[end - 1])
        grows = last >= RISING_FACTOR * first or end - start >= SURELY_RISING
        if grows and len(np.unique(volumes[start:end])) > RISING_BARS * 4 // 5:
            raise FileRefused(path, place(int(start)),
                              f"the volume rises for {end - start} rows in a row, like a running total of the day",
                              "add --volume total, or export the volume of each row")  # fmt: skip


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
        raise FileRefused(path, place(int(repeats[0])), REPEATED,
                          "export the file again without duplicates, or add --bad-rows skip")  # fmt: skip
