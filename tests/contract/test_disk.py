"""The disk monitor: a write that does not end, and too little free space."""

import errno
import threading
from pathlib import Path

import pytest

from outcry.database.disk import Disk, DiskShort

MIB = 2**20


class BlockedDisk(Disk):
    """Disk whose small write ends when the test releases it."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        super().__init__(folder, 0, now_s=lambda: self.now)
        self.writing, self.let = threading.Event(), threading.Event()

    def _write(self) -> None:
        self.writing.set()
        assert self.let.wait(20)


def test_a_write_under_way_for_a_second_is_a_disk_that_hangs(tmp_path: Path) -> None:
    disk = BlockedDisk(tmp_path)
    assert not disk.stalled
    looking = threading.Thread(target=disk.look)
    looking.start()
    assert disk.writing.wait(20)
    disk.now = 0.9
    assert not disk.stalled
    disk.now = 1.0
    assert disk.stalled
    disk.let.set()
    looking.join()
    assert not disk.stalled


def test_a_disk_that_refuses_responds(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "nowhere", 0)
    disk.look()
    assert not disk.stalled
    assert not disk.short


def test_less_than_the_reserve_is_too_little(tmp_path: Path) -> None:
    """With a reserve of 10 MiB, 10 MiB are enough and a byte less is not; a reserve of 0 is always met."""
    left = [10 * MIB]
    disk = Disk(tmp_path, 10 * MIB, free=lambda _folder: left[0])
    disk.check_room()
    assert not disk.short
    left[0] -= 1
    disk.look()
    assert disk.short
    with pytest.raises(
        DiskShort, match=r"9 MiB are free .* 10 MiB are kept in reserve.*OUTCRY_DISK_RESERVE_MIB"
    ) as problem:
        disk.check_room()
    assert problem.value.errno == errno.ENOSPC
    none = Disk(tmp_path, 0, free=lambda _folder: 0)
    none.check_room()
    assert not none.short


def test_a_watched_disk_is_looked_at(tmp_path: Path) -> None:
    looked = threading.Event()

    def free(_folder: Path) -> int:
        looked.set()
        return 0

    disk = Disk(tmp_path, 1, free=free)
    with disk.watched():
        assert looked.wait(20)
    assert disk.short
