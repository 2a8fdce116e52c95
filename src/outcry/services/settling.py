"""Settles what a session is, from all the tape holds of it, and which of two sources answers for it.

Rule kept: one session is of one source and one quality; the better answers: whole before partial, then finer, then
fuller. A session that was whole stays whole, for recordings only grow.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from outcry.core.calendar import Calendar, Session
from outcry.core.instruments import Contract, Universe
from outcry.core.kernels import BulkFold
from outcry.core.ladder import BRACKET_MINUTES, bracket_windows
from outcry.core.snapshot import dump
from outcry.ports.records import Quality, Rows
from outcry.ports.store import RecordingRow, SessionRow, SessionStore
from outcry.ports.tape import Tape, TapeDamaged, TapeFile
from outcry.services.coverage import GRACE_NS, Span, covers
from outcry.services.grid import Cell, Grid
from outcry.services.rows import Column, fold_rows, on_tick, volume_of
from outcry.services.spool import Counts, SpooledDay

LONGEST_SESSION = timedelta(days=10)  # an overnight over a string of holidays


class Parts:
    """What importing works with: the store, the tape, and the calendar laid out by product."""

    def __init__(self, store: SessionStore, tape: Tape, universe: Universe, calendar: Calendar) -> None:
        self.store, self.tape, self.universe = store, tape, universe
        self._calendar = calendar
        self._grids: dict[str, Grid] = {}

    def grid(self, root: str) -> Grid:
        """The product's calendar, laid out for splitting rows."""
        if root not in self._grids:
            self._grids[root] = Grid(self._calendar, root)
        return self._grids[root]


@dataclass(slots=True)
class Folding:
    """One session of one contract as rows come in."""

    contract: Contract
    session: Session
    quality: Quality
    fold: BulkFold
    counts: Counts = field(default_factory=Counts)


def begin(contract: Contract, session: Session, quality: Quality) -> Folding:
    """A session nothing has been folded of yet."""
    return Folding(contract, session, quality, BulkFold(bracket_windows(session.segments, BRACKET_MINUTES)))


