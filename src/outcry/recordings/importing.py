"""Imports files: rows to the tape by contract and trade date, sessions folded on the way, all or nothing a file.

Rules kept: a file that is refused leaves the store as it was; a file reported done survives any crash, for its tape
is on disk before the one transaction that names it; importing a file again changes nothing.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path
from typing import Literal

import numpy as np

from outcry.base.timestamps import iso_timestamp
from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.instruments import Contract, Universe
from outcry.market.ladder import RangeTooWide
from outcry.market.units import NANOS_PER_SECOND, price_text
from outcry.recordings.file_model import FileRefused, Library, Reading, ReadOptions
from outcry.recordings.session_selection import (
    Folded,
    Folding,
    Judge,
    Parts,
    Settling,
    begin,
    best_of,
    by_recording,
    judged,
    touches,
)
from outcry.recordings.spool import Counts, Spool, SpooledDay
from outcry.recordings.verification import verified
from outcry.sessions.store_model import RecordingId, RecordingRow, SessionRow, SessionStore
from outcry.sessions.tape_model import Tape, TapeDamaged
from outcry.trades import contract_lifetime
from outcry.trades.contract_lifetime import day_ns
from outcry.trades.coverage import GRACE_NS, Span
from outcry.trades.records import Batch, Quality
from outcry.trades.rows import in_order, on_tick, volume_of
from outcry.trades.validation import MOST_BAR_LOTS

MAX_OFF_TICK_SHARE = (
    10  # a tenth: a stray print is set aside, another product's prices are not ours to sort out
)
FEW_ROWS = 10  # too few to tell a wrong label by
MOST_VOLUME = 2**62  # lots in one file: what is summed and stored stays a number of 64 bits

Progress = Callable[[int, int], None]
State = Literal["imported", "unchanged", "no trades"]


@dataclass(frozen=True, slots=True)
class Refolded:
    """A contract computed anew: how many sessions it has, and a line for each tape file that is damaged."""

    contract: str
    sessions: int
    faults: Sequence[str]


@dataclass(frozen=True, slots=True)
class SessionReport:
    """What a file brought to one session. Counts are rows; `holes` ns UTC; `zone`: IANA zone of the product."""

    contract: str
    trade_date: str
    kind: SessionKind
    quality: Quality
    rows: int
    volume: int
    off_tick: int
    duplicates: int
    out_of_order: int
    complete: bool
    holes: tuple[Span, ...]
    zone: str
    kept: Literal["new", "unchanged", "second best"]


@dataclass(slots=True)
class FileReport:
    """What became of one file. `skipped`: reasons against rows; `outside`: rows in no session's hours; `damaged`: tape
    files that were damaged, and that its rows have replaced."""

    path: Path
    state: State
    format: str = ""
    source: str = ""
    rows: int = 0
    outside: int = 0
    skipped: dict[str, int] = field(default_factory=dict[str, int])
    sessions: list[SessionReport] = field(default_factory=list[SessionReport])
    damaged: list[str] = field(default_factory=list[str])


class Importer:
    """Imports files into a tape and a store. `now_ns` is the time of import, for what may count as completed."""

    def __init__(
        self, library: Library, store: SessionStore, tape: Tape, universe: Universe, calendar: Calendar
    ) -> None:
        self._library = library
        self._parts = Parts(store, tape, universe, calendar)

    def files(self, path: Path) -> list[Path]:
        """The files a path names: itself, or those below a folder. Raises `FileRefused`."""
        return self._library.expand(path)

    def run(
        self, path: Path, owner: int, options: ReadOptions, now_ns: int, progress: Progress = lambda _done, _of: None
    ) -> FileReport:  # fmt: skip
        """Import one file; raise `FileRefused`, `StoreBusy`, `TapeInUse` or `OSError`, and then nothing is kept."""
        tape, store = self._parts.tape, self._parts.store
        with tape.exclusively():
            tape.sweep(store.tape_named)
            before = _identity(path)
            reading = self._library.open(path, self._parts.universe, options)
            if reading is None:
                return FileReport(path, "no trades")
            digest = _digest(path, options)
            if store.import_known(owner, digest) and self._is_whole(owner, store.imported(owner, digest)):
                return FileReport(path, "unchanged", reading.format, reading.source)

            def unchanged() -> None:
                if _identity(path) != before:
                    raise FileRefused(
                        path, "", "the file changed while it was read", "import it again when it is complete"
                    )

            return self._take(reading, owner, digest, now_ns, progress, unchanged)

    def _is_whole(self, owner: int, brought: Sequence[RecordingId]) -> bool:
        """Whether all that an earlier import brought is still what was stored: else it is taken in again. False too
        where it is not known what it brought, or a file of it has no digest yet."""
        store, tape = self._parts.store, self._parts.tape
        for contract, day, source, quality in brought:
            trade_date = date.fromisoformat(day)
            stored = store.recordings(owner, contract, trade_date, trade_date)
            kept = next((row for row in stored if row.id == (contract, day, source, quality)), None)
            try:
                if kept is None or not kept.digest or tape.digest(kept.path) != kept.digest:
                    return False
            except TapeDamaged:
                return False
        roots = {self._parts.universe.contract(contract).root for contract, *_ in brought}
        return bool(brought) and not any(store.sessions_and_damaged([owner], root)[1] for root in roots)

    def record(
        self, reading: Reading, owner: int, settled_ns: int, may_still: Callable[[], None]
    ) -> FileReport:
        """Take in a reading that is no file: what a live stream has seen up to an instant (ns UTC, event time).

        Sessions over by then are complete where the reading covers them and no gap is a hole.

        `may_still`: raises where it is no longer to
        be stored; asked while nobody else may store anything. Raises as `run` does.
        """
        with self._parts.tape.exclusively():
            self._parts.tape.sweep(self._parts.store.tape_named)
            return self._take(reading, owner, "", settled_ns, lambda _done, _of: None, may_still)

    def _take(
        self, reading: Reading, owner: int, digest: str, now_ns: int, progress: Progress,
        unchanged: Callable[[], None],
    ) -> FileReport:  # fmt: skip
        intake = _Intake(self._parts, owner, reading)
        try:
            report = intake.take(digest, now_ns, progress, unchanged)
        except BaseException:
            intake.spool.abandon()
            raise
        report.damaged = intake.spool.set_damaged_aside()
        self._parts.tape.sweep(self._parts.store.tape_named)
        return report

    def refold(self, now_ns: int) -> Iterator[Refolded]:
        """Compute every session anew from the tape: after the tables of sessions, or the rules, have changed.

        Yields each contract as it is done. A damaged file is named; sessions it holds a part of stay as stored. Raises
        `StoreBusy`, `TapeInUse`.
        """
        store = self._parts.store
        with self._parts.tape.exclusively():
            contract = self._parts.universe.contract
            ordered = sorted(
                store.all_recordings(),
                key=lambda r: (r.owner, contract(r.contract).root, r.contract, r.source, r.quality.rank),
            )
            whole = not store.has_damaged_recordings()
            for (owner, _), of_product in groupby(
                ordered, key=lambda r: (r.owner, contract(r.contract).root)
            ):
                yield from self._refolded(owner, list(of_product), now_ns, whole=whole)

    def _refolded(
        self, owner: int, of_product: Sequence[RecordingRow], now_ns: int, *, whole: bool
    ) -> Iterator[Refolded]:
        """Fold the contracts of one product anew: each session is judged by those before it, whatever their contract.
        `whole`: the store has lost the row of no recording."""
        checked = {row.id: verified(row, self._parts.tape) for row in of_product}
        folded: list[Folded] = []
        for (key, source, _), group in groupby(of_product, key=lambda r: (r.contract, r.source, r.quality)):
            recordings = sorted(group, key=lambda r: r.trade_date)
            unread = [row for row in recordings if checked[row.id][1]]
            readable = [row for row in recordings if not checked[row.id][1]]
            settling = Settling(self._parts, owner, source, now_ns)
            folded += settling.refold(self._parts.universe.contract(key), readable, unread)
        for row in of_product:
            found, fault = checked[row.id]
            if not row.digest and not fault:
                self._parts.store.add_digest(row, found)
        rows = judged(folded, Judge(self._parts, owner, now_ns, stored=False))
        for key, of_contract in groupby(of_product, key=lambda r: r.contract):
            recordings = list(of_contract)
            damaged = [row for row in recordings if checked[row.id][1]]
            mine = [row for row in rows if row.contract == key]
            if damaged or not whole:
                mine += self._left(owner, key, [one.row for one in folded], damaged, whole=whole)
            best = best_of(mine)
            self._parts.store.replace_sessions(owner, key, best)
            yield Refolded(key, len(best), [checked[row.id][1] for row in damaged])

    def _left(
        self,
        owner: int,
        key: str,
        folded: Sequence[SessionRow],
        damaged: Sequence[RecordingRow],
        *,
        whole: bool,
    ) -> list[SessionRow]:
        """Stored sessions of a contract that could not be folded anew, since a recording of theirs is damaged."""
        known = {(row.contract, row.trade_date, row.kind, row.source, row.quality) for row in folded}
        return [
            row
            for row in self._parts.store.sessions_of(owner, key, date.min, date.max)
            if (key, row.trade_date, row.kind, row.source, row.quality) not in known
            and (not whole or any(touches(one, row) for one in damaged))
        ]


class _Intake:
    """One file on its way in."""

    def __init__(self, parts: Parts, owner: int, reading: Reading) -> None:
        self._parts, self._owner, self._reading = parts, owner, reading
        self.spool = Spool(parts.tape, owner, reading.source)
        self._foldings: dict[tuple[Contract, Quality, int], Folding] = {}
        self._outside = self._volume = 0
        self._span: dict[str, Span] = {}
        self._latest: dict[tuple[Contract, Quality], int] = {}
        #: Rows before the session tables of their product begin, by root.
        self._early: dict[str, int] = {}
        self._latest_possible_ns = 2**63 - 1

    def take(self, digest: str, now_ns: int, progress: Progress, unchanged: Callable[[], None]) -> FileReport:
        """Read the file, keep its rows and sessions, and say what they were. `unchanged` raises if it was written to
        meanwhile, or may no longer be taken in; without a `digest` it may come again, longer."""
        reading, store = self._reading, self._parts.store
        if digest:  # a feed's clock is its own: what is replayed may be of any time
            self._latest_possible_ns = now_ns + GRACE_NS
        for batch in reading.batches():
            self._route(batch)
            progress(reading.bytes_read, reading.bytes_total)
        unchanged()
        for root, early in self._early.items():
            reason = f"rows before {self._parts.begin(root)}, when the session tables of {root} begin"
            reading.counts.skip(reason, early)
        if not self._foldings and not self._outside and not self._early and reading.counts.skipped:
            return self._report_file("no trades", [])
        self._check_labels()
        spans = {root: reading.covered or (span,) for root, span in self._span.items()}
        days = self.spool.finish(store, spans, from_feed=bool(reading.covered), replace=reading.replaces)
        recordings = [day.recording(now_ns) for day in days if day.changed]
        sessions, reports = self._settle(days, now_ns)
        self.spool.retire()
        store.commit_import(
            self._owner, digest, _plain(reading.path.name), recordings, sessions, now_ns,
            brought=[day.id for day in days], fresh=[day.id for day in days if day.fresh],
        )  # fmt: skip
        return self._report_file("imported" if recordings else "unchanged", reports)

    def _report_file(self, state: State, sessions: list[SessionReport]) -> FileReport:
        reading = self._reading
        return FileReport(
            reading.path, state, reading.format, reading.source, reading.counts.rows, self._outside,
            dict(reading.counts.skipped), sessions,
        )  # fmt: skip

    def _check_labels(self) -> None:
        """Refuse a file whose rows do not fit the contract it was said to hold."""
        path, skipped = self._reading.path, self._reading.counts.skipped
        if not self._foldings:
            reasons = [f"{rows:,} {reason}" for reason, rows in skipped.items()]
            if self._outside or not self._early:
                reasons.append(f"{self._outside:,} outside the product's trading hours")
            remedy = "check the time zone (--tz)" if self._outside else "import recordings of later days"
            raise FileRefused(path, "", f"the file has no usable rows: {', '.join(reasons)}", remedy)
        of_contract: dict[Contract, list[Counts]] = {}
        for folding in self._foldings.values():
            of_contract.setdefault(folding.contract, []).append(folding.counts)
        for contract, parts in of_contract.items():
            rows, off_tick = sum(part.rows for part in parts), sum(part.off_tick for part in parts)
            if not rows or off_tick > max(FEW_ROWS, (rows + off_tick) // MAX_OFF_TICK_SHARE):
                tick = price_text(self._parts.universe.products[contract.root].tick_e9)
                raise FileRefused(
                    path, "",
                    f"{off_tick:,} of {rows + off_tick:,} rows of {contract.key} are not multiples of its tick {tick}",
                    "check the contract and the unit of the prices",
                )  # fmt: skip

    def _route(self, batch: Batch) -> None:
        """Split a batch by session and trade date, set off-tick rows aside, fold and spool the rest."""
        contract, quality = batch.contract, batch.quality
        latest_ns = self._latest.get((contract, quality), -(2**63))
        rows, late = in_order(batch.rows, latest_ns)
        if not len(rows):
            return
        self._check_volume(batch)
        times = rows["ts_event"]
        first_ns, last_ns = int(times[0]), int(times[-1])
        self._latest[contract, quality] = max(latest_ns, last_ns)
        for at_ns in (
            first_ns,
            last_ns,
        ):  # before the calendar is worked out for a century that a flipped bit names
            self._check_life(batch, date(1970, 1, 1) + timedelta(seconds=at_ns // NANOS_PER_SECOND))
        if last_ns > self._latest_possible_ns:
            raise FileRefused(
                self._reading.path, batch.place, f"the timestamp {iso_timestamp(last_ns)} is in the future",
                "check the dates, the time zone (--tz) and this machine's clock",
            )  # fmt: skip
        begin_ns = day_ns(self._parts.begin(contract.root))
        if first_ns < begin_ns:
            early = int(np.searchsorted(times, begin_ns))
            self._early[contract.root] = self._early.get(contract.root, 0) + early
            rows, times, late = rows[early:], times[early:], late[early:]
            if not len(rows):
                return
            first_ns = int(times[0])
        known = self._span.get(contract.root, (first_ns, last_ns))
        self._span[contract.root] = (min(known[0], first_ns), max(known[1], last_ns))
        tick_e9 = self._parts.universe.products[contract.root].tick_e9
        pieces, outside = self._parts.index(contract.root).split(times)
        self._outside += outside
        for cell, first, last in pieces:
            folding = self._folding(batch, cell.session)
            good, ticks, off_tick = on_tick(rows[first:last], tick_e9, quality)
            counts = Counts(len(good), volume_of(good, quality), off_tick, int(late[first:last].sum()))
            try:
                folding.add(good, ticks, counts)
            except RangeTooWide as problem:
                raise self._too_wide(problem, contract, batch.place) from problem
            if len(good):
                self.spool.add(contract, cell.trade_date, quality, good, counts)

    def _folding(self, batch: Batch, session: Session) -> Folding:
        key = (batch.contract, batch.quality, session.open_ns)
        if key not in self._foldings:
            self._foldings[key] = begin(batch.contract, session, batch.quality)
        return self._foldings[key]

    def _check_life(self, batch: Batch, trade_date: date) -> None:
        """Refuse trades of a contract that had expired, or was not yet listed: the label or the year is wrong."""
        first, last = contract_lifetime.lifetime_days(self._parts.universe, batch.contract)
        if not first <= trade_date <= last:
            end = self._parts.universe.expiry(batch.contract)
            raise FileRefused(
                self._reading.path, batch.place,
                f"{batch.contract.key} did not trade on {trade_date}; its last trading day is {end}",
                "name the contract with --contract and a four-digit year",
            )  # fmt: skip

    def _check_volume(self, batch: Batch) -> None:
        """Refuse more lots than were ever traded: a column of another kind, or a flipped bit."""
        self._volume += volume_of(batch.rows, batch.quality)
        most = 0 if batch.quality is Quality.TICKS else int(batch.rows["volume"].max())
        if most > MOST_BAR_LOTS or self._volume > MOST_VOLUME:
            what = (
                f"a bar has {most:,} lots"
                if most > MOST_BAR_LOTS
                else f"the file has {self._volume:,} lots in total"
            )
            raise FileRefused(
                self._reading.path,
                batch.place,
                f"{batch.contract.key}: {what}",
                "check which column is the volume",
            )

    def _too_wide(self, problem: RangeTooWide, contract: Contract, place: str) -> FileRefused:
        tick_e9 = self._parts.universe.products[contract.root].tick_e9
        return FileRefused(
            self._reading.path, place, f"{contract.key}: {problem.describe(tick_e9)}",
            "check the contract and the unit of the prices",
        )  # fmt: skip

    def _settle(self, days: list[SpooledDay], now_ns: int) -> tuple[list[SessionRow], list[SessionReport]]:
        """Decide for each session the file touched whether it is complete, and better than what is stored."""
        sessions: list[SessionRow] = []
        reports: list[SessionReport] = []
        settling = Settling(self._parts, self._owner, self._reading.source, now_ns)
        judge = Judge(self._parts, self._owner, now_ns, stored=True)
        folded = list(self._folded(settling, days))
        recorded = by_recording(one for _, _, one in folded)
        for folding, mine, one in folded:
            row = judge.judge(one, recorded[one.recording])
            best, changed = settling.is_best(row), any(day.changed for day in mine)
            mended = not changed and settling.stored(row) is None
            if best:
                judge.note(row)
            if best and (changed or mended):
                sessions.append(row)
            state = "unchanged" if not changed and not mended else "new" if best else "second best"
            zone = self._parts.universe.products[row.root].zone
            reports.append(_report(folding, mine, row, zone, state))
        return sessions, reports

    def _folded(
        self, settling: Settling, days: list[SpooledDay]
    ) -> Iterator[tuple[Folding, list[SpooledDay], Folded]]:
        """Each session the file touched, with all the tape has of it, in order of time."""
        of_contract: dict[tuple[Contract, Quality], list[SpooledDay]] = {}
        for day in days:
            of_contract.setdefault((day.contract, day.quality), []).append(day)
        for folding in sorted(self._foldings.values(), key=lambda f: (f.session.open_ns, f.contract)):
            if not folding.counts.rows:
                continue
            mine = [d for d in of_contract[folding.contract, folding.quality] if d.overlaps(folding.session)]
            try:
                folded = settling.folded(folding, mine)
            except RangeTooWide as problem:
                place = f"{folding.session.trade_date}, with the rows already on tape"
                raise self._too_wide(problem, folding.contract, place) from problem
            if folded is not None:
                yield folding, mine, folded


def _report(
    folding: Folding,
    days: list[SpooledDay],
    row: SessionRow,
    zone: str,
    kept: Literal["new", "unchanged", "second best"],
) -> SessionReport:
    session, counts = folding.session, folding.counts
    return SessionReport(
        folding.contract.key, str(session.trade_date), session.kind, folding.quality, counts.rows, counts.volume,
        counts.off_tick, sum(day.duplicates_in(session) for day in days), counts.out_of_order, row.complete,
        row.holes, zone, kept,
    )  # fmt: skip


def _plain(name: str) -> str:
    """A file's name as text that any database takes, whatever bytes it is made of."""
    return name.encode("utf-8", "backslashreplace").decode()


def _identity(path: Path) -> tuple[int, ...]:
    """What changes when a file is written to or replaced."""
    try:
        found = path.stat()
    except OSError as problem:
        raise FileRefused(path, "", f"cannot read the file: {problem.strerror}") from problem
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _digest(path: Path, options: ReadOptions) -> str:
    """Identity of an import: the file's bytes and name, and what was said of it."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    said = (path.name, options.contract, options.format, options.tz, options.stamp)
    digest.update(repr(said).encode())
    return digest.hexdigest()
