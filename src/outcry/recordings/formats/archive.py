"""Open files safely and decompress them within limits.

Only regular files are opened, never through a link. Decompressed bytes are counted while they are produced, because the
size that a file states cannot be trusted. A file is refused if it decompresses to an impossible multiple of its size,
or if it ends inside a compressed frame.
"""

import errno
import gzip
import io
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

import zstandard

from outcry.base.portable_files import open_without_link
from outcry.recordings.file_model import FileRefused
from outcry.recordings.formats.zstd_frames import FrameWalk

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
GZIP_MAGIC = b"\x1f\x8b"
SKIPPABLE_MAGIC = 0x184D2A50
#: Real trades compress at most about 50:1. A ratio ten times that, after the first 64 MiB, is a decompression bomb.
RATIO_LIMIT = 500
RATIO_FREE = 64 << 20
TOTAL_LIMIT = 64 << 30
#: zstd's default limit for decoders: a frame may not require a larger window.
WINDOW_LIMIT = 1 << 27
_READ_SIZE = 1 << 20


class CountedFile(io.RawIOBase):
    """A regular file that records its current read position and the furthest one so far."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.size = 0
        self.furthest = self.position = 0
        self._handle = open_regular(path)
        self._raw = io.FileIO(self._handle, closefd=False)
        self.size = os.fstat(self._handle).st_size

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: the read position can be set."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read into a buffer; return the number of bytes read, 0 at the end."""
        got = self._raw.readinto(buffer) or 0
        self.position = self.tell()
        self.furthest = max(self.furthest, self.position)
        return got

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the read position."""
        return os.lseek(self._handle, offset, whence)

    def tell(self) -> int:
        """Return the read position."""
        return os.lseek(self._handle, 0, os.SEEK_CUR)

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._handle

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            os.close(self._handle)
        super().close()


def open_regular(path: Path) -> int:
    """Open a regular, non-empty file; raise `FileRefused` for anything else."""
    try:
        handle = open_without_link(path)
    except FileNotFoundError as fault:
        raise FileRefused(path, "", "no such file") from fault
    except OSError as fault:
        if fault.errno == errno.ELOOP:
            raise FileRefused(
                path, "", "symbolic links are not imported", "name the file it points to"
            ) from fault
        problem = "permission denied" if isinstance(fault, PermissionError) else "cannot open the file"
        raise FileRefused(path, "", f"{problem} ({fault.strerror})") from fault
    except ValueError as fault:
        raise FileRefused(repr(str(path)), "", "invalid file name") from fault
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or not found.st_size:
        os.close(handle)
        problem = "the file is empty" if stat.S_ISREG(found.st_mode) else "not a regular file"
        raise FileRefused(path, "", problem)
    return handle


class BoundedStream(io.RawIOBase):
    """A decompressed stream that raises an error when it produces an impossible amount of data."""

    def __init__(self, inner: IO[bytes], path: Path, taken: Callable[[], int], place: str = "") -> None:
        super().__init__()
        self._inner, self._path, self._taken, self._place = inner, path, taken, place
        self.given = 0

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read into a buffer; return the number of bytes read, 0 at the end."""
        got = self._fill(buffer)
        self.given += got
        if self.given > RATIO_FREE and self.given > RATIO_LIMIT * max(1, self._taken()):
            self._refuse(f"the file unpacks to more than {RATIO_LIMIT:,} times its size")
        if self.given > TOTAL_LIMIT:
            self._refuse(f"the file unpacks to more than {TOTAL_LIMIT >> 30} GiB")
        return got

    def _fill(self, buffer: bytearray | memoryview) -> int:
        return self._inner.readinto(buffer)  # type: ignore[attr-defined,no-any-return]

    def _refuse(self, problem: str) -> None:
        raise FileRefused(
            self._path, self._place, problem, "market data does not compress like this; reading stopped"
        )

    def close(self) -> None:
        """Close the stream and its input."""
        self._inner.close()
        super().close()


class _ZstdStream(BoundedStream):
    """The decompressed bytes of consecutive zstd frames; a truncated frame raises an error."""

    def __init__(self, packed: CountedFile, path: Path) -> None:
        self._tap = _FrameTap(packed)
        decoder = zstandard.ZstdDecompressor(max_window_size=WINDOW_LIMIT)
        reader = decoder.stream_reader(
            cast("IO[bytes]", self._tap), read_size=_READ_SIZE, read_across_frames=True
        )
        super().__init__(cast("IO[bytes]", reader), path, lambda: self._tap.walk.seen)

    def _fill(self, buffer: bytearray | memoryview) -> int:
        got = super()._fill(buffer)
        if not got and len(buffer) and not self._tap.walk.whole:
            raise FileRefused(self._path, f"byte {self._tap.walk.seen:,}",
                              "the file ends inside a compressed frame", "download it again")  # fmt: skip
        return got


class _FrameTap:
    """Compressed input of the zstd decoder; also tracks where frames end, to detect a truncated one."""

    def __init__(self, packed: CountedFile) -> None:
        self.packed, self.walk = packed, FrameWalk()

    def read(self, size: int) -> bytes:
        chunk = self.packed.read(size) or b""
        self.walk.feed(chunk)
        return chunk

    def close(self) -> None:
        """Close this stream and its input."""
        self.packed.close()


def decompress(packed: CountedFile, head: bytes) -> io.RawIOBase:
    """Return a stream of the decompressed bytes of a file (zstd, gzip or uncompressed).

    `head`: the file's first bytes.
    """
    if head.startswith(ZSTD_MAGIC) or is_skippable(head):
        return _ZstdStream(packed, packed.path)
    if head.startswith(GZIP_MAGIC):
        unzipped = gzip.GzipFile(fileobj=io.BufferedReader(packed, _READ_SIZE), mode="rb")
        return BoundedStream(cast("IO[bytes]", unzipped), packed.path, lambda: packed.furthest)
    return packed


def decompressed(file: CountedFile) -> io.RawIOBase:
    """Return a stream of the decompressed bytes of a file from its beginning."""
    file.seek(0)
    head = file.read(4) or b""
    file.seek(0)
    return decompress(file, head)


def is_skippable(head: bytes) -> bool:
    """Return whether the bytes start with a skippable zstd frame. Every legacy DBZ file starts with one."""
    return len(head) >= 4 and int.from_bytes(head[:4], "little") & ~0xF == SKIPPABLE_MAGIC


def read_exactly(stream: io.RawIOBase, size: int) -> bytes:
    """Read `size` bytes, or fewer at the end. Memory is allocated only for bytes that exist."""
    parts: list[bytes] = []
    while size > 0 and (chunk := stream.read(min(size, _READ_SIZE))):
        parts.append(chunk)
        size -= len(chunk)
    return b"".join(parts)


def fill(stream: io.RawIOBase, buffer: memoryview) -> int:
    """Fill a buffer from a stream as far as possible; return the number of bytes."""
    filled = 0
    while filled < len(buffer) and (got := stream.readinto(buffer[filled:]) or 0):
        filled += got
    return filled


class NonClosingFile(io.RawIOBase):
    """Wrapper that keeps a file open when the library that reads it closes its input."""

    def __init__(self, file: CountedFile) -> None:
        super().__init__()
        self._file = file

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: the read position can be set."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read into a buffer; return the number of bytes read, 0 at the end."""
        return self._file.readinto(buffer)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the read position."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the read position."""
        return self._file.tell()
