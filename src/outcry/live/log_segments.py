"""One file of a log: consecutive frames (batches of entries), and what to do with bytes that are not a frame.

A frame: length of the blob (u32), CRC-32 of everything after this field (u32), number of its first entry (u64), number
of entries (u32), the blob; little-endian. Frames follow one another without a gap. An incomplete frame is cut off only
at the end of the file, and moved to another file beside it.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import numpy as np

from outcry.base.quarantine import unused_name
from outcry.live.model import Frame, LogDamaged

_SEAL = struct.Struct("<II")
_NUMBERS = struct.Struct("<QI")
_HEAD = struct.Struct("<IIQI")
_BUFFER_BYTES = 1 << 20
_WINDOW = 1 << 20
_REACH = 1 << 40  # upper limit of the entries between a missing one and the next in its file


class NoFrame(Exception):
    """The bytes at offset `at` are not a frame, or not the frame of the expected entry."""

    def __init__(self, at: int, expected: int) -> None:
        super().__init__(f"no frame of entry {expected} at byte {at}")
        self.at, self.expected = at, expected


def encode(first: int, count: int, blob: bytes) -> bytes:
    """Return a frame as bytes. Raises `ValueError` if its numbers are out of range."""
    try:
        numbers = _NUMBERS.pack(first, count)
        return b"".join((_SEAL.pack(len(blob), crc32(blob, crc32(numbers))), numbers, blob))
    except struct.error as problem:
        raise ValueError(f"{count} entries at {first} in {len(blob)} bytes are no frame") from problem


def open_segment(path: Path) -> BinaryIO:
    """Open a file of a log, to read it with `walk`."""
    return path.open("rb", buffering=_BUFFER_BYTES)


def walk(file: BinaryIO, first: int, size: int) -> Iterator[Frame]:
    """Yield the frames in a file's first `size` bytes. first: number of the first entry. Raises `NoFrame`."""
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


def mend(path: Path, first: int) -> tuple[int, int, str]:
    """Move an incomplete frame at the end of a file to another file.

    Return the number of the next entry, the remaining size, and a line of text for the operator. A crash leaves an
    incomplete frame. A changed bit in the last frame looks the same. Raises `LogDamaged`.
    """
    size, last = path.stat().st_size, first
    try:
        with open_segment(path) as file:
            for frame in walk(file, first, size):
                last = frame.first + frame.count
    except NoFrame as problem:
        with path.open("r+b") as file:
            file.seek(problem.at)
            torn = file.read()
            if next_frame(torn, problem.expected) is not None:
                raise damaged(path, problem) from None
            said = _moved(path, problem.at, torn)
            file.truncate(problem.at)
        return last, problem.at, said
    return last, size, ""


def _moved(path: Path, at: int, torn: bytes) -> str:
    """Write an incomplete frame to another file; return a line of text about it for the operator.

    If all its bytes are zero, return an empty text, because the space was only preallocated.
    """
    if not any(torn):
        return ""
    aside = unused_name(path, "damaged")
    with aside.open("xb") as file:
        file.write(torn)
        file.flush()
        os.fsync(file.fileno())
    return f"the end of the log {path} from byte {at} cannot be read: {len(torn)} bytes were moved to {aside.name}"


@dataclass(frozen=True, slots=True)
class Run:
    """A run of consecutive valid frames: the file's bytes `start` to `end`, entries `first` to `until` (excluded)."""

    start: int
    end: int
    first: int
    until: int


def runs(path: Path, first: int) -> list[Run]:
    """Find every valid frame of a file, including those after invalid bytes. first: number of the first entry."""
    found: list[Run] = []
    size = path.stat().st_size
    with open_segment(path) as file:
        start = 0
        while start < size:
            file.seek(start)
            until, end = first, size - start
            try:
                for frame in walk(file, first, size - start):
                    until = frame.first + frame.count
            except NoFrame as problem:
                end = problem.at
            if until > first:
                found.append(Run(start, start + end, first, until))
            file.seek(start + end)
            rest = file.read()
            place = next_frame(rest, until)
            if place is None:
                break
            first = _HEAD.unpack_from(rest, place)[2]
            start += end + place
    return found


def damaged(path: Path, problem: NoFrame) -> LogDamaged:
    """Return the error for a file that lacks a valid frame at a place where one must be."""
    return LogDamaged(
        f"the log {path} is damaged at byte {problem.at}: entry {problem.expected} cannot be read, though later ones "
        "are there. The next start sets the file aside and goes on from the snapshot and what can be read"
    )


def next_frame(data: bytes, expected: int) -> int | None:
    """Return the offset of the first valid frame with entry `expected` or a later one; None if there is none.

    It distinguishes an incomplete end, which a crash leaves, from damage in the middle. A frame may start at any byte.
    A start counts only if the next frame, the end of the data or zeros (preallocated space) follow the frame.
    """
    places = len(data) - _HEAD.size + 1
    if places < 1:
        return None
    lengths, firsts, counts = (
        np.ndarray((places,), form, data, offset, (1,))  # one at every byte; they overlap
        for form, offset in (("<u4", 0), ("<u8", 8), ("<u4", 16))
    )
    for start in range(0, places, _WINDOW):
        part = slice(start, start + _WINDOW)
        room = len(data) - _HEAD.size - np.arange(start, min(start + _WINDOW, places))
        likely = (firsts[part] >= expected) & (firsts[part] < expected + _REACH) & (counts[part] > 0)
        likely &= lengths[part] <= room
        for place in np.flatnonzero(likely):
            if _stands(data, start + int(place)):
                return start + int(place)
    return None


def _stands(data: bytes, at: int) -> bool:
    length, seal, first, count = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + length
    after = data[end : end + _HEAD.size]
    if len(after) == _HEAD.size and any(after) and _HEAD.unpack(after)[2] != first + count:
        return False
    numbers = data[at + _SEAL.size : at + _HEAD.size]
    return crc32(memoryview(data)[at + _HEAD.size : end], crc32(numbers)) == seal
