"""An installation opened to be looked at: nothing is created, migrated, locked for writing or changed.

SQLite's write-ahead mode wants to create files beside the database even to read it. So a database that nothing has open
is read as immutable, and one in use with `mode=ro`. A private copy is read where neither works (a read-only folder
after a crash), or where the schema is older than this program's.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from outcry.settings import Settings
from outcry.store.database import DATABASE_FILE, Database, open_engine, open_to_read, sqlite_url
from outcry.store.migrate import HEAD, current, migrate
from outcry.store.sql import SqlStore
from outcry.store.tape import TapeFolder
from outcry.wiring.house import LOG_FOLDER

TAPE_FOLDER = "tape"
_BESIDE = ("-wal", "-shm")


class NoInstallation(Exception):
    """A folder holds no Outcry, or has lost its database: says what to do."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """An installation as it is. `migration`: of the database as found; `is_copy`: a migrated copy is looked at."""

    settings: Settings
    engine: Engine
    database: Database
    store: SqlStore
    tape: TapeFolder
    migration: str | None
    is_copy: bool


def check_installed(settings: Settings) -> None:
    """Raise `NoInstallation` for a folder without a database that could have been in use."""
    folder, database = settings.folder, settings.folder / DATABASE_FILE
    if settings.database_url:
        if not folder.is_dir():
            raise NoInstallation(
                f"there is no folder {folder}: name the data folder with --data or OUTCRY_DATA"
            )
        return
    if database.is_file() and database.stat().st_size:
        return
    missing = "is empty" if database.exists() else "is missing"
    left = [
        name
        for name in (TAPE_FOLDER, LOG_FOLDER)
        if (folder / name).is_dir() and any((folder / name).iterdir())
    ]
    if left:
        raise NoInstallation(
            f"the database {database} {missing}, though {folder} holds {' and '.join(left)}: restore it from a backup "
            "before anything else is started on this folder"
        )
    raise NoInstallation(
        f"{folder} holds no installation of Outcry ({DATABASE_FILE} {missing}): name the data folder with --data or "
        "OUTCRY_DATA; `outcry import` and `outcry serve` create a new one"
    )


@contextmanager
def inspect_installation(settings: Settings) -> Generator[Inspection]:
    """Open an installation to look at it. Raises `NoInstallation`, `SchemaTooNew`, and the database's own errors."""
    check_installed(settings)
    tape = TapeFolder(settings.folder / TAPE_FOLDER)
    if settings.database_url:
        engine = open_engine(settings.database_url)
        database = Database(engine)
        try:
            yield Inspection(
                settings, engine, database, SqlStore(database), tape, current(engine), is_copy=False
            )
        finally:
            database.close()
        return
    with (
        tempfile.TemporaryDirectory(prefix="outcry-") as spare,
        readable(settings.folder, Path(spare)) as uri,
    ):
        engine = open_to_read(uri)
        found = current(engine)
        is_copy = found is not None and found != HEAD
        if is_copy:
            engine.dispose()
            engine = _migrated_copy(uri, Path(spare) / "migrated")
        database = Database(engine)
        try:
            yield Inspection(settings, engine, database, SqlStore(database), tape, found, is_copy)
        finally:
            database.close()


@contextmanager
def readable(folder: Path, spare: Path) -> Generator[str]:
    """The URI by which the database of a folder can be read without a change in the folder. spare: for a copy."""
    path = folder / DATABASE_FILE
    if not any(path.with_name(path.name + end).exists() for end in _BESIDE):
        yield f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        return
    uri = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as tried:
            tried.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.OperationalError:  # the folder is read-only, and there is a write-ahead log to be read
        copy = spare / DATABASE_FILE
        for end in ("", "-wal"):
            source = path.with_name(path.name + end)
            if source.exists():
                shutil.copyfile(source, copy.with_name(copy.name + end))
        uri = f"{copy.as_uri()}?mode=ro"
    yield uri


def _migrated_copy(uri: str, folder: Path) -> Engine:
    folder.mkdir()
    with (
        closing(sqlite3.connect(uri, uri=True)) as source,
        closing(sqlite3.connect(folder / DATABASE_FILE)) as copy,
    ):
        source.backup(copy)
    engine = open_engine(sqlite_url(folder))
    migrate(engine)
    return engine
