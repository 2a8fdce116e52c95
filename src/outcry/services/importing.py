"""Imports files: rows to the tape by contract and trade date, sessions folded on the way, all or nothing a file.

Rules kept: a file that is refused leaves the store as it was; a file reported done survives any crash, for its tape
is on disk before the one transaction that names it; importing a file again changes nothing. Trades of one source are
never mixed with another's in one session: the better of two sources answers for it.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal

import numpy as np

from outcry.core.calendar import Calendar, Session, SessionKind
from outcry.core.instruments import Contract, Universe
from outcry.core.kernels import BulkFold
from outcry.core.ladder import Ladder, RangeTooWide, bracket_windows
from outcry.core.snapshot import dump
from outcry.core.units import NANOS_PER_MINUTE, price_text
from outcry.ports.files import FileRefused, Library, Reading, ReadOptions
from outcry.ports.records import Batch, Quality, Rows
from outcry.ports.store import SessionRow, SessionStore
from outcry.ports.tape import Tape
from outcry.services.grid import Grid
from outcry.services.spool import Counts, Spool, SpooledDay

BRACKET_MINUTES = 30
GRACE_NS = 5 * NANOS_PER_MINUTE
MAX_OFF_TICK_SHARE = (
    10  # a tenth: a stray print is set aside, another product's prices are not ours to sort out
)
FEW_ROWS = 10  # too few to tell a wrong label by
LONGEST_LISTED = timedelta(days=13 * 365)  # crude oil is listed for the running year and ten more
EXPIRY_SLACK = timedelta(days=7)
LONGEST_SESSION = timedelta(days=10)  # an overnight over a string of holidays

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class SessionReport:
    """What a file brought to one session. Counts are rows."""

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
    kept: Literal["new", "unchanged", "second best"]


@dataclass(slots=True)
class FileReport:
    """What became of one file. `skipped`: reasons against rows; `outside`: rows in no session's hours."""

    path: Path
    state: Literal["imported", "unchanged", "no trades"]
    format: str = ""
    source: str = ""
    rows: int = 0
    outside: int = 0
    skipped: dict[str, int] = field(default_factory=dict[str, int])
    sessions: list[SessionReport] = field(default_factory=list[SessionReport])


@dataclass(slots=True)
class _Folding:
    """One session of one contract as the file builds it."""

    contract: Contract
    session: Session
    quality: Quality
    fold: BulkFold
    counts: Counts = field(default_factory=Counts)


class Importer:
    """Imports files into a tape and a store. `now_ns` is the time of import, for what may count as completed."""

    def __init__(
        self, library: Library, store: SessionStore, tape: Tape, universe: Universe, calendar: Calendar
    ) -> None:
        self._library, self._store, self._tape = library, store, tape
        self._universe, self._calendar = universe, calendar
        self._grids: dict[str, Grid] = {}
        self._swept = False

    def files(self, path: Path) -> list[Path]:
        """The files a path names: itself, or those below a folder. Raises `FileRefused`."""
        return self._library.expand(path)

    def run(
        self,
        path: Path,
        owner: int,
        options: ReadOptions,
        now_ns: int,
        progress: Progress = lambda _done, _of: None,
    ) -> FileReport:
        """Import one file; raise `FileRefused`, `StoreBusy`, `TapeInUse` or `OSError`, and then nothing is kept."""
        with self._tape.exclusively():
            if not self._swept:
                self._tape.sweep(self._store.tape_paths())
                self._swept = True
            reading = self._library.open(path, self._universe, options)
            if reading is None:
                return FileReport(path, "no trades")
            digest = _digest(path, options)
            if self._store.import_known(owner, digest):
                return FileReport(path, "unchanged", reading.format, reading.source)
            intake = _Intake(self, owner, reading)
            try:
                return intake.take(digest, now_ns, progress)
            except BaseException:
                intake.spool.abandon()
                raise

    def grid(self, root: str) -> Grid:
        """The product's calendar laid out for splitting rows."""
        if root not in self._grids:
            self._grids[root] = Grid(self._calendar, root)
        return self._grids[root]

    @property
    def universe(self) -> Universe:
        """What is traded."""
        return self._universe

    @property
    def store(self) -> SessionStore:
        """Where sessions are kept."""
        return self._store

    @property
    def tape(self) -> Tape:
        """Where rows are kept."""
        return self._tape


