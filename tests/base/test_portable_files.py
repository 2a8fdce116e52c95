"""File operations: private, synced, unchanged bytes; and patient where Windows refuses while a file is open."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from outcry.base import portable_files
from outcry.base.portable_files import (
    is_open_to_others,
    open_binary,
    open_without_link,
    read_at,
    remove,
    replace,
    sync_folder,
    was_removed,
    write_private,
)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portable_files, "WINDOWS", True)
    monkeypatch.setattr(portable_files, "_PATIENCE_S", 0.05)


class Busy:
    """A method of `Path` that fails a number of times, because a process has the file open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, times: int) -> None:
        self.times, self._real = times, getattr(Path, name)
        monkeypatch.setattr(Path, name, self._act())

    def _act(self) -> Callable[..., object]:
        def act(path: Path, *given: object, **named: object) -> object:
            return self(path, *given, **named)

        return act

    def __call__(self, *given: object, **named: object) -> object:
        if self.times:
            self.times -= 1
            raise PermissionError(errno.EACCES, "used by another process")
        return self._real(*given, **named)


def test_a_private_file_is_of_its_owner_alone_and_never_replaces_another(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private(tmp_path / "secret", "a\nb\n")
    finally:
        os.umask(before)
    assert (tmp_path / "secret").read_bytes() == b"a\nb\n"
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_private(tmp_path / "secret", "c")


@pytest.mark.parametrize(("mode", "is_open"), [(0o600, False), (0o640, True), (0o602, True), (0o700, False)])
def test_who_may_access_a_file(
    tmp_path: Path, mode: int, *, is_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.touch()
    path.chmod(mode)
    assert is_open_to_others(path) is is_open
    monkeypatch.setattr(portable_files, "WINDOWS", True)  # which reports 0o666 for every file
    assert is_open_to_others(path) is False


def test_bytes_are_read_where_asked(tmp_path: Path) -> None:
    handle = open_binary(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.write(handle, b"0123\n56789")
    assert (read_at(handle, 3, 4), read_at(handle, 9, 8), read_at(handle, 1, 50)) == (b"\n56", b"89", b"")
    os.close(handle)


def test_a_link_is_not_followed_and_a_pipe_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(OSError, match=r".") as refused:
        open_without_link(tmp_path / "link")
    assert refused.value.errno == errno.ELOOP
    os.mkfifo(tmp_path / "pipe")
    os.close(open_without_link(tmp_path / "pipe"))


def test_a_folder_is_synced_except_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[int]()
    monkeypatch.setattr(os, "fsync", synced.append)
    sync_folder(tmp_path)
    assert len(synced) == 1
    with pytest.raises(FileNotFoundError):
        sync_folder(tmp_path / "none")
    monkeypatch.setattr(portable_files, "WINDOWS", True)
    sync_folder(tmp_path)
    assert len(synced) == 1


@pytest.mark.usefixtures("windows")
def test_windows_is_asked_again_until_nobody_has_the_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")
    Busy(monkeypatch, "replace", 2)
    replace(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old").read_text() == "new"
    Busy(monkeypatch, "unlink", 2)
    remove(tmp_path / "old")
    assert list(tmp_path.iterdir()) == []
    remove(tmp_path / "old")


@pytest.mark.usefixtures("windows")
def test_after_some_time_the_refusal_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    Busy(monkeypatch, "unlink", 10**9)
    with pytest.raises(PermissionError):
        remove(tmp_path / "file")
    assert was_removed(tmp_path / "file") is False


def test_elsewhere_a_refusal_is_an_error_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    busy = Busy(monkeypatch, "unlink", 2)
    with pytest.raises(PermissionError):
        remove(tmp_path / "file")
    with pytest.raises(PermissionError):
        was_removed(tmp_path / "file")
    assert busy.times == 0
    assert was_removed(tmp_path / "file") is True
