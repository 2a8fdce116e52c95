"""Undo imports: remove exactly the rows that they added, and compute again what depends on them.

Afterwards the tape and the sessions equal those of a data folder that never imported these files, after `outcry
refold`. Only sessions that depend on the removed rows are computed again (`affected_sessions`).

One transaction changes the database; the new tape files are on disk before it, and the old ones are removed after it.
So an interruption changes nothing or everything.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from outcry.recordings.affected_sessions import AffectedSessions, ChangedRecordings, RecomputedSessions
from outcry.recordings.contributions import (
    contributions_to,
    is_intact,
    joined_set_aside,
    known_contributions,
    merged_rows,
    with_equal_rows,
)
from outcry.recordings.session_splitting import ImportContext
from outcry.recordings.staged_day import Counts
from outcry.recordings.verification import verified
from outcry.sessions.store_model import (
    NO_FILE,
    Contribution,
    ImportRow,
    RecordingId,
    RecordingRow,
    TapeFile,
)
from outcry.trades.coverage import joined
from outcry.trades.records import Rows


class CannotForget(Exception):
    """An import cannot be undone exactly. The message names the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class ForgottenRows:
    """Rows that forgetting imports removes from one recording: how many, and how many are left."""

    contract: str
    trade_date: str
    source: str
    quality: str
    removed: int
    left: int


@dataclass(slots=True)
class _Change:
    """A recording without the forgotten rows. `rows` is None if `file` has exactly the rows that are left."""

    stored: RecordingRow | None
    left: Sequence[Contribution]
    without_base: bool
    counts: Counts
    rows: Rows | None = None
    file: TapeFile = NO_FILE
    obsolete: list[str] = field(default_factory=list[str])


