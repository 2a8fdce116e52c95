"""A stream and its log: the one place where anything is applied.

Rules kept: what is applied was logged before; a restart goes on from snapshot and log, and is then what it was; the
view is taken under a lock held for microseconds, and worked out outside it.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from itertools import islice

from outcry.live import entries
from outcry.live.columns import Columns, columns_of
from outcry.live.model import Frame, LogTakenOver, TradeLog
from outcry.live.stream import Outcome, Stream
from outcry.live.stream_snapshot import sealed
from outcry.market.live_session import Capture, LiveView
from outcry.trades.records import Rows

#: Read from the log at a time, when a stream is recovered.
_FRAMES_AHEAD = 256

#: Told of what an entry brought about, right after it was applied.
Applied = Callable[[Outcome], None]


class LoggedStream:
    """Entries in, to the log and then to the fold. Used on the event loop, but for `view` and `snapshot`."""

    def __init__(self, name: str, tick_e9: int, log: TradeLog, applied: Applied) -> None:
        self.name, self._tick_e9, self._log, self._applied = name, tick_e9, log, applied
        self.stream = Stream(tick_e9, self._history)
        self._lock = threading.Lock()
        #: An entry was logged and could not be applied: what is here is not what the log says.
        self.torn = False
        #: The position looked back from, and the entries before it with their own.
        self._past: tuple[int, list[tuple[int, entries.LogEntry]]] | None = None
        #: Nothing is added any more, and nothing told: the stream is another's, or another object's here.
        self.closed = False

    def close(self) -> None:
        """Add nothing any more, whoever still holds this."""
        self.closed = True

    async def persisted(self) -> None:
        """Wait until all that was logged survives this process: before that, nothing that came of it is told. Raises
        `LogTakenOver`, then and ever after."""
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
            self._log.append(self.name, self.stream.position, count, blob)
        except LogTakenOver:
            self.closed = True
            raise

    def log(self, entry: entries.LogEntry) -> list[str]:
        """Log an entry and apply it; return what has ended. Raises `OSError` (a full disk), and
        `LogTakenOver`: nothing is applied then."""
        stream = self.stream
        self._append(entry.count, entries.encode(entry))
        self.torn = True
        with self._lock:
            outcome = stream.apply(entry)
        self.torn, self._past = False, None
        self._applied(outcome)
        return outcome.ended

    def log_trades(self, day: entries.Day, rows: Rows) -> Columns:
        """`log` of trades, which are many: they are taken apart once."""
        stream, columns = self.stream, columns_of(rows, self._tick_e9, self.stream.lag_ns)
        entry = entries.TradeRows(day, rows.tobytes())
        self._append(len(rows), entries.encode(entry))
        outcome = Outcome()
        self.torn = True
        with self._lock:
            stream.trades(day, rows, columns, outcome)
        self.torn, self._past = False, None
        self._applied(outcome)
        return columns

    def begin_day(self, day: entries.Day) -> None:
        """A trade date begins a new file of the log, so that older ones can be dropped."""
        stream = self.stream
        new = all(day != known for known, _ in stream.days)
        if new and stream.begun_at != stream.position - 1:  # unless that was done, and then the disk was full
            self._log.cut(self.name)
            self.log(entries.Began(stream.run, stream.own_clock, stream.simulated, stream.lag_ns))

    async def recover(self, snapshot: tuple[int, bytes] | None, thread: Executor) -> bool:
        """Become what the log says, from the snapshot on; return whether that could be read. The log is read on
        `thread`. Raises `LogDamaged`, `OSError`."""
        loop, stream = asyncio.get_running_loop(), self.stream
        restored = snapshot is not None and stream.restore(*snapshot)
        frames = iter(self._log.read(self.name, stream.position))
        while some := await loop.run_in_executor(thread, lambda: list(islice(frames, _FRAMES_AHEAD))):
            for frame in some:
                if frame.first >= stream.position:
                    if stream.amended:
                        await self.look_back()
                    self._again(frame)
                    await asyncio.sleep(0)
        return restored

    def _again(self, frame: Frame) -> None:
        """Apply an entry that was logged before."""
        stream, entry = self.stream, entries.decode(frame)
        if stream.position != frame.first:  # what came before was dropped with its trade date
            if not isinstance(entry, entries.Began | entries.Opened):
                return
            stream.position = frame.first
            # The dropped days had completed, so the stream had caught up: without a snapshot nothing else says so.
            stream.warm = True
        self._applied(stream.apply(entry))
        self._past = None

    @property
    def looked_back(self) -> bool:
        """Whether what folding anew would read now is here."""
        return self._past is not None and self._past[0] == self.stream.position

    async def look_back(self) -> None:
        """Have what folding anew reads here, read beside the event loop: a log may be slow, or away. Raises `OSError`,
        `StoreBusy`."""
        if not self.looked_back:
            self._past = await asyncio.to_thread(
                self._read_past, self.stream.folded_from, self.stream.position
            )

    def _read_past(self, first: int, position: int) -> tuple[int, list[tuple[int, entries.LogEntry]]]:
        frames = (frame for frame in self._log.read(self.name, first) if frame.first < position)
        return position, [(frame.first, entries.decode(frame)) for frame in frames]

    def _history(self, first: int) -> Iterator[entries.LogEntry]:
        """Entries from one that begins at `first` on, up to the one being applied."""
        if self._past is not None and self.looked_back:
            yield from (entry for at, entry in self._past[1] if at >= first)
            return
        for frame in self._log.read(self.name, first):
            if frame.first >= self.stream.position:
                return
            if frame.first >= first:
                yield entries.decode(frame)

    def capture(self) -> Capture | None:
        """The session that runs, as it stands, for its view to be worked out later. Safe from any thread."""
        with self._lock:
            return self.stream.capture()

    def view(self) -> LiveView | None:
        """The session that runs, as it stands. Safe from any thread."""
        captured = self.capture()
        return captured.view() if captured else None

    def snapshot(self) -> tuple[str, int, bytes]:
        """The stream, its position, and all of it as bytes. Safe from any thread."""
        with self._lock:
            position, held = self.stream.position, self.stream.hold()
        return self.name, position, sealed(self.name, position, held.encode())
