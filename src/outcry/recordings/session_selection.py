"""Build a row for each session from all recordings on the tape, and select the best row of each session.

A row has one source and one quality. A complete session is better than a partial one. Otherwise the finer resolution is
better, and then the larger volume. Sessions are processed in order of time, because completeness depends on earlier
sessions.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from outcry.market.calendar import Session
from outcry.market.instruments import Contract
from outcry.market.ladder import RangeTooWide
from outcry.market.snapshot import dump
from outcry.recordings.completeness_check import CompletenessCheck, FoldedSession, minutes_by_recording
from outcry.recordings.contributions import set_aside_by_recording, set_aside_in
from outcry.recordings.import_report import SessionReport
from outcry.recordings.recorded_session import RecordedSession
from outcry.recordings.session_splitting import ImportContext, too_wide
from outcry.recordings.staged_day import StagedDay
from outcry.recordings.tape_errors import TapeDamaged
from outcry.sessions.completeness import activity_of, by_minute
from outcry.sessions.recording_store import LONGEST_SESSION
from outcry.sessions.store_model import RecordingRow, SessionRow, TapeFile
from outcry.trades.coverage import uncovered
from outcry.trades.records import Quality, Rows
from outcry.trades.session_index import SessionSlice

Part = TypeVar("Part", RecordingRow, StagedDay)


class SessionBuilder:
    """Builds the session rows of one owner and source during an import. `now_ns`: time of the import (ns UTC)."""

    def __init__(self, context: ImportContext, owner: int, source: str, now_ns: int) -> None:
        self._context, self._owner, self._source, self._now_ns = context, owner, source, now_ns
        #: Sessions with a damaged recording, by contract and open (ns UTC).
        self._partly_damaged: set[tuple[str, int]] = set()

    def select(
        self, path: Path, folds: Iterable[RecordedSession], days: Sequence[StagedDay]
    ) -> tuple[list[SessionRow], list[SessionReport]]:
        """Decide for each session of a file whether it is complete, and whether it replaces the stored one.

        `path`: path of the file. `days`: the rows of the file by trade date, as just written to new tape files. Returns
        the database rows to store, and a report on each session. Raises `FileRefused`.
        """
        rows: list[SessionRow] = []
        reports: list[SessionReport] = []
        completeness = CompletenessCheck(self._context, self._owner, self._now_ns, stored=True)
        folded = list(self._folded(path, folds, days))
        recorded = minutes_by_recording(one for _, _, one in folded)
        for fold, staged, one in folded:
            row, session, counts = completeness.judge(one, recorded[one.recording]), one.session, fold.counts
            found = self._context.store.sessions_of(row.owner, row.contract, row.trade_date, row.trade_date)
            kept = next((stored for stored in found if stored.kind is row.kind), None)
            best = (
                kept is None
                or rank(row) >= rank(kept)
                or (
                    (row.source, row.quality) == (kept.source, kept.quality)
                    and (row.contract, row.open_ns) not in self._partly_damaged
                )
            )
            changed = kept is None or any(day.changed for day in staged)
            if best:
                completeness.note(row)
            if best and changed:
                rows.append(row)
            product = self._context.universe.products[row.root]
            reports.append(SessionReport(
                row.contract, str(row.trade_date), row.kind, row.quality, counts.rows, counts.volume, counts.off_tick,
                sum(day.duplicates_in(session) for day in staged), counts.out_of_order, row.complete, row.holes,
                product.zone, "unchanged" if not changed else "new" if best else "second best", product.size_step_e9,
            ))  # fmt: skip
        return rows, reports

    def _folded(
        self, path: Path, folds: Iterable[RecordedSession], days: Sequence[StagedDay]
    ) -> Iterator[tuple[RecordedSession, list[StagedDay], FoldedSession]]:
        """Yield each session of the file in order of time, computed from all recordings of the source.

        If the days just written from the file contain the whole session, its profile was computed while the file was
        read. Otherwise the session is computed from the tape. A session without traded lots is left out.
        """
        for fold in sorted(folds, key=lambda f: (f.session.open_ns, f.contract)):
            if not fold.counts.rows:
                continue
            contract, session, quality = fold.contract, fold.session, fold.quality
            same = [day for day in days if (day.contract, day.quality) == (contract, quality)]
            staged = touching(same, session)
            others = self._others(fold, staged)
            parts, whole = (*staged, *others), fold
            if others or not all(day.pure for day in staged):
                whole = RecordedSession(contract, session, quality)
                tick_e9 = self._context.universe.products[contract.root].tick_e9
                try:
                    for cell, rows in self.session_rows(contract, quality, [part.file for part in parts]):
                        if cell.session == session:
                            whole.add(rows, tick_e9)
                except RangeTooWide as problem:
                    place = f"{session.trade_date}, with the rows already on tape"
                    raise too_wide(problem, contract, tick_e9, path, place) from problem
                known = set_aside_by_recording(self._context.store, others)
                whole.counts.off_tick, whole.counts.out_of_order = set_aside_in(
                    session.open_ns,
                    [*(day.set_aside for day in staged), *(known[row.id] or () for row in others)],
                )
            folded = self.as_folded(whole, parts)
            if folded is not None:
                yield fold, staged, folded

    def _others(self, fold: RecordedSession, days: Sequence[StagedDay]) -> list[RecordingRow]:
        """Return the recordings from earlier imports that contain the rest of a session.

        They have the same source as the file, and trade dates that `days` does not include.
        """
        last = fold.session.trade_date
        found = self._context.store.recordings(self._owner, fold.contract.key, last - LONGEST_SESSION, last)
        mine = {day.trade_date for day in days}
        same = [r for r in found if (r.source, r.quality) == (self._source, fold.quality)]
        overlapping = [row for row in touching(same, fold.session) if row.trade_date not in mine]
        readable = [row for row in overlapping if self._is_readable(row)]
        if len(readable) < len(overlapping):
            self._partly_damaged.add((fold.contract.key, fold.session.open_ns))
        return readable

    def _is_readable(self, row: RecordingRow) -> bool:
        """Return whether the tape file of a recording is undamaged.

        If it is damaged, only a new recording of the same contract, trade date, source and quality can replace it.
        """
        try:
            found = self._context.tape.digest(row.path)
        except TapeDamaged:
            return False
        return row.digest in {"", found}

    def session_rows(
        self, contract: Contract, quality: Quality, files: Iterable[TapeFile]
    ) -> Iterator[tuple[SessionSlice, Rows]]:
        """Yield the rows of tape files, split by session."""
        index = self._context.index(contract.root)
        for file in files:
            for chunk in self._context.tape.read(file, quality):
                for cell, first, last in index.split(chunk["ts_event"])[0]:
                    yield cell, chunk[first:last]

    def as_folded(
        self, fold: RecordedSession, parts: Sequence[StagedDay | RecordingRow]
    ) -> FoldedSession | None:
        """Return a session built from the profile `fold`; None if no lots were traded.

        parts: all recordings whose rows the profile contains.
        """
        session, counts, minutes = fold.session, fold.counts, by_minute(fold.minutes)
        ladder = fold.fold.ladder()
        if ladder is None:  # only trades of size 0
            return None
        zone = self._context.universe.products[session.root].zone
        row = SessionRow(
            owner=self._owner, root=session.root, contract=fold.contract.key, trade_date=session.trade_date,
            kind=session.kind, open_ns=session.open_ns, close_ns=session.close_ns, source=self._source,
            quality=fold.quality, complete=False, short=session.short, rows=counts.rows, volume=counts.volume,
            off_tick=counts.off_tick, out_of_order=counts.out_of_order, first_ns=counts.first_ns,
            last_ns=counts.last_ns, received_ns=self._now_ns, profile=dump(ladder),
            activity=activity_of(minutes, session, zone), segments=session.segments,
        )  # fmt: skip
        left = uncovered([span for part in parts for span in part.spans], session)
        return FoldedSession(
            row, session, fold.contract, minutes, left, any(part.from_feed for part in parts)
        )


def touching(parts: Iterable[Part], session: Session) -> list[Part]:
    """Return the stored recordings, or days of the current import, that may contain rows of a session."""
    return [row for row in parts if row.first_ns < session.close_ns and row.last_ns >= session.open_ns]


def rank(row: SessionRow) -> tuple[bool, int, int]:
    """Return the precedence of a session's row: of the rows of one session, the best has the highest."""
    return row.complete, -row.quality.rank, row.volume
