"""One file of a log: frames one after the other, and what to make of bytes that are none.

A frame: length of the blob (u32), CRC-32 of all after this field (u32), first entry (u64), number of entries (u32), the
blob; little-endian. Rule kept: frames follow one another without a hole, and nothing but a torn end is ever cut off.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import numpy as np

from outcry.ports.live import Frame, LogDamaged

_SEAL = struct.Struct("<II")
_NUMBERS = struct.Struct("<QI")
_HEAD = struct.Struct("<IIQI")
_BUFFER_BYTES = 1 << 20
_WINDOW = 1 << 20
_REACH = 1 << 40  # entries a file may hold beyond the one that is missing, at the very most


class NoFrame(Exception):
    """The bytes at `at` are no frame, or not the one that should be there: entry `expected`."""

    def __init__(self, at: int, expected: int) -> None:
        super().__init__(f"no frame of entry {expected} at byte {at}")
        self.at, self.expected = at, expected


def encode(first: int, count: int, blob: bytes) -> bytes:
    """Return a frame as bytes. Raises `ValueError` for what does not fit one."""
    try:
        numbers = _NUMBERS.pack(first, count)
        return b"".join((_SEAL.pack(len(blob), crc32(blob, crc32(numbers))), numbers, blob))
    except struct.error as problem:
        raise ValueError(f"{count} entries at {first} in {len(blob)} bytes are no frame") from problem


def open_segment(path: Path) -> BinaryIO:
    """Open a file for `walk`."""
    return path.open("rb", buffering=_BUFFER_BYTES)


def walk(file: BinaryIO, first: int, size: int) -> Iterator[Frame]:
    """Yield the frames of a file's first `size` bytes, which begin with entry `first`. Raises `NoFrame`."""
    at = 0
    while at < size:
        head = file.read(min(_HEAD.size, size - at))
        if len(head) < _HEAD.size:
            raise NoFrame(at, first)
        length, seal, found, count = _HEAD.unpack(head)
        if found != first or not count or length > size - at - _HEAD.size:
            raise NoFrame(at, first)
        blob = file.read(length)
        if len(blob) < length or crc32(blob, crc32(head[_SEAL.size :])) != seal:
            raise NoFrame(at, first)
        yield Frame(first, count, blob)
        at += _HEAD.size + length
        first += count


def mend(path: Path, first: int) -> tuple[int, int]:
    """Cut off a file's torn end; return the entry after its last one, and its size. Raises `LogDamaged`."""
    size, last = path.stat().st_size, first
    try:
        with open_segment(path) as file:
            for frame in walk(file, first, size):
                last = frame.first + frame.count
    except NoFrame as problem:
        with path.open("r+b") as file:
            file.seek(problem.at)
            if goes_on(file.read(), problem.expected):
                raise damaged(path, problem) from None
            file.truncate(problem.at)
        size = problem.at
    return last, size


def damaged(path: Path, problem: NoFrame) -> LogDamaged:
    """What to say of a file that has no frame where there must be one."""
    return LogDamaged(
        f"the log {path} is damaged at byte {problem.at}: entry {problem.expected} cannot be read, though later ones "
        "are there. Restore the file from a backup; or move its folder away, and the stream begins anew"
    )


def goes_on(data: bytes, expected: int) -> bool:
    """Whether a good frame of entry `expected` or a later one begins anywhere in these bytes.

    Tells a torn end, which a crash leaves, from damage in the middle. A frame is looked for at every byte, and told
    by what follows it: the next frame's number, the end, or nothing but zeros (a file grown but not yet written).
    """
    places = len(data) - _HEAD.size + 1
    if places < 1:
        return False
    lengths, firsts, counts = (
        np.ndarray((places,), form, data, offset, (1,))  # one at every byte, overlapping
        for form, offset in (("<u4", 0), ("<u8", 8), ("<u4", 16))
    )
    for start in range(0, places, _WINDOW):
        part = slice(start, start + _WINDOW)
        room = len(data) - _HEAD.size - np.arange(start, min(start + _WINDOW, places))
        likely = (firsts[part] >= expected) & (firsts[part] < expected + _REACH) & (counts[part] > 0)
        likely &= lengths[part] <= room
        if any(_stands(data, start + int(place)) for place in np.flatnonzero(likely)):
            return True
    return False


def _stands(data: bytes, at: int) -> bool:
    length, seal, first, count = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + length
    after = data[end : end + _HEAD.size]
    if len(after) == _HEAD.size and any(after) and _HEAD.unpack(after)[2] != first + count:
        return False
    numbers = data[at + _SEAL.size : at + _HEAD.size]
    return crc32(memoryview(data)[at + _HEAD.size : end], crc32(numbers)) == seal
