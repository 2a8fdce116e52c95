"""The operator's own tables of instruments: the files in `instruments/` of the data folder.

Several tables are replaced as one. The new texts are first written to one file, `update.json`. Once that file has its
name, the update counts, and each table is replaced. Readers apply an interrupted update, so they see either all earlier
or all new tables. A text editor does not lock the tables.
"""

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from outcry.base import portable_files
from outcry.market.reference_rows import BadReference

__all__ = [
    "ACTIVITY", "HOLIDAYS", "INSTRUMENTS_FOLDER", "PRODUCTS", "SESSIONS", "TABLES", "OwnTables", "TablesChanged",
    "TablesInUse", "finish_update", "read_own_tables", "replace_tables",
]  # fmt: skip

#: Folder of the operator's own tables, in the data folder.
INSTRUMENTS_FOLDER = "instruments"
PRODUCTS, SESSIONS, HOLIDAYS, ACTIVITY = "products.csv", "sessions.csv", "holidays.csv", "activity.csv"
TABLES = (PRODUCTS, SESSIONS, HOLIDAYS, ACTIVITY)
_UPDATE, _LOCK = "update.json", "instruments.lock"
#: A text editor or another process may replace tables while they are read; then they are read again.
_TRIES = 20


class TablesInUse(Exception):
    """Another process is writing the tables."""

    def __init__(self, place: Path) -> None:
        super().__init__(f"Another process is writing the tables in {place}. Try again in a moment.")


class TablesChanged(Exception):
    """The tables are not those on which a change was based. The change was not saved."""

    def __init__(self, place: Path) -> None:
        super().__init__(f"The tables in {place} were changed meanwhile. Nothing was saved.")


@dataclass(frozen=True, slots=True)
class OwnTables:
    """The texts of the operator's tables by file name, as one consistent state. version: digest of all texts."""

    texts: Mapping[str, str]

    @property
    def version(self) -> str:
        """Return a digest that differs if any table differs. Without tables it is that of no text."""
        return _digest(json.dumps(sorted(self.texts.items())).encode())


@dataclass(frozen=True, slots=True)
class _Replaced:
    """A table in an update: the digest of its bytes before (None if there was no file), and its new text."""

    before: str | None
    text: str


def read_own_tables(folder: Path) -> OwnTables:
    """Read the operator's tables of a data folder. An interrupted update is applied to the result, not to the files.

    Raises `BadReference` for a file with an unknown name, which would have no effect, for text that is not UTF-8, and
    for a table that was edited after an interrupted update.
    """
    place = folder / INSTRUMENTS_FOLDER
    found = _files(place)
    for _ in range(_TRIES):
        again = _files(place)
        if again == found:
            break
        found = again
    update = _parsed(place, found.pop(_UPDATE, None))
    texts = {name: _text(place / name, data) for name, data in found.items()}
    for name, replaced in update.items():
        data = found.get(name)
        digest = None if data is None else _digest(data)
        if digest not in (replaced.before, _digest(replaced.text.encode())):
            raise BadReference(
                str(place / name),
                1,
                f"the table was edited after an interrupted update; delete {place / _UPDATE} to use the files as they "
                "are",
            )
        texts[name] = replaced.text
    return OwnTables(texts)


def replace_tables(folder: Path, texts: Mapping[str, str], based_on: str | None = None) -> tuple[Path, ...]:
    """Replace tables of a data folder by new texts, all or none; return their paths.

    texts: by file name, such as `products.csv`. based_on: the `version` of the tables that were changed; None for any.
    Raises `TablesChanged` if they have another version now, `TablesInUse`, `BadReference` as `read_own_tables` does,
    and `OSError`. After an `OSError` either no table or every table is replaced.
    """
    place = folder / INSTRUMENTS_FOLDER
    place.mkdir(parents=True, exist_ok=True)
    with _locked(place):
        _finish(folder)
        if based_on is not None and read_own_tables(folder).version != based_on:
            raise TablesChanged(place)
        before = _files(place)
        digests = {name: _digest(before[name]) if name in before else None for name in texts}
        update = {name: {"before": digests[name], "text": text} for name, text in texts.items()}
        _write(place / _UPDATE, json.dumps(update).encode())
        _finish(folder)
    return tuple(place / name for name in texts)


def finish_update(folder: Path) -> None:
    """Complete an update of the tables that was interrupted, if there is one.

    An update that another process is writing is left to it. Raises `BadReference` as `read_own_tables` does.
    """
    place = folder / INSTRUMENTS_FOLDER
    if not (place / _UPDATE).exists():
        return
    try:
        with _locked(place):
            _finish(folder)
    except (TablesInUse, PermissionError):
        return  # readers apply the update anyhow


def _finish(folder: Path) -> None:
    place = folder / INSTRUMENTS_FOLDER
    data = _files(place).get(_UPDATE)
    if data is None:
        return
    texts = read_own_tables(folder).texts
    for name in _parsed(place, data):
        _write(place / name, texts[name].encode())
    portable_files.remove(place / _UPDATE)
    portable_files.sync_folder(place)


@contextmanager
def _locked(place: Path) -> Generator[None]:
    from outcry.base.file_lock import exclusive_lock  # noqa: PLC0415 - the library reads tables without this extra

    with exclusive_lock(place.parent / _LOCK, TablesInUse(place)):
        yield


def _files(place: Path) -> dict[str, bytes]:
    """Return the contents of the tables and of an update. Raises `BadReference` for an unknown table."""
    found: dict[str, bytes] = {}
    for path in sorted(place.glob("*.csv")):
        if path.name not in TABLES:
            raise BadReference(str(path), 1, f"the table has an unknown name; use {', '.join(TABLES)}")
    for name in (_UPDATE, *TABLES):
        try:
            found[name] = (place / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found


def _parsed(place: Path, data: bytes | None) -> dict[str, _Replaced]:
    """Return the tables of an update by file name; none without an update. Raises `BadReference`."""
    if data is None:
        return {}
    file = str(place / _UPDATE)
    try:
        tables: dict[str, dict[str, Any]] = json.loads(data)
        update = {name: _Replaced(one["before"], str(one["text"])) for name, one in tables.items()}
    except (ValueError, TypeError, LookupError, AttributeError) as problem:
        raise BadReference(file, 1, "is not an update of tables; delete it") from problem
    for name in update.keys() - set(TABLES):
        raise BadReference(file, 1, f"names the unknown table {name!r}; delete it")
    return update


def _write(path: Path, data: bytes) -> None:
    """Replace a file. Its new bytes and its name are on disk afterwards."""
    draft = path.with_name(f"{path.name}.new")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        portable_files.replace(draft, path)
    finally:
        portable_files.remove(draft)
    portable_files.sync_folder(path.parent)


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise BadReference(str(path), 1, "the file is not UTF-8 text") from problem


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
