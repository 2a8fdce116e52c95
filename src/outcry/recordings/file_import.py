"""Import of one file: split its rows by session, write them to the tape, compute the sessions and store them."""

from collections.abc import Callable, Iterator
from datetime import date, timedelta

import numpy as np

from outcry.base.timestamps import iso_timestamp
from outcry.market.calendar import Session
from outcry.market.instruments import Contract
from outcry.market.ladder import RangeTooWide
from outcry.market.units import NANOS_PER_SECOND, price_text
from outcry.recordings.file_model import FileRefused, Reading
from outcry.recordings.import_report import FileReport, Progress, SessionReport, SessionState, State
from outcry.recordings.session_selection import (
    CompletenessCheck,
    FoldedSession,
    ImportContext,
    SessionBuilder,
    SessionFold,
    begin_fold,
    minutes_by_recording,
)
from outcry.recordings.staging import Counts, StagedDay, StagingArea
from outcry.sessions.store_model import SessionRow
from outcry.trades import contract_lifetime
from outcry.trades.contract_lifetime import day_ns
from outcry.trades.coverage import GRACE_NS, Span
from outcry.trades.records import Batch, Quality
from outcry.trades.rows import in_order, on_tick, volume_of
from outcry.trades.validation import MOST_BAR_LOTS

#: A file is refused if more than one row in this many is off-tick: its contract or price unit is wrong.
MAX_OFF_TICK_SHARE = 10
#: With this few off-tick rows, their share is no evidence of a wrong contract.
FEW_ROWS = 10
#: Lots in one file; sums stay within a signed 64-bit integer.
MAX_VOLUME = 2**62


