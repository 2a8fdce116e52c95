"""The log in files: torn writes, damage, a full disk, a killed process."""

import errno
import os
import random
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contract import log_writer
from tests.contract.trade_logs import KEY, OTHER, files, frames

from outcry.live import file_log
from outcry.live.model import Frame, LogDamaged, LogInUse

ROOT = Path(__file__).parents[2]
HEAD = 20  # bytes of a frame before its payload


def only(folder: Path) -> Path:
    (path,) = folder.glob("log/0/demo/ESZ2026/*.log")
    return path


def test_the_layout_is_a_folder_a_stream_and_a_file_named_by_its_first_entry(tmp_path: Path) -> None:
    """A stream is a folder, and each file is named by its first entry.

    Worked by hand: length 2, CRC-32 of 12 bytes of numbers and `hi`, first 0, count 7.
    """
    with files(tmp_path) as log:
        log.append(KEY, 0, 7, b"hi")
        log.cut(KEY)
        log.append(KEY, 7, 1, b"")
    names = sorted(path.name for path in (tmp_path / "log/0/demo/ESZ2026").iterdir())
    assert names == ["00000000000000000000.log", "00000000000000000007.log"]
    written = (tmp_path / "log/0/demo/ESZ2026" / names[0]).read_bytes()
    assert written[:4] + written[8:] == b"\2\0\0\0" + b"\0" * 8 + b"\7\0\0\0" + b"hi"
    register = 0xFFFFFFFF  # CRC-32 bit by bit, reflected polynomial EDB88320
    for byte in written[8:]:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0xEDB88320 if register & 1 else 0)
    assert int.from_bytes(written[4:8], "little") == register ^ 0xFFFFFFFF


def test_files_are_begun_anew_before_they_exceed_their_size(tmp_path: Path) -> None:
    """Two frames of 20 + 80 bytes fit into a file of 200; a frame of 520 has a separate file."""
    with files(tmp_path) as log:
        for first in range(5):
            log.append(KEY, first, 1, b"x" * 80)
        log.append(KEY, 5, 1, b"x" * 500)
        log.append(KEY, 6, 1, b"")
        sizes = [path.stat().st_size for path in sorted((tmp_path / "log/0/demo/ESZ2026").iterdir())]
        assert sizes == [200, 200, 100, 520, 20]
        assert [frame[0] for frame in frames(log)] == list(range(7))


