"""Read members of a zip safely.

Nothing is extracted to disk. One unsafe member is enough to refuse the whole zip. A member is unsafe if its name leads
out of the archive's folder, or if it is encrypted, a link, a duplicate or itself an archive. A zip is also refused if
its directory (list of members) is too large.
"""

import io
import stat
import zipfile
from pathlib import PurePosixPath
from typing import IO, cast

from outcry.recordings.file_model import FileRefused
from outcry.recordings.formats.archive import BoundedStream, CountedFile, NonClosingFile, read_exactly

#: Maximum bytes of the central directory: about 100,000 members.
DIRECTORY_LIMIT = 16 << 20
_END = b"PK\x05\x06"
_END64 = b"PK\x06\x06"
_END_REACH = 65_557
_ARCHIVES = (".zip", ".gz", ".zst", ".7z", ".rar", ".bz2", ".xz", ".tar", ".tgz", ".dbn", ".dbz")


def list_members(file: CountedFile) -> list[zipfile.ZipInfo]:
    """Return the members that are files. Raises `FileRefused` for a zip that is not safe to read."""
    _bound_directory(file)
    file.seek(0)
    with zipfile.ZipFile(cast("IO[bytes]", io.BufferedReader(NonClosingFile(file)))) as archive:
        infos = archive.infolist()
    seen: set[str] = set()
    for info in infos:
        problem = _problem(info, seen)
        if problem:
            shown = "".join(c if c.isprintable() else "?" for c in info.filename[:80])
            raise FileRefused(
                file.path, f"member {shown}", problem, "create the archive again without this member"
            )
        seen.add(info.filename)
    members = [info for info in infos if not info.is_dir()]
    if not members:
        raise FileRefused(file.path, "", "the archive is empty")
    return members


class ZipMembers:
    """Opens the members of one zip archive.

    All members share one limit of decompressed bytes, so members that overlap in the file cannot evade it.
    """

    def __init__(self) -> None:
        self._file: CountedFile | None = None
        self._archive: zipfile.ZipFile | None = None
        self._last: BoundedStream | None = None

    def open(self, file: CountedFile, name: str) -> io.RawIOBase:
        """Open a member; the bytes that it decompresses to count against the limit of the archive."""
        if self._archive is None or self._file is not file:
            file.seek(0)
            self._file, self._last = file, None
            self._archive = zipfile.ZipFile(cast("IO[bytes]", io.BufferedReader(NonClosingFile(file))))
        spent = self._last.given if self._last else 0
        self._last = BoundedStream(self._archive.open(name), file.path, lambda: file.size, f"member {name}")
        self._last.given = spent
        return self._last


def _problem(info: zipfile.ZipInfo, seen: set[str]) -> str:
    name = info.orig_filename.replace("\\", "/")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or (len(name) > 1 and name[1] == ":"):
        return "the member's name points outside the archive"
    if info.flag_bits & 1:
        return "the member is encrypted"
    if info.filename in seen:
        return "the archive has two members with this name"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "the member is a symbolic link"
    if name.lower().endswith(_ARCHIVES):
        return "the member is itself an archive"
    return ""


def _bound_directory(file: CountedFile) -> None:
    """Refuse a zip whose directory (list of members) is too large for memory.

    Its size comes from the end record of the zip, the same one that Python's zip reader uses.
    """
    file.seek(max(0, file.size - _END_REACH))
    tail = read_exactly(file, _END_REACH)
    at = tail.rfind(_END)
    if at < 0 or len(tail) < at + 22:
        raise FileRefused(file.path, "the end", "the archive has no directory; it is cut short",
                          "download it again")  # fmt: skip
    size = int.from_bytes(tail[at + 12 : at + 16], "little")
    wide = tail.rfind(_END64, 0, at)
    if wide >= 0:
        size = max(size if size != 0xFFFFFFFF else 0, int.from_bytes(tail[wide + 40 : wide + 48], "little"))
    if size > DIRECTORY_LIMIT:
        raise FileRefused(file.path, "the end", f"the archive's directory has {size:,} bytes, which is too large",
                          "the archive is not read")  # fmt: skip
