"""The log of live streams in files. A file has consecutive frames; a frame is a batch of entries.

Each stream has a folder, and each file has the number of its first entry as its name: `0/demo/ESZ2026/<first
entry>.log`. One process at a time uses the log. A frame is written at once, and a failed write leaves nothing behind.
Only the newest file of a stream can end with an incomplete frame, because each file is synced to disk before the next
one begins.
"""

import errno
import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from outcry.base.portable_files import open_binary, remove, replace, sync_folder, was_removed
from outcry.base.quarantine import unused_name
from outcry.live.entries import Day
from outcry.live.log_checks import check_key, check_repeat
from outcry.live.log_files import OpenFiles, StreamFiles, locked, names_in, paths_of, sync_handle
from outcry.live.log_salvage import salvaged
from outcry.live.log_segments import NoFrame, damaged, encode, mend, open_segment, walk
from outcry.live.model import Frame
from outcry.live.partitions import partition_of_stream
from outcry.live.pending_writes import TradeBatch

SEGMENT_BYTES = 64 << 20


class FileLog:
    """The logs of all streams in files; `append` writes at once. Implements `TradeLog`; thread-safe.

    Use it within a `with` block of `exclusively`. segment_bytes: once a file has this size, the next entry starts a new
    file. most_open: limit of open files; by default a quarter of the number that the process may open.
    """

    def __init__(
        self, folder: Path, *, segment_bytes: int = SEGMENT_BYTES, most_open: int | None = None
    ) -> None:
        self._folder = folder
        self._segment_bytes, self._open = segment_bytes, OpenFiles(most_open)
        self._turn = threading.Lock()
        #: Guards the files and sizes of streams, but no write, so that readers do not wait for one that hangs. Acquired
        #: inside `_turn`.
        self._known = threading.Lock()
        self._held = False
        self._streams: dict[str, StreamFiles] = {}
        self._notices: dict[str, list[str]] = {}
        self._unsynced: set[str] = set()
        self._unsynced_folders: set[Path] = set()

    @contextmanager
    def exclusively(self) -> Generator[None]:
        """Lock the log against other processes for the `with` block; sync and close the log at its end.

        Raises `LogInUse`, `OSError`.
        """
        with locked(self._folder):
            self._held = True
            try:
                yield
                self.sync()
            finally:
                with self._turn:
                    self._held = False
                    for key in list(self._streams):
                        self._forget(key)
                    self._unsynced.clear()
                    self._unsynced_folders.clear()

    def keys(self, partitions: Collection[int] | None = None) -> Sequence[str]:
        """Return the names of streams with entries (`StreamKey.text`), in `partitions` or in all."""
        with self._turn:
            found = names_in(self._folder)
        return [key for key in found if partitions is None or partition_of_stream(key) in partitions]

    def last(self, key: str) -> int:
        """Return the position after the newest entry, 0 for an empty log."""
        return self._looked_up(key).last

    def append(self, key: str, first: int, count: int, blob: bytes) -> None:
        """Append entries to a stream's newest file. `first`: the log position of the first of them."""
        self.append_all(key, [Frame(first, count, blob)])

    def append_trades(
        self, key: str, first: int, day: Day, count: int, data: bytes, *, continues: bool
    ) -> None:
        """Append trades as one frame."""
        self.append_all(key, [TradeBatch(first, day, count, data)])

    def append_all(self, key: str, frames: Sequence[Frame | TradeBatch]) -> None:
        """Append consecutive frames with one write: all of them are added, or none."""
        with self._turn:
            stream = self._streams.get(key) or self._stream(key)
            last, fresh = stream.last, bytearray()
            for frame in frames:
                if frame.first != last or frame.count < 1:
                    check_repeat(key, last, frame.first, frame.count)
                    continue
                fresh += encode(frame.first, frame.count, frame.blob)
                last += frame.count
            if not fresh:
                return
            if not stream.starts or (stream.size and stream.size + len(fresh) > self._segment_bytes):
                self._begin(key, stream)
            self._write(key, stream, fresh)
            with self._known:
                stream.size += len(fresh)
                stream.last = last

    def pending_write(self, key: str) -> None:
        """Return None: entries are in the file once `append` returns."""
        return

    def stalled(self, key: str) -> str | None:
        """Return None: this log writes at once, so it cannot stall."""
        return None

    def check_ownership(self, key: str) -> None:
        """Do nothing: no other process can write to the files."""

    def read(self, key: str, first: int) -> Iterator[Frame]:
        """Yield the frames of a stream, beginning with the one that contains entry `first`.

        If that frame was removed, begin with the oldest one.
        """
        return self._frames(key, first, self.last(key))

    def cut(self, key: str) -> None:
        """Start a new file with the next entry, so that the files before it can be removed later."""
        with self._turn:
            stream = self._stream(key)
            if stream.size:
                self._begin(key, stream)

    def drop(self, key: str, before: int) -> None:
        """Remove the files that contain only entries before a position."""
        with self._turn:
            stream = self._stream(key)
            while len(stream.starts) > 1 and stream.starts[1] <= before:
                with self._known:
                    oldest = stream.starts.pop(0)
                if not was_removed(stream.path(oldest)):  # being read on Windows: try again next time
                    with self._known:
                        stream.starts.insert(0, oldest)
                    return

    def forget(self, key: str) -> None:
        """Remove a stream's log."""
        with self._turn:
            self._check(key)
            if (stream := self._streams.get(key)) is not None:
                with self._known:
                    stream.starts.clear()
            self._forget(key)
            self._unsynced.discard(key)
            folder = self._folder / key
            for path in paths_of(folder):
                remove(path)
            with suppress(OSError):  # it does not exist, or contains other files
                folder.rmdir()

    def take_notices(self, key: str) -> Sequence[str]:
        """Return the repairs of a stream's log since the last call, each as a line of text for the operator."""
        with self._turn:
            return self._notices.pop(key, [])

    def salvage(self, key: str, position: int, lost: Callable[[int], bytes]) -> Sequence[str]:
        """Rebuild a damaged log from its readable entries; return a line of text for each loss, for the operator."""
        with self._turn:
            self._check(key)
            self._forget(key)
            self._unsynced.discard(key)
            return salvaged(self._folder / key, position, lost)

    def quarantine(self, key: str) -> None:
        """Remove a stream's log as `forget` does, but rename damaged files, so that a person can inspect them."""
        with self._turn:
            self._check(key)
            self._forget(key)
            self._unsynced.discard(key)
            for path in paths_of(self._folder / key):
                replace(path, unused_name(path, "damaged"))

    def sync(self) -> None:
        """Sync all appended entries to disk, so that they survive a crash of the machine."""
        with self._turn:
            streams, folders = sorted(self._unsynced), sorted(self._unsynced_folders)
        for key in streams:
            with self._turn:
                if key not in self._unsynced:
                    continue
                handle = os.dup(self._open.handle(self._stream(key)))
                self._unsynced.discard(key)  # entries appended from now on belong to the next sync
            try:
                sync_handle(handle)  # without the lock, so that others can append meanwhile
            except OSError:
                self._unsynced.add(key)
                raise
        for folder in folders:
            self._unsynced_folders.discard(folder)
            try:
                with suppress(FileNotFoundError):  # the folder was removed
                    sync_folder(folder)
            except OSError:
                self._unsynced_folders.add(folder)
                raise

    # -- with the lock

    def _check(self, key: str) -> None:
        if not self._held:
            raise RuntimeError("the log is used inside `exclusively` only")
        check_key(key)

    def _looked_up(self, key: str) -> StreamFiles:
        """Return the files of a stream, from memory if the stream was used before.

        Only the first use of a stream waits for a write in progress.
        """
        known = self._streams.get(key)
        if known is None:
            with self._turn:
                known = self._stream(key)
        return known

    def _stream(self, key: str) -> StreamFiles:
        """Return the files of a stream.

        On first use, read the newest file and cut off an incomplete frame at its end.
        """
        known = self._streams.get(key)
        if known is not None:
            return known
        self._check(key)
        stream = StreamFiles(self._folder / key)
        if stream.starts:
            stream.last, stream.size, notice = mend(stream.path(stream.last), stream.last)
            if notice:
                self._notices.setdefault(key, []).append(notice)
        self._streams[key] = stream
        return stream

    def _begin(self, key: str, stream: StreamFiles) -> None:
        """Create a new file, which starts with the next entry."""
        if key in self._unsynced:  # because only the newest file is checked for an incomplete end
            os.fsync(self._open.handle(stream))
        self._open.close(stream)
        stream.folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        handle = open_binary(stream.path(stream.last), flags)
        self._open.add(stream, handle)
        with self._known:
            stream.starts.append(stream.last)
            stream.size = 0
        self._unsynced.add(key)
        self._unsynced_folders.update((stream.folder, *stream.folder.parents[:3]))

    def _write(self, key: str, stream: StreamFiles, data: bytearray) -> None:
        """Write frames completely, or not at all if the disk refuses."""
        handle = self._open.handle(stream)
        self._unsynced.add(key)
        written = 0
        try:
            written = os.write(handle, data)
        finally:
            if written < len(data):
                try:
                    os.ftruncate(handle, stream.size)
                except OSError:  # the next use cuts it off as an incomplete end
                    self._forget(key)
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(stream.path(stream.starts[-1])))

    def _forget(self, key: str) -> None:
        """Close the files of a stream and remove the stream from memory."""
        stream = self._streams.pop(key, None)
        if stream is not None:
            self._open.close(stream)

    # -- reading

    def _frames(self, key: str, at: int, until: int) -> Generator[Frame]:
        """Yield the frames of a stream, file by file.

        The first frame is the one with entry `at`, or the oldest; the last one is before entry `until`.
        """
        while at < until:
            stream = self._looked_up(key)
            with self._known:
                if not stream.starts:  # removed meanwhile
                    return
                place = max(0, bisect_right(stream.starts, at) - 1)
                start, *later = stream.starts[place : place + 2]
                path = stream.path(start)
                size = path.stat().st_size if later else stream.size
                file = open_segment(path)  # once open, `drop` does not end the reading
            end = start
            with file:
                try:
                    for frame in walk(file, start, size):
                        end = frame.first + frame.count
                        if frame.first >= until:
                            return
                        if end > at:
                            yield frame
                except NoFrame as problem:
                    raise damaged(path, problem) from None
            if not later:
                return
            if end != later[0]:
                raise damaged(path, NoFrame(size, end))
            at = end
