"""`outcry backup --keep`: the newest backups stay, and nothing is deleted that the command did not write."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.test_doctor_and_backup import recording, take

from outcry.app.installation import open_installation
from outcry.app.settings import Settings
from outcry.base.file_lock import exclusive_lock
from outcry.cli import backup_rotation
from outcry.cli.backup import backup
from outcry.cli.backup_rotation import LOCK, MANIFEST, new_backup
from outcry.cli.doctor import doctor

Run = Callable[..., tuple[int, list[Path], str, str]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with open_installation(Settings(data=str(tmp_path / "data"))) as installation:
        take(installation, recording(tmp_path / "in", 1))
    return tmp_path / "data"


@pytest.fixture
def run(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Back up, and return the status, the backups (oldest first), and what was printed."""

    def run(
        keep: int = 2, folder: Path | None = tmp_path / "dated", at: Path = data
    ) -> tuple[int, list[Path], str, str]:
        status = backup(folder, keep=keep, data=str(at))
        said = capsys.readouterr()
        return status, sorted((folder or at / "backups").glob("outcry-*")), said.out, said.err

    return run


def test_the_newest_are_retained_and_the_deleted_named(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    seen, written = list[Path](), list[Path]()
    for number in range(1, 5):
        status, found, out, err = run(2)
        new = (set(found) - set(seen)).pop()
        assert (status, err, len(found)) == (0, "", min(number, 2))
        assert out.splitlines() == [
            f"Backed up to {new}",
            *(f"Deleted {old}" for old in seen if old not in found),
        ]
        seen = [*(old for old in seen if old in found), new]
        written += [new]
        assert seen == written[-2:]
    for one in seen:
        assert one.stat().st_mode & 0o777 == 0o700
        assert doctor(data=str(one)) == 0
    capsys.readouterr()
    assert run(1)[1][0] not in seen


def test_without_a_folder_backups_are_in_the_data_folder(run: Run, data: Path) -> None:
    status, (found,), _, _ = run(1, None)
    assert status == 0
    assert found.parent == data / "backups"
    assert not list(found.rglob("backups"))


@pytest.mark.parametrize("harm", ["added", "changed", "removed", "link", "served"])
def test_a_backup_that_was_touched_is_never_deleted(run: Run, harm: str, tmp_path: Path) -> None:
    _, (old,), _, _ = run(1)
    match harm:
        case "added":
            (old / "notes.txt").write_text("mine")
        case "changed":
            with (old / "secret.key").open("a") as file:
                file.write("x")
        case "removed":
            (old / "secret.key").unlink()
        case "link":
            (tmp_path / "elsewhere").mkdir()
            (tmp_path / "elsewhere" / "precious").touch()
            (old / "tape" / "more").symlink_to(tmp_path / "elsewhere")
        case _:
            with open_installation(Settings(data=str(old))) as installation, installation.log.exclusively():
                pass
    before = sorted(old.rglob("*"))
    status, found, out, err = run(1)
    assert status == 1
    assert len(found) == 2
    assert "Deleted" not in out
    assert f"{old} was not deleted: it changed since the backup (" in err
    assert sorted(old.rglob("*")) == before
    assert len(run(2)[1]) == 3  # it counts, and is the oldest; the others stay


def test_folders_of_others_are_left_alone(run: Run, tmp_path: Path) -> None:
    parent = tmp_path / "dated"
    for name in ("outcry", "outcry-old", "outcry-20200101T000000Z.bak", "photos"):
        (parent / name).mkdir(parents=True)
        (parent / name / "file").touch()
    (parent / "outcry-20190101T000000Z").touch()
    for _ in range(3):
        status, _, _, err = run(1)
        assert (status, err) == (0, "")
    assert all((parent / name / "file").exists() for name in ("outcry", "outcry-old", "photos"))
    (parent / "outcry-20180101T000000Z").mkdir()
    status, _, _, err = run(1)
    assert status == 1
    assert "outcry-20180101T000000Z was not deleted: backup.json is missing or invalid." in err


def test_two_installations_may_share_a_folder(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with open_installation(Settings(data=str(other))):
        pass
    for _ in range(3):
        run(2)
        run(1, at=other)
    manifests = [json.loads((one / MANIFEST).read_text()) for one in (tmp_path / "dated").glob("outcry-*")]
    assert sorted(
        len([m for m in manifests if m["installation"] == i["installation"]]) for i in manifests
    ) == [1, 2, 2]


def test_a_copy_of_the_installation_elsewhere_is_another_one(run: Run, data: Path, tmp_path: Path) -> None:
    """A restored copy must not delete the backups that it was restored from."""
    run(1)
    shutil.copytree(data, tmp_path / "restored")
    assert len(run(1, at=tmp_path / "restored")[1]) == 2


def test_a_failed_backup_deletes_nothing(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, old, _, _ = run(1)
    tape = next(data.rglob("*.dbn.zst"))
    content = tape.read_bytes()
    tape.write_bytes(content[:-1] + b"\0")
    status, found, _, err = run(1)
    assert (status, len(found)) == (1, 2)
    assert "Older backups were not deleted, because this one has faults." in err
    tape.write_bytes(content)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("outcry.cli.backup.complete", full)
    status, found, _, err = run(1)
    assert (status, len(found)) == (1, 2)
    assert "is full" in err
    assert [path.name for path in old[0].parent.iterdir() if path.name.endswith(".partial")] == []


def test_what_a_killed_run_left_is_reported(run: Run, tmp_path: Path) -> None:
    run(1)
    left = tmp_path / "dated" / ".outcry-20200101T000000Z.partial"
    left.mkdir()
    status, _, _, err = run(1)
    assert status == 1
    assert f"{left} was left by an interrupted run and is incomplete. Delete it by hand." in err


def test_an_interrupted_deletion_leaves_nothing_that_looks_complete(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, (old,), _, _ = run(1)

    def denied(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(backup_rotation, "remove", denied)
    status, found, out, err = run(1)
    assert status == 1
    assert old not in found
    assert "Deleted" not in out
    assert f"{old} could not be deleted completely" in err


def test_only_one_backup_at_a_time(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dated").mkdir()
    with exclusive_lock(tmp_path / "dated" / LOCK, AssertionError()):
        status, found, _, err = run(1)
    assert (status, found) == (1, [])
    assert "Another backup is writing to" in err


def test_names_are_times_in_utc_and_never_reused(tmp_path: Path) -> None:
    partial, final = new_backup(tmp_path, 1_764_000_000 * 10**9)
    assert final.name == "outcry-20251124T160000Z"  # date -u -d @1764000000
    final.mkdir()
    assert new_backup(tmp_path, 1_764_000_000 * 10**9)[1].name == "outcry-20251124T160001Z"
    assert partial.parent == tmp_path


@pytest.mark.parametrize(("keep", "fault"), [(0, "Invalid --keep 0"), (-1, "Invalid --keep -1")])
def test_an_impossible_number_is_refused(run: Run, keep: int, fault: str) -> None:
    status, found, _, err = run(keep)
    assert (status, found) == (2, [])
    assert fault in err


def test_without_keep_a_folder_must_be_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert backup(data=str(data)) == 2
    assert "No FOLDER given" in capsys.readouterr().err
