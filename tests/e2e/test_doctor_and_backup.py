"""`doctor` only reads, whatever state the folder is in; `backup` is complete, private, and removed if it fails."""

import errno
import hashlib
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.contract.databases import upgrade
from tests.installations import write_zip

from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings
from outcry.cli import backup as backing
from outcry.cli.backup import backup
from outcry.cli.doctor import doctor
from outcry.database.database import Database, open_engine, sqlite_url
from outcry.database.migrate import HEAD
from outcry.delivery.fan_out import OutboxEntries
from outcry.live.store import LiveStore
from outcry.live.stream_snapshot import sealed
from outcry.recordings.file_model import ReadOptions

MINUTES = [f"{n * 60_000},55000000,55000000,55000000,55000000,{n % 7 + 1}" for n in range(815, 1215)]


def recording(folder: Path, day: int) -> Path:
    """An ES day of July 2024 as LEAN has it: a bar for most minutes of the session, all at 5500."""
    name = f"2024070{day}"
    return write_zip(folder, f"{name}_trade.zip", f"{name}_es_minute_trade_202409.csv", MINUTES)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An installation that is not running: two days of bars."""
    with open_installation(Settings(data=str(tmp_path / "data"))) as installation:
        for day in (1, 2):
            take(installation, recording(tmp_path / "in", day))
    return tmp_path / "data"


def take(installation: Installation, path: Path) -> None:
    installation.importer.run(path, 0, ReadOptions(), installation.clock.now_ns())


def everything(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Each file by name: its mode, its time of change, and its content."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mode, path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(folder.rglob("*"))
    }  # fmt: skip


def examined(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """The exit status and the faults."""
    capsys.readouterr()
    status = doctor(data=str(folder))
    lines = capsys.readouterr().out.splitlines()
    faults = [line.removeprefix("fault\t") for line in lines if line.startswith("fault\t")]
    assert (lines[-1] == "No faults found.") == (not faults) == (status == 0)
    return status, faults


def test_the_doctor_changes_nothing(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = everything(data)
    assert examined(data, capsys) == (0, [])
    assert everything(data) == before


def test_the_doctor_leaves_the_end_of_a_log_alone(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It used to cut a damaged last frame off without a word."""
    with open_installation(Settings(data=str(data))) as installation, installation.log.exclusively():
        installation.log.append("0/demo/ESZ2026", 0, 1, b"\x82\xa2is\xa4mark\xa5at_ns\x01")
        installation.log.append("0/demo/ESZ2026", 1, 1, b"\x82\xa2is\xa4mark\xa5at_ns\x02")
    assert examined(data, capsys) == (0, [])
    (path,) = data.glob("live/0/demo/ESZ2026/*.log")
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    before = everything(data)
    status, (fault,) = examined(data, capsys)
    assert status == 1
    assert f"{path} is damaged at byte {len(damaged) // 2}: entry 1 cannot be read" in fault
    assert everything(data) == before


@pytest.mark.parametrize(
    ("kept", "remedy"),
    [
        (1, "The next start continues from the snapshot"),
        (0, "Restore it from a backup; otherwise the stream restarts empty"),
    ],
)
def test_the_doctor_says_what_becomes_of_a_log_that_is_behind_its_snapshot(
    data: Path, capsys: pytest.CaptureFixture[str], kept: int, remedy: str
) -> None:
    """Without any entry the stream does not go on from the snapshot, and doctor said that it did."""
    key = "0/demo/ESZ2026"
    with open_installation(Settings(data=str(data))) as installation, installation.log.exclusively():
        installation.log.append(key, 0, 1, b"\x82\xa2is\xa4mark\xa5at_ns\x01")
        LiveStore(Database(installation.engine), OutboxEntries()).save_snapshots(
            [(key, 3, sealed(key, 3, b"state"))]
        )
    if not kept:
        next(data.glob(f"live/{key}/*.log")).unlink()
    status, (fault,) = examined(data, capsys)
    assert status == 1
    assert f"ends at entry {kept}, but its snapshot is at entry 3. {remedy}" in fault


