"""Split the rows of a file by session: check them, write them to the tape, and add them to their sessions' profiles."""

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from outcry.base.timestamps import iso_timestamp
from outcry.market.calendar import Calendar
from outcry.market.instruments import Contract, Universe
from outcry.market.ladder import RangeTooWide
from outcry.market.units import NANOS_PER_SECOND, price_text, size_text
from outcry.recordings.file_model import FileRefused
from outcry.recordings.recorded_session import RecordedSession
from outcry.recordings.staged_day import Counts
from outcry.recordings.staging import StagingArea
from outcry.recordings.tape import TapeFolder
from outcry.sessions.store import SqlStore
from outcry.trades import contract_lifetime
from outcry.trades.contract_lifetime import day_ns
from outcry.trades.coverage import Span
from outcry.trades.records import Batch, Quality
from outcry.trades.rows import in_order, volume_of
from outcry.trades.session_index import SessionIndex
from outcry.trades.validation import MOST_BAR_LOTS

#: A file is refused if more than one row in this many is off-tick: its contract or price unit is wrong.
MAX_OFF_TICK_SHARE = 10
#: With this few off-tick rows, their share is no evidence of a wrong contract.
FEW_ROWS = 10
#: Lots in one file; sums stay within a signed 64-bit integer.
MAX_VOLUME = 2**62


class ImportContext:
    """The objects that all imports share: the database, the tape folder, and an index of each product's sessions."""

    def __init__(self, store: SqlStore, tape: TapeFolder, universe: Universe, calendar: Calendar) -> None:
        self.store, self.tape, self.universe = store, tape, universe
        self.calendar = calendar
        self._indexes: dict[str, SessionIndex] = {}

    def index(self, root: str) -> SessionIndex:
        """Return the product's session index, which assigns rows to sessions by their time."""
        if root not in self._indexes:
            self._indexes[root] = SessionIndex(self.calendar, root)
        return self._indexes[root]


class SessionSplitter:
    """Splits the rows of one file by session.

    `outside`: number of rows outside trading hours. `early`: number of rows before the first date of the session
    tables, by root (product symbol). `span`: times of the first and last row (ns UTC), by root. Rows later than
    `latest_ns` are refused.
    """

    def __init__(self, context: ImportContext, staging: StagingArea, path: Path, latest_ns: int) -> None:
        self._context, self._staging, self._path = context, staging, path
        self._latest_possible_ns = latest_ns
        self.folds: dict[tuple[Contract, Quality, int], RecordedSession] = {}
        self.outside = self._volume = 0
        self.span: dict[str, Span] = {}
        self.early: dict[str, int] = {}
        self._latest: dict[tuple[Contract, Quality], int] = {}

    def add(self, batch: Batch) -> None:
        """Split a batch of rows by session and trade date; write the rows to the tape, and add them to their sessions.

        Rows with off-tick prices are dropped and counted.
        """
        contract, quality = batch.contract, batch.quality
        latest_ns = self._latest.get((contract, quality), -(2**63))
        rows, late = in_order(batch.rows, latest_ns)
        if not len(rows):
            return
        self._check_volume(batch)
        index, tick_e9 = (
            self._context.index(contract.root),
            self._context.universe.products[contract.root].tick_e9,
        )
        times = rows["ts_event"]
        first_ns, last_ns = int(times[0]), int(times[-1])
        self._latest[contract, quality] = max(latest_ns, last_ns)
        # before the calendar is computed, because a corrupt timestamp may be centuries off
        for at_ns in (first_ns, last_ns):
            self._check_lifetime(batch, date(1970, 1, 1) + timedelta(seconds=at_ns // NANOS_PER_SECOND))
        if last_ns > self._latest_possible_ns:
            raise FileRefused(
                self._path, batch.place, f"the timestamp {iso_timestamp(last_ns)} is in the future",
                "check the dates, the time zone (--tz) and this machine's clock",
            )  # fmt: skip
        begin_ns = day_ns(self._context.calendar.hours.begin(contract.root))
        if first_ns < begin_ns:
            early = int(np.searchsorted(times, begin_ns))
            self.early[contract.root] = self.early.get(contract.root, 0) + early
            rows, times, late = rows[early:], times[early:], late[early:]
            if not len(rows):
                return
            first_ns = int(times[0])
        known = self.span.get(contract.root, (first_ns, last_ns))
        self.span[contract.root] = (min(known[0], first_ns), max(known[1], last_ns))
        slices, outside = index.split(times)
        self.outside += outside
        for cell, first, last in slices:
            key = (contract, quality, cell.session.open_ns)
            fold = self.folds.get(key) or self.folds.setdefault(
                key, RecordedSession(contract, cell.session, quality)
            )
            try:
                good, counts = fold.add(rows[first:last], tick_e9, int(late[first:last].sum()))
            except RangeTooWide as problem:
                raise too_wide(problem, contract, tick_e9, self._path, batch.place) from problem
            self._staging.add(contract, cell.trade_date, quality, cell.session.open_ns, good, counts)

    def _check_lifetime(self, batch: Batch, trade_date: date) -> None:
        """Refuse trades of a contract on a date when it had expired or was not listed yet.

        The contract named for the file, or the year of its rows, must be wrong.
        """
        first, last = contract_lifetime.lifetime_days(self._context.universe, batch.contract)
        if not first <= trade_date <= last:
            end = self._context.universe.expiry(batch.contract)
            raise FileRefused(
                self._path, batch.place,
                f"{batch.contract.key} did not trade on {trade_date}; its last trading day is {end}",
                "name the contract with --contract and a four-digit year",
            )  # fmt: skip

    def _check_volume(self, batch: Batch) -> None:
        """Refuse an impossible number of lots: the wrong column was read as the volume, or the data is corrupt."""
        self._volume += volume_of(batch.rows, batch.quality)
        most = 0 if batch.quality is Quality.TICKS else int(batch.rows["volume"].max())
        if most <= MOST_BAR_LOTS and self._volume <= MAX_VOLUME:
            return
        step_e9 = self._context.universe.products[batch.contract.root].size_step_e9
        found = (
            f"a bar has {size_text(most, step_e9)} lots"
            if most > MOST_BAR_LOTS
            else f"the file has {size_text(self._volume, step_e9)} lots in total"
        )
        raise FileRefused(
            self._path, batch.place, f"{batch.contract.key}: {found}", "check which column is the volume"
        )  # fmt: skip

    def check_labels(self, skipped: Mapping[str, int]) -> None:
        """Refuse a file that has no usable rows, or whose prices do not fit the tick of its contract.

        `skipped` maps a reason to the number of rows skipped for it.
        """
        path = self._path
        if not self.folds:
            reasons = [f"{rows:,} {reason}" for reason, rows in skipped.items()]
            if self.outside or not self.early:
                reasons.append(f"{self.outside:,} outside the product's trading hours")
            remedy = "check the time zone (--tz)" if self.outside else "import recordings of later days"
            raise FileRefused(path, "", f"the file has no usable rows: {', '.join(reasons)}", remedy)
        of_contract: dict[Contract, list[Counts]] = {}
        for fold in self.folds.values():
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


def too_wide(problem: RangeTooWide, contract: Contract, tick_e9: int, path: Path, place: str) -> FileRefused:
    """Return the `FileRefused` for a file whose prices span too many ticks."""
    return FileRefused(
        path,
        place,
        f"{contract.key}: {problem.describe(tick_e9)}",
        "check the contract and the unit of the prices",
    )