class FileImport:
    """Import of one file or of one live recording."""

    def __init__(self, context: ImportContext, owner: int, reading: Reading) -> None:
        self._context, self._owner, self._reading = context, owner, reading
        self.staging = StagingArea(context.tape, owner, reading.source)
        self._folds: dict[tuple[Contract, Quality, int], SessionFold] = {}
        self._outside = self._volume = 0
        self._span: dict[str, Span] = {}
        self._latest: dict[tuple[Contract, Quality], int] = {}
        #: Rows before the session tables of their product begin, by root.
        self._early: dict[str, int] = {}
        self._latest_possible_ns = 2**63 - 1

    def run(self, digest: str, now_ns: int, progress: Progress, check: Callable[[], None]) -> FileReport:
        """Read all rows, store the recordings and sessions, and report them.

        `check` is called after reading; it raises if the rows must not be stored. `digest` is empty for a live
        recording, which may be imported again when it has grown.
        """
        reading, store = self._reading, self._context.store
        if digest:  # timestamps of a replay depend on the clock
            self._latest_possible_ns = now_ns + GRACE_NS
        for batch in reading.batches():
            self._route(batch)
            progress(reading.bytes_read, reading.bytes_total)
        check()
        for root, early in self._early.items():
            reason = f"rows before {self._context.begin(root)}, when the session tables of {root} begin"
            reading.counts.skip(reason, early)
        if not self._folds and not self._outside and not self._early and reading.counts.skipped:
            return self._report_file("no trades", [])
        self._check_labels()
        spans = {root: reading.covered or (span,) for root, span in self._span.items()}
        days = self.staging.finish(store, spans, from_feed=bool(reading.covered), replace=reading.replaces)
        recordings = [day.recording(now_ns) for day in days if day.changed]
        sessions, reports = self._build_sessions(days, now_ns)
        self.staging.retire()
        store.commit_import(
            self._owner, digest, _printable(reading.path.name), recordings, sessions, now_ns,
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
        """Refuse a file without usable rows, or whose prices do not fit its contract's tick."""
        path, skipped = self._reading.path, self._reading.counts.skipped
        if not self._folds:
            reasons = [f"{rows:,} {reason}" for reason, rows in skipped.items()]
            if self._outside or not self._early:
                reasons.append(f"{self._outside:,} outside the product's trading hours")
            remedy = "check the time zone (--tz)" if self._outside else "import recordings of later days"
            raise FileRefused(path, "", f"the file has no usable rows: {', '.join(reasons)}", remedy)
        of_contract: dict[Contract, list[Counts]] = {}
        for fold in self._folds.values():
            of_contract.setdefault(fold.contract, []).append(fold.counts)
        for contract, parts in of_contract.items():
            rows, off_tick = sum(part.rows for part in parts), sum(part.off_tick for part in parts)
            if not rows or off_tick > max(FEW_ROWS, (rows + off_tick) // MAX_OFF_TICK_SHARE):
                tick = price_text(self._context.universe.products[contract.root].tick_e9)
                raise FileRefused(
                    path, "",
                    f"{off_tick:,} of {rows + off_tick:,} rows of {contract.key} are not multiples of its tick {tick}",
                    "check the contract and the unit of the prices",
                )  # fmt: skip

    def _route(self, batch: Batch) -> None:
        """Split a batch of rows by session and trade date; write the rows to the tape and compute the sessions.

        Rows with off-tick prices are dropped.
        """
        contract, quality = batch.contract, batch.quality
        latest_ns = self._latest.get((contract, quality), -(2**63))
        rows, late = in_order(batch.rows, latest_ns)
        if not len(rows):
            return
        self._check_volume(batch)
        times = rows["ts_event"]
        first_ns, last_ns = int(times[0]), int(times[-1])
        self._latest[contract, quality] = max(latest_ns, last_ns)
        # before the calendar is computed, because a corrupt timestamp may be centuries off
        for at_ns in (first_ns, last_ns):
            self._check_lifetime(batch, date(1970, 1, 1) + timedelta(seconds=at_ns // NANOS_PER_SECOND))
        if last_ns > self._latest_possible_ns:
            raise FileRefused(
                self._reading.path, batch.place, f"the timestamp {iso_timestamp(last_ns)} is in the future",
                "check the dates, the time zone (--tz) and this machine's clock",
            )  # fmt: skip
        begin_ns = day_ns(self._context.begin(contract.root))
        if first_ns < begin_ns:
            early = int(np.searchsorted(times, begin_ns))
            self._early[contract.root] = self._early.get(contract.root, 0) + early
            rows, times, late = rows[early:], times[early:], late[early:]
            if not len(rows):
                return
            first_ns = int(times[0])
        known = self._span.get(contract.root, (first_ns, last_ns))
        self._span[contract.root] = (min(known[0], first_ns), max(known[1], last_ns))
        tick_e9 = self._context.universe.products[contract.root].tick_e9
        slices, outside = self._context.index(contract.root).split(times)
        self._outside += outside
        for cell, first, last in slices:
            fold = self._fold_of(batch, cell.session)
            good, ticks, off_tick = on_tick(rows[first:last], tick_e9, quality)
            counts = Counts(len(good), volume_of(good, quality), off_tick, int(late[first:last].sum()))
            try:
                fold.add(good, ticks, counts)
            except RangeTooWide as problem:
                raise self._too_wide(problem, contract, batch.place) from problem
            if len(good):
                self.staging.add(contract, cell.trade_date, quality, good, counts)

    def _fold_of(self, batch: Batch, session: Session) -> SessionFold:
        key = (batch.contract, batch.quality, session.open_ns)
        if key not in self._folds:
            self._folds[key] = begin_fold(batch.contract, session, batch.quality)
        return self._folds[key]

    def _check_lifetime(self, batch: Batch, trade_date: date) -> None:
        """Refuse trades of a contract that had expired or was not listed yet, because its label or year is wrong."""
        first, last = contract_lifetime.lifetime_days(self._context.universe, batch.contract)
        if not first <= trade_date <= last:
            end = self._context.universe.expiry(batch.contract)
            raise FileRefused(
                self._reading.path, batch.place,
                f"{batch.contract.key} did not trade on {trade_date}; its last trading day is {end}",
                "name the contract with --contract and a four-digit year",
            )  # fmt: skip

    def _check_volume(self, batch: Batch) -> None:
        """Refuse an impossible number of lots, because the column is wrong or the data is corrupt."""
        self._volume += volume_of(batch.rows, batch.quality)
        most = 0 if batch.quality is Quality.TICKS else int(batch.rows["volume"].max())
        if most <= MOST_BAR_LOTS and self._volume <= MAX_VOLUME:
            return
        found = (
            f"a bar has {most:,} lots"
            if most > MOST_BAR_LOTS
            else f"the file has {self._volume:,} lots in total"
        )
        raise FileRefused(
            self._reading.path, batch.place, f"{batch.contract.key}: {found}", "check which column is the volume"
        )  # fmt: skip

    def _too_wide(self, problem: RangeTooWide, contract: Contract, place: str) -> FileRefused:
        tick_e9 = self._context.universe.products[contract.root].tick_e9
        return FileRefused(
            self._reading.path, place, f"{contract.key}: {problem.describe(tick_e9)}",
            "check the contract and the unit of the prices",
        )  # fmt: skip

    def _build_sessions(
        self, days: list[StagedDay], now_ns: int
    ) -> tuple[list[SessionRow], list[SessionReport]]:
        """Decide for each session of the file whether it is complete, and whether it replaces the stored one."""
        sessions: list[SessionRow] = []
        reports: list[SessionReport] = []
        builder = SessionBuilder(self._context, self._owner, self._reading.source, now_ns)
        completeness = CompletenessCheck(self._context, self._owner, now_ns, stored=True)
        folded = list(self._folded(builder, days))
        recorded = minutes_by_recording(one for _, _, one in folded)
        for fold, staged, one in folded:
            row = completeness.judge(one, recorded[one.recording])
            best, changed = builder.is_best(row), any(day.changed for day in staged)
            repaired = not changed and builder.stored(row) is None
            if best:
                completeness.note(row)
            if best and (changed or repaired):
                sessions.append(row)
            state = "unchanged" if not changed and not repaired else "new" if best else "second best"
            zone = self._context.universe.products[row.root].zone
            reports.append(_report(fold, staged, row, zone, state))
        return sessions, reports

    def _folded(
        self, builder: SessionBuilder, days: list[StagedDay]
    ) -> Iterator[tuple[SessionFold, list[StagedDay], FoldedSession]]:
        """Yield each session of the file in order of time, computed from all of its rows on the tape."""
        of_contract: dict[tuple[Contract, Quality], list[StagedDay]] = {}
        for day in days:
            of_contract.setdefault((day.contract, day.quality), []).append(day)
        for fold in sorted(self._folds.values(), key=lambda f: (f.session.open_ns, f.contract)):
            if not fold.counts.rows:
                continue
            staged = [d for d in of_contract[fold.contract, fold.quality] if d.overlaps(fold.session)]
            try:
                folded = builder.folded(fold, staged)
            except RangeTooWide as problem:
                place = f"{fold.session.trade_date}, with the rows already on tape"
                raise self._too_wide(problem, fold.contract, place) from problem
            if folded is not None:
                yield fold, staged, folded


def _report(
    fold: SessionFold, days: list[StagedDay], row: SessionRow, zone: str, kept: SessionState
) -> SessionReport:
    session, counts = fold.session, fold.counts
    return SessionReport(
        fold.contract.key, str(session.trade_date), session.kind, fold.quality, counts.rows, counts.volume,
        counts.off_tick, sum(day.duplicates_in(session) for day in days), counts.out_of_order, row.complete,
        row.holes, zone, kept,
    )  # fmt: skip


def _printable(name: str) -> str:
    """Return a file name as valid Unicode text that any database accepts."""
    return name.encode("utf-8", "backslashreplace").decode()
