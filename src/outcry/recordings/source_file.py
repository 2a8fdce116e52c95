"""A file during its import: its digest, and a check that it does not change meanwhile."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Self

from outcry.recordings.file_model import FileRefused, Reading, ReadOptions
from outcry.recordings.formats.archive import CountedFile
from outcry.sessions.store_model import FileRead, ReadAs

_BUFFER_BYTES = 1 << 20


class _Digests(NamedTuple):
    of_import: str
    of_bytes: str


class _Identity(NamedTuple):
    """Attributes of a file that differ after the file was changed or replaced."""

    device: int
    inode: int
    size: int
    modified_ns: int


class SourceFile:
    """A file of an import. A thread computes its digest while the importer reads it.

    An error in its `with` block stops the thread.
    """

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._path, self._options = path, options
        self._before = _identity(path)
        self._stopped = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="digest")
        self._digest = self._thread.submit(self._hash)

    @property
    def name(self) -> str:
        """The file's name as valid Unicode text, which any database accepts."""
        return self._path.name.encode("utf-8", "backslashreplace").decode()

    def digest(self) -> str:
        """Wait until the whole file is hashed; return the digest by which a repeated import is recognised.

        It is a SHA-256 of the file's bytes, its name and the options. Raises `FileRefused` if the file was changed or
        replaced since this object was created.
        """
        found = self._digest.result()
        if _identity(self._path) != self._before:
            raise FileRefused(
                self._path, "", "the file changed while it was read", "import it again when it is complete"
            )
        return found.of_import

    def details(self, reading: Reading) -> FileRead:
        """Return the file's digest and size, and how it was read. Waits until the whole file is hashed."""
        assumed = reading.assumed
        read_as = ReadAs(
            reading.format, reading.source, self._options.contract, assumed.tz, assumed.stamp, assumed.scale,
            assumed.volume, assumed.decimal, assumed.dates, assumed.bad_rows,
        )  # fmt: skip
        return FileRead(self._digest.result().of_bytes, self._before.size, reading.counts.rows, read_as)

    def _hash(self) -> _Digests:
        digest, buffer = hashlib.sha256(), memoryview(bytearray(_BUFFER_BYTES))
        with CountedFile(self._path) as file:
            while not self._stopped.is_set() and (got := file.readinto(buffer)):
                digest.update(buffer[:got])
        of, of_bytes = self._options, digest.hexdigest()
        options = of.contract, of.format, of.tz, of.stamp
        newer = of.volume, of.decimal, of.dates, of.bad_rows
        # without the newer options, the digest is that of earlier versions
        options += newer if any(newer) else ()
        digest.update(repr((self._path.name, *options)).encode())
        return _Digests(digest.hexdigest(), of_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopped.set()
        self._thread.shutdown()


def _identity(path: Path) -> _Identity:
    try:
        found = path.stat()
    except OSError as problem:
        raise FileRefused(path, "", f"cannot read the file: {problem.strerror}") from problem
    return _Identity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
