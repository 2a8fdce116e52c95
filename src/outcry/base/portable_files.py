"""File operations that differ between Windows and other systems. All such differences are in this module.

Windows translates newlines in files that are opened without its flag for binary files. It has no permission bits of
owner and others, and cannot sync a folder. It refuses to delete or replace a file that any process has open.
"""

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

WINDOWS: bool = os.name == "nt"

_BINARY = getattr(os, "O_BINARY", 0)
#: Never follow a link, and never wait for the writer of a pipe. Windows has neither kind of special file in folders.
_SPECIAL = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
#: How long to wait on Windows until other processes, such as a virus scanner, have closed a file.
_PATIENCE_S = 2.0
_RETRY_S = 0.02


def open_binary(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a file with `os.open` and return its descriptor. Bytes are read and written unchanged."""
    return os.open(path, flags | _BINARY, mode)


def open_without_link(path: Path) -> int:
    """Open a file for reading and return its descriptor; do not follow a link, and do not wait for a pipe.

    Raises `OSError` with `errno.ELOOP` for a symbolic link, on systems that support the check while opening.
    """
    return os.open(path, os.O_RDONLY | _BINARY | _SPECIAL)


def read_at(handle: int, size: int, offset: int) -> bytes:
    """Read up to `size` bytes from an offset of an open file. Moves the descriptor's read position."""
    os.lseek(handle, offset, os.SEEK_SET)
    return os.read(handle, size)


def write_private(path: Path, text: str) -> None:
    """Create a file that only its owner can access, and sync it to disk. Raises `FileExistsError`.

    On Windows, the access rights are those of the folder; a folder in the user's profile is closed to other users.
    """
    handle = open_binary(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def is_open_to_others(path: Path) -> bool:
    """Return whether other users may access a file. On Windows this is unknown, and the result is False."""
    return not WINDOWS and bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def sync_folder(folder: Path) -> None:
    """Sync a folder's list of file names to disk, so that a crash does not undo a new name.

    On Windows this does nothing: NTFS journals names, and folders cannot be synced.
    """
    if WINDOWS:
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(source: Path, target: Path) -> None:
    """Rename a file to `target`, replacing it. On Windows, wait up to two seconds while a program has it open."""
    _patiently(lambda: source.replace(target))


def remove(path: Path) -> None:
    """Delete a file if it exists. On Windows, wait up to two seconds while a program has it open."""
    _patiently(lambda: path.unlink(missing_ok=True))


def was_removed(path: Path) -> bool:
    """Delete a file. Return False if Windows refuses that because a process has the file open."""
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        if not WINDOWS:
            raise
        return False
    return True


def _patiently(act: Callable[[], object]) -> None:
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            act()
        except PermissionError:
            if not WINDOWS or time.monotonic() >= until_s:
                raise
        else:
            return
        time.sleep(_RETRY_S)
