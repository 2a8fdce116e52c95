"""The log of live streams in files of consecutive frames; a frame is a batch of entries.

Each stream has a folder, and each file is named after its first entry: `0/demo/ESZ2026/<first entry>.log`. One process
at a time uses the log. A frame is one write, and a failed write leaves nothing behind. Only the newest file of a stream
can end with an incomplete frame, because the file before it is synced to disk first.
"""

import errno
import fcntl
import os
import re
import resource
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from outcry.base.quarantine import unused_name
from outcry.live.log_checks import check_key, check_repeat, is_key
from outcry.live.log_salvage import salvaged
from outcry.live.log_segments import NoFrame, damaged, encode, mend, open_segment, walk
from outcry.live.model import Frame, LogInUse
from outcry.live.partitions import partition_of_stream

SEGMENT_BYTES = 64 << 20
_NAME = re.compile(r"([0-9]{20})\.log", re.ASCII)


class _Stream:
    """The files of a stream. starts: first entry of each file; size: valid bytes of the newest one."""

    __slots__ = ("folder", "handle", "last", "size", "starts")

    def __init__(self, folder: Path, starts: list[int]) -> None:
        self.folder, self.starts = folder, starts
        self.last = starts[-1] if starts else 0
        self.size = 0
        self.handle: int | None = None

    def path(self, start: int) -> Path:
        return self.folder / f"{start:020d}.log"


