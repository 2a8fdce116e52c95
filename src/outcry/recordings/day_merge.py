"""Merge the new rows of a day with those on the tape, and keep the rows of each import apart beside the merged ones."""

from collections.abc import Callable, Sequence
from dataclasses import replace as changed
from typing import NamedTuple

import numpy as np

from outcry.recordings.contributions import (
    contributions_to,
    joined_set_aside,
    known_contributions,
    merged_rows,
    readable,
    with_equal_rows,
)
from outcry.recordings.staged_day import Counts, StagedDay
from outcry.recordings.tape import TapeFolder
from outcry.recordings.tape_errors import TapeDamaged
from outcry.sessions.store import SqlStore
from outcry.sessions.store_model import NO_FILE, Contribution, RecordingRow, TapeFile
from outcry.trades.coverage import Span, joined
from outcry.trades.dedupe import join
from outcry.trades.records import Rows


class _OnTape(NamedTuple):
    """The rows that the tape has of a day. file: the tape file with exactly these rows, if there is one."""

    rows: Rows
    file: TapeFile | None
    spans: tuple[Span, ...]
    from_feed: bool


class DayMerge:
    """Merges the days of one import. digest: identifies the import; empty for a live recording.

    write: writes rows of a day to a new tape file. replace: the new rows replace those on the tape.
    """

    def __init__(
        self, store: SqlStore, tape: TapeFolder, digest: str, write: Callable[[StagedDay, Rows], TapeFile], *,
        replace: bool,
    ) -> None:  # fmt: skip
        self._store, self._tape, self._digest, self._write, self._replaces = (
            store,
            tape,
            digest,
            write,
            replace,
        )

    def run(self, day: StagedDay) -> None:
        """Decide the tape files of a day: of the recording, and of the rows of this import alone."""
        found = self._store.recordings(day.owner, day.contract.key, day.trade_date, day.trade_date)
        stored = next((row for row in found if row.id == day.id), None)
        own = day.contribution(self._digest, NO_FILE, day.counts)
        known = known_contributions(self._store, own)
        parts = contributions_to(known, stored, self._store)
        others = [one for one in parts if one.digest != self._digest]
        before = next((one for one in parts if one.digest == self._digest), None)
        day.obsolete = [file.path for file in (stored and stored.file, before and before.file) if file]
        if self._replaces:
            day.obsolete += [one.file.path for one in others]
            day.others = [changed(one, path="", file_digest="") for one in others]
            old, others, before = None, [], None
        else:
            before = before if not self._digest else None  # a repeated import of a file replaces its rows
            old = self._on_tape(day, stored, [*others, *([before] if before else [])])
            day.others = [one for one in others if one not in known]
        mixed = old is not None and any(one.digest == self._digest and one.path is None for one in known)
        own_file, counts = self._files(day, old, others, before)
        day.changed = not stored or (day.file, day.spans, day.from_feed) != (
            stored.file,
            stored.spans,
            stored.from_feed,
        )
        day.own = None
        if not mixed:  # otherwise the contribution without a digest has these rows, and would keep them
            position = 1 + max((one.position for one in known), default=0)
            day.own = changed(
                own, path=own_file.path, file_digest=own_file.digest, position=position, rows=counts.rows,
                volume=counts.volume, first_ns=counts.first_ns, last_ns=counts.last_ns,
            )  # fmt: skip
            if before:
                day.own = changed(
                    day.own, spans=joined((*before.spans, *own.spans)),
                    set_aside=joined_set_aside([before.set_aside, own.set_aside]),
                )  # fmt: skip
        day.count_set_aside([one.set_aside for one in (*others, before, own) if one])
        if stored and not day.changed:
            counted = day.counts.off_tick, day.counts.out_of_order
            day.changed = counted != (stored.off_tick, stored.out_of_order)

    def _on_tape(
        self, day: StagedDay, stored: RecordingRow | None, parts: Sequence[Contribution]
    ) -> _OnTape | None:
        """Return the rows that the tape has of a day; None without any.

        If the recording is damaged or its row is missing, they come from the readable contributions.
        """
        if stored:
            try:
                rows = self._tape.read_all([stored.file], day.quality)
            except TapeDamaged:
                day.damaged = stored.path
            else:
                digest = stored.digest or self._tape.digest(stored.path)
                return _OnTape(rows, TapeFile(stored.path, digest), stored.spans, stored.from_feed)
        found = readable(self._tape, parts)
        day.fresh = not any(one.digest == "" for one in found)
        if not found:
            return None
        return _OnTape(
            merged_rows(self._tape, found, day.quality), None, joined(span for one in found for span in one.spans),
            any(one.from_feed for one in found),
        )  # fmt: skip

    def _files(
        self, day: StagedDay, old: _OnTape | None, others: Sequence[Contribution], before: Contribution | None
    ) -> tuple[TapeFile, Counts]:
        """Set the recording's file, spans and counts; return the file with this import's rows alone, and its counts."""
        own_file = None if before else day.ordered_file
        if old is None and own_file:
            day.file = own_file
            return own_file, day.counts
        day.pure = False
        new = self._tape.read_all(day.parts, day.quality)
        rows, day.duplicates = join(old.rows if old else new[:0], new, day.quality)
        own = join(new[:0], new, day.quality)[0]
        if before:
            own = self._of_feed(day, before, others, new, rows)
        own_file = with_equal_rows(self._tape, own, others) or own_file
        file = old.file if old and np.array_equal(rows, old.rows) else None
        if np.array_equal(rows, own):
            file = own_file = file or own_file or self._write(day, rows)
        day.file = file or self._write(day, rows)
        day.counts = Counts.of(rows, day.quality)
        if old:
            day.spans, day.from_feed = joined((*old.spans, *day.spans)), day.from_feed or old.from_feed
        return own_file or self._write(day, own), Counts.of(own, day.quality)

    def _of_feed(
        self, day: StagedDay, before: Contribution, others: Sequence[Contribution], new: Rows, rows: Rows
    ) -> Rows:
        """Return the rows of a live feed: the new ones, and those that it recorded before.

        If the earlier ones are damaged, nothing tells them from the rows of files any more. Then return all rows, and
        note that those of the files are among them.
        """
        try:
            return join(self._tape.read_all([before.file], day.quality), new, day.quality)[0]
        except TapeDamaged:
            day.obsolete += [one.file.path for one in others]
            day.others = [changed(one, path=None, file_digest="") for one in others]
            return rows
