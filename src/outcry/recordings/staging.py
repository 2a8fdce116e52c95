"""Write the rows of an import to new tape files, one per contract and trade date.

If the tape already has rows of that contract and date, a further file has both. The old files stay untouched until the
database has committed the new files' names; an error before that undoes everything.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Self

from outcry.market.instruments import Contract
from outcry.recordings.day_merge import DayMerge
from outcry.recordings.staged_day import Counts, StagedDay
from outcry.recordings.tape import DbnWriter, TapeFolder
from outcry.sessions.store import SqlStore
from outcry.sessions.store_model import FileRead, SessionRow, TapeFile
from outcry.trades.coverage import Span
from outcry.trades.records import Quality, Rows

_MAX_OPEN = 64  # maximum files being written: each has a compressor's memory


class StagingArea:
    """The new tape files of one import, until the database has their names.

    An error in its `with` block deletes these files.
    """

    def __init__(self, tape: TapeFolder, owner: int, source: str) -> None:
        self._tape, self._owner, self._source = tape, owner, source
        self._days: dict[tuple[Contract, date, Quality], StagedDay] = {}
        self._open: dict[int, StagedDay] = {}

    @property
    def days(self) -> Sequence[StagedDay]:
        """The contracts and trade dates of which the import has rows."""
        return [day for day in self._days.values() if day.counts.rows]

    def add(
        self, contract: Contract, trade_date: date, quality: Quality, open_ns: int, rows: Rows, counts: Counts
    ) -> None:
        """Add rows of one contract, trade date and session, which opens at `open_ns` (UTC).

        Each call's rows must be in order of time. `counts` also has the rows that were left out.
        """
        key = (contract, trade_date, quality)
        day = self._days.get(key)
        if day is None:
            day = self._days[key] = StagedDay(self._owner, contract, trade_date, self._source, quality)
        day.add(open_ns, rows, counts)
        if len(rows):
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
        self, store: SqlStore, digest: str, spans: Mapping[str, tuple[Span, ...]], *, from_feed: bool = False,
        replace: bool = False,
    ) -> Sequence[StagedDay]:  # fmt: skip
        """Finish every new file: merge it with the stored rows of its day, and sort it if its rows are out of order.

        `digest`: identifies the import; empty for a live recording. `spans`: the times that the import covers
        completely, by root (product symbol). `from_feed`: the rows come from a live feed. `replace`: the rows already
        leave out busted trades, so they replace the stored rows instead of being merged with them.
        """
        merge = DayMerge(store, self._tape, digest, self._written, replace=replace)
        for day in self.days:
            day.spans, day.from_feed = spans[day.contract.root], from_feed
            self._close(day)
            merge.run(day)
            unused = [file for file in day.parts if file not in (day.file, day.own and day.own.file)]
            self._remove(unused)
            day.parts = [file for file in day.parts if file not in unused]
        return self.days

    def _written(self, day: StagedDay, rows: Rows) -> TapeFile:
        self._writer(day).append(rows)
        self._close(day)
        return day.parts[-1]

    def _remove(self, files: Sequence[TapeFile]) -> None:
        for file in files:
            self._tape.remove(file.path)

    def commit(
        self,
        store: SqlStore,
        digest: str,
        name: str,
        file: FileRead,
        sessions: Sequence[SessionRow],
        now_ns: int,
    ) -> tuple[bool, list[str]]:
        """Store the recordings and sessions in one transaction, then remove the tape files that they replace.

        Return whether any recording changed, and the former paths of damaged files. Damaged files are renamed, not
        removed.
        """
        days = self.days
        for path in (path for day in days for path in day.obsolete):
            self._tape.changes.note(path)
        store.commit_import(
            self._owner, digest, name, [day.recording(now_ns) for day in days if day.changed], sessions, now_ns,
            file=file, fresh=[day.id for day in days if day.fresh],
            contributions=[row for day in days for row in (*day.others, day.own) if row],
        )  # fmt: skip
        self._days.clear()  # the database names the files now, so an error no longer abandons them
        damaged = [day.damaged for day in days if day.damaged]
        for path in damaged:
            self._tape.set_aside(path)
        self._tape.changes.sweep(store.tape_named)
        return any(day.changed for day in days), damaged

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
