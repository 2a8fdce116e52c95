"""The disk of the data folder: whether it responds, and how much room is left on it.

Rules kept: only a thread of its own touches the disk, so asking never waits; a disk is stalled once one small write has
been under way for a second.
"""

import errno
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

#: A write that takes longer than this is taken for a disk that hangs.
STALL_S = 1.0
_INTERVAL_S = 0.25
_PROBE = ".disk"
_MIB = 2**20


class DiskShort(OSError):
    """Less room is left than the reserve that is kept for people, alerts and sessions under way."""

    def __str__(self) -> str:
        """What is wrong and what to do, without a number."""
        return self.strerror or ""


def free_bytes(folder: Path) -> int:
    """Room on the disk of a folder, as its owner may use it."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def bytes_in(*folders: Path) -> int:
    """Bytes of all files in folders; a folder that is not there has none."""
    total = 0
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                with suppress(FileNotFoundError):  # removed meanwhile
                    total += Path(place, name).stat().st_size
    return total


class Disk:
    """Watches the disk of a folder, while `watched`. Safe to ask from any thread.

    reserve_bytes: room below which nothing is taken in any more; 0: as long as there is any. free: how much is left.
    """

    def __init__(
        self, folder: Path, reserve_bytes: int, *, free: Callable[[Path], int] = free_bytes,
        now_s: Callable[[], float] = monotonic,
    ) -> None:  # fmt: skip
        self._folder, self._reserve_bytes = folder, reserve_bytes
        self._free, self._now_s = free, now_s
        self._left: int | None = None
        #: When the write under way began; None while there is none.
        self._since_s: float | None = None
        self._handle: int | None = None
        self._over = threading.Event()

    @property
    def stalled(self) -> bool:
        """Whether the disk does not respond."""
        since_s = self._since_s
        return since_s is not None and self._now_s() - since_s >= STALL_S

    @property
    def short(self) -> bool:
        """Whether less than the reserve was left at the last look."""
        return self._left is not None and self._left < self._reserve_bytes

    def check_room(self) -> None:
        """Look now, and raise `DiskShort` where less than the reserve is left. Blocks."""
        self._left = self._free(self._folder)
        if self.short:
            left, reserve = self._left // _MIB, self._reserve_bytes // _MIB
            raise DiskShort(
                errno.ENOSPC,
                f"{left:,} MiB are free on the disk of {self._folder}, and {reserve:,} MiB are kept in reserve. Free "
                "some space, or lower OUTCRY_DISK_RESERVE_MIB",
            )

    @contextmanager
    def watched(self) -> Generator[None]:
        """Watch until the block ends."""
        self._over.clear()
        threading.Thread(target=self._watch, name="outcry-disk", daemon=True).start()
        try:
            yield
        finally:
            self._over.set()

    def _watch(self) -> None:
        while True:
            self.look()
            if self._over.wait(_INTERVAL_S):
                break
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def look(self) -> None:
        """Write a byte, and see how much room is left. A disk that refuses to be written does respond."""
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
            self._handle = os.open(self._folder / _PROBE, os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(self._handle, b"\0", 0)
