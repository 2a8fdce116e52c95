"""Reads the trades or bars of a stored session from the tape, for profiles that its ladder cannot answer.

A stored session has brackets of 30 minutes and no sides of trades. Profiles with shorter brackets, volume delta and an
anchored VWAP read its rows again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from threading import BoundedSemaphore

import numpy as np
from numpy.typing import NDArray

from outcry.base.errors import NotFound, Occupied
from outcry.market.bar_columns import BarColumns, Columns, TradeColumns, longer_bars, minute_bars
from outcry.market.calendar import Session
from outcry.market.ladder import Ladder
from outcry.market.profile_kernels import Closes, bar_closes, price_deltas, window_ladder
from outcry.recordings.tape_errors import TapeDamaged
from outcry.sessions.recording_store import SqlRecordings
from outcry.sessions.store_model import SessionRow, TapeFile
from outcry.trades.records import Quality, Rows
from outcry.trades.rows import on_tick

#: Reads rows of tape files. Raises `TapeDamaged`.
ReadTape = Callable[[Iterable[TapeFile], Quality], Rows]

#: Sessions whose recomputed ladders are cached: those of a few weeks.
_CACHED = 64
#: Requests that read the tape at a time; the other threads remain for other answers.
_READERS = 2
_RETRY_MS = 1000


@dataclass(frozen=True, slots=True)
class Refolded:
    """A session recomputed from its rows.

    deltas: for each tick of the ladder, the lots of buyers minus those of sellers (aggressors); None if no trade has a
    side. unknown_lots: volume of trades without a side.
    """

    ladder: Ladder
    deltas: tuple[int, ...] | None
    unknown_lots: int


class SessionTrades:
    """Recomputes stored sessions from the tape. Thread-safe; every method blocks."""

    def __init__(self, recordings: SqlRecordings, read_tape: ReadTape) -> None:
        self._recordings, self._read_tape = recordings, read_tape
        self._readers = BoundedSemaphore(_READERS)
        self._cached = lru_cache(_CACHED)(self._refold)
        self._cached_closes = lru_cache(_CACHED)(self._closes)

    def refold(
        self, row: SessionRow, session: Session, tick_e9: int, minutes: int, bar_minutes: int = 0
    ) -> Refolded:
        """Return a session with brackets of `minutes`, and its volume delta.

        row: the stored session of `session`. bar_minutes: length of the bars whose volume is spread over their ranges,
        no longer than a bracket; 0 for the rows as they are recorded. Raises `NotFound` if its rows are not on this
        machine's tape, `Occupied` if two other requests are reading the tape, and `StoreBusy`.
        """
        return self._cached(row, session, tick_e9, minutes, bar_minutes)

    def closes(self, row: SessionRow, session: Session, tick_e9: int, bar_minutes: int) -> Closes:
        """Return the closes of a session's bars of `bar_minutes`, which must divide an hour. Raises as `refold`."""
        return self._cached_closes(row, session, tick_e9, bar_minutes)

    def since(self, row: SessionRow, session: Session, tick_e9: int, from_ns: int) -> Ladder | None:
        """Return the ladder of the rows at or after a time (ns UTC), as one bracket an hour; None if there are none.

        Bars count if they start at or after the time. Raises as `refold` does.
        """
        segments = [(max(start, from_ns), end) for start, end in session.segments if end > from_ns]
        columns, _ = self._columns(row, session, tick_e9)
        return window_ladder(columns, segments, 60)

    def _closes(self, row: SessionRow, session: Session, tick_e9: int, bar_minutes: int) -> Closes:
        columns, _ = self._columns(row, session, tick_e9)
        closes = bar_closes(columns, session.segments, bar_minutes)
        if not len(closes.price_ticks):
            raise not_stored(session)
        return closes

    def _refold(
        self, row: SessionRow, session: Session, tick_e9: int, minutes: int, bar_minutes: int
    ) -> Refolded:
        columns, sides = self._columns(row, session, tick_e9)
        if bar_minutes:
            columns = longer_bars(minute_bars(columns, session.segments), session.segments, bar_minutes)
        ladder = window_ladder(columns, session.segments, minutes)
        if ladder is None:
            raise not_stored(session)
        if not isinstance(columns, TradeColumns) or sides is None:
            return Refolded(ladder, None, sum(ladder.volume))
        deltas, unknown = price_deltas(columns, sides, session.segments, ladder)
        return Refolded(ladder, deltas if unknown < sum(ladder.volume) else None, unknown)

    def _columns(
        self, row: SessionRow, session: Session, tick_e9: int
    ) -> tuple[Columns, NDArray[np.bytes_] | None]:
        """Return the rows of all tape files that contain part of a session, and the sides of trades."""
        files = [recording.file for recording in self._recordings.recordings_of(row)]
        if not files:
            raise not_stored(session)
        if not self._readers.acquire(blocking=False):
            raise Occupied("rate_limited", retry_after_ms=_RETRY_MS)
        try:
            rows = self._read_tape(files, row.quality)
        except TapeDamaged as problem:
            raise not_stored(session) from problem
        finally:
            self._readers.release()
        rows, ticks, _ = on_tick(rows, tick_e9, row.quality)
        at_ns = np.ascontiguousarray(rows["ts_event"])
        if row.quality is Quality.TICKS:
            return TradeColumns(at_ns, ticks[0], rows["size"]), rows["side"]
        opened, high, low, close = ticks
        return BarColumns(at_ns, opened, high, low, close, rows["volume"].astype(np.int64)), None


def not_stored(session: Session) -> NotFound:
    """Return the error for a session whose trades are not on this machine's tape."""
    return NotFound("not_found.trades", date=str(session.trade_date))
