"""Market data files merged for replay: rows by contract and UTC day, in order.

Files are merged by the same rules as on import: files of one source are merged as multisets, and a contract never mixes
sources. Bars are dropped where trades cover the same time. A file is complete between its first and last row; the time
between two files is a gap (`trades.coverage`). Rows are stored in an unnamed temporary file, so that only one day of
one contract is in memory.
"""

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from outcry.base.portable_files import read_at
from outcry.feeds.live_rows import as_live
from outcry.feeds.replay_pacing import Timeline
from outcry.market.calendar import Calendar
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_SECOND
from outcry.market.windows import EPOCH, LONGEST_CLOSURE_DAYS, Segment, clipped, merged
from outcry.recordings.file_model import Reading
from outcry.trades.coverage import GRACE_NS, Span, joined
from outcry.trades.dedupe import join
from outcry.trades.feed import Bars, Event, FeedLost, FeedRefused, RowFlag, Trades
from outcry.trades.records import Quality, Rows

#: The replay continues this long after a close: five minutes until the session is completed, and the time allowed for
#: late trades.
TAIL_NS = GRACE_NS + 3 * NANOS_PER_SECOND


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """Consecutive recorded rows of one quality (trades, or bars of one length).

    known_ns: the time (ns UTC) at which each row becomes available: that of the trade, or the end of the bar.
    """

    quality: Quality
    rows: Rows
    known_ns: NDArray[np.int64]

    def event(self, first: int, last: int) -> Event:
        """Return rows `first` to before `last` as a feed event, with receive time equal to trade time."""
        rows = self.rows[first:last]
        if self.quality is Quality.TICKS:
            return Trades(as_live(rows, rows["ts_event"], RowFlag(0)))
        return Bars(rows, self.quality)


def record(
    readings: Iterable[Reading], calendar: Calendar, stopping: Callable[[], bool] = lambda: False
) -> "Recording":
    """Read all files once and store their rows in a temporary file for replay.

    Raises `FileRefused`, `FeedRefused`, `OSError`, and `FeedLost` if `stopping()` returns true.
    """
    kept = _Spool()
    try:
        _fill(kept, readings, stopping)
        return Recording(kept, calendar)
    except BaseException:
        kept.close()
        raise


def _fill(kept: "_Spool", readings: Iterable[Reading], stopping: Callable[[], bool]) -> None:
    for number, reading in enumerate(readings):
        for batch in reading.batches():
            kept.add(number, reading.source, batch.contract, batch.quality, batch.rows)
            if stopping():
                raise FeedLost("closed", "the feed was closed while its files were read")
    if not kept.rows:
        raise FeedRefused("nothing_recorded", "the files have no trades and no bars")


class _Spool:
    """Temporary store of rows as read, by contract, quality, UTC day and file. Spans are half-open."""

    def __init__(self) -> None:
        self.rows: dict[Contract, int] = {}
        self.spans: dict[tuple[str, Quality], dict[int, Span]] = {}
        self.chunks: dict[tuple[Contract, int, Quality], dict[int, list[Span]]] = {}
        self._sources: dict[Contract, str] = {}
        self._file = tempfile.TemporaryFile(prefix="outcry-replay-", buffering=0)  # noqa: SIM115 - closed by `close`
        self._size = 0
        self._lock = threading.Lock()

    def add(self, file: int, source: str, contract: Contract, quality: Quality, rows: Rows) -> None:
        other = self._sources.setdefault(contract, source)
        if other != source:
            raise FeedRefused(
                "mixed_sources",
                f"{contract.key} is in files from {other} and from {source}. Replay only one of them",
            )
        self.rows[contract] = self.rows.get(contract, 0) + len(rows)
        times = rows["ts_event"]
        first, end = int(times.min()), int(times.max()) + max(1, quality.length_ns)
        spans = self.spans.setdefault((contract.root, quality), {})
        known = spans.get(file, (first, end))
        spans[file] = (min(known[0], first), max(known[1], end))
        days = times // NANOS_PER_DAY
        for day in np.unique(days).tolist():
            chunk = np.ascontiguousarray(rows[days == day], quality.dtype)
            place = (self._size, len(chunk))
            self._write(memoryview(chunk.tobytes()))
            self.chunks.setdefault((contract, day, quality), {}).setdefault(file, []).append(place)

    def _write(self, left: memoryview) -> None:
        while left:
            written = os.write(self._file.fileno(), left)
            self._size += written
            left = left[written:]

    def read(self, contract: Contract, day: int, quality: Quality) -> Rows:
        """Return a day's rows of all files, merged and in time order; none after `close`."""
        found = np.zeros(0, quality.dtype)
        for chunks in self.chunks.get((contract, day, quality), {}).values():
            parts = [self._chunk(place, rows, quality) for place, rows in chunks]
            found, _ = join(found, np.concatenate(parts), quality)
        return found

    def _chunk(self, place: int, rows: int, quality: Quality) -> Rows:
        with self._lock:
            if self._file.closed:
                return np.zeros(0, quality.dtype)
            raw = read_at(self._file.fileno(), rows * quality.dtype.itemsize, place)
        return np.frombuffer(raw, quality.dtype)

    def close(self) -> None:
        with self._lock:
            self._file.close()


