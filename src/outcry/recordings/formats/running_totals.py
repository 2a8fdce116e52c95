"""Turn running totals of volume into the volume of each row.

Some vendors state with each trade or bar how much traded since the start of the day. The total starts again with each
trade date of the product, and wherever it falls after an hour without rows, such as between a night and a day session.
"""

from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from outcry.base.timestamps import iso_timestamp
from outcry.market.calendar import Calendar
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_HOUR
from outcry.market.windows import EPOCH
from outcry.recordings.file_model import FileRefused
from outcry.recordings.formats import bad_rows
from outcry.recordings.formats.archive import CountedFile
from outcry.recordings.formats.bad_rows import BadRows
from outcry.recordings.formats.file_reading import ReadProgress, Rows
from outcry.trades import records
from outcry.trades.records import Batch, Quality

NO_NEW_VOLUME = "rows without new volume"
#: A total that falls after this long without rows starts again.
_BREAK_NS = NANOS_PER_HOUR
_NEAR_DAYS = 12  # longer than any closure

Times = NDArray[np.int64]


def volumes_of_totals(rows: Rows, calendar: Calendar, path: Path, *, skip: bool) -> Rows:
    """Return a function that yields the batches of `rows` with the volume of each row, in place of its running total.

    Rows are sorted by time within a trade date, and rows without new volume are left out and counted. The first row of
    a trade date has all volume before it. skip: leave out rows whose total is lower than that of an earlier row of the
    trade date; otherwise they refuse the file. Memory is limited to a trade date of each contract.
    """

    def batches(file: CountedFile, progress: ReadProgress) -> Generator[Batch]:
        totals = _RunningTotals(calendar, path, progress, BadRows(path, progress.counts) if skip else None)
        for batch in rows(file, progress):
            yield from totals.add(batch)
        yield from totals.finish()

    return batches


class _RunningTotals:
    """The rows of the trade dates that may still grow, by contract and quality."""

    def __init__(self, calendar: Calendar, path: Path, progress: ReadProgress, bad: BadRows | None) -> None:
        self._calendar, self._path, self._progress, self._bad = calendar, path, progress, bad
        self._waiting: dict[tuple[Contract, Quality], dict[int, list[Batch]]] = {}
        self._done: dict[tuple[Contract, Quality], set[int]] = {}

    def add(self, batch: Batch) -> Iterator[Batch]:
        """Store rows, and yield the volumes of trade dates that are complete."""
        key = batch.contract, batch.quality
        if not batch.contract.root:
            raise FileRefused(
                self._path, "", "running totals need the trade dates of a product", "name the symbol"
            )
        waiting, done = self._waiting.setdefault(key, {}), self._done.setdefault(key, set())
        days = _days(self._calendar, batch.contract.root, batch.rows["ts_event"])
        for day in dict.fromkeys(days.tolist()):
            if day in done:
                at_ns = int(batch.rows["ts_event"][days == day][0])
                raise FileRefused(self._path, batch.place, f"the row of {iso_timestamp(at_ns)} comes after rows of "
                                  "other days", "sort the file by time")  # fmt: skip
            part = Batch(batch.contract, batch.quality, batch.rows[days == day], batch.place)
            waiting.setdefault(day, []).append(part)
        newest = int(days[-1])
        for day in [day for day in waiting if day != newest]:
            done.add(day)
            yield from self._volumes(waiting.pop(day))

    def finish(self) -> Iterator[Batch]:
        """Yield the volumes of all trade dates that are left."""
        for waiting in self._waiting.values():
            for day in list(waiting):
                yield from self._volumes(waiting.pop(day))

    def _volumes(self, parts: list[Batch]) -> Iterator[Batch]:
        contract, quality, place = parts[0].contract, parts[0].quality, parts[0].place
        rows, field = np.concatenate([part.rows for part in parts]), _field(quality)
        rows = rows[np.lexsort((rows[field], rows["ts_event"]))]
        if quality is not Quality.TICKS:  # of two bars of one minute, the later one has the higher total
            rows = rows[np.append(rows["ts_event"][1:] != rows["ts_event"][:-1], [True])]
        for part in self._split(rows, field, contract, place):
            volumes = np.diff(part[field].astype(np.int64), prepend=0)
            self._progress.counts.skip(NO_NEW_VOLUME, int(np.count_nonzero(volumes == 0)))
            part[field] = volumes
            if volumes.any():
                yield Batch(contract, quality, part[volumes != 0], place)

    def _split(
        self, rows: records.Rows, field: str, contract: Contract, place: str
    ) -> Iterator[records.Rows]:
        """Yield the rows between two restarts of the total. Leave out rows whose total falls, or refuse the file."""
        totals, times = rows[field].tolist(), rows["ts_event"].tolist()
        keep, start, highest, latest = np.ones(len(rows), bool), 0, 0, times[0]
        for index, (total, at_ns) in enumerate(zip(totals, times, strict=True)):
            if total < highest and at_ns - latest >= _BREAK_NS:
                yield rows[start:index][keep[start:index]]
                start, highest = index, 0
            if total < highest:
                problem = (
                    f"the running total of {contract.key} falls from {highest:,} to {total:,} at "
                    f"{iso_timestamp(at_ns)}, within a trade date"
                )
                if self._bad is None:
                    raise FileRefused(
                        self._path, place, problem,
                        "omit --volume total if this is the volume of each row, or add --bad-rows skip to leave out "
                        "such rows",
                    )  # fmt: skip
                keep[index] = False
                self._bad.leave_out(lambda: place, problem)
                if self._bad.count > bad_rows.MOST_IN_BLOCK:
                    raise self._bad.too_many(f"{self._bad.count:,} rows are invalid")
            highest, latest = max(highest, total), at_ns
        yield rows[start:][keep[start:]]


def _field(quality: Quality) -> str:
    return "size" if quality is Quality.TICKS else "volume"


def _days(calendar: Calendar, root: str, at_ns: Times) -> Times:
    """Return numbers that are equal for times of one trade date. Times outside trading hours have the nearest date."""
    first, last = ((EPOCH.date().toordinal() + int(at) // NANOS_PER_DAY) for at in (at_ns.min(), at_ns.max()))
    to_date = EPOCH.date().fromordinal
    days = calendar.trading_days(root, to_date(first - _NEAR_DAYS), to_date(last + _NEAR_DAYS))
    if not days:
        return at_ns // NANOS_PER_DAY
    closes = np.array([day.segments[-1][1] for day in days[:-1]], np.int64)
    opens = np.array([day.segments[0][0] for day in days[1:]], np.int64)
    numbers = np.array([day.trade_date.toordinal() for day in days], np.int64)
    return numbers[np.searchsorted(closes + (opens - closes) // 2, at_ns, side="right")]
