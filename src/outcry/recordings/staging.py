"""Write the rows of an import to new tape files, one per contract and trade date.

A new file also has the rows that are already stored for its contract and date. The old file stays untouched until the
database has committed the new file's name; an error before that undoes everything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Self

import numpy as np

from outcry.market.calendar import Session
from outcry.market.instruments import Contract
from outcry.recordings.tape import DbnWriter, TapeFolder
from outcry.recordings.tape_errors import TapeDamaged
from outcry.sessions.store import SqlStore
from outcry.sessions.store_model import NO_FILE, RecordingId, RecordingRow, SessionRow, TapeFile
from outcry.trades.coverage import Span, joined
from outcry.trades.dedupe import Times, join
from outcry.trades.records import Quality, Rows

_MAX_OPEN = 64  # maximum files being written: each has a compressor's memory


@dataclass(slots=True)
class Counts:
    """Counts of rows, lots, off-tick rows and late rows; also the first and last time (ns UTC)."""

    rows: int = 0
    volume: int = 0
    off_tick: int = 0
    out_of_order: int = 0
    first_ns: int = 2**63 - 1
    last_ns: int = -(2**63)

    def add(self, more: "Counts", rows: Rows) -> None:
        """Add counts and the times of `rows`, which are in order of time."""
        self.rows += more.rows
        self.volume += more.volume
        self.off_tick += more.off_tick
        self.out_of_order += more.out_of_order
        if len(rows):
            self.first_ns = min(self.first_ns, int(rows["ts_event"][0]))
            self.last_ns = max(self.last_ns, int(rows["ts_event"][-1]))


@dataclass(slots=True)
class StagedDay:
    """The rows of an import for one contract and trade date, which become one tape file.

    `pure`: the tape had no rows of the day and the new rows came in order, so the profile that was computed while they
    were read is valid. `fresh`: no readable stored recording was merged with them. `damaged`: path of the unreadable
    tape file that this one replaces.
    """

    owner: int
    contract: Contract
    trade_date: date
    source: str
    quality: Quality
    counts: Counts = field(default_factory=Counts)
    parts: list[TapeFile] = field(default_factory=list[TapeFile])
    writer: DbnWriter | None = None
    disordered: bool = False
    file: TapeFile = NO_FILE
    pure: bool = True
    fresh: bool = False
    damaged: str = ""
    changed: bool = True
    spans: tuple[Span, ...] = ()
    from_feed: bool = False
    duplicates: Times = field(default_factory=lambda: np.zeros(0, np.int64))
    replaced: str = ""

    @property
    def id(self) -> RecordingId:
        """Identity of the recording: contract, trade date, source and quality."""
        return self.contract.key, str(self.trade_date), self.source, self.quality.value

    @property
    def first_ns(self) -> int:
        """Time of the first row (ns UTC)."""
        return self.counts.first_ns

    @property
    def last_ns(self) -> int:
        """Time of the last row (ns UTC)."""
        return self.counts.last_ns

    def duplicates_in(self, session: Session) -> int:
        """Return how many rows of the imported file, within a session, were stored already."""
        return int(((self.duplicates >= session.open_ns) & (self.duplicates < session.close_ns)).sum())

    def recording(self, now_ns: int) -> RecordingRow:
        """Return the database row of the finished tape file."""
        c = self.counts
        return RecordingRow(
            self.owner, self.contract.key, self.trade_date, self.source, self.quality, self.file.path, c.rows,
            c.volume, c.off_tick, c.out_of_order, c.first_ns, c.last_ns, now_ns, self.spans, self.file.digest,
            self.from_feed,
        )  # fmt: skip


class StagingArea:
    """The new tape files of one import, until the database has their names.

    An error in its `with` block deletes these files.
    """

    def __init__(self, tape: TapeFolder, owner: int, source: str) -> None:
        self._tape, self._owner, self._source = tape, owner, source
        self._days: dict[tuple[Contract, date, Quality], StagedDay] = {}
        self._open: dict[int, StagedDay] = {}

    def add(self, contract: Contract, trade_date: date, quality: Quality, rows: Rows, counts: Counts) -> None:
        """Add rows of one contract and trade date. Each call's rows must be in order of time."""
        key = (contract, trade_date, quality)
        day = self._days.get(key)
        if day is None:
            day = self._days[key] = StagedDay(self._owner, contract, trade_date, self._source, quality)
        times = rows["ts_event"]
        repeats = quality is not Quality.TICKS and (
            bool((times[1:] == times[:-1]).any()) or int(times[0]) == day.counts.last_ns
        )
        if int(times[0]) < day.counts.last_ns or repeats:
            day.disordered = True
        day.counts.add(counts, rows)
        self._writer(day).append(rows)

    def _writer(self, day: StagedDay) -> DbnWriter:
        if day.writer is None:
            if len(self._open) >= _MAX_OPEN:
                self._close(next(iter(self._open.values())))
            day.writer = self._tape.begin(
                self._owner, day.contract, day.trade_date, self._source, day.quality
            )
            self._open[id(day)] = day
        return day.writer

    def _close(self, day: StagedDay) -> None:
        if day.writer is not None:
            day.parts.append(day.writer.close())
            day.writer = None
            del self._open[id(day)]

    def finish(
        self, store: SqlStore, spans: Mapping[str, tuple[Span, ...]], *, from_feed: bool = False,
        replace: bool = False,
    ) -> list[StagedDay]:  # fmt: skip
        """Finish every new file: merge it with the stored rows of its day, and sort it if its rows are out of order.

        `spans`: the times that the import covers completely, by root (product symbol). `from_feed`: the rows come from
        a live feed. `replace`: the rows already leave out busted trades, so they replace the stored rows instead of
        being merged with them.
        """
        for day in self._days.values():
            day.spans, day.from_feed = spans[day.contract.root], from_feed
            self._close(day)
            found = store.recordings(self._owner, day.contract.key, day.trade_date, day.trade_date)
            stored = next(
                (row for row in found if (row.source, row.quality) == (day.source, day.quality)), None
            )
            old: Rows | None = None
            if stored and not replace:
                try:
                    old = self._tape.read_all([stored.file], day.quality)
                except TapeDamaged:
                    day.damaged = stored.path
            day.fresh = stored is None or bool(day.damaged)
            if old is None and len(day.parts) == 1 and not day.disordered:
                day.file = day.parts[0]
            else:
                self._join(day, stored, old)
            if stored and day.file.path != stored.path and not day.damaged:
                day.replaced = stored.path
        return list(self._days.values())

    def _join(self, day: StagedDay, stored: RecordingRow | None, old: Rows | None) -> None:
        day.pure = False
        new = self._tape.read_all(day.parts, day.quality)
        if old is None:
            stored, old = None, new[:0]
        rows, day.duplicates = join(old, new, day.quality)
        if stored:
            day.spans, day.from_feed = joined((*stored.spans, *day.spans)), day.from_feed or stored.from_feed
        if stored and np.array_equal(rows, old):
            # the file has no digest yet, but its rows equal those imported again, so it gets one
            day.file = stored.file if stored.digest else TapeFile(stored.path, self._tape.digest(stored.path))
            day.changed = (day.spans, day.from_feed) != (stored.spans, stored.from_feed) or not stored.digest
            day.counts = Counts(
                stored.rows,
                stored.volume,
                stored.off_tick,
                stored.out_of_order,
                stored.first_ns,
                stored.last_ns,
            )
            self._remove(day.parts)
            return
        writer = day.writer = self._tape.begin(
            self._owner, day.contract, day.trade_date, day.source, day.quality
        )
        self._open[id(day)] = day
        writer.append(rows)
        self._remove(day.parts)
        day.parts = []
        self._close(day)
        day.file = day.parts[0]
        self._recount(day, rows, stored)

    def _recount(self, day: StagedDay, rows: Rows, stored: RecordingRow | None) -> None:
        volume = int(rows["size" if day.quality is Quality.TICKS else "volume"].sum(dtype=np.uint64))
        off_tick, late = day.counts.off_tick, day.counts.out_of_order
        if stored:
            off_tick, late = off_tick + stored.off_tick, late + stored.out_of_order
        day.counts = Counts(
            len(rows), volume, off_tick, late, int(rows["ts_event"][0]), int(rows["ts_event"][-1])
        )

    def _remove(self, files: list[TapeFile]) -> None:
        for file in files:
            self._tape.remove(file.path)

    def commit(
        self, store: SqlStore, digest: str, name: str, sessions: Sequence[SessionRow], now_ns: int
    ) -> tuple[bool, list[str]]:
        """Store the recordings and sessions in one transaction, then remove the tape files that they replace.

        Return whether any recording changed, and the former paths of damaged files. Damaged files are renamed, not
        removed.
        """
        days = list(self._days.values())
        recordings = [day.recording(now_ns) for day in days if day.changed]
        for day in days:
            if day.replaced:
                self._tape.changes.note(day.replaced)
        store.commit_import(
            self._owner, digest, name, recordings, sessions, now_ns,
            imported=[day.id for day in days], fresh=[day.id for day in days if day.fresh],
        )  # fmt: skip
        self._days.clear()  # the database names the files now, so an error no longer abandons them
        damaged = [day.damaged for day in days if day.damaged]
        for path in damaged:
            self._tape.set_aside(path)
        self._tape.changes.sweep(store.tape_named)
        return bool(recordings), damaged

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_rest: object) -> None:
        if error is not None:
            self._abandon()

    def _abandon(self) -> None:
        """Delete the new files, so that the tape is as before the import."""
        for day in self._days.values():
            if day.writer is not None:
                day.writer.abandon()
            self._remove(day.parts)
