"""Find the import that a user names: by path, file name, or the beginning of an id or digest."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from outcry.base.timestamps import iso_timestamp
from outcry.recordings.file_model import shown
from outcry.sessions.store_model import ImportRow

#: Number of characters of an import's digest that serve as its id.
ID_LENGTH = 12
_BEGINNING = re.compile(r"[0-9a-f]{6,64}")


class UnknownImport(Exception):
    """No import, or more than one, has this name. The message names the imports that might be meant."""


def import_id(row: ImportRow) -> str:
    """Return the id of an import: the beginning of its digest."""
    return row.digest[:ID_LENGTH]


def chosen_import(named: str, imports: Sequence[ImportRow]) -> ImportRow:
    """Return the import that `named` means: a path, a file name, or at least six characters of an id or digest.

    The path of a file means the import of these bytes, under any name; imports by versions that did not store a digest
    of the bytes are compared by name. Raises `UnknownImport`, and `OSError` if the file cannot be read.
    """
    path = Path(named)
    same_name = [row for row in imports if row.name == path.name]
    found = same_name
    if path.is_file():
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        found = [row for row in imports if row.file.sha256 == sha256]
        found = found or [row for row in same_name if not row.file.sha256]
        if not found and same_name:  # it may be another file, or the same one at another time
            raise UnknownImport(
                f"{shown(named)} was not imported with the bytes that it has now. Name an import by its id:"
                f"{_lines(same_name)}"
            )
    if not found and _BEGINNING.fullmatch(named.lower()):
        start = named.lower()
        found = [row for row in imports if row.digest.startswith(start) or row.file.sha256.startswith(start)]
    if not found:
        raise UnknownImport(
            f"No import is named {shown(named)}. List the imports with `outcry import --list`."
        )
    if len(found) > 1:
        raise UnknownImport(
            f"{shown(named)} matches {len(found)} imports. Name one by its id:{_lines(found)}"
        )
    return found[0]


def _lines(imports: Sequence[ImportRow]) -> str:
    return "".join(f"\n  {import_id(row)}  {described(row)}" for row in imports)


def described(row: ImportRow) -> str:
    """Describe an import in one line: its file, when it was imported, and how it was read."""
    return f"{shown(row.name)}, imported {iso_timestamp(row.at_ns)}{read_with(row)}"


def read_with(row: ImportRow) -> str:
    """Return how a file was read, as options: ` (--contract ESZ3 --tz UTC --stamp close)`; empty without any."""
    read = row.file.read_as
    if read is None:
        return ""
    options = {
        "--contract": read.contract, "--tz": read.tz, "--stamp": read.stamp, "price scale": read.scale,
        "--volume": read.volume, "--decimal": read.decimal, "--dates": read.dates, "--bad-rows": read.bad_rows,
    }  # fmt: skip
    text = " ".join(f"{name} {value}" for name, value in options.items() if value is not None)
    return f" ({text})" if text else ""
