"""Settles what a session is, from all the tape holds of it, and which of two sources answers for it.

Rule kept: one session is of one source and one quality; the better answers: whole before partial, then finer, then
fuller. Sessions are judged complete in order of time, each by those before it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from outcry.market.calendar import Calendar, Session
from outcry.market.instruments import Contract, Universe
from outcry.market.kernels import BulkFold
from outcry.market.ladder import BRACKET_MINUTES, bracket_windows
from outcry.market.snapshot import dump
from outcry.market.units import NANOS_PER_MINUTE
from outcry.recordings.spool import Counts, SpooledDay
from outcry.sessions.completeness import RECENT, Minutes, Usual, activity_of, by_minute, unexplained
from outcry.sessions.store_model import RecordingRow, SessionRow, SessionStore, Traded
from outcry.sessions.tape_model import Tape, TapeDamaged, TapeFile
from outcry.trades.coverage import GRACE_NS, Span, uncovered
from outcry.trades.records import Quality, Rows
from outcry.trades.rows import Column, fold_rows, on_tick, volume_of
from outcry.trades.session_index import SessionIndex, SessionSlice

#: The open (ns UTC) of a session of one product, and whose record of it, of any contract.
Recording = tuple[int, str, Quality]

LONGEST_SESSION = timedelta(days=10)  # an overnight over a string of holidays


class Parts:
    """What importing works with: the store, the tape, and the calendar laid out by product."""

    def __init__(self, store: SessionStore, tape: Tape, universe: Universe, calendar: Calendar) -> None:
        self.store, self.tape, self.universe = store, tape, universe
        self._calendar = calendar
        self._indexes: dict[str, SessionIndex] = {}

    def begin(self, root: str) -> date:
        """The first day for which the session tables have hours of a product."""
        return self._calendar.hours.begin(root)

    def index(self, root: str) -> SessionIndex:
        """The product's calendar, laid out for splitting rows."""
        if root not in self._indexes:
            self._indexes[root] = SessionIndex(self._calendar, root)
        return self._indexes[root]


