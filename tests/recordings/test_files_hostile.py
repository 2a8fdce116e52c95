"""Malicious and invalid files are refused by name, quickly and with little memory."""

import gzip
import os
import resource
import struct
import sys
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from pwd import getpwnam
from tempfile import TemporaryDirectory

import pytest
import zstandard
from tests.recordings import sample_files as samples
from tests.recordings.sample_files import lean_zip

from outcry.recordings.file_model import FileRefused
from outcry.recordings.formats.file_library import FileLibrary

MEMBER = "20240102_es_tick_trade_202403.csv"
ROW = "52200000,4755.25,1,usa,,0\n"


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20)


@pytest.mark.parametrize(
    "name", ["../" + MEMBER, "/" + MEMBER, "a/../../" + MEMBER, "C:\\" + MEMBER, "..\\" + MEMBER]
)
def test_names_that_lead_out_of_the_archive(tmp_path, refused, name) -> None:
    assert "outside the archive" in str(refused(lean_zip(tmp_path / "20240102_trade.zip", {name: ROW})))


def test_nested_doubled_empty_and_foreign_archives(tmp_path, refused) -> None:
    assert "itself an archive" in str(refused(lean_zip(tmp_path / "a.zip", {"b.zip": "x"})))
    assert "empty" in str(refused(lean_zip(tmp_path / "b.zip", {})))
    assert "LEAN" in str(refused(lean_zip(tmp_path / "c.zip", {"readme.txt": "x"})))
    path = tmp_path / "d.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MEMBER, ROW)
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(MEMBER, ROW)
    assert "two members" in str(refused(path))


def test_an_encrypted_member(tmp_path, refused) -> None:
    path = lean_zip(tmp_path / "20240102_trade.zip", {MEMBER: ROW})
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    path.write_bytes(data)
    assert "encrypted" in str(refused(path))


def test_a_member_that_fails_its_checksum(tmp_path, refused) -> None:
    path = tmp_path / "20240102_trade.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MEMBER, ROW * 10)
    data = path.read_bytes().replace(b"4755.25", b"4755.50", 1)
    path.write_bytes(data)
    fault = refused(path)
    assert MEMBER in str(fault)


def test_a_zip_bomb_is_stopped_while_it_inflates(tmp_path, refused) -> None:
    """4 GB of one row pack into 4 MB; the declared size is forged to 10 bytes first."""
    path = tmp_path / "20240102_trade.zip"
    block = (ROW * 40_000).encode()
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
        archive.open(MEMBER, "w") as out,
    ):
        for _ in range(200):
            out.write(b"\n" * len(block))
    before = peak_mib()
    assert "times its size" in str(refused(path))
    assert peak_mib() - before < 200


@pytest.mark.parametrize("pack", ["gzip", "zstd"])
def test_gzip_and_zstd_bombs(tmp_path, refused, pack) -> None:
    zeros = b"\n" * (200 << 20)
    packed = gzip.compress(zeros) if pack == "gzip" else zstandard.compress(zeros)
    path = tmp_path / f"ESH4.csv.{pack}"
    path.write_bytes(
        (gzip.compress if pack == "gzip" else zstandard.compress)(samples.GENERIC.encode()) + packed
    )
    before = peak_mib()
    refused(path, stamp="open")
    assert peak_mib() - before < 200


def test_a_line_of_a_hundred_megabytes(tmp_path, refused) -> None:
    path = tmp_path / "ESH4.csv"
    path.write_text(samples.GENERIC + "2024-01-02 14:32:00," + "1" * (100 << 20))
    before = peak_mib()
    fault = refused(path, stamp="open")
    assert fault.place == "line 4"
    assert peak_mib() - before < 150


def test_a_directory_of_a_gigabyte_is_not_loaded(tmp_path, refused) -> None:
    path = tmp_path / "20240102_trade.zip"
    path.write_bytes(
        b"PK\x03\x04" + b"\0" * 100 + struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 1, 1, 1 << 30, 0, 0)
    )
    assert "directory has" in str(refused(path))


def test_only_regular_files_are_accepted(tmp_path, refused) -> None:
    (tmp_path / "ESH4.csv").write_text(samples.GENERIC)
    link, pipe = tmp_path / "link.csv", tmp_path / "pipe.csv"
    link.symlink_to(tmp_path / "ESH4.csv")
    os.mkfifo(pipe)
    assert "symbolic links" in str(refused(link))
    assert "not a regular file" in str(refused(pipe))
    assert "no such file" in str(refused(tmp_path / "absent.csv"))
    assert "not a regular file" in str(refused(tmp_path))


@contextmanager
def as_nobody() -> Generator[None]:
    """Run as an unprivileged user if the tests run as root, which may read everything."""
    me = os.geteuid()
    if me == 0:
        os.seteuid(getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(me)


def test_a_file_without_read_permission(refused) -> None:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # other users cannot enter pytest's own folders
        path = Path(folder, "ESH4.csv")
        path.write_text("nothing of the market\n")
        assert "header" in str(refused(path))  # the reader's modules are imported by now
        path.chmod(0)
        with as_nobody():
            assert "permission denied" in str(refused(path))


@pytest.mark.parametrize(("data", "problem"), [
    (b"", "empty"), (b"\n\n  \n", "blank"), (b"\0" * 500, "unknown file format"),
    (b"\x89PNG\r\n\x1a\n" + b"\xff" * 50, "unknown file format"), ("time;open".encode("utf-16"), "UTF-16"),
    (b"hello world\n", "header"), (b"time,open,high,low,close,Volume\n", "no row"),
    (zstandard.compress(b""), "archive is empty"), (zstandard.compress(zstandard.compress(b"x")), "inside an archive"),
    (b"DBN", "header"), (b"DBN\x09" + b"\0" * 60, "version 9"), (b"PK\x03\x04garbage", "directory"),
    (b"SCID", "header"), (b"PAR1", "footer"), (b"\x28\xb5\x2f\xfd", "compressed frame"), (b"\x1f\x8b\x08", "decode"),
])  # fmt: skip
def test_files_without_market_data_are_refused(tmp_path, refused, data, problem) -> None:
    path = tmp_path / "file.dbn"
    path.write_bytes(data)
    assert problem in str(refused(path))


def test_folders_are_walked_by_name_without_links_and_hidden_files(tmp_path, refused) -> None:
    library = FileLibrary()
    with pytest.raises(FileRefused, match="no market data files"):
        library.expand(tmp_path)
    for name in (
        "b/2.csv",
        "b/1.dbn.zst",
        "a/z.zip",
        ".hidden/x.csv",
        "a/.y.csv",
        "a/readme.md",
        "c.parquet",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "link.csv").symlink_to(tmp_path / "b/2.csv")
    found = [str(path.relative_to(tmp_path)) for path in library.expand(tmp_path)]
    assert found == ["a/z.zip", "b/1.dbn.zst", "b/2.csv", "c.parquet"]
    assert library.expand(tmp_path / "b/2.csv") == [tmp_path / "b/2.csv"]
    with pytest.raises(FileRefused, match="no such file"):
        library.expand(tmp_path / "nothing")


def test_bytes_and_counts_restart_with_each_reading(shared, universe) -> None:
    from outcry.recordings.file_model import ReadOptions

    reading = FileLibrary().open(
        shared / "data/lean/comex/tick/gc/20131007_trade.zip", universe, ReadOptions()
    )
    assert reading is not None
    assert reading.bytes_read == 0
    first = sum(len(batch.rows) for batch in reading.batches())
    assert first == sum(len(batch.rows) for batch in reading.batches()) == reading.counts.rows
