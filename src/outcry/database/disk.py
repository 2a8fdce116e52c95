"""Watch the disk of the data folder: whether it responds, and how much space is free.

A dedicated thread regularly writes one byte to a test file, so callers never wait for the disk. The disk counts as
stalled once such a write has taken a second.
"""

import errno
import os
import shutil
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

from outcry.base.portable_files import open_binary

#: The disk is stalled if a write takes longer.
STALL_S = 1.0
_INTERVAL_S = 0.25
_PROBE = ".disk"
_MIB = 2**20


class DiskShort(OSError):
    """Free disk space is below the reserve, which is kept for users, alerts and open sessions."""

    def __str__(self) -> str:
        """Return the problem and the remedy, without an error number."""
        return self.strerror or ""


def free_bytes(folder: Path) -> int:
    """Return the free space on the disk of a folder, as available to this user."""
    return shutil.disk_usage(folder).free


def bytes_in(*folders: Path) -> int:
    """Return the size of all files in folders. Missing folders count as empty."""
    total = 0
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                with suppress(FileNotFoundError):  # removed meanwhile
                    total += Path(place, name).stat().st_size
    return total


class Disk:
    """Watches the disk of a folder during the block `watched`. Thread-safe.

    `reserve_bytes`: the service accepts no market data while free space is below this; 0: no reserve. `free`: returns
    the free space of a folder's disk.
    """

    def __init__(
        self, folder: Path, reserve_bytes: int, *, free: Callable[[Path], int] = free_bytes,
        now_s: Callable[[], float] = monotonic,
    ) -> None:  # fmt: skip
        self._folder, self.reserve_bytes = folder, reserve_bytes
        self._free, self._now_s = free, now_s
        self._left: int | None = None
        #: When the current write began; None if there is none.
        self._since_s: float | None = None
        self._handle: int | None = None
        self._over = threading.Event()

    @property
    def stalled(self) -> bool:
        """Whether the disk does not respond."""
        since_s = self._since_s
        return since_s is not None and self._now_s() - since_s >= STALL_S

    @property
    def left_bytes(self) -> float:
        """Free space at the last check, in bytes; not a number (NaN) before the first check."""
        return float("nan") if self._left is None else self._left

    @property
    def short(self) -> bool:
        """Whether free space was below the reserve at the last check."""
        return self._left is not None and self._left < self.reserve_bytes

    def check_room(self) -> None:
        """Check now, and raise `DiskShort` if free space is below the reserve. Blocks."""
        self._left = self._free(self._folder)
        if self.short:
            left, reserve = self._left // _MIB, self.reserve_bytes // _MIB
            raise DiskShort(
                errno.ENOSPC,
                f"{left:,} MiB are free on the disk of {self._folder}, and {reserve:,} MiB are kept in reserve. Free "
                "some space, or lower OUTCRY_DISK_RESERVE_MIB",
            )

    @contextmanager
    def watched(self) -> Generator[None]:
        """Watch the disk while the block runs."""
        self._over.clear()
        threading.Thread(target=self._watch, name="outcry-disk", daemon=True).start()
        try:
            yield
        finally:
            self._over.set()

    def _watch(self) -> None:
        self.look()
        while not self._over.wait(_INTERVAL_S):
            self.look()
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def look(self) -> None:
        """Check the disk: write a byte and read the free space.

        A disk that refuses the write with an error does respond, so it is not stalled.
        """
        self._since_s = self._now_s()
        try:
            self._left = self._free(self._folder)
            self._write()
        except OSError:
            pass
        finally:
            self._since_s = None

    def _write(self) -> None:
        if self._handle is None:
            self._handle = open_binary(self._folder / _PROBE, os.O_WRONLY | os.O_CREAT, 0o600)
        os.lseek(self._handle, 0, os.SEEK_SET)
        os.write(self._handle, b"\0")