@dataclass(slots=True)
class Folding:
    """One session of one contract as rows come in."""

    contract: Contract
    session: Session
    quality: Quality
    fold: BulkFold
    counts: Counts = field(default_factory=Counts)
    _minutes: list[NDArray[np.int64]] = field(default_factory=list[NDArray[np.int64]])

    def add(self, rows: Rows, ticks: list[Column], counts: Counts) -> None:
        """Fold rows in order of time, their prices in ticks, and count them. Raises `RangeTooWide`."""
        if len(rows):
            fold_rows(self.fold, rows, ticks, self.quality)
            lots = rows["size" if self.quality is Quality.TICKS else "volume"]
            self._minutes.append(np.unique(rows["ts_event"][lots > 0] // NANOS_PER_MINUTE))
        self.counts.add(counts, rows)

    @property
    def minutes(self) -> Minutes:
        """The minutes (since 1970) in which anything traded, ascending."""
        return by_minute(self._minutes)


@dataclass(frozen=True, slots=True)
class Folded:
    """A session that is folded but not judged yet: its row says neither whether it is complete nor its holes.
    `uncovered`: what its recordings do not span (ns UTC); `from_feed`: then the feed was away."""

    row: SessionRow
    session: Session
    contract: Contract
    minutes: Minutes
    uncovered: Sequence[Span]
    from_feed: bool

    @property
    def recording(self) -> Recording:
        """Which recording it is of."""
        return self.row.open_ns, self.row.source, self.row.quality


class Judge:
    """Says which sessions are complete, in order of time: each by the recent sessions of its product before it.

    stored: whether sessions of the store count; without them only those it has judged itself.
    """

    def __init__(self, parts: Parts, owner: int, now_ns: int, *, stored: bool) -> None:
        self._parts, self._owner, self._now_ns, self._stored = parts, owner, now_ns, stored
        self._recorded: dict[str, list[Traded]] = {}

    def judge(self, folded: Folded, recorded: Mapping[Contract, Minutes]) -> SessionRow:
        """The row with its holes, and whether it is complete. A session that is not over yet has no holes.

        recorded: when the contracts of the product traded in the same recording. Where the front is among them, all of
        them together show the holes of a month that trades too rarely to show them itself.
        """
        row, session = folded.row, folded.session
        if self._now_ns < session.close_ns + GRACE_NS:
            return row
        product = self._parts.universe.products[row.root]
        front = self._parts.universe.front(row.root, row.trade_date)
        minutes = folded.minutes
        if front != folded.contract and front in recorded:
            minutes = by_minute(list(recorded.values()))
        gaps = unexplained(
            minutes, session, product, Usual(product, session, self._of(row.root, row.trade_date)),
            front=front in {folded.contract, *recorded}, uncovered=folded.uncovered,
        )  # fmt: skip
        holes = _united([*gaps, *(folded.uncovered if folded.from_feed else ())])
        return replace(row, holes=holes, complete=not holes)

    def note(self, row: SessionRow) -> None:
        """Count a judged session among the recorded ones, if it is complete."""
        if row.complete:
            known = self._of(row.root, row.trade_date)
            known.append(Traded(row.contract, row.trade_date, row.kind, row.volume, row.activity))

    def _of(self, root: str, day: date) -> list[Traded]:
        if root not in self._recorded:
            found = (
                self._parts.store.traded(self._owner, root, day - RECENT, date.max) if self._stored else []
            )
            self._recorded[root] = list(found)
        return self._recorded[root]


def begin(contract: Contract, session: Session, quality: Quality) -> Folding:
    """A session nothing has been folded of yet."""
    return Folding(contract, session, quality, BulkFold(bracket_windows(session.segments, BRACKET_MINUTES)))


class Settling:
    """Makes session rows of one owner and source at one time of import (ns UTC)."""

    def __init__(self, parts: Parts, owner: int, source: str, now_ns: int) -> None:
        self._parts, self._owner, self._source, self._now_ns = parts, owner, source, now_ns
        #: Sessions of which a damaged file holds a part: by contract and open (ns UTC).
        self._in_part: set[tuple[str, int]] = set()

    def folded(self, folding: Folding, days: Sequence[SpooledDay]) -> Folded | None:
        """The session as all recordings of the source make it; None where no lots were traded. `days` are those just
        spooled.

        Folded on the way if the file held all of it, from the tape otherwise. Raises `RangeTooWide`.
        """
        others = self._others(folding, days)
        parts = (*days, *others)
        if others or not all(day.pure for day in days):
            files = [part.file for part in parts]
            again = begin(folding.contract, folding.session, folding.quality)
            again.counts.off_tick, again.counts.out_of_order = (
                folding.counts.off_tick,
                folding.counts.out_of_order,
            )
            for cell, rows, ticks in self._pieces(folding.contract, folding.quality, files):
                if cell.session == folding.session:
                    again.add(rows, ticks, Counts(len(rows), volume_of(rows, again.quality)))
            folding = again
        return self._as_folded(folding, parts)

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
    ) -> list[Folded]:
        """Every session that recordings of one contract, source and quality hold, folded from the tape; but none of
        which a damaged recording holds a part."""
        if not recordings:
            return []
        quality = recordings[0].quality
        foldings: dict[int, Folding] = {}
        for cell, rows, ticks in self._pieces(contract, quality, [row.file for row in recordings]):
            if cell.session.open_ns not in foldings:
                foldings[cell.session.open_ns] = begin(contract, cell.session, quality)
            foldings[cell.session.open_ns].add(rows, ticks, Counts(len(rows), volume_of(rows, quality)))
        first, last = recordings[0].trade_date, recordings[-1].trade_date + LONGEST_SESSION
        set_aside = {
            (row.trade_date, row.kind): (row.off_tick, row.out_of_order)
            for row in self._parts.store.sessions_of(self._owner, contract.key, first, last)
            if (row.source, row.quality) == (self._source, quality)
        }
        for folding in foldings.values():  # what never reached the tape is known only from the import
            known = set_aside.get((folding.session.trade_date, folding.session.kind), (0, 0))
            folding.counts.off_tick, folding.counts.out_of_order = known
        found = (
            self._as_folded(folding, _touching(recordings, folding.session))
            for folding in foldings.values()
            if not _touching(damaged, folding.session)
        )
        return [folded for folded in found if folded is not None]

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
    ) -> Iterator[tuple[SessionSlice, Rows, list[Column]]]:
        index, tick_e9 = (
            self._parts.index(contract.root),
            self._parts.universe.products[contract.root].tick_e9,
        )
        for file in files:
            for chunk in self._parts.tape.read(file, quality):
                for cell, first, last in index.split(chunk["ts_event"])[0]:
                    rows, ticks, _ = on_tick(chunk[first:last], tick_e9, quality)
                    yield cell, rows, ticks

    def _as_folded(self, folding: Folding, parts: Sequence[SpooledDay | RecordingRow]) -> Folded | None:
        ladder, session, counts = folding.fold.ladder(), folding.session, folding.counts
        if ladder is None:  # prints of size 0 alone
            return None
        minutes, zone = folding.minutes, self._parts.universe.products[session.root].zone
        row = SessionRow(
            owner=self._owner, root=session.root, contract=folding.contract.key, trade_date=session.trade_date,
            kind=session.kind, open_ns=session.open_ns, close_ns=session.close_ns, source=self._source,
            quality=folding.quality, complete=False, short=session.short, rows=counts.rows, volume=counts.volume,
            off_tick=counts.off_tick, out_of_order=counts.out_of_order, first_ns=counts.first_ns,
            last_ns=counts.last_ns, received_ns=self._now_ns, profile=dump(ladder),
            activity=activity_of(minutes, session, zone),
        )  # fmt: skip
        left = uncovered([span for part in parts for span in part.spans], session)
        return Folded(row, session, folding.contract, minutes, left, any(part.from_feed for part in parts))


def judged(folded: Sequence[Folded], judge: Judge) -> list[SessionRow]:
    """The better of several sources' rows for each session of one product, judged in order of time."""
    recorded = by_recording(folded)
    rows: list[SessionRow] = []
    ordered = sorted(folded, key=lambda one: (one.row.open_ns, one.row.contract))
    for _, same in groupby(ordered, key=lambda one: (one.row.open_ns, one.row.contract)):
        best = max((judge.judge(one, recorded[one.recording]) for one in same), key=_standing)
        judge.note(best)
        rows.append(best)
    return rows


def best_of(rows: Iterable[SessionRow]) -> list[SessionRow]:
    """The better of several sources' rows for each session of one contract."""
    best: dict[tuple[int, str], SessionRow] = {}
    for row in rows:
        key = (row.open_ns, row.kind)
        if key not in best or _standing(row) > _standing(best[key]):
            best[key] = row
    return list(best.values())


def by_recording(folded: Iterable[Folded]) -> dict[Recording, dict[Contract, Minutes]]:
    """When each contract traded, by recording."""
    found: dict[Recording, dict[Contract, Minutes]] = {}
    for one in folded:
        found.setdefault(one.recording, {})[one.contract] = one.minutes
    return found


def _united(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans in order, those that overlap or touch made one."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


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