def test_a_file_that_windows_refuses_to_delete_is_dropped_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup or a reader may have it open. Until it is deleted, it belongs to the log."""
    with files(tmp_path) as log:
        for first in range(3):
            log.append(KEY, first, 1, b"x")
            log.cut(KEY)
        with monkeypatch.context() as busy:
            busy.setattr(file_log, "was_removed", lambda _: False)
            log.drop(KEY, 2)
        assert [frame[0] for frame in frames(log)] == [0, 1, 2]
        log.drop(KEY, 2)
        assert [frame[0] for frame in frames(log)] == [2]


def test_whole_files_are_dropped_and_no_less(tmp_path: Path) -> None:
    with files(tmp_path) as log:
        for first in range(3):
            log.append(KEY, first, 1, b"%d" % first)
        log.cut(KEY)
        log.append(KEY, 3, 1, b"3")
        log.drop(KEY, 2)
        assert [frame[0] for frame in frames(log)] == [0, 1, 2, 3]
        log.cut(KEY)
        log.drop(KEY, 4)
        assert (frames(log), log.last(KEY)) == ([], 4)


@pytest.mark.parametrize("lost", range(1, HEAD + 30 + 1))
def test_a_torn_end_is_cut_off_and_the_log_goes_on(tmp_path: Path, lost: int) -> None:
    with files(tmp_path) as log:
        log.append(KEY, 0, 2, b"a" * 30)
        log.append(KEY, 2, 3, b"b" * 30)
    path = only(tmp_path)
    os.truncate(path, path.stat().st_size - lost)
    with files(tmp_path) as log:
        if lost % 2:
            assert frames(log) == [(0, 2, b"a" * 30)]
        log.append(KEY, 2, 1, b"c")
        assert frames(log) == [(0, 2, b"a" * 30), (2, 1, b"c")]
    assert path.stat().st_size == 2 * HEAD + 31


def test_what_is_cut_off_is_kept_and_reported(tmp_path: Path) -> None:
    """One flipped bit in the last frame looks like a torn write. Its bytes are moved to a separate file."""
    with files(tmp_path) as log:
        log.append(KEY, 0, 2, b"a" * 30)
        log.append(KEY, 2, 3, b"b" * 30)
        assert log.take_notices(KEY) == []
    path = only(tmp_path)
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    with files(tmp_path) as log:
        assert log.last(KEY) == 2
        aside = path.with_name(path.name + ".damaged")
        assert aside.read_bytes() == bytes(whole[HEAD + 30 :])
        (said,) = log.take_notices(KEY)
        assert (
            f"the end of the log {path} from byte 50 cannot be read: 50 bytes were moved to {aside.name}"
            in said
        )
        assert log.take_notices(KEY) == []


def lost(count: int) -> bytes:
    return b"lost %d" % count


def logged(tmp_path: Path, entries: int) -> list[Path]:
    """Write frames of one entry and 80 bytes, two to a file."""
    with files(tmp_path) as log:
        for first in range(entries):
            log.append(KEY, first, 1, b"%02d" % first * 40)
    return sorted((tmp_path / "log/0/demo/ESZ2026").glob("*.log"))


def flip(path: Path, byte: int) -> bytes:
    data = bytearray(path.read_bytes())
    data[byte] ^= 4
    path.write_bytes(data)
    return bytes(data)


def test_a_whole_log_is_not_salvaged(tmp_path: Path) -> None:
    paths = logged(tmp_path, 5)
    with files(tmp_path) as log:
        assert log.salvage(KEY, 0, lost) == []
        assert log.salvage(KEY, 5, lost) == []
    assert sorted((tmp_path / "log/0/demo/ESZ2026").iterdir()) == paths


def test_damage_before_the_snapshot_leaves_a_hole_that_says_so(tmp_path: Path) -> None:
    """Entry 2 of 6 is damaged and the snapshot covers entry 4: all others are readable; the log continues after 5."""
    paths = logged(tmp_path, 6)
    damaged = flip(paths[1], 30)
    with files(tmp_path) as log:
        said = log.salvage(KEY, 4, lost)
        found = frames(log)
        assert [(first, count) for first, count, _ in found] == [(n, 1) for n in range(6)]
        assert found[2][2] == b"lost 1"
        log.append(KEY, 6, 1, b"more")
    assert any("has lost entries 2 to 2" in line for line in said)
    assert paths[1].with_name(paths[1].name + ".damaged").read_bytes() == damaged
    with files(tmp_path) as log:
        assert [frame[0] for frame in frames(log)] == list(range(7))
        assert log.salvage(KEY, 4, lost) == []


def test_damage_after_the_snapshot_ends_the_log_there(tmp_path: Path) -> None:
    """Entry 2 of 6 is damaged and the snapshot covers entry 1: the entries after the gap are moved aside."""
    paths = logged(tmp_path, 6)
    before = [path.read_bytes() for path in paths[2:]]
    flip(paths[1], 30)
    with files(tmp_path) as log:
        log.salvage(KEY, 1, lost)
        assert [frame[0] for frame in frames(log)] == [0, 1]
        log.append(KEY, 2, 1, b"again")
        assert [frame[0] for frame in frames(log)] == [0, 1, 2]
    assert [path.with_name(path.name + ".damaged").read_bytes() for path in paths[2:]] == before


def test_a_log_shorter_than_its_snapshot_goes_on_from_there(tmp_path: Path) -> None:
    paths = logged(tmp_path, 4)
    paths[1].unlink()
    with files(tmp_path) as log:
        log.salvage(KEY, 9, lost)
        assert [(first, count) for first, count, _ in frames(log)] == [(0, 1), (1, 1), (2, 7)]
        log.append(KEY, 9, 1, b"more")


def test_any_flipped_bit_is_salvaged_and_nothing_is_removed(tmp_path: Path) -> None:
    """For any flipped bit, every other entry before the snapshot is read, and every byte remains in some file."""
    chance = random.Random(16)
    for number in range(60):
        folder = tmp_path / str(number)
        paths = logged(folder, 6)
        path = chance.choice(paths)
        byte = chance.randrange(path.stat().st_size)
        damaged = flip(path, byte)
        with files(folder) as log:
            log.salvage(KEY, 6, lost)
            found = frames(log)
            assert log.last(KEY) == 6
        good = [blob for first, _, blob in found if blob == b"%02d" % first * 40]
        assert len(good) == 5
        assert path.with_name(path.name + ".damaged").read_bytes() == damaged


@pytest.mark.parametrize("junk", [b"\0" * 19, b"\0" * 5000, b"\xff" * 70, random.Random(1).randbytes(5000)])
def test_junk_at_the_end_is_cut_off(tmp_path: Path, junk: bytes) -> None:
    with files(tmp_path) as log:
        log.append(KEY, 0, 2, b"a" * 30)
    with only(tmp_path).open("ab") as file:
        file.write(junk)
    with files(tmp_path) as log:
        assert frames(log) == [(0, 2, b"a" * 30)]
    assert only(tmp_path).stat().st_size == HEAD + 30


def test_a_first_frame_torn_leaves_an_empty_log(tmp_path: Path) -> None:
    with files(tmp_path) as log:
        log.append(KEY, 0, 2, b"a" * 30)
    os.truncate(only(tmp_path), 25)
    with files(tmp_path) as log:
        assert log.last(KEY) == 0
        assert list(log.keys()) == []
        log.append(KEY, 0, 1, b"b")
        assert frames(log) == [(0, 1, b"b")]


@pytest.mark.parametrize("at", range(HEAD + 10, 2 * HEAD + 20))
@pytest.mark.parametrize("tail", [b"", b"\0" * 64, b"\2\0\0\0torn"])
def test_damage_before_good_frames_is_told_and_nothing_is_cut(tmp_path: Path, at: int, tail: bytes) -> None:
    """Flip any byte of the middle frame of three, at 30 to 60, for any length of the file."""
    with files(tmp_path) as log:
        for first in range(3):
            log.append(KEY, first, 1, b"%d" % first * 10)
    path = only(tmp_path)
    whole = bytearray(path.read_bytes() + tail)
    whole[at] ^= 0x81
    path.write_bytes(whole)
    with files(tmp_path) as log:
        for _ in range(2):
            with pytest.raises(LogDamaged, match=re.escape(str(path)) + r" is damaged at byte 30"):
                log.append(KEY, 3, 1, b"")
        log.append(OTHER, 0, 1, b"others go on")
        assert list(log.keys()) == [KEY, OTHER]
    assert path.read_bytes() == whole


def test_bytes_that_came_between_frames_are_damage_too(tmp_path: Path) -> None:
    """Insert bytes before the last frame of two: the missing entry follows the inserted bytes."""
    with files(tmp_path) as log:
        log.append(KEY, 0, 1, b"a" * 10)
        log.append(KEY, 1, 1, b"b" * 10)
    path = only(tmp_path)
    path.write_bytes(path.read_bytes()[:30] + b"between" + path.read_bytes()[30:])
    with files(tmp_path) as log, pytest.raises(LogDamaged, match="at byte 30: entry 1 cannot be read"):
        log.last(KEY)


def test_damage_of_an_older_file_is_told_when_it_is_read(tmp_path: Path) -> None:
    with files(tmp_path) as log:
        for first in range(6):
            log.append(KEY, first, 1, b"x" * 80)
    oldest, middle, _ = sorted((tmp_path / "log/0/demo/ESZ2026").iterdir())
    whole = middle.read_bytes()
    for bad, at in (
        (whole[:-1], 100),
        (whole[:100], 100),
        (whole + b"\0", 200),
        (b"", 0),
        (whole[:50] + b"!" + whole[51:], 0),
    ):
        middle.write_bytes(bad)
        with files(tmp_path) as log:
            assert log.last(KEY) == 6
            reader = log.read(KEY, 1)
            assert next(reader).first == 1
            with pytest.raises(LogDamaged, match=f"{middle.name} is damaged at byte {at}:"):
                list(reader)
            assert [frame[0] for frame in frames(log, 4)] == [4, 5]
    middle.unlink()
    with (
        files(tmp_path) as log,
        pytest.raises(LogDamaged, match=f"{oldest.name} is damaged at byte 200: entry 2"),
    ):
        frames(log)


def test_only_one_process_has_the_log(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from outcry.live.file_log import FileLog
with FileLog(Path(sys.argv[1])).exclusively():
    pass
"""
    with files(tmp_path), pytest.raises(LogInUse, match="is Outcry running already"), files(tmp_path):
        pass
    with files(tmp_path):
        other = subprocess.run(
            [sys.executable, "-c", code, tmp_path / "log"], capture_output=True, text=True, check=False
        )
        assert other.returncode == 1
        assert "LogInUse: another process writes to the log" in other.stderr
    assert subprocess.run([sys.executable, "-c", code, tmp_path / "log"], check=False).returncode == 0


