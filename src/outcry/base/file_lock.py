"""Locks between processes, by lock files."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None


@contextmanager
def exclusive_lock(path: Path, in_use: Exception) -> Generator[None]:
    """Lock a file against other processes until the block ends. Create the file if necessary.

    Raises `in_use` if another process has locked it, and `OSError`. The operating system releases the lock when a
    process ends, also when it is killed.
    """
    # A lock file that merely exists would outlive a killed process, so a file system without locks is an error.
    lock = FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as problem:
        raise in_use from problem
    try:
        yield
    finally:
        lock.release()


def is_locked(path: Path) -> bool:
    """Return whether a process has locked a file with `exclusive_lock`. A missing file is not locked.

    The file is not changed, except for its time of change on Windows.
    """
    try:
        with path.open("rb") as lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return False
        with exclusive_lock(path, BlockingIOError()):
            return False
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
