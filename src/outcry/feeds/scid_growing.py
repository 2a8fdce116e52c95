"""Reads a Sierra Chart file that is still being written, up to its last complete record.

An incomplete record or bar is read once it is complete. If the file is replaced, shortened or rewritten, the feed ends
with an error instead of continuing from the middle.
"""

import os
import threading
from bisect import bisect_left
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from outcry.base.portable_files import read_at
from outcry.feeds.live_rows import NOT_RECORDED
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_SECOND
from outcry.recordings.file_model import FileRefused, ReadCounts
from outcry.recordings.formats.archive import CountedFile
from outcry.recordings.formats.bar_checks import bar_length
from outcry.recordings.formats.file_reading import ReadProgress
from outcry.recordings.formats.scid import (
    CHUNK_RECORDS,
    HEADER,
    RECORD,
    Records,
    ScidDecoder,
    is_conclusive,
    read_header,
    read_sample,
    unix_ns,
)
from outcry.trades.coverage import GRACE_NS
from outcry.trades.feed import FeedLost, FeedRefused, Gap
from outcry.trades.records import Batch

#: Margin before the cursor (ns) within which records are read, because a few may be out of order.
_MARGIN_NS = 60 * NANOS_PER_SECOND


@dataclass(frozen=True, slots=True)
class PollResult:
    """The rows from one read of a growing file.

    more: whether further data can be read at once. reached_ns: time (ns UTC) before which no more records will end, so
    the file contains all earlier ones.
    """

    batches: list[Batch]
    more: bool
    reached_ns: int


class GrowingScid:
    """A Sierra Chart file that is being written, and the read position in it. Used by one thread at a time."""

    def __init__(self, file: CountedFile, contract: Contract, tick_e9: int, since_ns: int) -> None:
        self._file, self._contract, self._tick_e9, self._since_ns = file, contract, tick_e9, since_ns
        if file.size < HEADER.itemsize:
            raise FeedLost("file_unreadable", f"{file.path.name} has no complete header yet")
        try:
            self._start = read_header(file)
        except FileRefused as problem:
            raise FeedRefused("file_refused", str(problem)) from problem
        found = os.fstat(file.fileno())
        self._identity = (found.st_dev, found.st_ino)
        self._decoder: ScidDecoder | None = None
        self._progress = ReadProgress(ReadCounts())
        self._reached_ns = 0
        self._lock = threading.Lock()
        wanted = since_ns - _MARGIN_NS
        self._done = bisect_left(range(self._whole()), wanted, key=self._time)
        self._last = self._before()

    def close(self) -> None:
        """Close the file. Waits for a read in progress."""
        with self._lock:
            self._file.close()

    def look(self, settled_ns: int) -> PollResult:
        """Read the next chunk of complete records.

        settled_ns: time (ns UTC) before which nothing will be written any more.
        """
        with self._lock, feed_errors():
            whole = self._whole()
            self._refuse_another()
            records = self._records(self._done, min(whole - self._done, CHUNK_RECORDS))
            more = self._done + len(records) < whole
            decoder = self._detect_decoder() if len(records) else None
            if decoder is None:  # too few bytes to detect the format
                limit_ns = int(unix_ns(records[:1])[0]) if len(records) else settled_ns
                return self._read([], settled_ns, limit_ns, more=False)
            limit_ns = settled_ns
            if not more and (end_ns := self._forming_until(decoder, records[-1:], settled_ns)):
                records, limit_ns = records[:-1], end_ns
            batches = [self._since(batch) for batch in decoder.decode(records, self._done)]
            self._done += len(records)
            self._last = self._before()
            batches = [batch for batch in batches if len(batch.rows)]
            batches.sort(key=lambda batch: int(batch.rows["ts_event"][0]))
            return self._read(batches, settled_ns, limit_ns, more=more)

    def not_held(self, until_ns: int) -> Gap | None:
        """Return the gap between the cursor and the first record of the file; None if the gap is short.

        The cursor is the time from which the reader needs trades. A gap within the grace period counts as short,
        because the first minutes of a session may pass without a trade.
        """
        with self._lock, feed_errors():
            start_ns = min(until_ns, self._time(0)) if self._whole() else until_ns
        if not 0 < self._since_ns < start_ns - GRACE_NS:
            return None
        return Gap(self._since_ns, start_ns, NOT_RECORDED)

    def _read(self, batches: list[Batch], settled_ns: int, limit_ns: int, *, more: bool) -> PollResult:
        self._reached_ns = max(self._reached_ns, min(settled_ns, limit_ns))
        return PollResult(batches, more, self._reached_ns)

    def _whole(self) -> int:
        """Return the number of complete records in the file."""
        self._file.size = os.fstat(self._file.fileno()).st_size
        return max(0, self._file.size - self._start) // RECORD.itemsize

    def _records(self, first: int, count: int) -> Records:
        size = RECORD.itemsize
        raw = read_at(self._file.fileno(), count * size, self._start + first * size)
        return np.frombuffer(raw[: len(raw) // size * size], RECORD)

    def _time(self, number: int) -> int:
        """Return the time of a record (ns UTC); 0 if it no longer exists."""
        return int(unix_ns(self._records(number, 1)).max(initial=0))

    def _before(self) -> bytes:
        """Read the record before the read position again, to detect changes of the file."""
        return self._records(self._done - 1, 1).tobytes() if self._done else b""

    def _refuse_another(self) -> None:
        """Raise `FeedLost` if the file was replaced or the records read have changed."""
        try:
            found = self._file.path.stat()
        except FileNotFoundError as problem:
            raise FeedLost("file_replaced", f"{self._file.path.name} no longer exists") from problem
        if (found.st_dev, found.st_ino) != self._identity or self._before() != self._last:
            raise FeedLost("file_replaced", f"{self._file.path.name} was replaced by another file")

    def _detect_decoder(self) -> ScidDecoder | None:
        """Return the decoder of the file's records; None until the file has enough of them to detect the format."""
        if self._decoder is None:
            sample = read_sample(self._file, self._start)
            if is_conclusive(sample, self._tick_e9):
                self._decoder = self._decoding(sample)
        return self._decoder

    def _decoding(self, sample: Records) -> ScidDecoder:
        path = self._file.path
        try:
            decoder = ScidDecoder(path, self._contract, self._tick_e9, sample, self._progress)
            stamps = np.unique(unix_ns(sample[decoder.are_bars(sample)]))
            decoder.bars = bar_length(stamps, path, "the bars") if len(stamps) > 1 else None
        except FileRefused as problem:
            raise FeedRefused("file_refused", str(problem)) from problem
        return decoder

    def _forming_until(self, decoder: ScidDecoder, last: Records, settled_ns: int) -> int:
        """Return when the incomplete last bar ends (ns UTC); 0 if the last record is complete."""
        if decoder.bars is None or not decoder.are_bars(last).any():
            return 0
        end_ns = int(unix_ns(last)[0]) + decoder.bars.length_ns
        return end_ns if settled_ns < end_ns else 0

    def _since(self, batch: Batch) -> Batch:
        rows = batch.rows
        return Batch(batch.contract, batch.quality, rows[rows["ts_event"] >= self._since_ns], batch.place)


@contextmanager
def feed_errors() -> Generator[None]:
    """Convert errors of reading a file to `FeedLost` within the block.

    Such an error can occur because a record is read while Sierra Chart writes it.
    """
    try:
        yield
    except FileRefused as problem:
        raise FeedLost("file_damaged", str(problem)) from problem
    except OSError as problem:
        raise FeedLost("disk_error", f"cannot read the file: {problem.strerror}") from problem
