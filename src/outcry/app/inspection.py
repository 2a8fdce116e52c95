"""Open an installation for inspection: nothing is created, migrated, locked for writing or changed.

In write-ahead mode SQLite creates files beside the database, even to read it. So a database that no process has open is
read as immutable, and one in use with `mode=ro`. If neither works (in a read-only folder after a crash), or if the
schema is older than this program's, a private copy is read.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from outcry.app.installation import LOG_FOLDER
from outcry.app.settings import Settings
from outcry.database.database import DATABASE_FILE, Database, open_engine, open_to_read, sqlite_url
from outcry.database.migrate import HEAD, current, migrate
from outcry.recordings.tape import TapeFolder
from outcry.sessions.store import SqlStore

TAPE_FOLDER = "tape"
_BESIDE = ("-wal", "-shm")


class NoInstallation(Exception):
    """A folder has no Outcry installation, or its database is missing. The message names the remedy."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """An installation opened for reading only.

    migration: of the original database; is_copy: a migrated copy is open.
    """

    settings: Settings
    engine: Engine
    database: Database
    store: SqlStore
    tape: TapeFolder
    migration: str | None
    is_copy: bool


def check_installed(settings: Settings) -> None:
    """Raise `NoInstallation` if the data folder has no database, or an empty one."""
    folder, database = settings.folder, settings.folder / DATABASE_FILE
    if settings.database_url:
        if not folder.is_dir():
            raise NoInstallation(
                f"Data folder {folder} does not exist. Name the data folder with --data or OUTCRY_DATA."
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
            f"The database {database} {missing}, although {folder} contains {' and '.join(left)}. Restore it from a "
            "backup before you start anything else on this folder."
        )
    raise NoInstallation(
        f"{folder} is not an Outcry data folder ({DATABASE_FILE} {missing}). Name the data folder with --data or "
        "OUTCRY_DATA. To create a new one, run `outcry serve` or `outcry import`."
    )


@contextmanager
def inspect_installation(settings: Settings) -> Generator[Inspection]:
    """Open an installation for reading. Raises `NoInstallation`, `SchemaTooNew`, and errors of the database."""
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
    """Yield a URI under which the database can be read without changing the folder.

    spare: folder for a copy, if one is needed.
    """
    path = folder / DATABASE_FILE
    if not any(path.with_name(path.name + end).exists() for end in _BESIDE):
        yield f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        return
    uri = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as tried:
            tried.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.OperationalError:  # SQLite cannot read a write-ahead log in a read-only folder
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
