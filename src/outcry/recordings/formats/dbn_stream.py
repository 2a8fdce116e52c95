"""Split a DBN stream into runs of adjacent records of the same type and size.

The stream is read in chunks. A thread decompresses the next chunk of a compressed file while the caller processes the
records of the previous one.
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

#: Bytes of a chunk: few enough for the cache of a core, many enough to hide the cost of the calls for each chunk.
CHUNK = 1 << 20
HEADER_SIZE: Final = 16
#: Space before a chunk for an incomplete record of the previous chunk. A record has at most 255 times four bytes.
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
    """Yield chunks of complete records, each with its runs (adjacent records of one type and size).

    The caller owns a chunk and may change its bytes.
    """
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
    """Yield new buffers, each with the number of bytes read into it from the stream.

    The bytes start after `_ROOM` bytes, which leave space for the rest of the previous buffer. A compressed stream is
    read by a thread in advance; an uncompressed file does not need one.
    """

    def filled() -> tuple[memoryview, int]:
        buffer = np.empty(_ROOM + CHUNK, np.uint8).data  # unlike a bytearray, it is not cleared first
        return buffer, fill(stream, buffer[_ROOM:])

    if isinstance(stream, CountedFile):
        while (found := filled())[1]:
            yield found
        return
    with ThreadPoolExecutor(1, "inflate") as thread:
        coming = thread.submit(filled)
        while (found := coming.result())[1]:
            coming = thread.submit(filled)
            yield found


def find_record_runs(data: memoryview, path: Path, number: int = 0) -> tuple[list[RecordRun], int]:
    """Return the runs of complete records in `data`, and the offset of the first incomplete record.

    number: index in the file of the first record, for error messages.
    """
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
    """Count the adjacent complete records from offset `at` that have the length and type of the first."""
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
