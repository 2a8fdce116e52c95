"""Reads the trades or bars of a stored session from the tape, for profiles that its ladder cannot answer.

A stored session has brackets of 30 minutes and no sides of trades. Profiles of a part of the session, with shorter
brackets, volume delta and an anchored VWAP read its rows again.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import lru_cache
from threading import BoundedSemaphore

from outcry.base.errors import NotFound, Occupied
from outcry.market.calendar import Session
from outcry.market.ladder import Ladder
from outcry.market.session_rows import Counting, Refolded, RowBatch, check_edges, refolded
from outcry.market.windows import Segment
from outcry.recordings.tape_errors import TapeDamaged
from outcry.sessions.recording_store import LONGEST_SESSION, SqlRecordings
from outcry.sessions.store_model import SessionRow, TapeFile
from outcry.trades.records import Quality, Rows
from outcry.trades.rows import batch_of

#: Reads rows of tape files. Raises `TapeDamaged`.
ReadTape = Callable[[Iterable[TapeFile], Quality], Rows]
#: Half-open windows (ns UTC) inside a session.
Windows = tuple[Segment, ...]

#: Sessions whose recomputed ladders are cached: those of a few weeks.
_CACHED = 64
#: Requests that read the tape at a time; the other threads remain for other answers.
_READERS = 2
_RETRY_MS = 1000


class SessionTrades:
    """Recomputes stored sessions from the tape. Thread-safe; every method blocks."""

    def __init__(self, recordings: SqlRecordings, read_tape: ReadTape) -> None:
        self._recordings, self._read_tape = recordings, read_tape
        self._readers = BoundedSemaphore(_READERS)
        self._cached = lru_cache(_CACHED)(self._refold)

    def refold(
        self, row: SessionRow, session: Session, tick_e9: int, counting: Counting, parts: Sequence[Windows]
    ) -> Sequence[Refolded | None]:
        """Return parts of a session, counted anew, and their volume delta; None where nothing traded.

        row: the stored session of `session`. parts: half-open windows (ns UTC) for each part. Raises `NotFound` if its
        rows are not on this machine's tape, `BarAcross` if a part begins or ends inside a bar, `Occupied` if two other
        requests are reading the tape, and `StoreBusy`.
        """
        return self._cached(row, session, tick_e9, counting, tuple(parts))

    def since(self, row: SessionRow, windows: Windows, session: Session, tick_e9: int) -> Ladder | None:
        """Return the ladder of the rows inside the windows; None if there are none.

        Bars count if they start inside. Raises as `refold` does, but not `BarAcross`.
        """
        found = refolded(self._batches(row, session, tick_e9), session.segments, windows, Counting(60))
        return found.ladder if found else None

    def earlier(
        self, owner: int, contract: str, source: str, session: Session, tick_e9: int
    ) -> Sequence[RowBatch]:
        """Return the rows that a live feed has stored with trade dates before that of a session.

        Such rows can be the beginning of an overnight session. Raises as `refold` does.
        """
        last = session.trade_date - timedelta(days=1)
        found = self._recordings.recordings(owner, contract, last - LONGEST_SESSION, last)
        of_feed = [one for one in found if one.source == source and one.last_ns >= session.open_ns]
        return [
            batch_of(self._read([one.file], one.quality, session), tick_e9, one.quality) for one in of_feed
        ]

    def _refold(
        self, row: SessionRow, session: Session, tick_e9: int, counting: Counting, parts: tuple[Windows, ...]
    ) -> tuple[Refolded | None, ...]:
        batches = self._batches(row, session, tick_e9)
        for windows in parts:
            check_edges(batches, session.segments, windows)
        return tuple(refolded(batches, session.segments, windows, counting) for windows in parts)

    def _batches(self, row: SessionRow, session: Session, tick_e9: int) -> Sequence[RowBatch]:
        """Return the rows of all tape files that contain part of a session."""
        files = [recording.file for recording in self._recordings.recordings_of(row)]
        if not files:
            raise not_stored(session)
        return [batch_of(self._read(files, row.quality, session), tick_e9, row.quality)]

    def _read(self, files: Sequence[TapeFile], quality: Quality, session: Session) -> Rows:
        if not self._readers.acquire(blocking=False):
            raise Occupied("rate_limited", retry_after_ms=_RETRY_MS)
        try:
            return self._read_tape(files, quality)
        except TapeDamaged as problem:
            raise not_stored(session) from problem
        finally:
            self._readers.release()


def not_stored(session: Session) -> NotFound:
    """Return the error for a session whose trades are not on this machine's tape."""
    return NotFound("not_found.trades", date=str(session.trade_date))
