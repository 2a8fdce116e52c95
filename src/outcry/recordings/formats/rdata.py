"""Detect R data files, complete or partial, to refuse them with an error that says how to export the data.

Only the first bytes are read, because R files can contain any object, not only tables.
"""

import bz2
import lzma
import re
import zlib
from pathlib import Path

from outcry.recordings.file_model import FileRefused

#: First bytes written by `save` and `saveRDS`: workspaces of two versions, binary or text, and single objects.
_MAGICS = (b"RDX2\n", b"RDX3\n", b"RDA2\n", b"RDA3\n", b"X\n\0\0\0", b"A\n2\n", b"A\n3\n")
_NAME = re.compile(
    r"\.(rdata|rda|rds)(?P<part>$|[._-]?(part)?[._-]?([0-9]+|(?!gz|xz|bz)[a-z]{2})$)", re.IGNORECASE
)
_BZIP2, _XZ, _GZIP = b"BZh", b"\xfd7zXZ\0", b"\x1f\x8b"
_PEEK = 64


def is_named_so(path: Path) -> bool:
    """Return whether a file name is that of an R data file, or of part of one."""
    return _NAME.search(path.name) is not None


def refuse_rdata(path: Path, head: bytes) -> None:
    """Raise `FileRefused` for an R data file or a part of one, and for a file compressed with bzip2 or xz.

    head: the first bytes of the file, not decompressed.
    """
    name = _NAME.search(path.name)
    start = _unpacked(head)
    if start.startswith(_MAGICS):
        part = "; this is the first part of several" if name and name["part"] else ""
        join = "join the parts, " if part else ""
        raise FileRefused(
            path, "byte 0", f"R data files are not supported{part}",
            f"{join}open it in R and save the table as text: write.csv(data, 'ESZ3.csv')",
        )  # fmt: skip
    if name and name["part"]:
        raise FileRefused(
            path, "byte 0", "this is part of an R data file",
            "join the parts, open the file in R and save the table as text: write.csv(data, 'ESZ3.csv')",
        )  # fmt: skip
    if head.startswith((_BZIP2, _XZ)):
        kind = "bzip2" if head.startswith(_BZIP2) else "xz"
        raise FileRefused(path, "byte 0", f"{kind} compression is not supported", "unpack the file first")


def _unpacked(head: bytes) -> bytes:
    """Decompress the beginning of a file. If it is uncompressed or damaged, return it unchanged."""
    try:
        if head.startswith(_BZIP2):
            return bz2.BZ2Decompressor().decompress(head, _PEEK) or head
        if head.startswith(_XZ):
            return lzma.LZMADecompressor().decompress(head, _PEEK) or head
        if head.startswith(_GZIP):
            return zlib.decompressobj(wbits=31).decompress(head, _PEEK) or head
    except (OSError, ValueError, EOFError, lzma.LZMAError, zlib.error):
        return head
    return head
