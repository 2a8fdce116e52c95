"""Locks between processes: exclusive, released when the process is killed, and found without a change."""

import subprocess
import sys
from pathlib import Path

import pytest

from outcry.base import file_lock
from outcry.base.file_lock import exclusive_lock, is_locked

HOLD = """
import sys
from pathlib import Path
from outcry.base.file_lock import exclusive_lock
with exclusive_lock(Path(sys.argv[1]), RuntimeError("in use")):
    print("locked", flush=True)
    sys.stdin.read()
"""


class InUse(Exception):
    """The file is locked."""


@pytest.mark.parametrize("probe", ["fcntl", "filelock"])
def test_a_lock_is_exclusive_and_ends_with_its_process(
    tmp_path: Path, probe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if probe == "filelock":  # as on Windows
        monkeypatch.setattr(file_lock, "fcntl", None)
    path = tmp_path / ".lock"
    assert not is_locked(path)
    assert not path.exists()
    call = [sys.executable, "-c", HOLD, path]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        assert is_locked(path)
        with pytest.raises(InUse), exclusive_lock(path, InUse()):
            pass
        holder.kill()
        holder.wait()
        assert not is_locked(path)
        with exclusive_lock(path, InUse()):
            assert is_locked(path)
            with pytest.raises(InUse), exclusive_lock(path, InUse()):
                pass
    assert not is_locked(path)


def test_the_probe_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    path.touch()
    path.chmod(0o400)
    before = path.stat()
    assert not is_locked(path)
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_a_file_system_without_locks_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock file that merely exists would outlive a killed service and prevent every later start."""
    import errno
    import fcntl

    def missing(*_: object) -> None:
        raise OSError(errno.ENOSYS, "no locks")

    monkeypatch.setattr(fcntl, "flock", missing)
    with pytest.raises(OSError, match="no locks"), exclusive_lock(tmp_path / ".lock", InUse()):
        pass
