"""The log of a single process: `append` returns at once, and a thread (`LogWriter`) writes to the files.

So the event loop never waits for the disk. Entries of a stream are written in order, each once. Entries that cannot be
written stay in memory, up to a limit, and are retried.
"""

import errno
from collections.abc import Awaitable, Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

from outcry.database.errors import StoreBusy
from outcry.live.entries import Day
from outcry.live.file_log import FileLog
from outcry.live.log_checks import check_repeat
from outcry.live.log_writer import LogWriter
from outcry.live.model import Frame
from outcry.live.partitions import partition_of_stream
from outcry.live.pending_writes import FRAME_BYTES, PendingWrites

#: Limit of unwritten bytes, over all streams.
MOST_UNWRITTEN_BYTES = 64 << 20
#: How long a reader waits for unwritten entries, and the process at its end for the disk.
PATIENCE_S = 5.0
_MOST_ENTRIES = 2**32 - 1


class BackgroundLog:
    """The logs of all streams in files, written by a background thread. Implements `TradeLog`; thread-safe.

    Use it within a `with` block of `exclusively`. most_unwritten_bytes: limit of the memory for unwritten entries;
    beyond it `append` raises `OSError`. now_s: a monotonic clock.
    """

    def __init__(
        self,
        files: FileLog,
        *,
        most_unwritten_bytes: int = MOST_UNWRITTEN_BYTES,
        now_s: Callable[[], float] = monotonic,
    ) -> None:
        self._files, self._most_bytes, self._now_s = files, most_unwritten_bytes, now_s
        self._writer = LogWriter(files, now_s)
        #: Never locked during an access to the disk.
        self._turn = self._writer.turn
        self._streams: dict[str, PendingWrites] = {}

    @contextmanager
    def exclusively(self) -> Generator[None]:
        """Lock the files against other processes and start the writer's thread.

        Raises `LogInUse`, `OSError`.
        """
        with self._files.exclusively():
            self._writer.start()
            try:
                yield
            finally:
                # Entries not written by then are requested from the feeds again.
                self._writer.stop(PATIENCE_S)
                with self._turn:
                    self._streams.clear()

    # -- calls that never wait for the disk

    def append(self, key: str, first: int, count: int, blob: bytes) -> None:
        """Queue entries for writing. `first`: the log position of the first of them.

        The first call for a stream reads the stream's file, unless `last` has read it.
        """
        stream = self._streams.get(key) or self._found(key)
        if not 0 < count <= _MOST_ENTRIES:
            raise ValueError(f"{key}: {count} entries cannot be appended")
        size = len(blob) + FRAME_BYTES
        with self._turn:
            if first != stream.last:
                check_repeat(key, stream.last, first, count)
                return
            self._check_room(size)
            stream.pending.append(Frame(first, count, blob))
            stream.last += count
            self._writer.begin(stream, size)

    def append_trades(
        self, key: str, first: int, day: Day, count: int, data: bytes, *, continues: bool
    ) -> None:
        """Queue trades for writing. Trades of several calls may be written as one frame.

        See `TradeLog.append_trades`.
        """
        stream = self._streams.get(key) or self._found(key)
        with self._writer.lock:
            if first != stream.last:
                check_repeat(key, stream.last, first, count)
                return
            self._check_room(len(data))
            self._writer.begin(stream, stream.add_trades(day, count, data, continues=continues))

    def _check_room(self, size: int) -> None:
        if self._writer.unwritten_bytes + size > self._most_bytes:
            why = self._writer.trouble
            raise OSError(errno.ENOBUFS, f"the log cannot be written ({why}), and no more fits in memory")

    def pending_write(self, key: str) -> Awaitable[None] | None:
        """Return an awaitable that completes once everything appended is in the files; None if it already is.

        What is in the files survives the end of the process.
        """
        stream = self._streams.get(key)
        if stream is None or not stream.writing:
            return None
        with self._turn:
            if stream.kept_to == stream.last:
                return None
            self._writer.hurry([stream])
            return stream.wait()

    def stalled(self, key: str) -> str | None:
        """Return why the log of a stream has stalled; None if it has not.

        It has stalled if entries have waited for two seconds and none is being written.
        """
        stream = self._streams.get(key)
        if stream is None or not stream.stalled(self._now_s()):
            return None
        return self._writer.trouble

    @property
    def stuck(self) -> bool:
        """Whether the log of any stream has stalled: entries have waited for two seconds and none was written."""
        now_s = self._now_s()
        return any(stream.stalled(now_s) for stream in list(self._streams.values()))

    def cut(self, key: str) -> None:
        """Start a new file with the next entry, so that the files before it can be removed later."""
        stream = self._streams.get(key) or self._found(key)
        with self._turn:
            stream.cuts.add(stream.last)
            self._writer.begin(stream, 0)

    def check_ownership(self, key: str) -> None:
        """Do nothing: no other process can write to the files."""

    # -- calls that may wait

    def keys(self, partitions: Collection[int] | None = None) -> Sequence[str]:
        """Return the names of streams with entries (`StreamKey.text`), in `partitions` or in all."""
        with self._turn:
            found = {stream.key for stream in self._streams.values() if stream.flying or stream.pending}
        if partitions is not None:
            found = {key for key in found if partition_of_stream(key) in partitions}
        return sorted(found.union(self._files.keys(partitions)))

    def last(self, key: str) -> int:
        """Return the position after the newest entry, 0 for an empty log.

        Waits for unwritten entries. Raises `StoreBusy`, `LogDamaged`.
        """
        stream = self._found(key)
        self._settle(stream)
        return stream.last

    def read(self, key: str, first: int) -> Iterator[Frame]:
        """Yield the frames (batches of entries) of a stream, beginning with the one that contains entry `first`.

        Frames that are not written yet come from memory.
        """
        stream = self._found(key)
        with self._turn:
            own = stream.frames()
            until = stream.kept_to
        return self._frames(self._files.read(key, first), until, first, own)

    @staticmethod
    def _frames(files: Iterator[Frame], until: int, first: int, own: Sequence[Frame]) -> Iterator[Frame]:
        for frame in files:
            if frame.first >= until:  # written after `own` was copied
                break
            yield frame
        yield from (frame for frame in own if frame.first + frame.count > first)

    def drop(self, key: str, before: int) -> None:
        """Remove the log files of a stream that contain only entries before a position. Raises `StoreBusy`."""
        self._settle(self._found(key))
        self._files.drop(key, before)

    def forget(self, key: str) -> None:
        """Remove a stream's log. Raises `StoreBusy`."""
        self._leave(key)
        self._files.forget(key)

    def take_notices(self, key: str) -> Sequence[str]:
        """Return the repairs of a stream's log since the last call, each as a line of text for the operator."""
        return self._files.take_notices(key)

    def salvage(self, key: str, position: int, lost: Callable[[int], bytes]) -> Sequence[str]:
        """Rebuild a damaged log from its readable entries; return a line of text for each loss, for the operator.

        Raises `StoreBusy`.
        """
        self._leave(key)
        return self._files.salvage(key, position, lost)

    def quarantine(self, key: str) -> None:
        """Remove a stream's log, but keep damaged files under another name, so that a person can inspect them.

        Raises `StoreBusy`.
        """
        self._leave(key)
        self._files.quarantine(key)

    def sync(self) -> None:
        """Sync all appended entries to disk. Raises `OSError`."""
        with self._turn:
            goals = [(stream, stream.last) for stream in self._streams.values() if stream.writing]

            self._writer.hurry(stream for stream, _ in goals)

            def written() -> bool:
                return all(not stream.writing or stream.kept_to >= goal for stream, goal in goals)

            if not self._turn.wait_for(written, PATIENCE_S):
                raise OSError(errno.ETIMEDOUT, self._writer.trouble)
        self._files.sync()

    def _found(self, key: str) -> PendingWrites:
        stream = self._streams.get(key)
        if stream is None:
            last = self._files.last(key)
            with self._turn:
                stream = self._streams.setdefault(key, PendingWrites(key))
                if not stream.writing:
                    stream.last = last
        return stream

    def _leave(self, key: str) -> None:
        """Remove a stream from memory once its entries are written, because its files are about to change."""
        stream = self._streams.get(key)
        if stream is not None:
            self._settle(stream)
        with self._turn:
            self._streams.pop(key, None)

    def _settle(self, stream: PendingWrites) -> None:
        """Wait until every entry of a stream is written. Raises `StoreBusy`."""
        with self._turn:
            self._writer.hurry([stream])
            if not self._turn.wait_for(lambda: not stream.writing, PATIENCE_S):
                raise StoreBusy(f"the log is not written yet: {self._writer.trouble}")
