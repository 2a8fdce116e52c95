"""Connections and transactions of SQLite and PostgreSQL, through SQLAlchemy Core.

Each write is one transaction. A revision is a counter by which processes notice changes. Transactions that increment a
revision run one at a time, across all processes. On PostgreSQL, all other transactions run concurrently if they touch
different rows; they take their locks in one order (`lock_order`). Errors of the database driver become `StoreBusy`.
"""

import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal, cast

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from outcry.database import schema
from outcry.database.errors import StoreBusy

BUSY_SECONDS = 5.0
DATABASE_FILE = "outcry.sqlite3"
#: Which revision a transaction increments: that of answers (sessions, keys, grants), that of people (sign-ins and
#: personal settings), or none. A sign-in must not invalidate every cached answer.
ChangeScope = Literal["answers", "people", "nothing"]


def sqlite_url(folder: Path) -> URL:
    """Return the URL of the database in a data folder."""
    return URL.create("sqlite", database=str(folder / DATABASE_FILE))


def open_engine(url: URL | str) -> Engine:
    """Create an engine for SQLite or PostgreSQL (`postgresql://…`) that connects lazily.

    Raises `ValueError` for other databases.

    SQLite runs in write-ahead mode: readers and the writer do not block each other, and a commit is on disk before it
    is reported.

    """
    url = make_url(url)
    if url.get_backend_name() == "postgresql":
        from outcry.database.postgresql import open_postgresql  # noqa: PLC0415 - the driver comes with an extra

        return open_postgresql(url)
    if url.get_backend_name() != "sqlite":
        raise ValueError("neither SQLite nor PostgreSQL")
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False})

    def on_connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # SQLAlchemy's own BEGIN, below, decides when a transaction starts
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
            connection.execute(f"PRAGMA {pragma}")

    def on_begin(connection: Connection) -> None:
        mode = connection.get_execution_options().get("sqlite_begin", "BEGIN")
        connection.exec_driver_sql(mode)

    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", on_begin)
    return engine


def open_to_read(uri: str) -> Engine:
    """Create a read-only engine for a SQLite file given by a `file:` URI."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)
        connection.execute("PRAGMA query_only = ON")
        return connection

    return create_engine("sqlite://", creator=connect, poolclass=QueuePool)


class Database:
    """The database of one process: its connections and its write lock.

    `stalled`: returns whether the disk of a SQLite database does not respond. Calls then fail at once; otherwise their
    threads would block until the disk responds.
    """

    def __init__(self, engine: Engine, stalled: Callable[[], bool] = lambda: False) -> None:
        self._engine = engine
        self._is_sqlite = engine.dialect.name == "sqlite"
        self._stalled = stalled
        self._driver_error: type[Exception] = engine.dialect.loaded_dbapi.Error
        self._writing: AbstractContextManager[Any] = threading.Lock() if self._is_sqlite else nullcontext()

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """Open a connection for reading."""
        self._check_disk()
        try:
            with self._engine.connect() as connection:
                yield connection
        except (SQLAlchemyError, UnicodeDecodeError) as problem:  # raised for text in a damaged SQLite file
            raise busy(problem) from problem

    @contextmanager
    def write(
        self, moves: ChangeScope = "answers", *, patience_s: float | None = None
    ) -> Generator[Connection]:
        """Run one transaction, which also increments a revision (counter of changes).

        `moves`: which revision, if any: of data that API answers depend on (`answers`), or of users and their settings
        (`people`). `patience_s`: how long each statement may take on PostgreSQL, if longer than the usual three
        seconds.
        """
        counter = {"answers": schema.revision.c.n, "people": schema.revision.c.people}.get(moves)
        self._check_disk()
        try:
            with self._writing, self._engine.connect() as raw:
                connection = raw.execution_options(sqlite_begin="BEGIN IMMEDIATE")
                with connection.begin():
                    if patience_s is not None:
                        be_patient(connection, patience_s)
                    if counter is not None:
                        # First statement, because this row is the write lock, also on PostgreSQL. No concurrent
                        # transaction can change data that this one reads.
                        connection.execute(update(schema.revision).values({counter: counter + 1}))
                    yield connection
        except (SQLAlchemyError, UnicodeDecodeError) as problem:  # raised for text in a damaged SQLite file
            raise busy(problem) from problem

    def _check_disk(self) -> None:
        if self._is_sqlite and self._stalled():
            raise StoreBusy("the disk of the database does not respond")

    def persistent_connection(self, patience_s: float) -> Connection | None:
        """Open a dedicated connection that the caller closes; None on SQLite.

        While the connection is open, PostgreSQL knows that the process is alive. If the server does not respond, the
        call fails after `patience_s` seconds. Raises SQLAlchemy's errors.
        """
        if self._is_sqlite:
            return None
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        driver: Any = connection.connection.driver_connection
        driver.patience_s = patience_s
        return connection

    def scrub(self) -> None:
        """Remove overwritten and deleted data, such as secrets, from SQLite's write-ahead log, if no reader uses it.

        PostgreSQL removes old rows only by its own vacuum.
        """
        with self.reading() as connection:
            driver: Any = connection.connection.driver_connection
            if self._is_sqlite:
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def revision(self) -> int:
        """Return the revision of answers, a counter incremented by every transaction that can change an answer."""
        return self._revisions()[0]

    def revision_of_all(self) -> int:
        """Return the sum of both revision counters, which changes with each change of either."""
        return sum(self._revisions())

    def _revisions(self) -> tuple[int, int]:
        """Return both revision counters: that of data in answers, and that of users and their settings."""
        return cast("tuple[int, int]", self.polled("SELECT n, people FROM revision"))

    def polled(self, query: str) -> tuple[Any, ...] | None:
        """Run a query that a process repeats several times a second; return its first row, None if there is none.

        The method uses the driver's connection. SQLAlchemy would hold Python's global interpreter lock ten times as
        long, which delays requests.
        """
        self._check_disk()
        try:
            connection = self._engine.raw_connection()
            try:
                cursor = connection.cursor()
                cursor.execute(query)
                row = cursor.fetchone()
                cursor.close()
            finally:
                connection.close()
        except (SQLAlchemyError, self._driver_error) as problem:
            raise busy(problem) from problem
        return None if row is None else tuple(row)


def be_patient(connection: Connection, patience_s: float) -> None:
    """Set how long each statement of a transaction may take on PostgreSQL."""
    if connection.dialect.name == "postgresql":
        from outcry.database.postgresql import let_take  # noqa: PLC0415 - the driver comes with an extra

        let_take(connection, patience_s)


def new_id(done: Any) -> int:
    """Return the id that the database assigned to an inserted row."""
    return int(done.inserted_primary_key[0])


def busy(problem: Exception) -> StoreBusy:
    """Translate a driver's error into `StoreBusy`."""
    cause = problem.orig if isinstance(problem, DBAPIError) and problem.orig else problem
    return StoreBusy(f"the database failed: {cause}")