def test_without_holding_the_log_nothing_is_touched(tmp_path: Path) -> None:
    with files(tmp_path) as log:
        log.append(KEY, 0, 1, b"x" * 50)
    os.truncate(only(tmp_path), 60)
    for use in (
        lambda: log.last(KEY),
        lambda: log.append(KEY, 0, 1, b""),
        lambda: log.drop(KEY, 1),
        lambda: log.forget(KEY),
    ):
        with pytest.raises(RuntimeError, match="exclusively"):
            use()
    assert only(tmp_path).stat().st_size == 60


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    """Files are limited to 1,000 bytes: a frame of 700 fits; the next is written in part, truncated and refused."""
    code = """
import sys
from pathlib import Path
from outcry.live.file_log import FileLog
log = FileLog(Path(sys.argv[1]))
with log.exclusively():
    log.append("0/demo/ESZ2026", 0, 1, b"a" * 680)
    for _ in range(2):
        try:
            log.append("0/demo/ESZ2026", 1, 1, b"b" * 680)
        except OSError as problem:
            print(type(problem).__name__, problem.errno, log.last("0/demo/ESZ2026"))
    log.append("0/demo/ESZ2026", 1, 1, b"c" * 280)
    print([(frame.first, len(frame.blob)) for frame in log.read("0/demo/ESZ2026", 0)])
"""

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "log"],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=small_files,
    )
    refused = f"OSError {errno.ENOSPC} 1"
    assert done.stdout.splitlines() == [refused, refused, "[(0, 680), (1, 280)]"]
    assert only(tmp_path).stat().st_size == 1000


