"""Parse timestamps of files to ns UTC.

The time zone of a timestamp without one comes from the file or the user, and is never assumed. When clocks are set
back, an hour occurs twice; the order of the rows then decides which one a timestamp means. A time that does not exist
in the zone is refused.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcry.market.units import NANOS_PER_DAY, NANOS_PER_HOUR, NANOS_PER_MS
from outcry.recordings.formats.arrow import Array, ArrowInvalid, pa, pc
from outcry.recordings.formats.cell_parsing import InvalidCell, convert, refuse_nulls, whole
from outcry.recordings.formats.time_format import EARLIEST_NS, LATEST_NS, TimeFormat, epoch_unit

#: A step back by more than this, in an hour that occurs twice, starts the second passage.
_SECOND_PASSAGE = NANOS_PER_HOUR // 2


class ZonedTimes:
    """Converts a file's timestamps without a zone to UTC, in file order."""

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self._last = np.iinfo(np.int64).min
        self._second = False

    def state(self) -> tuple[int, bool]:
        """Return what the rows so far decide about an hour that occurs twice."""
        return self._last, self._second

    def restore(self, state: tuple[int, bool]) -> None:
        """Go back to a state, to read the same rows again."""
        self._last, self._second = state

    def utc(self, naive: Array) -> NDArray[np.int64]:
        """Return timestamps without a zone in ns UTC. Raises `InvalidCell` for times skipped by a clock change."""
        if self.zone == "UTC":
            return _numbers(naive)
        first = self._assume(naive, "earliest")
        second = _numbers(pc.assume_timezone(naive, self.zone, ambiguous="latest", nonexistent="earliest"))
        ambiguous = first != second
        twice = np.flatnonzero(ambiguous)
        local = _numbers(naive)
        for row in twice:
            if row and not ambiguous[row - 1]:
                self._last, self._second = local[row - 1], False
            if local[row] < self._last - _SECOND_PASSAGE:
                self._second = True
            self._last = local[row]
            if self._second:
                first[row] = second[row]
        if not len(twice) or twice[-1] != len(local) - 1:
            self._last, self._second = local[-1], False
        return first

    def _assume(self, naive: Array, fold: str) -> NDArray[np.int64]:
        try:
            return _numbers(pc.assume_timezone(naive, self.zone, ambiguous=fold, nonexistent="raise"))
        except ArrowInvalid as fault:
            before = _numbers(pc.assume_timezone(naive, self.zone, ambiguous=fold, nonexistent="earliest"))
            after = _numbers(pc.assume_timezone(naive, self.zone, ambiguous=fold, nonexistent="latest"))
            row = int(np.flatnonzero(before != after)[0])
            raise InvalidCell(row, f"{naive[row].as_py()} does not exist in {self.zone}: the clocks went forward",
                          "correct --tz") from fault  # fmt: skip


def _numbers(stamps: Array) -> NDArray[np.int64]:
    return stamps.cast(pa.int64()).to_numpy().copy()


def parse_timestamps(
    columns: list[Array], stamps: TimeFormat, local: ZonedTimes, day_ns: int = 0
) -> NDArray[np.int64]:
    """Return the times of a block of rows in ns UTC.

    columns: one column of timestamps, or one of dates and one of times of day.
    """
    first = columns[0]
    refuse_nulls(first, "time")
    if stamps is TimeFormat.EPOCH:
        at = _epoch(first)
    elif stamps is TimeFormat.TIMESTAMP_ABSOLUTE:
        at = _numbers(_nanoseconds(first, "UTC"))
    elif stamps is TimeFormat.TIMESTAMP:
        at = local.utc(_nanoseconds(first, None))
    elif stamps is TimeFormat.MS_OF_DAY:
        ms = whole(first, "time of day")
        _inside(ms, 0, NANOS_PER_DAY // NANOS_PER_MS, "time of day in ms")
        at = day_ns + ms * NANOS_PER_MS
    elif stamps is TimeFormat.ISO_ABSOLUTE:
        at = _numbers(convert(first, lambda a: pc.cast(a, pa.timestamp("ns", "UTC")), "time with an offset"))
    else:
        if stamps is TimeFormat.IB and len(columns) == 1:  # all rows must have the zone of the first
            columns = [pc.replace_substring(first, f" {local.zone}", "")]
        at = local.utc(convert(_iso(columns, stamps), _naive, "time"))
    _inside(at, EARLIEST_NS, LATEST_NS, "time")
    return at


def _nanoseconds(stamps: Array, zone: str | None) -> Array:
    """Convert a column of Arrow timestamps to ns UTC.

    Raises `InvalidCell` for a time that does not fit in 64 bits of ns.
    """
    try:
        return stamps.cast(pa.timestamp("ns", zone))
    except ArrowInvalid as fault:
        seconds = stamps.cast(pa.timestamp("s", zone), safe=False).cast(pa.int64()).to_numpy()
        row = int(np.flatnonzero(np.abs(seconds) > LATEST_NS // 10**9)[0])
        raise InvalidCell(row, f"{seconds[row]} s after 1970 is out of range for a timestamp") from fault


def _naive(cells: Array) -> Array:
    return pc.cast(cells, pa.timestamp("ns"))


def _inside(numbers: NDArray[np.int64], low: int, high: int, what: str) -> None:
    outside = np.flatnonzero((numbers < low) | (numbers >= high))
    if len(outside):
        raise InvalidCell(int(outside[0]), f"{numbers[outside[0]]} is out of range for a {what}")


def _epoch(cells: Array) -> NDArray[np.int64]:
    """Convert numbers of seconds, ms, µs or ns since 1970. Their size determines the unit, which all must share."""
    numbers = whole(cells, "time")
    unit = epoch_unit(int(numbers[0]))
    _inside(numbers, EARLIEST_NS // unit, LATEST_NS // unit, "time in the unit of the first row")
    return numbers * unit


def _iso(columns: list[Array], stamps: TimeFormat) -> Array:
    """Rewrite timestamps given as digits in the form `YYYY-MM-DD hh:mm:ss`, which Arrow parses and validates."""
    cut: Any = pc.utf8_slice_codeunits
    if stamps is TimeFormat.ISO:
        return columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, " ")
    if stamps in (TimeFormat.US, TimeFormat.DAY_FIRST):
        text, first, second = columns[0], (0, 2), (3, 5)
        month, day = (first, second) if stamps is TimeFormat.US else (second, first)
        date = pc.binary_join_element_wise(cut(text, 6, 10), cut(text, *month), cut(text, *day), "-")
        rest = columns[1] if len(columns) == 2 else cut(text, 11)
        return pc.binary_join_element_wise(date, rest, " ")
    text = columns[0]
    date = pc.binary_join_element_wise(cut(text, 0, 4), cut(text, 4, 6), cut(text, 6, 8), "-")
    if stamps is TimeFormat.IB and len(columns) == 2:
        return pc.binary_join_element_wise(date, pc.utf8_trim_whitespace(columns[1]), " ")
    if stamps is TimeFormat.IB:
        return pc.binary_join_element_wise(date, pc.utf8_ltrim_whitespace(cut(text, 8)), " ")
    time = pc.binary_join_element_wise(cut(text, 9, 11), cut(text, 11, 13), cut(text, 13, 15), ":")
    whole_seconds = pc.binary_join_element_wise(date, time, " ")
    fraction = pc.utf8_trim_whitespace(cut(text, 16))
    return pc.if_else(
        pc.equal(fraction, ""), whole_seconds, pc.binary_join_element_wise(whole_seconds, fraction, ".")
    )
