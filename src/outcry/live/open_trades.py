"""Reads the trades or bars of an open session from the log of its stream, for profiles that its ladder cannot answer.

The fold of a live session keeps no trades, so that it stays fast. A request that needs them reads the log, and later
requests only its new entries.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import numpy as np

from outcry.live import entries as log
from outcry.live.amendments import amended_rows
from outcry.live.model import Frame, LogDamaged
from outcry.market.calendar import Session
from outcry.market.ladder import BRACKET_MINUTES, Ladder
from outcry.market.session_rows import Counting, Refolded, RowBatch, check_edges, refolded
from outcry.market.windows import Segment
from outcry.recordings.session_trades import not_stored
from outcry.trades.records import Quality, Rows
from outcry.trades.rows import batch_of

#: Reads the log of one stream from a position on.
ReadLog = Callable[[int], Iterator[Frame]]
#: Returns the rows of a session that were stored with earlier trade dates.
Earlier = Callable[[Session], Sequence[RowBatch]]
_ALL = 2**63 - 1


class OpenTrades:
    """The rows of a stream's open session and of the overnight session before it. Thread-safe; every method blocks.

    read: reads the stream's log. tick_e9: tick size of the product in units of 10⁻⁹. since_ns: start of the overnight
    session (ns UTC); earlier rows are left out. earlier: an overnight session can begin in the trade date before, whose
    rows leave the log when that date is stored; this function returns them.
    """

    def __init__(self, read: ReadLog, tick_e9: int, since_ns: int, earlier: Earlier | None = None) -> None:
        self._read, self._tick_e9, self.since_ns, self._earlier = read, tick_e9, since_ns, earlier
        self._lock = threading.Lock()
        self._position = 0
        self._entries: list[log.LogEntry] = []
        self._batches: Sequence[RowBatch] = ()

    def refold(
        self,
        session: Session,
        counting: Counting,
        parts: Sequence[Sequence[Segment]],
        lots: int | None = None,
    ) -> Sequence[Refolded | None]:
        """Return parts of a session as traded so far; None where nothing traded.

        parts: half-open windows (ns UTC) for each part. lots: the volume of an ended session, which its rows must have
        too; otherwise some are missing. Raises `NotFound` if the log cannot answer, `BarAcross` if a part
        begins or ends inside a bar, and `StoreBusy`.
        """
        batches = self._current(session, lots)
        for windows in parts:
            check_edges(batches, session.segments, windows)
        return [refolded(batches, session.segments, windows, counting) for windows in parts]

    def since(self, session: Session, windows: Sequence[Segment], lots: int | None = None) -> Ladder | None:
        """Return the ladder of the rows inside the windows; None if there are none. Raises as `refold` does.

        Bars count if they start inside.
        """
        found = refolded(self._current(session, lots), session.segments, windows, Counting(BRACKET_MINUTES))
        return found.ladder if found else None

    def _current(self, session: Session, lots: int | None) -> Sequence[RowBatch]:
        with self._lock:
            try:
                if self._read_on():
                    self._batches = self._batches_of(self._entries)
            except (LogDamaged, OSError) as problem:
                raise not_stored(session) from problem
            batches, entries = self._batches, list(self._entries)
        if lots is None or _volume(batches, session) == lots:
            return batches
        if self._earlier is not None:
            of_day = [one for one in entries if _is_of_day(one, str(session.trade_date))]
            batches = [*self._earlier(session), *self._batches_of(of_day)]
            if _volume(batches, session) == lots:
                return batches
        raise not_stored(session)

    def _read_on(self) -> bool:
        """Read the log's new entries; return whether any of them changes the rows."""
        fresh: list[log.LogEntry] = []
        for position, entry in log.entries_between(self._read(self._position), self._position, _ALL):
            self._position = position + entry.count
            if isinstance(entry, log.TradeRows | log.BarRows):
                fresh += self._recent(entry)
            elif isinstance(entry, log.Amended | log.Replacement):
                fresh.append(entry)
        if fresh:
            self._entries = _joined([*self._entries, *fresh])
        return bool(fresh)

    def _recent(self, entry: log.TradeRows | log.BarRows) -> list[log.LogEntry]:
        """Return an entry without the rows before `since_ns`; an empty list if none remains."""
        rows = entry.rows
        recent = rows["ts_event"] >= self.since_ns
        if recent.all():
            return [entry]
        data = rows[recent].tobytes()
        if not data:
            return []
        if isinstance(entry, log.TradeRows):
            return [log.TradeRows(entry.day, data)]
        return [log.BarRows(entry.day, data, entry.quality, entry.bar_ns, entry.backfill)]

    def _batches_of(self, entries: Sequence[log.LogEntry]) -> Sequence[RowBatch]:
        """Return all rows that count, after cancellations and replacements, as one batch for each quality."""
        of_quality: dict[Quality, list[Rows]] = {}
        for entry in amended_rows(entries):
            quality = entry.quality if isinstance(entry, log.BarRows) else Quality.TICKS
            of_quality.setdefault(quality, []).append(entry.rows)
        return [
            batch_of(np.concatenate(rows), self._tick_e9, quality) for quality, rows in of_quality.items()
        ]


def _volume(batches: Sequence[RowBatch], session: Session) -> int:
    found = refolded(batches, session.segments, session.segments, Counting(BRACKET_MINUTES))
    return sum(found.ladder.volume) if found else 0


def _is_of_day(entry: log.LogEntry, trade_date: str) -> bool:
    """Return whether an entry has rows of a trade date, or changes rows of any."""
    if isinstance(entry, log.TradeRows | log.BarRows | log.Replacement):
        return entry.day.trade_date == trade_date
    return True


def _joined(entries: Sequence[log.LogEntry]) -> list[log.LogEntry]:
    """Join consecutive entries of trades of a trade date: a log of single trades has a million of them."""
    found: list[log.LogEntry] = []
    for day, group in groupby(
        entries, key=lambda entry: entry.day if isinstance(entry, log.TradeRows) else None
    ):
        if day is None:
            found += group
        else:
            data = b"".join(entry.data for entry in group if isinstance(entry, log.TradeRows))
            found.append(log.TradeRows(day, data))
    return found
