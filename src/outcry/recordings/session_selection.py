"""Build a row for each session from all recordings on the tape, and select the best row of each session.

A session has one source and one quality. The best is complete before partial, then of finer resolution, then of larger
volume. Sessions are processed in order of time, because completeness depends on earlier sessions.
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
from outcry.recordings.staging import Counts, StagedDay
from outcry.recordings.tape import TapeDamaged, TapeFolder
from outcry.sessions.completeness import RECENT, Minutes, Usual, activity_of, by_minute, unexplained
from outcry.sessions.store import SqlStore
from outcry.sessions.store_model import RecordingRow, SessionRow, TapeFile, Traded
from outcry.trades.coverage import GRACE_NS, Span, uncovered
from outcry.trades.records import Quality, Rows
from outcry.trades.rows import Column, fold_rows, on_tick, volume_of
from outcry.trades.session_index import SessionIndex, SessionSlice

#: Open (ns UTC), source and quality of a session of one product, for any of its contracts.
RecordingKey = tuple[int, str, Quality]

LONGEST_SESSION = timedelta(days=10)  # the longest overnight session, over several holidays


class ImportContext:
    """What all imports share: the store, the tape, and the session index of each product."""

    def __init__(self, store: SqlStore, tape: TapeFolder, universe: Universe, calendar: Calendar) -> None:
        self.store, self.tape, self.universe = store, tape, universe
        self._calendar = calendar
        self._indexes: dict[str, SessionIndex] = {}

    def begin(self, root: str) -> date:
        """Return the first day for which the session tables have hours of a product."""
        return self._calendar.hours.begin(root)

    def index(self, root: str) -> SessionIndex:
        """Return the product's session index, which splits rows by session."""
        if root not in self._indexes:
            self._indexes[root] = SessionIndex(self._calendar, root)
        return self._indexes[root]