class _Intake:
    """One file on its way in."""

    def __init__(self, importer: Importer, owner: int, reading: Reading) -> None:
        self._importer, self._owner, self._reading = importer, owner, reading
        self.spool = Spool(importer.tape, owner, reading.source)
        self._foldings: dict[tuple[Contract, Quality, int], _Folding] = {}
        self._outside = 0
        self._span: dict[str, tuple[int, int]] = {}
        self._latest: dict[tuple[Contract, Quality], int] = {}

    def take(self, digest: str, now_ns: int, progress: Progress) -> FileReport:
        reading = self._reading
        for batch in reading.batches():
            self._route(batch)
            progress(reading.bytes_read, reading.bytes_total)
        if not self._foldings and not self._outside and reading.counts.skipped:
            return self._report_file("no trades", [])
        self._check_labels()
        days = self.spool.finish(self._importer.store)
        recordings = [day.recording(now_ns) for day in days if day.changed]
        sessions, reports = self._settle(days, now_ns)
        self._importer.store.commit_import(
            self._owner, digest, reading.path.name, recordings, sessions, now_ns
        )
        self.spool.retire()
        return self._report_file("imported" if recordings else "unchanged", reports)

    def _report_file(
        self, state: Literal["imported", "unchanged", "no trades"], sessions: list[SessionReport]
    ) -> FileReport:
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
            reasons.append(f"{self._outside:,} outside the product's trading hours")
            raise FileRefused(
                path, "", f"no row could be used: {', '.join(reasons)}", "is the time zone right?"
            )
        of_contract: dict[Contract, list[Counts]] = {}
        for folding in self._foldings.values():
            of_contract.setdefault(folding.contract, []).append(folding.counts)
        for contract, parts in of_contract.items():
            rows, off_tick = sum(part.rows for part in parts), sum(part.off_tick for part in parts)
            if off_tick > max(FEW_ROWS, (rows + off_tick) // MAX_OFF_TICK_SHARE):
                tick = price_text(self._importer.universe.products[contract.root].tick_e9)
                raise FileRefused(
                    path, "",
                    f"{off_tick:,} of {rows + off_tick:,} rows of {contract.key} are no multiples of its tick {tick}",
                    "is it the right contract, and are prices in the exchange's unit?",
                )  # fmt: skip

    def _route(self, batch: Batch) -> None:
        """Split a batch by session and trade date, set off-tick rows aside, fold and spool the rest."""
        key = (batch.contract, batch.quality)
        rows, late = _in_order(batch.rows, self._latest.get(key, -(2**63)))
        if not len(rows):
            return
        root = batch.contract.root
        times = rows["ts_event"]
        self._latest[key] = max(self._latest.get(key, -(2**63)), int(times[-1]))
        self._widen_span(root, int(times[0]), int(times[-1]))
        tick_e9 = self._importer.universe.products[root].tick_e9
        pieces, outside = self._importer.grid(root).cut(times)
        self._outside += outside
        for cell, first, last in pieces:
            folding = self._folding(batch, cell.session)
            good, ticks, off_tick = _on_tick(rows[first:last], tick_e9, batch.quality)
            counts = Counts(len(good), _volume(good, batch.quality), off_tick, int(late[first:last].sum()))
            folding.counts.add(counts, good)
            if len(good):
                self._fold(folding, good, ticks, tick_e9, batch)
                self.spool.add(batch.contract, cell.trade_date, batch.quality, good, counts)

    def _widen_span(self, root: str, first_ns: int, last_ns: int) -> None:
        known = self._span.get(root, (first_ns, last_ns))
        self._span[root] = (min(known[0], first_ns), max(known[1], last_ns))

    def _folding(self, batch: Batch, session: Session) -> _Folding:
        key = (batch.contract, batch.quality, session.open_ns)
        if key not in self._foldings:
            self._check_life(batch, session)
            fold = BulkFold(bracket_windows(session.segments, BRACKET_MINUTES))
            self._foldings[key] = _Folding(batch.contract, session, batch.quality, fold)
        return self._foldings[key]

    def _check_life(self, batch: Batch, session: Session) -> None:
        """Refuse trades of a contract that had expired, or was not yet listed: the label or the year is wrong."""
        end = self._importer.universe.expiry(batch.contract)
        if not end - LONGEST_LISTED <= session.trade_date <= end + EXPIRY_SLACK:
            raise FileRefused(
                self._reading.path, batch.place,
                f"a trade of {session.trade_date} in {batch.contract.key}, whose last trading day is {end}",
                "name the right contract with --contract, its year in full",
            )  # fmt: skip

    def _fold(
        self, folding: _Folding, rows: Rows, ticks: list[np.ndarray], tick_e9: int, batch: Batch
    ) -> None:
        try:
            fold_rows(folding.fold, rows, ticks, batch.quality)
        except RangeTooWide as problem:
            raise self._too_wide(problem, batch.contract, batch.place, tick_e9) from problem

    def _too_wide(self, problem: RangeTooWide, contract: Contract, place: str, tick_e9: int) -> FileRefused:
        return FileRefused(
            self._reading.path, place, f"{contract.key}: {problem.describe(tick_e9)}",
            "check the contract and the unit of the prices",
        )  # fmt: skip

    def _settle(self, days: list[SpooledDay], now_ns: int) -> tuple[list[SessionRow], list[SessionReport]]:
        """Decide for each session the file touched whether it is better than what is kept."""
        sessions: list[SessionRow] = []
        reports: list[SessionReport] = []
        of_contract: dict[tuple[Contract, Quality], list[SpooledDay]] = {}
        for day in days:
            of_contract.setdefault((day.contract, day.quality), []).append(day)
        for folding in sorted(self._foldings.values(), key=lambda f: (f.session.open_ns, f.contract)):
            if not folding.counts.rows:
                continue
            mine = [
                day for day in of_contract[folding.contract, folding.quality] if day.overlaps(folding.session)
            ]
            row = self._session_row(folding, mine, now_ns)
            kept = self._kept(row)
            best = kept is None or _standing(row) >= _standing(kept) or _same_source(row, kept)
            changed = any(day.changed for day in mine)
            if best and changed:
                sessions.append(row)
            state = "unchanged" if not changed else "new" if best else "second best"
            reports.append(self._report(folding, mine, row, state))
        return sessions, reports

    def _kept(self, row: SessionRow) -> SessionRow | None:
        found = self._importer.store.sessions_of(row.owner, row.contract, row.trade_date, row.trade_date)
        return next((session for session in found if session.kind is row.kind), None)

    def _session_row(self, folding: _Folding, days: list[SpooledDay], now_ns: int) -> SessionRow:
        session, counts = folding.session, folding.counts
        others = self._elsewhere(folding, days)
        if others or not all(day.pure for day in days):
            ladder, counts = self._refold(folding, [day.path for day in days] + others)
        else:
            ladder = folding.fold.ladder()
        if ladder is None:
            raise RuntimeError("a session with rows has a ladder")
        return SessionRow(
            owner=self._owner, root=session.root, contract=folding.contract.key, trade_date=session.trade_date,
            kind=session.kind, open_ns=session.open_ns, close_ns=session.close_ns, source=self._reading.source,
            quality=folding.quality, complete=self._complete(folding, ladder, counts, now_ns), short=session.short,
            rows=counts.rows, volume=counts.volume, off_tick=counts.off_tick, out_of_order=counts.out_of_order,
            first_ns=counts.first_ns, last_ns=counts.last_ns, received_ns=now_ns, profile=dump(ladder),
        )  # fmt: skip

    def _elsewhere(self, folding: _Folding, days: list[SpooledDay]) -> list[str]:
        """Tape files of the same source that hold other trade dates of the session, from earlier imports."""
        last = folding.session.trade_date
        found = self._importer.store.recordings(
            self._owner, folding.contract.key, last - LONGEST_SESSION, last
        )
        mine = {day.trade_date for day in days}
        return [
            row.path
            for row in found
            if row.source == self._reading.source and row.quality is folding.quality and row.trade_date not in mine
            and row.first_ns < folding.session.close_ns and row.last_ns >= folding.session.open_ns
        ]  # fmt: skip

    def _refold(self, folding: _Folding, paths: list[str]) -> tuple[Ladder | None, Counts]:
        """Fold a session from the tape: where the file alone does not hold it, or the tape had some of it."""
        fold = BulkFold(bracket_windows(folding.session.segments, BRACKET_MINUTES))
        counts = Counts(off_tick=folding.counts.off_tick, out_of_order=folding.counts.out_of_order)
        grid = self._importer.grid(folding.session.root)
        tick_e9 = self._importer.universe.products[folding.session.root].tick_e9
        for path in paths:
            for chunk in self._importer.tape.read(path, folding.quality):
                for cell, first, last in grid.cut(chunk["ts_event"])[0]:
                    if cell.session == folding.session:
                        rows, ticks, _ = _on_tick(chunk[first:last], tick_e9, folding.quality)
                        try:
                            fold_rows(fold, rows, ticks, folding.quality)
                        except RangeTooWide as problem:
                            place = f"{folding.session.trade_date}, with the rows already on tape"
                            raise self._too_wide(problem, folding.contract, place, tick_e9) from problem
                        counts.add(Counts(len(rows), _volume(rows, folding.quality)), rows)
        return fold.ladder(), counts

    def _complete(self, folding: _Folding, ladder: Ladder, counts: Counts, now_ns: int) -> bool:
        """Whether the data spans the session and the session was over when it came (decisions: close + 5 minutes).

        A file that reaches from the open to the close holds the whole of it, thin as the trade may be; what was
        pieced together must begin and end within five minutes of the session's own ends and miss no bracket.
        """
        session = folding.session
        if now_ns < session.close_ns + GRACE_NS:
            return False
        first_ns, last_ns = self._span[session.root]
        if first_ns <= session.open_ns + GRACE_NS and last_ns >= session.close_ns - GRACE_NS:
            return True
        whole = len(ladder.brackets) == len(bracket_windows(session.segments, BRACKET_MINUTES))
        return (
            whole
            and counts.first_ns <= session.open_ns + GRACE_NS
            and counts.last_ns >= session.close_ns - GRACE_NS
        )

    def _report(
        self,
        folding: _Folding,
        days: list[SpooledDay],
        row: SessionRow,
        state: Literal["new", "unchanged", "second best"],
    ) -> SessionReport:
        session, counts = folding.session, folding.counts
        return SessionReport(
            folding.contract.key, str(session.trade_date), session.kind, folding.quality, counts.rows, counts.volume,
            counts.off_tick, sum(day.duplicates_in(session) for day in days), counts.out_of_order, row.complete, state,
        )  # fmt: skip


def fold_rows(fold: BulkFold, rows: Rows, ticks: list[np.ndarray], quality: Quality) -> None:
    """Fold rows whose prices are given in ticks: one column of a trade, open, high, low and close of a bar."""
    if quality is Quality.TICKS:
        fold.trades(rows["ts_event"], ticks[0], rows["size"])
    else:
        opened, high, low, close = ticks
        fold.bars(rows["ts_event"], opened, high, low, close, rows["volume"].astype(np.int64))


def _in_order(rows: Rows, latest_ns: int) -> tuple[Rows, np.ndarray]:
    """Rows in order of time, and for each whether it came after a later one; `latest_ns`: the latest before them."""
    times = rows["ts_event"]
    if not len(rows) or (times[0] >= latest_ns and not (times[1:] < times[:-1]).any()):
        return rows, np.zeros(len(rows), bool)
    late = times < np.maximum(np.maximum.accumulate(times), latest_ns)
    order = np.argsort(times, kind="stable")
    return rows[order], late[order]


def _on_tick(rows: Rows, tick_e9: int, quality: Quality) -> tuple[Rows, list[np.ndarray], int]:
    """The rows whose every price is a whole number of ticks, those prices in ticks, and how many rows are not."""
    names = ["price"] if quality is Quality.TICKS else ["open", "high", "low", "close"]
    ticks = [rows[name] // tick_e9 for name in names]
    off = np.zeros(len(rows), bool)
    for name, column in zip(names, ticks, strict=True):
        off |= column * tick_e9 != rows[name]
    if not off.any():
        return rows, ticks, 0
    return rows[~off], [column[~off] for column in ticks], int(off.sum())


def _volume(rows: Rows, quality: Quality) -> int:
    return int(rows["size" if quality is Quality.TICKS else "volume"].sum(dtype=np.uint64))


def _standing(row: SessionRow) -> tuple[bool, int, int]:
    """What makes one source's session better than another's: whole, then finer, then fuller."""
    return row.complete, -row.quality.rank, row.volume


def _same_source(row: SessionRow, kept: SessionRow) -> bool:
    return (row.source, row.quality) == (kept.source, kept.quality)


def _digest(path: Path, options: ReadOptions) -> str:
    """Identity of an import: the file's bytes and name, and what was said of it."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    said = (path.name, options.contract, options.format, options.tz, options.stamp)
    digest.update(repr(said).encode())
    return digest.hexdigest()