def test_the_doctor_works_while_the_log_is_written(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_installation(Settings(data=str(data))) as installation, installation.log.exclusively():
        installation.log.append("0/demo/ESZ2026", 0, 1, b"\x82\xa2is\xa4mark\xa5at_ns\x01")
        installation.log.sync()
        path = next(data.glob("live/0/demo/ESZ2026/*.log"))
        with path.open("ab") as file:  # a frame on its way
            file.write(b"\x10\0\0\0torn")
        assert examined(data, capsys) == (0, [])
        # The database is open, with a write-ahead log.
        installation.store.ensure_user("ann@example.com", 1)
        assert examined(data, capsys) == (0, [])


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root writes to any folder: be nobody for a while."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_the_doctor_reads_a_read_only_folder(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert examined(data, capsys) == (0, [])  # and all modules are loaded
    with tempfile.TemporaryDirectory() as open_to_all:
        folder = Path(open_to_all) / "data"
        shutil.copytree(data, folder)
        (folder / "secret.key").unlink(missing_ok=True)  # which nobody could read
        paths = [Path(open_to_all), folder, *folder.rglob("*")]
        for path in paths:
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            with unprivileged():
                with pytest.raises(OSError, match="denied"):
                    (folder / "new").touch()
                assert examined(folder, capsys) == (0, [])
        finally:
            for path in paths:
                path.chmod(0o700 if path.is_dir() else 0o600)


def test_a_database_left_by_a_crash_is_read_with_its_write_ahead_log(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder cannot be written to: SQLite cannot open what a crash left there, so a copy is read."""
    crashed = tmp_path / "crashed"
    with open_installation(Settings(data=str(data))) as installation:
        installation.store.ensure_user("ann@example.com", 1)
        shutil.copytree(data, crashed)
    (crashed / "outcry.sqlite3-shm").unlink()
    connect = sqlite3.connect

    def refuse(name: str, **more: object) -> sqlite3.Connection:
        if str(crashed) in str(name) and "immutable" not in str(name):
            raise sqlite3.OperationalError("unable to open database file")
        return connect(name, **more)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(sqlite3, "connect", refuse)
    before = everything(crashed)
    assert examined(crashed, capsys) == (0, [])
    assert everything(crashed) == before


def test_an_older_database_is_looked_at_and_not_migrated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the program of migration 0008 left it: a copy is migrated and looked at."""
    engine = open_engine(sqlite_url(tmp_path))
    upgrade(engine, "0008")
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO recordings VALUES (0, 'ESU2024', '2024-07-02', 'lean', 'ticks', 'operator/ES/a.dbn.zst', 1, "
            "1, 0, 0, 1, 1, 1, '[]')"
        )
    engine.dispose()
    known = everything(tmp_path)
    _, (fault,) = examined(tmp_path, capsys)
    assert "operator/ES/a.dbn.zst is damaged (No such file or directory)" in fault
    assert everything(tmp_path) == known
    assert doctor(data=str(tmp_path)) == 1
    assert f"checked in a copy migrated to {HEAD}" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["doctor", "backup"])
def test_a_folder_without_an_installation_is_refused_and_not_made_one(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A typo in the folder's name used to make a new installation, which was in order."""
    for folder in (tmp_path / "typo", tmp_path / "empty"):
        if folder.name == "empty":
            folder.mkdir()
        status = (
            doctor(data=str(folder)) if command == "doctor" else backup(tmp_path / "copy", data=str(folder))
        )
        said = capsys.readouterr()
        assert status == 1
        assert "is not an Outcry data folder" in said.out + said.err
        assert "--data or OUTCRY_DATA" in said.out + said.err
        assert not (tmp_path / "typo").exists()
        assert not (tmp_path / "copy").exists()
        assert list((tmp_path / "empty").iterdir() if folder.name == "empty" else []) == []


def test_a_damaged_name_of_a_column_is_noticed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One flipped bit in a table's definition, which SQLite's integrity check does not notice."""
    with sqlite3.connect(data / "outcry.sqlite3") as database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, 'created_ns', 'created_ls') WHERE name = 'tokens'"
        )
    database.close()
    status, (fault,) = examined(data, capsys)
    assert status == 1
    assert "no such column: tokens.created_ns" in fault
    assert "Restore it from a backup" in fault


@pytest.mark.parametrize("command", ["doctor", "backup"])
@pytest.mark.parametrize("emptied", [True, False])
def test_a_lost_database_beside_a_tape_is_noticed(
    data: Path, tmp_path: Path, command: str, emptied: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in data.glob("outcry.sqlite3*"):
        path.unlink()
    if emptied:
        (data / "outcry.sqlite3").touch()
    before = everything(data)
    status = doctor(data=str(data)) if command == "doctor" else backup(tmp_path / "copy", data=str(data))
    said = capsys.readouterr()
    assert status == 1
    assert f"outcry.sqlite3 {'is empty' if emptied else 'is missing'}, although" in said.out + said.err
    assert everything(data) == before


def test_the_database_of_another_tape_is_noticed(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_installation(Settings(data=str(tmp_path / "new"))):
        pass
    shutil.copyfile(tmp_path / "new" / "outcry.sqlite3", data / "outcry.sqlite3")
    assert any("It is not the database of this tape" in fault for fault in examined(data, capsys)[1])


def test_a_backup_is_whole_and_private_in_an_open_folder(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir(mode=0o755)
    copy.chmod(0o755)
    (data / "secret.key").chmod(0o644)
    before = everything(data)
    assert backup(copy, data=str(data)) == 0
    assert everything(data) == before
    modes = {path.stat().st_mode & 0o777 for path in copy.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (copy, *copy.rglob("*")) if path.is_dir()} == {0o700}
    assert examined(copy, capsys) == (0, [])
    with open_installation(Settings(data=str(data))) as a, open_installation(Settings(data=str(copy))) as b:
        assert a.store.sessions([0], "ES") == b.store.sessions([0], "ES")


def test_a_backup_is_whole_while_sessions_are_stored(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of six failed, as an import holds the tape. Now files come and go while they are copied."""
    more = [recording(tmp_path / "more", day) for day in (3, 5, 8)]
    stop = threading.Event()

    def store() -> None:
        with open_installation(Settings(data=str(data))) as installation:
            number = 0
            while not stop.is_set():
                take(installation, more[number % 3])
                number += 1
                later = write_zip(
                    tmp_path / f"later{number}", "20240709_trade.zip", "20240709_es_minute_trade_202409.csv",
                    MINUTES[: 10 + number],
                )  # fmt: skip
                take(installation, later)  # each time the day's file is replaced by a longer one

    thread = threading.Thread(target=store)
    thread.start()
    try:
        for number in range(6):
            assert backup(tmp_path / f"copy{number}", data=str(data)) == 0
    finally:
        stop.set()
        thread.join(60)
    for number in range(6):
        assert examined(tmp_path / f"copy{number}", capsys) == (0, [])


def test_a_backup_waits_for_no_import(data: Path, tmp_path: Path) -> None:
    with (
        open_installation(Settings(data=str(data))) as installation,
        installation.tape.changes.exclusively(installation.store.tape_named),
    ):
        assert backup(tmp_path / "copy", data=str(data)) == 0


def test_a_tape_file_replaced_before_it_is_copied_is_no_fault(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The database is copied, then the service replaces a file that it names."""
    copy_tape = backing._copy_tape
    tries = []

    def replaced(source: Path, folder: Path) -> Iterator[str]:
        if not tries:
            with open_installation(Settings(data=str(data))) as installation:
                path = write_zip(tmp_path / "a", "20240702_trade.zip", "20240702_es_minute_trade_202409.csv",
                            ["48600000,55000000,55000000,55000000,55000000,1"])  # fmt: skip
                first = [row.digest for row in installation.store.imports(0)]
                take(installation, path)
                installation.importer.forget(first, 0, installation.clock.now_ns())  # removes their files
        tries.append(1)
        return copy_tape(source, folder)

    monkeypatch.setattr(backing, "_copy_tape", replaced)
    assert backup(tmp_path / "copy", data=str(data)) == 0
    assert len(tries) > 1
    assert examined(tmp_path / "copy", capsys) == (0, [])


@contextmanager
def full_after(files: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    copyfile, copied = shutil.copyfile, []

    def full(source: Path, target: Path) -> object:
        copied.append(target)
        if len(copied) > files:
            Path(target).write_bytes(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        return copyfile(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", full)
        yield


@pytest.mark.parametrize("new", [True, False])
def test_a_full_disk_is_named_and_leaves_nothing(
    data: Path, tmp_path: Path, new: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    if not new:
        copy.mkdir()
    with full_after(1, monkeypatch):
        assert backup(copy, data=str(data)) == 1
    said = capsys.readouterr().err
    assert f"The disk of {copy} is full" in said
    assert copy.exists() is not new
    assert not copy.exists() or list(copy.iterdir()) == []
    assert backup(copy, data=str(data)) == 0


def test_a_backup_of_damaged_data_says_so(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = next(data.rglob("*.dbn.zst"))
    damaged = bytearray(path.read_bytes())
    damaged[33] ^= 8
    path.write_bytes(damaged)
    assert backup(tmp_path / "copy", data=str(data)) == 1
    assert f"{path} is damaged" in capsys.readouterr().err


def test_own_instruments_are_examined_and_backed_up(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A holiday of YM alone is known for 2025 only, but its group's are known for longer."""
    columns = "date,name,applies_to,day,opens,closes,rth_opens,rth_closes,source,checked_on,note\n"
    table = data / "instruments" / "holidays.csv"
    table.parent.mkdir()
    table.write_text(columns + "2025-11-18,a day,YM,open,,12:00,,,a notice,2025-11-01,\n")
    assert examined(data, capsys) == (0, [])
    doctor(data=str(data))
    assert "instruments\tyour tables apply to YM, MYM" in capsys.readouterr().out.splitlines()
    assert backup(tmp_path / "copy", data=str(data)) == 0
    assert (tmp_path / "copy" / "instruments" / "holidays.csv").read_bytes() == table.read_bytes()
    table.write_text(columns + "2025-11-18,a day,YM,half,,12:00,,,a notice,2025-11-01,\n")
    status, faults = examined(data, capsys)
    assert status == 1
    assert faults == [
        f"{table}, row 2, column day: 'half' is none of closed, joined, no_rth, open. Correct the table."
    ]