class Recording:
    """The content of all files, ready for replay. Times are ns UTC.

    contracts: in order; rows: number of rows read for each. origin_ns: where replayed time begins. timeline: the
    replayed stretches: recorded trading hours, and `TAIL_NS` after each close.
    """

    def __init__(self, spool: _Spool, calendar: Calendar) -> None:
        self._spool = spool
        self.rows = dict(sorted(spool.rows.items()))
        self.contracts = list(self.rows)
        self._finer = {key: joined(spans.values()) for key, spans in spool.spans.items()}
        roots = sorted({contract.root for contract in self.contracts})
        self._trading = {root: _trading(calendar, root, self._whole(root)) for root in roots}
        self._spans = {root: _to_the_bell(self._whole(root), self._trading[root]) for root in roots}
        self._played = {root: _played(self._spans[root], self._trading[root]) for root in roots}
        self.origin_ns = min(spans[0][0] for spans in self._spans.values())
        self.timeline = Timeline(merged(part for played in self._played.values() for part in played))

    def _whole(self, root: str) -> tuple[Span, ...]:
        """Return the time spans of a product that were recorded, in any quality."""
        return joined(span for (name, _), spans in self._finer.items() if name == root for span in spans)

    def end_ns(self, root: str) -> int:
        """Return where the replay of a product ends (ns UTC)."""
        return self._played[root][-1][1]

    def quality(self, contract: Contract) -> Quality:
        """Return the lowest data quality recorded for a contract: bars below trades."""
        return max(
            (q for one, _, q in self._spool.chunks if one == contract), key=lambda quality: quality.rank
        )

    def holes(self, root: str, since_ns: int) -> list[Segment]:
        """Return the trading hours without recorded data, from `since_ns` to the end of the product's recording."""
        trading, spans = self._trading[root], self._spans[root]
        edges = [(0, min(since_ns, spans[0][0])), *spans]
        between = [(max(before[1], since_ns), after[0]) for before, after in pairwise(edges)]
        return [hole for start, end in between if start < end for hole in clipped(trading, start, end)]

    def days(self, contract: Contract, since_ns: int) -> list[int]:
        """Return the UTC days, numbered from 1970-01-01, that have rows of a contract at or after `since_ns`."""
        days = {day for one, day, _ in self._spool.chunks if one == contract}
        return sorted(day for day in days if day >= since_ns // NANOS_PER_DAY)

    def load(self, contract: Contract, day: int, since_ns: int) -> list[RecordedRun]:
        """Return rows of a contract and UTC day at or after `since_ns`, in the order in which they become available."""
        found: list[RecordedRun] = []
        better: list[Span] = []
        for quality in Quality:
            rows = self._spool.read(contract, day, quality)
            times = rows["ts_event"]
            known = times + quality.length_ns
            wanted = times >= since_ns
            for start, end in better:
                wanted &= (known <= start) | (times >= end)
            if wanted.any():
                found.append(RecordedRun(quality, rows[wanted], known[wanted]))
            better += self._finer.get((contract.root, quality), ())
        return list(_in_turn(found))

    def close(self) -> None:
        """Delete the temporary file; later loads return nothing."""
        self._spool.close()


def _in_turn(runs: list[RecordedRun]) -> Iterator[RecordedRun]:
    """Merge the rows of several qualities by time: cut them into pieces of one quality that do not overlap."""
    if len(runs) < 2:
        yield from runs
        return
    order = np.argsort(np.concatenate([run.known_ns for run in runs]), kind="stable")
    turns = np.repeat(np.arange(len(runs)), [len(run.rows) for run in runs])[order]
    edges = [0, *(np.flatnonzero(np.diff(turns)) + 1).tolist(), len(turns)]
    taken = [0] * len(runs)
    for first, last in pairwise(edges):
        which = int(turns[first])
        start, run = taken[which], runs[which]
        taken[which] = stop = start + last - first
        yield RecordedRun(run.quality, run.rows[start:stop], run.known_ns[start:stop])


def _trading(calendar: Calendar, root: str, spans: tuple[Span, ...]) -> list[Segment]:
    """Return the trading windows that overlap the recorded spans, each in full from its open to its close."""
    first = EPOCH.date() + timedelta(days=spans[0][0] // NANOS_PER_DAY - 1)
    last = EPOCH.date() + timedelta(days=spans[-1][1] // NANOS_PER_DAY + LONGEST_CLOSURE_DAYS)
    sessions = calendar.sessions(root, first, last)
    near = (spans[0][0] - LONGEST_CLOSURE_DAYS * NANOS_PER_DAY, spans[-1][1])
    return sorted(s for one in sessions for s in one.segments if s[0] <= near[1] and near[0] < s[1])


def _to_the_bell(spans: tuple[Span, ...], trading: list[Segment]) -> tuple[Segment, ...]:
    """Extend recorded spans to the open and close of the session.

    A span is extended to the open if it begins shortly after the open, and to the close if it ends shortly before the
    close.
    """
    found: list[Segment] = []
    for first, last in spans:
        start = next((o for o, c in trading if o < first < c and first - o <= GRACE_NS), first)
        end = next((c for o, c in trading if o < last < c and c - last <= GRACE_NS), last)
        found.append((start, end))
    return tuple(found)


def _played(spans: tuple[Segment, ...], trading: list[Segment]) -> tuple[Segment, ...]:
    """Return the stretches of time that the replay of a product covers.

    A span that lies entirely outside trading hours stays unchanged.
    """
    parts = [part for start, end in spans for part in clipped(trading, start, end)]
    parts += [
        (close, close + TAIL_NS) for start, end in spans for _, close in trading if start < close <= end
    ]
    return merged(parts) if parts else spans
