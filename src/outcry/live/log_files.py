"""The files of a stream's log, and which of them are open for appending."""

import os
import re
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from outcry.base.file_lock import exclusive_lock
from outcry.base.open_files import most_open_files
from outcry.base.portable_files import open_binary
from outcry.live.log_checks import is_key
from outcry.live.model import LogInUse

LOCK = ".lock"
_NAME = re.compile(r"([0-9]{20})\.log", re.ASCII)
#: Assumed if the system states no limit: what Windows allows.
_MOST = 8_192


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Lock a log's folder against other processes for the `with` block; create the folder if necessary.

    Raises `LogInUse`, `OSError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    in_use = LogInUse(f"another process writes to the log {folder}: is Outcry running already?")
    with exclusive_lock(folder / LOCK, in_use):
        yield


class StreamFiles:
    """The files of a stream. starts: number of the first entry of each file. size: valid bytes of the newest file."""

    __slots__ = ("folder", "handle", "last", "size", "starts")

    def __init__(self, folder: Path) -> None:
        self.folder, self.starts = folder, file_starts(folder)
        self.last = self.starts[-1] if self.starts else 0
        self.size = 0
        self.handle: int | None = None

    def path(self, start: int) -> Path:
        """Return the path of the file whose first entry has this number."""
        return _path(self.folder, start)


class OpenFiles:
    """The newest files of streams, opened for appending.

    most: limit of open files; beyond it, the least recently used one is closed. By default it is a quarter of the
    number that the process may open.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._streams: OrderedDict[Path, StreamFiles] = OrderedDict()  # least recently used first

    def handle(self, stream: StreamFiles) -> int:
        """Return a file descriptor of the newest file of a stream; open the file if necessary."""
        if stream.handle is not None:
            self._streams.move_to_end(stream.folder)
            return stream.handle
        return self.add(stream, open_binary(stream.path(stream.starts[-1]), os.O_WRONLY | os.O_APPEND))

    def add(self, stream: StreamFiles, handle: int) -> int:
        """Use an open file descriptor for a stream; return the descriptor."""
        stream.handle = handle
        self._streams[stream.folder] = stream
        if len(self._streams) > (self._most or (most_open_files() or _MOST) // 4):
            self.close(next(iter(self._streams.values())))
        return handle

    def close(self, stream: StreamFiles) -> None:
        """Close the file of a stream if it is open."""
        self._streams.pop(stream.folder, None)
        if stream.handle is not None:
            os.close(stream.handle)
            stream.handle = None


def file_starts(folder: Path) -> list[int]:
    """Return the number of the first entry of each file of a stream, ascending."""
    found = (_NAME.fullmatch(path.name) for path in folder.glob("*.log"))
    return sorted(int(name[1]) for name in found if name is not None)


def paths_of(folder: Path) -> list[Path]:
    """Return the files of a stream, oldest first."""
    return [_path(folder, start) for start in file_starts(folder)]


def names_in(folder: Path) -> list[str]:
    """Return the names (`StreamKey.text`) of the streams in a log's folder that have entries."""
    names = ["/".join(path.parts[-3:]) for path in folder.glob("*/*/*/")]
    return [name for name in sorted(names) if is_key(name) and _holds_any(folder / name)]


def _path(folder: Path, start: int) -> Path:
    return folder / f"{start:020d}.log"


def _holds_any(folder: Path) -> bool:
    starts = file_starts(folder)
    return bool(starts) and (starts[-1] > 0 or _path(folder, starts[-1]).stat().st_size > 0)


def sync_handle(handle: int) -> None:
    """Sync a file to disk, and close it."""
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
