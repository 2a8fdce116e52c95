"""A stream with its log: every input is logged before it is applied.

So after a restart, the snapshot and the log restore the same state. The state for a view is captured under a lock,
within microseconds; the view is computed without the lock.
"""

import asyncio
import threading
from collections.abc import Iterator, Sequence

from outcry.live import entries
from outcry.live.columns import Columns
from outcry.live.model import Frame, LogTakenOver
from outcry.live.stream import Outcome, SessionAlert, Stream
from outcry.live.stream_snapshot import sealed
from outcry.live.trade_log import TradeLog
from outcry.market.live_session import Capture, LiveSession, LiveView


class LoggedStream(Stream):
    """A stream whose inputs are in a log.

    Use it on the event loop; `capture`, `view` and `snapshot` are safe on any thread. name: of the stream,
    `StreamKey.text`. tick_e9: tick size of its product in units of 10⁻⁹.
    """

    def __init__(self, name: str, tick_e9: int, log: TradeLog) -> None:
        super().__init__(tick_e9, self._read_history)
        self.name, self._log = name, log
        self._lock = threading.Lock()
        #: An entry was logged but could not be applied: this object no longer matches the log.
        self.inconsistent = False
        #: The position at which the history was read in advance, and the entries before it with their positions.
        self._past: tuple[int, list[tuple[int, entries.LogEntry]]] | None = None
        #: The session of the trades that were logged last.
        self._logged_session: LiveSession | None = None
        #: Another process, or another object of this process, has acquired the stream: refuse every further entry.
        self.closed = False

    def close(self) -> None:
        """Refuse all further entries, even through other references to this object."""
        self.closed = True

    async def persisted(self) -> None:
        """Wait until the log has persisted every entry. Raises `LogTakenOver`, now and on every later call.

        Until the call returns, publish nothing that is computed from these entries.
        """
        if not self.closed and (keeping := self._log.pending_write(self.name)) is not None:
            try:
                await keeping
            except LogTakenOver:
                self.closed = True
                raise
        self._check()

    def _check(self) -> None:
        if self.closed:
            raise LogTakenOver(self.name)

    def _append(self, count: int, blob: bytes) -> None:
        self._check()
        try:
            self._log.append(self.name, self.position, count, blob)
        except LogTakenOver:
            self.closed = True
            raise

    def log(self, entry: entries.LogEntry) -> Outcome:
        """Log an entry and apply it; return the alerts it fired and the sessions it ended.

        The first row of a trade date starts a new log file. Raises `OSError` (a full disk) and `LogTakenOver`; then the
        entry is not applied.
        """
        if isinstance(entry, entries.TradeRows | entries.BarRows):
            self._begin_day(entry.day)
        self._append(entry.count, entries.encode(entry))
        self.inconsistent = True
        with self._lock:
            outcome = self.apply(entry)
        self.inconsistent, self._past = False, None
        return outcome

    def log_trades(self, day: entries.Day, columns: Columns) -> Sequence[SessionAlert]:
        """Log and apply trades of one session, as `log` does; return the alerts they fired."""
        if not self.days or self.days[-1][0] is not day:
            self._begin_day(day)
        if self.closed:
            raise LogTakenOver(self.name)
        first_ns, count = columns.at_ns[0], len(columns.at_ns)
        session = self.session_at(first_ns)
        continues = session is not None and session is self._logged_session and first_ns >= self.latest_ns
        try:
            self._log.append_trades(self.name, self.position, day, count, columns.data, continues=continues)
        except LogTakenOver:
            self.closed = True
            raise
        self.inconsistent, self._logged_session = True, session
        with self._lock:
            fired = self.trades(day, columns, session)
        self.inconsistent, self._past = False, None
        return fired

    def _begin_day(self, day: entries.Day) -> None:
        """If `day` is a new trade date, start a new log file with the entry `Began`.

        Files that contain only stored trade dates can then be removed as a whole.
        """
        if any(day == known for known, _ in self.days):
            return
        if self.begun_at != self.position - 1:  # otherwise a full disk let the file begin, but not the day
            self._log.cut(self.name)
            self.log(entries.Began(self.run, self.own_clock, self.simulated, self.lag_ns))

    async def reapply(self, frame: Frame) -> Outcome | None:
        """Apply an entry that was read from the log, to restore the stream.

        Return None if the entry is applied already, or depends on an entry that was removed. Raises `LogDamaged`,
        `OSError`.
        """
        if frame.first + frame.count <= self.position:
            return None
        if self.amended:
            await self.load_history()
        first, entry = entries.part(frame, self.position, frame.first + frame.count)
        if self.position != first:  # earlier entries were dropped with their trade date
            if not isinstance(entry, entries.Began | entries.Opened):
                return None
            self.position = first
            # The dropped days had completed, so the stream had caught up. Without a snapshot there is no other record
            # of it.
            self.warm = True
        outcome = self.apply(entry)
        self._past = None
        return outcome

    @property
    def history_loaded(self) -> bool:
        """Whether the log entries that are needed to compute the open sessions again are in memory."""
        return self._past is not None and self._past[0] == self.position

    async def load_history(self) -> None:
        """Read the log entries from which the open sessions can be computed again, on another thread.

        Reading may be slow, or fail while the log is unavailable. Raises `OSError`, `StoreBusy`.
        """
        if not self.history_loaded:
            self._past = await asyncio.to_thread(self._read_past, self.folded_from, self.position)

    def _read_past(self, first: int, position: int) -> tuple[int, list[tuple[int, entries.LogEntry]]]:
        return position, list(entries.entries_between(self._log.read(self.name, first), first, position))

    def _read_history(self, first: int) -> Iterator[entries.LogEntry]:
        """Yield the log entries from position `first` up to the current position."""
        if self._past is not None and self.history_loaded:
            yield from (entry for at, entry in self._past[1] if at >= first)
            return
        for _, entry in entries.entries_between(self._log.read(self.name, first), first, self.position):
            yield entry

    def capture(self) -> Capture | None:
        """Copy the data from which a view of the current session is computed; None before its first trade.

        Safe from any thread.
        """
        with self._lock:
            return super().capture()

    def view(self) -> LiveView | None:
        """Compute the view of the current session; None before its first trade. Safe from any thread."""
        captured = self.capture()
        return captured.view() if captured else None

    def snapshot(self) -> tuple[str, int, bytes]:
        """Return the stream's name, its position and its encoded snapshot with a digest. Safe from any thread."""
        with self._lock:
            position, held = self.position, self.hold()
        return self.name, position, sealed(self.name, position, held.encode())
