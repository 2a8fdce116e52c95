"""Import of a DBN recording, compared with decoding its rows in chunks and compressing them as they are stored.

Both run without start-up: the folder and its database exist, and modules are loaded. Each may use both processors, so
the ratio is of wall time; the processor time is in the note.
"""

import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np
import zstandard
from bench.figures import Figure, Rounds, at_most, shown
from bench.market import RECORD, write_recording
from bench.measurement import Child, Size, installed_command, run_child

from outcry.app.installation import open_installation
from outcry.app.settings import read_settings
from outcry.recordings.file_model import ReadOptions

#: As in the tape.
_CHUNK_RECORDS, _LEVEL = 1 << 16, 1
_STORED = ("ts_event", "price", "size", "side", "sequence", "flags")
_MOST_WAITING = 8

_TO_NDARRAY = """
import sys
import databento
assert len(databento.DBNStore.from_file(sys.argv[1]).to_ndarray()) == int(sys.argv[2])
"""


def goals(size: Size) -> Iterator[Figure]:
    """Measure the import of 10 M trades."""
    with TemporaryDirectory(prefix="outcry-bench-") as name:
        folder, count = Path(name), size.of(10_000_000, 2_000_000, 20_000)
        path = folder / "es.dbn"
        written = write_recording(path, count)
        walls: dict[str, list[float]] = {"import": [], "bare": []}
        used: dict[str, list[float]] = {"import": [], "bare": []}
        for number in range(size.rounds + 1):
            shutil.rmtree(folder / "data", ignore_errors=True)
            with open_installation(read_settings({}, data=str(folder / "data"))) as installation:
                now_ns = installation.clock.now_ns()
                for key, work in (
                    ("import", lambda: installation.importer.run(path, 0, ReadOptions(), now_ns)),  # noqa: B023
                    ("bare", lambda: _bare(path, folder / "bare.zst", written)),
                ):
                    began, before = perf_counter(), process_time()
                    work()
                    if number:
                        walls[key].append(perf_counter() - began)
                        used[key].append(process_time() - before)
        note = ", ".join(
            f"{key} {shown(Rounds.of(each).median)} s and {shown(Rounds.of(used[key]).median)} CPU-s"
            for key, each in walls.items()
        )
        yield Figure.ratio(
            f"import of {written / 1e6:.3g} M trades, DBN", Rounds.of(walls["import"]), Rounds.of(walls["bare"]),
            "decoding in chunks and zstd of the same rows, start-up excluded", at_most(1.3), note,
        )  # fmt: skip


def _bare(path: Path, target: Path, count: int) -> None:
    """Decode the rows of a recording, and compress them in a second thread."""
    rows, waiting = 0, list[Future[int]]()
    with path.open("rb") as file, target.open("wb") as out, ThreadPoolExecutor(1) as thread:
        stream = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).stream_writer(out, closefd=False)
        file.read(int.from_bytes(file.read(8)[4:], "little"))
        while data := file.read(RECORD.itemsize * _CHUNK_RECORDS):
            records = np.frombuffer(data, RECORD)
            stored = np.zeros(len(records), RECORD)
            for name in _STORED:
                stored[name] = records[name]
            waiting.append(thread.submit(stream.write, stored.data.cast("B")))
            if len(waiting) > _MOST_WAITING:
                waiting.pop(0).result()
            rows += len(records)
        for chunk in waiting:
            chunk.result()
        stream.close()
    if rows != count:
        raise RuntimeError(f"{rows} rows were decoded, {count} were written")


def more(size: Size) -> Iterator[Figure]:
    """Measure the command, start-up included, against databento's `to_ndarray`, and its peak memory."""
    small, large = size.of((1_000_000, 10_000_000), (200_000, 1_000_000), (20_000, 20_000))
    with TemporaryDirectory(prefix="outcry-bench-") as name:
        folder, peaks = Path(name), dict[int, int]()
        for suffix in size.of(("dbn", "dbn.zst"), ("dbn", "dbn.zst"), ("dbn.zst",)):
            for count in sorted({small, large}):
                path = folder / f"es-{count}.{suffix}"
                written = write_recording(path, count)
                found = _children(path, written, folder, size.rounds if count == large else 1)
                peaks[count] = max(peaks.get(count, 0), *(child.peak_bytes for child in found["import"]))
                if count == large:
                    yield _against_to_ndarray(suffix, found)
                path.unlink()
        yield Figure("peak memory of an import, large file", peaks[large] / 1e6, "MB", goal=at_most(300))
        yield Figure("peak memory, ten times the trades", peaks[large] / peaks[small], "×", goal=at_most(1.1))


def _children(path: Path, count: int, folder: Path, rounds: int) -> dict[str, list[Child]]:
    data = folder / "data"
    commands = {
        "import": [installed_command(), "import", str(path), "--data", str(data)],
        "to_ndarray": [sys.executable, "-c", _TO_NDARRAY, str(path), str(count)],
    }
    found: dict[str, list[Child]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            shutil.rmtree(data, ignore_errors=True)
            found[name].append(run_child(command))
    shutil.rmtree(data, ignore_errors=True)
    return found


def _against_to_ndarray(suffix: str, found: dict[str, list[Child]]) -> Figure:
    ours, theirs = (Rounds.of([child.wall_s for child in each]) for each in found.values())
    memory = max(child.peak_bytes for child in found["to_ndarray"]) / 1e6
    note = f"{shown(ours.median)} to {shown(theirs.median)} s; {memory:.0f} MB there"
    return Figure.ratio(
        f"`outcry import`, .{suffix}", ours, theirs, "`DBNStore.to_ndarray`", at_most(2), note
    )