@dataclass(slots=True)
class SessionFold:
    """The profile of one session of one contract, while rows are added."""

    contract: Contract
    session: Session
    quality: Quality
    fold: BulkFold
    counts: Counts = field(default_factory=Counts)
    _minutes: list[NDArray[np.int64]] = field(default_factory=list[NDArray[np.int64]])

    def add(self, rows: Rows, ticks: list[Column], counts: Counts) -> None:
        """Add rows to the profile and count them, in order of time, with their prices in ticks.

        Raises `RangeTooWide`.
        """
        if len(rows):
            fold_rows(self.fold, rows, ticks, self.quality)
            lots = rows["size" if self.quality is Quality.TICKS else "volume"]
            self._minutes.append(np.unique(rows["ts_event"][lots > 0] // NANOS_PER_MINUTE))
        self.counts.add(counts, rows)

    @property
    def minutes(self) -> Minutes:
        """Return the minutes since 1970 with at least one trade, ascending."""
        return by_minute(self._minutes)


@dataclass(frozen=True, slots=True)
class FoldedSession:
    """A computed session whose completeness and holes are not determined yet.

    `uncovered` are the spans (ns UTC) of the session that its recordings do not cover. `from_feed`: the recordings are
    of a live feed, which was unavailable in those spans.
    """

    row: SessionRow
    session: Session
    contract: Contract
    minutes: Minutes
    uncovered: Sequence[Span]
    from_feed: bool

    @property
    def recording(self) -> RecordingKey:
        """Return the key of the recording that the session was computed from."""
        return self.row.open_ns, self.row.source, self.row.quality


class CompletenessCheck:
    """Determines which sessions are complete, by comparing each with recent sessions of its product.

    Sessions must be passed in order of time. `stored`: include the sessions of the store; otherwise only sessions that
    this object has processed.
    """

    def __init__(self, context: ImportContext, owner: int, now_ns: int, *, stored: bool) -> None:
        self._context, self._owner, self._now_ns, self._stored = context, owner, now_ns, stored
        self._recorded: dict[str, list[Traded]] = {}

    def judge(self, folded: FoldedSession, recorded: Mapping[Contract, Minutes]) -> SessionRow:
        """Return the session's row with its holes, and whether it is complete.

        A session that is not over yet stays incomplete without holes. `recorded` has the traded minutes of all
        contracts in the same recording. If the front contract is among them, their union shows the holes of a contract
        that trades too rarely to show them itself.
        """
        row, session = folded.row, folded.session
        if self._now_ns < session.close_ns + GRACE_NS:
            return row
        product = self._context.universe.products[row.root]
        front = self._context.universe.front(row.root, row.trade_date)
        minutes = folded.minutes
        if front != folded.contract and front in recorded:
            minutes = by_minute(list(recorded.values()))
        gaps = unexplained(
            minutes, session, product, Usual(product, session, self._of(row.root, row.trade_date)),
            front=front in {folded.contract, *recorded}, uncovered=folded.uncovered,
        )  # fmt: skip
        holes = _merged([*gaps, *(folded.uncovered if folded.from_feed else ())])
        return replace(row, holes=holes, complete=not holes)

    def note(self, row: SessionRow) -> None:
        """Add a complete session to those that later sessions are compared with; ignore an incomplete one."""
        if row.complete:
            known = self._of(row.root, row.trade_date)
            known.append(Traded(row.contract, row.trade_date, row.kind, row.volume, row.activity))

    def _of(self, root: str, day: date) -> list[Traded]:
        if root not in self._recorded:
            found = (
                self._context.store.traded(self._owner, root, day - RECENT, date.max) if self._stored else []
            )
            self._recorded[root] = list(found)
        return self._recorded[root]


def begin_fold(contract: Contract, session: Session, quality: Quality) -> SessionFold:
    """Return an empty profile of a session, to which rows can be added."""
    return SessionFold(
        contract, session, quality, BulkFold(bracket_windows(session.segments, BRACKET_MINUTES))
    )


class SessionBuilder:
    """Builds session rows of one owner and source for one import; `now_ns` is its time (ns UTC)."""

    def __init__(self, context: ImportContext, owner: int, source: str, now_ns: int) -> None:
        self._context, self._owner, self._source, self._now_ns = context, owner, source, now_ns
        #: Sessions with a damaged recording, by contract and open (ns UTC).
        self._partly_damaged: set[tuple[str, int]] = set()

    def folded(self, fold: SessionFold, days: Sequence[StagedDay]) -> FoldedSession | None:
        """Return the session computed from all recordings of the source; None if no lots were traded.

        `days` are the days just staged. If they contain the whole session, the profile computed while reading is used;
        otherwise the session is computed from the tape. Raises `RangeTooWide`.
        """
        others = self._others(fold, days)
        parts = (*days, *others)
        if others or not all(day.pure for day in days):
            files = [part.file for part in parts]
            again = begin_fold(fold.contract, fold.session, fold.quality)
            again.counts.off_tick, again.counts.out_of_order = (
                fold.counts.off_tick,
                fold.counts.out_of_order,
            )
            for cell, rows, ticks in self._session_rows(fold.contract, fold.quality, files):
                if cell.session == fold.session:
                    again.add(rows, ticks, Counts(len(rows), volume_of(rows, again.quality)))
            fold = again
        return self._as_folded(fold, parts)

    def is_best(self, row: SessionRow) -> bool:
        """Return whether a row has precedence over the stored row of its session."""
        kept = self.stored(row)
        if kept is None or _rank(row) >= _rank(kept):
            return True
        return _same_source(row, kept) and (row.contract, row.open_ns) not in self._partly_damaged

    def stored(self, row: SessionRow) -> SessionRow | None:
        """Return the stored row of the same session; None if there is none, or a damaged one."""
        found = self._context.store.sessions_of(row.owner, row.contract, row.trade_date, row.trade_date)
        return next((session for session in found if session.kind is row.kind), None)

    def refold(
        self, contract: Contract, recordings: Sequence[RecordingRow], damaged: Sequence[RecordingRow]
    ) -> list[FoldedSession]:
        """Compute all sessions of one contract's recordings from the tape, except those with a damaged recording.

        All recordings are of one source and quality, in order of trade date.
        """
        if not recordings:
            return []
        quality = recordings[0].quality
        folds: dict[int, SessionFold] = {}
        for cell, rows, ticks in self._session_rows(contract, quality, [row.file for row in recordings]):
            if cell.session.open_ns not in folds:
                folds[cell.session.open_ns] = begin_fold(contract, cell.session, quality)
            folds[cell.session.open_ns].add(rows, ticks, Counts(len(rows), volume_of(rows, quality)))
        first, last = recordings[0].trade_date, recordings[-1].trade_date + LONGEST_SESSION
        set_aside = {
            (row.trade_date, row.kind): (row.off_tick, row.out_of_order)
            for row in self._context.store.sessions_of(self._owner, contract.key, first, last)
            if (row.source, row.quality) == (self._source, quality)
        }
        for fold in folds.values():  # rows that were not written to the tape exist only during the import
            known = set_aside.get((fold.session.trade_date, fold.session.kind), (0, 0))
            fold.counts.off_tick, fold.counts.out_of_order = known
        found = (
            self._as_folded(fold, _touching(recordings, fold.session))
            for fold in folds.values()
            if not _touching(damaged, fold.session)
        )
        return [folded for folded in found if folded is not None]

    def _others(self, fold: SessionFold, days: Sequence[StagedDay]) -> list[RecordingRow]:
        """Return recordings from earlier imports that contain the rest of a session.

        They have the same source and other trade dates.
        """
        last = fold.session.trade_date
        found = self._context.store.recordings(self._owner, fold.contract.key, last - LONGEST_SESSION, last)
        mine = {day.trade_date for day in days}
        same = [r for r in found if (r.source, r.quality) == (self._source, fold.quality)]
        touching = [row for row in _touching(same, fold.session) if row.trade_date not in mine]
        readable = [row for row in touching if self._is_readable(row)]
        if len(readable) < len(touching):
            self._partly_damaged.add((fold.contract.key, fold.session.open_ns))
        return readable

    def _is_readable(self, row: RecordingRow) -> bool:
        """Return whether the tape file of a recording is undamaged.

        Only its own recording can replace a damaged one.
        """
        try:
            found = self._context.tape.digest(row.path)
        except TapeDamaged:
            return False
        return row.digest in {"", found}

    def _session_rows(
        self, contract: Contract, quality: Quality, files: Iterable[TapeFile]
    ) -> Iterator[tuple[SessionSlice, Rows, list[Column]]]:
        index, tick_e9 = (
            self._context.index(contract.root),
            self._context.universe.products[contract.root].tick_e9,
        )
        for file in files:
            for chunk in self._context.tape.read(file, quality):
                for cell, first, last in index.split(chunk["ts_event"])[0]:
                    rows, ticks, _ = on_tick(chunk[first:last], tick_e9, quality)
                    yield cell, rows, ticks

    def _as_folded(
        self, fold: SessionFold, parts: Sequence[StagedDay | RecordingRow]
    ) -> FoldedSession | None:
        ladder, session, counts = fold.fold.ladder(), fold.session, fold.counts
        if ladder is None:  # only trades of size 0
            return None
        minutes, zone = fold.minutes, self._context.universe.products[session.root].zone
        row = SessionRow(
            owner=self._owner, root=session.root, contract=fold.contract.key, trade_date=session.trade_date,
            kind=session.kind, open_ns=session.open_ns, close_ns=session.close_ns, source=self._source,
            quality=fold.quality, complete=False, short=session.short, rows=counts.rows, volume=counts.volume,
            off_tick=counts.off_tick, out_of_order=counts.out_of_order, first_ns=counts.first_ns,
            last_ns=counts.last_ns, received_ns=self._now_ns, profile=dump(ladder),
            activity=activity_of(minutes, session, zone),
        )  # fmt: skip
        left = uncovered([span for part in parts for span in part.spans], session)
        return FoldedSession(
            row, session, fold.contract, minutes, left, any(part.from_feed for part in parts)
        )


def select_sessions(folded: Sequence[FoldedSession], judge: CompletenessCheck) -> list[SessionRow]:
    """Determine completeness in order of time, and return the best row for each session of one product."""
    recorded = minutes_by_recording(folded)
    rows: list[SessionRow] = []
    ordered = sorted(folded, key=lambda one: (one.row.open_ns, one.row.contract))
    for _, same in groupby(ordered, key=lambda one: (one.row.open_ns, one.row.contract)):
        best = max((judge.judge(one, recorded[one.recording]) for one in same), key=_rank)
        judge.note(best)
        rows.append(best)
    return rows


def best_of(rows: Iterable[SessionRow]) -> list[SessionRow]:
    """Return the best row for each session of one contract, among rows of several sources and qualities."""
    best: dict[tuple[int, str], SessionRow] = {}
    for row in rows:
        key = (row.open_ns, row.kind)
        if key not in best or _rank(row) > _rank(best[key]):
            best[key] = row
    return list(best.values())


def minutes_by_recording(folded: Iterable[FoldedSession]) -> dict[RecordingKey, dict[Contract, Minutes]]:
    """Return the minutes in which each contract traded, by recording."""
    found: dict[RecordingKey, dict[Contract, Minutes]] = {}
    for one in folded:
        found.setdefault(one.recording, {})[one.contract] = one.minutes
    return found


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Sort time spans and merge overlapping or adjacent ones."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def touches(recording: RecordingRow, row: SessionRow) -> bool:
    """Return whether a recording overlaps a stored session of the same source and quality."""
    same = (recording.source, recording.quality) == (row.source, row.quality)
    return same and recording.first_ns < row.close_ns and recording.last_ns >= row.open_ns


def _touching(recordings: Iterable[RecordingRow], session: Session) -> list[RecordingRow]:
    return [row for row in recordings if row.first_ns < session.close_ns and row.last_ns >= session.open_ns]


def _rank(row: SessionRow) -> tuple[bool, int, int]:
    return row.complete, -row.quality.rank, row.volume


def _same_source(row: SessionRow, kept: SessionRow) -> bool:
    return (row.source, row.quality) == (kept.source, kept.quality)
