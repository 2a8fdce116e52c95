"""`outcry import` of a DBN recording, compared with only decoding the same file.

All run as child processes, so start-up and imports count on both sides. The comparator is databento's
`DBNStore.to_ndarray`. A bare chunked decode, the minimum for any importer, is printed beside it.
"""

import shutil
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.market import write_recording
from bench.measurement import Child, Figure, Size, installed_command, run_child

_TO_NDARRAY = """
import sys
import databento
assert len(databento.DBNStore.from_file(sys.argv[1]).to_ndarray()) == int(sys.argv[2])
"""
_CHUNKED = """
import sys
import numpy as np
import zstandard
from databento_dbn import TradeMsg
layout, path, rows, volume = np.dtype(TradeMsg._dtypes), sys.argv[1], 0, 0
with open(path, "rb") as file:
    stream = zstandard.ZstdDecompressor().stream_reader(file) if path.endswith(".zst") else file
    stream.read(int.from_bytes(stream.read(8)[4:], "little"))
    while data := stream.read(layout.itemsize << 15):
        records = np.frombuffer(data, layout)
        rows += len(records)
        volume += int(records["size"].sum())
assert rows == int(sys.argv[2])
"""


def run(size: Size) -> Iterator[Figure]:
    """Measure 10 M trades, uncompressed and compressed, and 1 M to detect growing memory (1 M alone if quick)."""
    small, large = size.of((1_000_000, 10_000_000), (1_000_000, 1_000_000), (20_000, 20_000))
    with TemporaryDirectory(prefix="outcry-bench-") as name:
        folder = Path(name)
        peaks: dict[int, int] = {}
        for suffix in ("dbn", "dbn.zst"):
            for count in sorted({small, large}):
                path = folder / f"es-{count}.{suffix}"
                written = write_recording(path, count)
                found = _rounds(path, written, folder, 1 if count == small else 5)
                peaks[count] = max(peaks.get(count, 0), *(child.peak_bytes for child in found["import"]))
                if count == large:
                    yield from _figures(suffix, written, found)
                path.unlink()
        yield Figure(
            "peak memory of an import, large file", peaks[large] / 1e6, "MB", "", 300, at_least=False
        )
        grown = peaks[large] / peaks[small]
        yield Figure(
            f"peak memory, {large // small} times the trades", grown, "times", "", 1.1, at_least=False
        )


def _rounds(path: Path, count: int, folder: Path, rounds: int) -> dict[str, list[Child]]:
    data = folder / "data"
    outcry = [installed_command(), "import", str(path), "--data", str(data)]
    found: dict[str, list[Child]] = {"import": [], "to_ndarray": [], "chunked": []}
    for number in range(rounds + 1):
        for name, code in (("import", ""), ("to_ndarray", _TO_NDARRAY), ("chunked", _CHUNKED)):
            shutil.rmtree(data, ignore_errors=True)
            command = [sys.executable, "-c", code, str(path), str(count)] if code else outcry
            child = run_child(command)
            if number or rounds == 1:  # the first round loads file and libraries into memory
                found[name].append(child)
    shutil.rmtree(data, ignore_errors=True)
    return found


def _figures(suffix: str, count: int, found: dict[str, list[Child]]) -> Iterator[Figure]:
    walls = {name: [child.wall_s for child in children] for name, children in found.items()}
    for name, what in (
        ("import", "outcry import"),
        ("to_ndarray", "DBNStore.to_ndarray"),
        ("chunked", "bare chunks"),
    ):
        spread = f"median {statistics.median(walls[name]):.2f}, worst {max(walls[name]):.2f} s"
        cpu = min(child.cpu_s for child in found[name])
        spread += f"; {cpu:.2f} s of processor, {max(child.peak_bytes for child in found[name]) / 1e6:.0f} MB"
        yield Figure(f"{what}, {count // 1_000_000} M trades, .{suffix}", min(walls[name]), "s", spread)
    ratio = min(walls["import"]) / min(walls["to_ndarray"])
    middle = statistics.median(walls["import"]) / statistics.median(walls["to_ndarray"])
    yield Figure(
        f"import ÷ to_ndarray, .{suffix}", ratio, "times", f"of medians {middle:.2f}", 2, at_least=False
    )
    yield Figure(f"import ÷ bare chunks, .{suffix}", min(walls["import"]) / min(walls["chunked"]), "times")