class Forgetting:
    """Undoes imports of one owner. The caller must have locked the tape."""

    def __init__(self, context: ImportContext, owner: int, imports: Sequence[ImportRow]) -> None:
        self._context, self._owner = context, owner
        self._imports = {row.digest: row for row in imports}
        self._changes: dict[RecordingId, _Change] = {}

    def plan(self) -> Sequence[ForgottenRows]:
        """Determine the recordings without the rows of these imports; return what they lose.

        Raises `CannotForget`, `TapeDamaged` and `StoreBusy`.
        """
        touched = dict[RecordingId, Contribution]()
        for digest, row in self._imports.items():
            found = self._context.store.contributions_of(self._owner, digest)
            if not found:
                raise CannotForget(
                    f"{row.name} was imported by a version that did not store where its rows went. Import the other "
                    "files into a new data folder instead."
                )
            touched |= {one.recording: one for one in found if one.path != ""}
        for recording, one in sorted(touched.items()):
            self._changes[recording] = self._change(one)
        return [
            ForgottenRows(*recording, (change.stored.rows if change.stored else 0) - change.counts.rows,
                          change.counts.rows)
            for recording, change in self._changes.items()
        ]  # fmt: skip

    def _change(self, one: Contribution) -> _Change:
        store, tape = self._context.store, self._context.tape
        found = store.recordings(self._owner, one.contract, one.trade_date, one.trade_date)
        stored = next((row for row in found if row.id == one.recording), None)
        known = known_contributions(store, one)
        parts = contributions_to(known, stored, store)
        without_base = self._may_drop_base(one, known, parts)
        dropped = {*self._imports, *([""] if without_base else [])}
        left = [part for part in parts if part.digest not in dropped]
        change = _Change(stored, left, without_base, Counts())
        change.obsolete = [part.file.path for part in parts if part.digest in dropped]
        if stored:
            change.obsolete.append(stored.path)
        if len(left) == 1:
            if not is_intact(tape, left[0].file):
                next(
                    iter(tape.read(left[0].file, one.quality)), None
                )  # raises an error that states the damage
            change.file = left[0].file
            of = left[0]
            change.counts = Counts(of.rows, of.volume, 0, 0, of.first_ns, of.last_ns)
        elif left:
            change.rows = merged_rows(tape, left, one.quality)
            change.counts = Counts.of(change.rows, one.quality)
            if equal := with_equal_rows(tape, change.rows, left):
                change.rows, change.file = None, equal
        return change

    def _may_drop_base(
        self, one: Contribution, known: Iterable[Contribution], parts: Iterable[Contribution]
    ) -> bool:
        """Return whether the contribution without a digest has only rows of forgotten imports.

        Raises `CannotForget` if it has rows of a forgotten import and also others, which nothing tells apart.
        """
        mixed = {part.digest for part in known if part.path is None}
        if not mixed & self._imports.keys():
            return False
        base = next((part for part in parts if part.digest == ""), None)
        names = {row.digest: row.name for row in self._context.store.imports(self._owner)}
        unknown = [
            name
            for digest, name in names.items()
            if not self._context.store.contributions_of(self._owner, digest)
        ]
        others = [
            names.get(digest, "a file imported again later")
            for digest in sorted(mixed - self._imports.keys())
        ]
        if base and not base.from_feed and not others and not unknown:
            return True
        mine = self._imports[next(digest for digest in self._imports if digest in mixed)].name
        with_them = ", ".join(sorted({*others, *unknown})) or "a live feed"
        raise CannotForget(
            f"{mine}: an earlier version of Outcry imported it into {one.contract} {one.trade_date}, and stored its "
            f"rows together with those of {with_them}. Forget all these files in one command, or import the files "
            "that you need into a new data folder."
        )

    def run(self, now_ns: int) -> None:
        """Undo the imports, after `plan`. After an error, nothing is changed.

        Raises `CannotForget`, `StoreBusy`, `TapeDamaged` and `OSError`.
        """
        store, tape = self._context.store, self._context.tape
        try:
            for recording, change in self._changes.items():
                if change.rows is not None:
                    change.file = self._write(recording, change.rows)
            recordings = {
                recording: self._row(recording, change, now_ns)
                for recording, change in self._changes.items()
                if change.left
            }
            recomputed = self._sessions(recordings, now_ns)
            for path in (path for change in self._changes.values() for path in change.obsolete):
                tape.changes.note(path)
            store.forget_imports(
                self._owner, list(self._imports), recordings=list(recordings.values()),
                sessions=[row for one in recomputed for row in one.sessions],
                removed_sessions=[row for one in recomputed for row in one.removed],
                removed=[one for one in self._changes if one not in recordings],
                without_base=[one for one, change in self._changes.items() if change.without_base],
            )  # fmt: skip
        finally:  # of the new and the old files, remove those that the database does not name
            tape.changes.sweep(store.tape_named)

    def _write(self, recording: RecordingId, rows: Rows) -> TapeFile:
        change = self._changes[recording]
        of = change.left[0]
        writer = self._context.tape.begin(
            self._owner, self._context.universe.contract(of.contract), of.trade_date, of.source, of.quality
        )
        try:
            writer.append(rows)
            return writer.close()
        except BaseException:
            writer.abandon()
            raise

    def _row(self, recording: RecordingId, change: _Change, now_ns: int) -> RecordingRow:
        counts, of, stored = change.counts, change.left[0], change.stored
        set_aside = joined_set_aside([part.set_aside for part in change.left])
        return RecordingRow(
            self._owner, of.contract, of.trade_date, of.source, of.quality, change.file.path, counts.rows,
            counts.volume, sum(off_tick for _, off_tick, _ in set_aside), sum(late for _, _, late in set_aside),
            counts.first_ns, counts.last_ns, stored.received_ns if stored else now_ns,
            joined(span for part in change.left for span in part.spans),
            change.file.digest, any(part.from_feed for part in change.left),
        )  # fmt: skip

    def _sessions(
        self, changed: Mapping[RecordingId, RecordingRow], now_ns: int
    ) -> Sequence[RecomputedSessions]:
        """Compute the sessions again that depend on changed recordings, for each product.

        `changed`: the recordings that have rows left. Raises `CannotForget` if a recording that must be read is
        damaged.
        """
        store = self._context.store
        if store.has_damaged_recordings():
            raise CannotForget(
                "The database has damaged rows of recordings. Run `outcry doctor`, and repair them first."
            )
        mine: dict[str, list[RecordingRow]] = {self._root(key): [] for key, *_ in self._changes}
        for row in store.all_recordings():
            if row.owner == self._owner and self._root(row.contract) in mine:
                mine[self._root(row.contract)].append(row)
        return [self._recomputed(root, rows, changed, now_ns) for root, rows in sorted(mine.items())]

    def _recomputed(
        self, root: str, before: Sequence[RecordingRow], changed: Mapping[RecordingId, RecordingRow], now_ns: int
    ) -> RecomputedSessions:  # fmt: skip
        after = [
            *(row for row in before if row.id not in self._changes),
            *(row for row in changed.values() if self._root(row.contract) == root),
        ]
        stored, damaged = self._context.store.sessions_and_damaged([self._owner], root)
        # without the damaged sessions nothing tells which others were compared with them
        ids = frozenset(row.id for row in before) if damaged else frozenset(self._changes)
        affected = AffectedSessions(
            self._context, self._owner, ChangedRecordings(root, before, after, ids), now_ns,
            frozenset(self._imports), self._check,
        )  # fmt: skip
        return affected.recompute(stored)

    def _root(self, contract: str) -> str:
        return self._context.universe.contract(contract).root

    def _check(self, row: RecordingRow) -> None:
        _, fault = verified(row, self._context.tape)
        if fault:
            raise CannotForget(f"{fault}. Then forget the file again.")