class Settling:
    """Makes session rows of one owner and source at one time of import (ns UTC)."""

    def __init__(self, parts: Parts, owner: int, source: str, now_ns: int) -> None:
        self._parts, self._owner, self._source, self._now_ns = parts, owner, source, now_ns
        #: Sessions of which a damaged file holds a part: by contract and open (ns UTC).
        self._in_part: set[tuple[str, int]] = set()

    def row(self, folding: Folding, days: Sequence[SpooledDay]) -> SessionRow:
        """The session as all recordings of the source make it; `days` are those just spooled.

        Folded on the way if the file held all of it, from the tape otherwise. Raises `RangeTooWide`.
        """
        others = self._others(folding, days)
        spans = [span for part in (*days, *others) for span in part.spans]
        if others or not all(day.pure for day in days):
            files = [part.file for part in (*days, *others)]
            again = begin(folding.contract, folding.session, folding.quality)
            again.counts.off_tick, again.counts.out_of_order = (
                folding.counts.off_tick,
                folding.counts.out_of_order,
            )
            for cell, rows, ticks in self._pieces(folding.contract, folding.quality, files):
                if cell.session == folding.session:
                    self._fold(again, rows, ticks)
            folding = again
        return self._as_row(folding, spans)

    def is_best(self, row: SessionRow) -> bool:
        """Whether the row answers for its session, given what is kept of it."""
        kept = self.stored(row)
        if kept is None or _standing(row) >= _standing(kept):
            return True
        return _same_source(row, kept) and (row.contract, row.open_ns) not in self._in_part

    def stored(self, row: SessionRow) -> SessionRow | None:
        """The same session as the store has it; None where it has none, or a damaged one."""
        found = self._parts.store.sessions_of(row.owner, row.contract, row.trade_date, row.trade_date)
        return next((session for session in found if session.kind is row.kind), None)

    def refold(
        self, contract: Contract, recordings: Sequence[RecordingRow], damaged: Sequence[RecordingRow]
    ) -> list[SessionRow]:
        """Every session that recordings of one contract, source and quality hold, folded from the tape; but none of
        which a damaged recording holds a part."""
        if not recordings:
            return []
        quality = recordings[0].quality
        foldings: dict[int, Folding] = {}
        for cell, rows, ticks in self._pieces(contract, quality, [row.file for row in recordings]):
            if cell.session.open_ns not in foldings:
                foldings[cell.session.open_ns] = begin(contract, cell.session, quality)
            self._fold(foldings[cell.session.open_ns], rows, ticks)
        first, last = recordings[0].trade_date, recordings[-1].trade_date + LONGEST_SESSION
        set_aside = {
            (row.trade_date, row.kind): (row.off_tick, row.out_of_order)
            for row in self._parts.store.sessions_of(self._owner, contract.key, first, last)
            if (row.source, row.quality) == (self._source, quality)
        }
        for folding in foldings.values():  # what never reached the tape is known only from the import
            known = set_aside.get((folding.session.trade_date, folding.session.kind), (0, 0))
            folding.counts.off_tick, folding.counts.out_of_order = known
        return [
            self._as_row(
                folding, [span for row in _touching(recordings, folding.session) for span in row.spans]
            )
            for folding in foldings.values()
            if not _touching(damaged, folding.session)
        ]

    def _others(self, folding: Folding, days: Sequence[SpooledDay]) -> list[RecordingRow]:
        """Recordings of the same source with other trade dates of the session, from earlier imports."""
        last = folding.session.trade_date
        found = self._parts.store.recordings(self._owner, folding.contract.key, last - LONGEST_SESSION, last)
        mine = {day.trade_date for day in days}
        same = [r for r in found if (r.source, r.quality) == (self._source, folding.quality)]
        touching = [row for row in _touching(same, folding.session) if row.trade_date not in mine]
        readable = [row for row in touching if self._is_readable(row)]
        if len(readable) < len(touching):
            self._in_part.add((folding.contract.key, folding.session.open_ns))
        return readable

    def _is_readable(self, row: RecordingRow) -> bool:
        """Whether a tape file is the one that was stored: a damaged one is mended by its own recording only."""
        try:
            found = self._parts.tape.digest(row.path)
        except TapeDamaged:
            return False
        return row.digest in {"", found}

    def _pieces(
        self, contract: Contract, quality: Quality, files: Iterable[TapeFile]
    ) -> Iterator[tuple[Cell, Rows, list[Column]]]:
        grid, tick_e9 = self._parts.grid(contract.root), self._parts.universe.products[contract.root].tick_e9
        for file in files:
            for chunk in self._parts.tape.read(file, quality):
                for cell, first, last in grid.cut(chunk["ts_event"])[0]:
                    rows, ticks, _ = on_tick(chunk[first:last], tick_e9, quality)
                    yield cell, rows, ticks

    def _fold(self, folding: Folding, rows: Rows, ticks: list[Column]) -> None:
        fold_rows(folding.fold, rows, ticks, folding.quality)
        folding.counts.add(Counts(len(rows), volume_of(rows, folding.quality)), rows)

    def _as_row(self, folding: Folding, spans: Iterable[Span]) -> SessionRow:
        ladder, session, counts = folding.fold.ladder(), folding.session, folding.counts
        if ladder is None:
            raise RuntimeError("a session with rows has a ladder")
        complete = self._now_ns >= session.close_ns + GRACE_NS and covers(spans, session)
        return SessionRow(
            owner=self._owner, root=session.root, contract=folding.contract.key, trade_date=session.trade_date,
            kind=session.kind, open_ns=session.open_ns, close_ns=session.close_ns, source=self._source,
            quality=folding.quality, complete=complete, short=session.short, rows=counts.rows, volume=counts.volume,
            off_tick=counts.off_tick, out_of_order=counts.out_of_order, first_ns=counts.first_ns,
            last_ns=counts.last_ns, received_ns=self._now_ns, profile=dump(ladder),
        )  # fmt: skip


def best_of(rows: Iterable[SessionRow]) -> list[SessionRow]:
    """The better of several sources' rows for each session of one contract."""
    best: dict[tuple[int, str], SessionRow] = {}
    for row in rows:
        key = (row.open_ns, row.kind)
        if key not in best or _standing(row) > _standing(best[key]):
            best[key] = row
    return list(best.values())


def touches(recording: RecordingRow, row: SessionRow) -> bool:
    """Whether a recording holds a part of a stored session."""
    same = (recording.source, recording.quality) == (row.source, row.quality)
    return same and recording.first_ns < row.close_ns and recording.last_ns >= row.open_ns


def _touching(recordings: Iterable[RecordingRow], session: Session) -> list[RecordingRow]:
    return [row for row in recordings if row.first_ns < session.close_ns and row.last_ns >= session.open_ns]


def _standing(row: SessionRow) -> tuple[bool, int, int]:
    return row.complete, -row.quality.rank, row.volume


def _same_source(row: SessionRow, kept: SessionRow) -> bool:
    return (row.source, row.quality) == (kept.source, kept.quality)
