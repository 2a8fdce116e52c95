"""Split a DBN stream into runs of adjacent records of the same type and size.

It needs two buffers, regardless of the file's size. A compressed file is decompressed into one of them in a thread
while the records of the other are processed.
"""

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from outcry.recordings.file_model import FileRefused
from outcry.recordings.formats.archive import CountedFile, fill
from outcry.recordings.formats.file_reading import ReadProgress

CHUNK = 2 << 20
HEADER_SIZE: Final = 16
#: Space before a buffer for an incomplete record of the previous buffer. A record has at most 255 times four bytes.
_ROOM: Final = 1024


@dataclass(frozen=True, slots=True)
class RecordRun:
    """A run of adjacent DBN records of the same kind and size."""

    rtype: int
    at: int
    count: int
    size: int


def record_chunks(
    stream: io.RawIOBase, path: Path, progress: ReadProgress
) -> Iterator[tuple[memoryview, list[RecordRun]]]:
    """Yield chunks of complete records with their runs; a chunk is valid until the next is requested."""
    remainder, number = b"", 0
    for buffer, got in _buffers(stream):
        start = _ROOM - len(remainder)
        buffer[start:_ROOM] = remainder
        data = buffer[start : _ROOM + got]
        runs, used = find_record_runs(data, path, number)
        progress.place = f"record {number + 1:,}"
        yield data[:used], runs
        number += sum(run.count for run in runs)
        remainder = bytes(data[used:])
    if remainder:
        raise FileRefused(path, f"record {number + 1:,}", "the file ends inside a record",
                          "the file is cut short; download it again")  # fmt: skip


def _buffers(stream: io.RawIOBase) -> Iterator[tuple[memoryview, int]]:
    """Yield buffers filled from a stream, alternating between two; an uncompressed file needs no thread."""
    buffers = [memoryview(bytearray(_ROOM + CHUNK)) for _ in range(2)]
    if isinstance(stream, CountedFile):
        while got := fill(stream, buffers[0][_ROOM:]):
            yield buffers[0], got
        return
    with ThreadPoolExecutor(1, "inflate") as thread:
        coming = thread.submit(fill, stream, buffers[0][_ROOM:])
        while got := coming.result():
            buffers.reverse()
            coming = thread.submit(fill, stream, buffers[0][_ROOM:])
            yield buffers[1], got


def find_record_runs(data: memoryview, path: Path, number: int = 0) -> tuple[list[RecordRun], int]:
    """Return the runs of complete records in `data`, and the offset of the first incomplete record."""
    flat = np.frombuffer(data, dtype=np.uint8)
    runs: list[RecordRun] = []
    at, end = 0, len(data)
    while at < end:
        size, rtype = data[at] * 4, data[at + 1] if at + 1 < end else 0
        if size < HEADER_SIZE:
            raise FileRefused(path, f"record {number + 1:,}", f"a record has the length {size} bytes",
                              "the file is damaged; download it again")  # fmt: skip
        count = _run_length(flat, at, size)
        if not count:
            break
        runs.append(RecordRun(rtype, at, count, size))
        number += count
        at += count * size
    return runs, at


def _run_length(flat: NDArray[np.uint8], at: int, size: int) -> int:
    """Count the complete records from `at` that have the length and kind of the first."""
    possible = (len(flat) - at) // size
    records = flat[at : at + possible * size].reshape(possible, size)
    heads = records[:, :2].view("<u2")[:, 0]  # length and type together
    known, window = min(1, possible), 16
    while known < possible:
        upto = min(possible, known + window)
        differs = np.flatnonzero(heads[known:upto] != heads[0])
        if len(differs):
            return known + int(differs[0])
        known, window = upto, window * 16
    return known
