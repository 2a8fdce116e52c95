"""Compute again only the sessions that changed recordings affect, with the result of computing all of them.

A session is affected if its rows are in a changed recording, or if it was compared with sessions that changed
(`completeness_check`). Naked POCs and other levels carried forward are computed for each answer.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import groupby

from outcry.market.calendar import Session, SessionKind
from outcry.recordings.completeness_check import CompletenessCheck
from outcry.recordings.refolding import SessionDate, fold_recordings, select
from outcry.recordings.session_selection import LONGEST_SESSION, touching
from outcry.recordings.session_splitting import ImportContext
from outcry.sessions.completeness import RECENT, has_no_gap, recent_activity
from outcry.sessions.store_model import RecordingId, RecordingRow, SessionRow, Traded
from outcry.trades.coverage import GRACE_NS

_KINDS = (SessionKind.ETH, SessionKind.RTH)  # in order of open


@dataclass(frozen=True, slots=True)
class ChangedRecordings:
    """All recordings of one product and owner, before and after a change. `ids`: those that changed or are gone."""

    root: str
    before: Sequence[RecordingRow]
    after: Sequence[RecordingRow]
    ids: frozenset[RecordingId]


@dataclass(slots=True)
class RecomputedSessions:
    """The sessions that were computed again, and those that have no rows any more."""

    sessions: list[SessionRow] = field(default_factory=list[SessionRow])
    removed: list[SessionRow] = field(default_factory=list[SessionRow])


class _ByDate:
    """The complete sessions of a product, by trade date and kind."""

    def __init__(self) -> None:
        self._found: dict[SessionDate, list[Traded]] = {}

    def add(self, row: SessionRow) -> None:
        if row.complete:
            one = Traded(row.contract, row.trade_date, row.kind, row.volume, row.activity)
            self._found.setdefault((row.trade_date, row.kind), []).append(one)

    def at(self, which: SessionDate) -> list[Traded]:
        return sorted(self._found.get(which, ()), key=lambda one: one.contract)

    def before(self, which: SessionDate) -> Iterator[Traded]:
        """Yield those with which sessions of a trade date and kind are compared."""
        day, kind = which
        for days in range(1, RECENT.days + 1):
            yield from self._found.get((day - timedelta(days=days), kind), ())


class AffectedSessions:
    """Determines and computes the sessions of one product that a change of recordings affects.

    forgotten: digests of imports of which the recordings no longer have rows. check: called with each recording before
    it is read; it may raise an error.
    """

    def __init__(
        self, context: ImportContext, owner: int, changed: ChangedRecordings, now_ns: int,
        forgotten: frozenset[str], check: Callable[[RecordingRow], None],
    ) -> None:  # fmt: skip
        self._context, self._owner, self._changed, self._now_ns = context, owner, changed, now_ns
        self._forgotten, self._check = forgotten, check
        self._checked: set[RecordingId] = set()
        self._received = _newest_by_date(changed.before)
        #: The complete sessions before and after the change, and the trade dates on which they differ.
        self._was, self._now = _ByDate(), _ByDate()
        self._differ: dict[SessionKind, list[date]] = {kind: [] for kind in _KINDS}

    def recompute(self, stored: Iterable[SessionRow]) -> RecomputedSessions:
        """Compute the affected sessions again, in order of time. stored: all sessions of the product and owner."""
        done = RecomputedSessions()
        known: dict[SessionDate, list[SessionRow]] = {}
        for row in stored:
            known.setdefault((row.trade_date, row.kind), []).append(row)
        changed = set(self._changed_sessions(row for rows in known.values() for row in rows))
        judge = CompletenessCheck(self._context, self._owner, self._now_ns, stored=False)
        for day in sorted({day for day, _ in known.keys() | changed}):
            wanted = {
                (day, kind)
                for kind in _KINDS
                if (day, kind) in changed or self._depends((day, kind), known.get((day, kind), ()))
            }
            for kind in _KINDS:  # so that later sessions are compared with those that stay
                for row in known.get((day, kind), ()) if (day, kind) not in wanted else ():
                    judge.note(row)
                    self._now.add(row)
            found = self._fold(wanted, judge) if wanted else []
            done.sessions += found
            new = {(row.contract, row.kind) for row in found}
            for kind in _KINDS:
                for row in known.get((day, kind), ()):
                    self._was.add(row)
                    if (day, kind) in wanted and (row.contract, row.kind) not in new:
                        done.removed.append(row)
            for row in found:
                self._now.add(row)
            for kind in _KINDS:
                if self._was.at((day, kind)) != self._now.at((day, kind)):
                    self._differ[kind].append(day)
        return done

    def _changed_sessions(self, stored: Iterable[SessionRow]) -> Iterator[SessionDate]:
        """Yield the sessions that may have rows in a changed recording, before or after the change."""
        spans = [
            (row.trade_date, row.first_ns, row.last_ns)
            for row in (*self._changed.before, *self._changed.after)
            if row.id in self._changed.ids
        ]
        for day, first_ns, last_ns in spans:
            for session in self._sessions(day - LONGEST_SESSION, day + LONGEST_SESSION):
                if session.open_ns <= last_ns and session.close_ns > first_ns:
                    yield session.trade_date, session.kind
        for row in stored:
            if any(row.open_ns <= last_ns and row.close_ns > first_ns for _, first_ns, last_ns in spans):
                yield row.trade_date, row.kind

    def _depends(self, which: SessionDate, rows: Sequence[SessionRow]) -> bool:
        """Return whether sessions whose own recordings did not change may be judged differently now.

        rows: the stored sessions of all contracts.
        """
        if not rows:
            return False
        if not self._is_settled(which, rows):
            return True
        day, kind = which
        if not any(day - RECENT <= other < day for other in self._differ[kind]):
            return False
        was, now = (recent_activity(by.before(which), kind, day) for by in (self._was, self._now))
        return was != now and not all(has_no_gap(row.activity) and self._is_alone(row) for row in rows)

    def _is_settled(self, which: SessionDate, rows: Sequence[SessionRow]) -> bool:
        """Return whether sessions were computed with everything that they depend on, as `outcry refold` does.

        Otherwise they were stored before a file of earlier sessions, or with the file of one contract only.
        """
        received = {row.received_ns for row in rows}
        oldest = which[0] - RECENT - LONGEST_SESSION
        newest_ns = max((at for day, at in self._received.items() if oldest <= day <= which[0]), default=0)
        over_ns = max(row.close_ns for row in rows) + GRACE_NS
        return len(received) == 1 and min(received) >= max(newest_ns, over_ns)

    def _is_alone(self, row: SessionRow) -> bool:
        """Return whether all recordings of a session are of one source and quality, so that no other can replace it."""
        same = [one for one in self._changed.after if one.contract == row.contract]
        return (
            len({(one.source, one.quality) for one in same if _overlap(one, row.open_ns, row.close_ns)}) == 1
        )

    def _fold(self, wanted: set[SessionDate], judge: CompletenessCheck) -> list[SessionRow]:
        sessions = [one for day in {day for day, _ in wanted} for one in self._sessions(day, day)]
        sessions = [one for one in sessions if (one.trade_date, one.kind) in wanted]
        rows = {row.id: row for one in sessions for row in touching(self._changed.after, one)}
        for row in rows.values():
            if row.id not in self._checked:
                self._check(row)
                self._checked.add(row.id)
        ordered = sorted(rows.values(), key=lambda row: (row.contract, row.source, row.quality.rank))
        folded = fold_recordings(
            self._context, self._owner, ordered, self._now_ns, forgotten=self._forgotten, wanted=wanted
        )
        return select(folded, judge)

    def _sessions(self, first: date, last: date) -> Sequence[Session]:
        return self._context.calendar.sessions(self._changed.root, first, last)


def _overlap(row: RecordingRow, open_ns: int, close_ns: int) -> bool:
    return row.first_ns < close_ns and row.last_ns >= open_ns


def _newest_by_date(rows: Iterable[RecordingRow]) -> Mapping[date, int]:
    """Return when the newest recording of each trade date was stored (ns UTC)."""
    ordered = sorted(rows, key=lambda row: row.trade_date)
    return {
        day: max(row.received_ns for row in of_day)
        for day, of_day in groupby(ordered, key=lambda row: row.trade_date)
    }