class FileLog:
    """Implements `TradeLog`, inside `exclusively`. Safe to use from several threads.

    segment_bytes: the size from which on the next entry starts a new file. most_open: limit of open files; by default a
    quarter of the process's limit.
    """

    def __init__(
        self, folder: Path, *, segment_bytes: int = SEGMENT_BYTES, most_open: int | None = None
    ) -> None:
        self._folder = folder
        self._segment_bytes, self._most_open = segment_bytes, most_open
        self._turn = threading.Lock()
        #: Guards the files and sizes of streams, but no write, so that readers do not wait for one that hangs. Acquired
        #: inside `_turn`.
        self._known = threading.Lock()
        self._held = False
        self._streams: dict[str, _Stream] = {}
        self._open: OrderedDict[str, _Stream] = OrderedDict()  # least recently used first
        self._notices: dict[str, list[str]] = {}
        self._unsynced: set[str] = set()
        self._unsynced_folders: set[Path] = set()

    @contextmanager
    def exclusively(self) -> Generator[None]:
        """Lock the log against other processes; sync and close it at the end. Raises `LogInUse`, `OSError`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as problem:
                raise LogInUse(
                    f"another process writes to the log {self._folder}: is Outcry running already?"
                ) from problem
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
            folders = ["/".join(path.parts[-3:]) for path in self._folder.glob("*/*/*/")]
            found = [key for key in sorted(folders) if is_key(key) and _holds_any(self._folder / key)]
        return [key for key in found if partitions is None or partition_of_stream(key) in partitions]

    def last(self, key: str) -> int:
        """Return the position after the newest entry, 0 for an empty log."""
        return self._looked_up(key).last

    def append(self, key: str, first: int, count: int, blob: bytes) -> None:
        """Append entries at position `first` to a stream's newest file."""
        self.append_all(key, [Frame(first, count, blob)])

    def append_all(self, key: str, frames: Sequence[Frame]) -> None:
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

        If that was removed, begin with the oldest.
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
                stream.path(oldest).unlink(missing_ok=True)

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
            for start in file_starts(folder):
                (folder / f"{start:020d}.log").unlink()
            with suppress(OSError):  # it does not exist, or contains other files
                folder.rmdir()

    def take_notices(self, key: str) -> Sequence[str]:
        """Return the repairs of a stream's log since the last call, as lines for the operator."""
        with self._turn:
            return self._notices.pop(key, [])

    def salvage(self, key: str, position: int, lost: Callable[[int], bytes]) -> Sequence[str]:
        """Rebuild a damaged log from its readable entries; return a line for each loss, for the operator."""
        with self._turn:
            self._check(key)
            self._forget(key)
            self._unsynced.discard(key)
            folder = self._folder / key
            return salvaged(
                folder,
                [(folder / f"{start:020d}.log", start) for start in file_starts(folder)],
                position,
                lost,
            )

    def quarantine(self, key: str) -> None:
        """Remove a stream's log as `forget` does, but keep its damaged files under another name for inspection."""
        with self._turn:
            self._check(key)
            self._forget(key)
            self._unsynced.discard(key)
            folder = self._folder / key
            for start in file_starts(folder):
                path = folder / f"{start:020d}.log"
                path.rename(unused_name(path, "damaged"))

    def sync(self) -> None:
        """Sync everything appended to the disk, so that it survives a crash of the machine."""
        with self._turn:
            streams, folders = sorted(self._unsynced), sorted(self._unsynced_folders)
        for key in streams:
            with self._turn:
                if key not in self._unsynced:
                    continue
                handle = os.dup(self._handle(key, self._stream(key)))
                self._unsynced.discard(key)  # entries appended from now on belong to the next sync
            try:
                _sync(handle)  # without the lock, so that others can append meanwhile
            except OSError:
                self._unsynced.add(key)
                raise
        for folder in folders:
            self._unsynced_folders.discard(folder)
            try:
                _sync(os.open(folder, os.O_RDONLY))
            except FileNotFoundError:  # removed meanwhile
                continue
            except OSError:
                self._unsynced_folders.add(folder)
                raise

    # -- with the lock

    def _check(self, key: str) -> None:
        if not self._held:
            raise RuntimeError("the log is used inside `exclusively` only")
        check_key(key)

    def _looked_up(self, key: str) -> _Stream:
        """Return the files of a stream, as known in memory.

        Waits for a write in progress only at first use of the stream.
        """
        known = self._streams.get(key)
        if known is None:
            with self._turn:
                known = self._stream(key)
        return known

    def _stream(self, key: str) -> _Stream:
        """Return the files of a stream; at first use read the newest one and cut off an incomplete end."""
        known = self._streams.get(key)
        if known is not None:
            return known
        self._check(key)
        folder = self._folder / key
        stream = _Stream(folder, file_starts(folder))
        if stream.starts:
            stream.last, stream.size, notice = mend(stream.path(stream.last), stream.last)
            if notice:
                self._notices.setdefault(key, []).append(notice)
        self._streams[key] = stream
        return stream

    def _begin(self, key: str, stream: _Stream) -> None:
        """Create a new file, which starts with the next entry."""
        if key in self._unsynced:  # because only the newest file is checked for an incomplete end
            os.fsync(self._handle(key, stream))
        self._close(key)
        stream.folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        handle = os.open(stream.path(stream.last), flags, 0o666)
        self._keep(key, stream, handle)
        with self._known:
            stream.starts.append(stream.last)
            stream.size = 0
        self._unsynced.add(key)
        self._unsynced_folders.update((stream.folder, *stream.folder.parents[:3]))

    def _write(self, key: str, stream: _Stream, data: bytearray) -> None:
        """Write frames completely or not at all."""
        handle = self._handle(key, stream)
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

    def _handle(self, key: str, stream: _Stream) -> int:
        """Return a handle of the newest file of a stream, opened for appending."""
        if stream.handle is not None:
            self._open.move_to_end(key)
            return stream.handle
        return self._keep(key, stream, os.open(stream.path(stream.starts[-1]), os.O_WRONLY | os.O_APPEND))

    def _keep(self, key: str, stream: _Stream, handle: int) -> int:
        stream.handle = handle
        self._open[key] = stream
        if len(self._open) > (self._most_open or resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4):
            self._close(next(iter(self._open)))
        return handle

    def _close(self, key: str) -> None:
        stream = self._open.pop(key, None)
        if stream is not None and stream.handle is not None:
            os.close(stream.handle)
            stream.handle = None

    def _forget(self, key: str) -> None:
        """Close the files of a stream and forget them."""
        self._close(key)
        self._streams.pop(key, None)

    # -- reading

    def _frames(self, key: str, at: int, until: int) -> Generator[Frame]:
        """Yield frames from the one with entry `at`, or the oldest, up to entry `until`, file by file."""
        while at < until:
            stream = self._looked_up(key)
            with self._known:
                if not stream.starts:  # removed meanwhile
                    return
                place = max(0, bisect_right(stream.starts, at) - 1)
                start, *later = stream.starts[place : place + 2]
                path = stream.path(start)
                size = path.stat().st_size if later else stream.size
                file = open_segment(path)  # an open file can be read even after it is dropped
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


def file_starts(folder: Path) -> list[int]:
    """Return the first entry of each file of a stream, ascending."""
    found = (_NAME.fullmatch(path.name) for path in folder.glob("*.log"))
    return sorted(int(name[1]) for name in found if name is not None)


def _holds_any(folder: Path) -> bool:
    starts = file_starts(folder)
    return bool(starts) and (starts[-1] > 0 or (folder / f"{starts[-1]:020d}.log").stat().st_size > 0)


def _sync(handle: int) -> None:
    """Sync a file or a folder to disk, and close it."""
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