def test_a_write_that_cannot_be_taken_back_is_cut_off_at_the_next_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, fails = os.write, OSError(errno.EIO, "the disk is gone")

    def half(handle: int, data: bytes) -> int:
        write(handle, data[: len(data) // 2])
        raise fails

    def refuse(_handle: int, _size: int) -> None:
        raise fails

    with files(tmp_path) as log:
        log.append(KEY, 0, 1, b"a" * 50)
        monkeypatch.setattr(os, "write", half)
        monkeypatch.setattr(os, "ftruncate", refuse)
        with pytest.raises(OSError, match="disk is gone"):
            log.append(KEY, 1, 1, b"b" * 50)
        monkeypatch.undo()
        assert only(tmp_path).stat().st_size == 105
        assert log.last(KEY) == 1
        log.append(KEY, 1, 1, b"c" * 50)
        assert frames(log) == [(0, 1, b"a" * 50), (1, 1, b"c" * 50)]


def test_sync_reaches_every_file_written_since_and_only_those(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten streams with three open files; a truncated file is synced before the next one is created."""
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(Path(f"/proc/self/fd/{handle}").readlink()))
    folder = tmp_path / "log"
    with files(tmp_path) as log:
        keys = [f"0/demo/ESZ20{n}" for n in range(10, 20)]
        for key in keys:
            log.append(key, 0, 1, b"x")
        log.sync()
        paths = {folder / key / f"{0:020d}.log" for key in keys}
        assert {path for path in synced if path.suffix} == paths
        assert {path for path in synced if not path.suffix} == {
            folder,
            folder / "0",
            folder / "0/demo",
            *(folder / key for key in keys),
        }
        synced.clear()
        log.sync()
        assert synced == []
        log.append(keys[0], 1, 1, b"y")
        log.cut(keys[0])
        assert synced == [folder / keys[0] / f"{0:020d}.log"]
        log.drop(keys[0], 2)
        log.sync()


def test_a_sync_that_failed_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def fsync(handle: int) -> None:
        tries.append(handle)
        if len(tries) == 1:
            raise OSError(errno.EIO, "the disk is gone")

    with files(tmp_path) as log:
        log.append(KEY, 0, 1, b"x")
        log.sync()
        monkeypatch.setattr(os, "fsync", fsync)
        log.append(KEY, 1, 1, b"x")
        with pytest.raises(OSError, match="disk is gone"):
            log.sync()
        log.sync()
        assert len(tries) == 2


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_few_files_are_open_however_many_streams_there_are(tmp_path: Path) -> None:
    before = open_files()
    with files(tmp_path) as log:
        keys = [f"0/demo/ESZ2{n}" for n in range(100, 150)]
        for first in range(3):
            for key in keys:
                log.append(key, first, 1, key.encode())
            assert open_files() <= before + 3 + 1  # and the lock file
        log.sync()
        assert open_files() <= before + 3 + 1
        assert all(len(frames(log, key=key)) == 3 for key in keys)
    assert open_files() == before


def test_threads_append_read_and_sync_at_once(tmp_path: Path) -> None:
    faults: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as fault:  # noqa: BLE001 - told below
                faults.append(fault)

        return run

    with files(tmp_path) as log:
        done = threading.Event()

        def append(key: str) -> None:
            for first in range(400):
                log.append(key, first, 1, b"%d" % first)
                if first % 50 == 0:
                    log.cut(key)

        def read() -> None:
            while not done.is_set():
                found = [frame.first for frame in log.read(KEY, 0)]
                assert found == list(range(len(found)))
                log.sync()

        writers = [
            threading.Thread(target=guarded(lambda key=key: append(key)))
            for key in (KEY, OTHER, "0/a/b", "0/c/d")
        ]
        reader = threading.Thread(target=guarded(read))
        for thread in (*writers, reader):
            thread.start()
        for thread in writers:
            thread.join(120)
        done.set()
        reader.join(120)
        assert faults == []
        assert [frame[2] for frame in frames(log, key=OTHER)] == [b"%d" % first for first in range(400)]


def test_a_killed_writer_leaves_whole_frames_and_all_it_reported(tmp_path: Path) -> None:
    """A writer is killed at random ten times and resumes each time: the log is always a prefix of its output."""
    chance = random.Random(20261203)
    reported = 0
    for _ in range(10):
        command = [sys.executable, "-m", log_writer.__name__, str(tmp_path / "log"), "1000000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
            assert process.stdout is not None
            first = process.stdout.readline()  # it is writing
            time.sleep(chance.random() * 0.05)
            process.kill()
            said = (first + process.stdout.read()).splitlines()
        reported = max([reported, *(int(line) for line in said[:-1])])  # the last line may be incomplete
        with files(tmp_path) as log:
            last, n, at = log.last(KEY), 0, 0
            assert last >= reported
            for frame in log.read(KEY, 0):
                assert frame == Frame(at, log_writer.count(n), log_writer.blob(n))
                at, n = at + frame.count, n + 1
            assert at == last
    assert reported > 1000
