"""A connection to SQLite or PostgreSQL through SQLAlchemy Core, as every store here uses it.

Rules kept: each write is one transaction; those that move a revision on go one at a time, whichever process they are
of. The others, on PostgreSQL, go at the same time as far as they touch different rows: each holds first what it goes by
(`store.turns`), in one order that all keep to. Driver errors leave as `StoreBusy`, never as themselves.
"""

import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, select, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from outcry.database import schema
from outcry.database.errors import StoreBusy

BUSY_SECONDS = 5.0
DATABASE_FILE = "outcry.sqlite3"
#: What a transaction lets other processes see changed: what answers rest on (sessions of the market, keys, grants), who
#: is signed in and what people keep for themselves, or nothing. A sign-in must not have every answer computed anew.
Moves = Literal["answers", "people", "nothing"]


def sqlite_url(folder: Path) -> URL:
    """The address of the database of a data folder."""
    return URL.create("sqlite", database=str(folder / DATABASE_FILE))


def open_engine(url: URL | str) -> Engine:
    """Connect lazily, to SQLite or PostgreSQL (`postgresql://…`); raises `ValueError` for another database.

    SQLite runs in write-ahead mode: readers and the one writer do not wait for each other, and a commit is on disk
    before it is reported."""
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
    """Connect lazily to a SQLite file by a `file:` URI, for reading only."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)
        connection.execute("PRAGMA query_only = ON")
        return connection

    return create_engine("sqlite://", creator=connect, poolclass=QueuePool)


class Database:
    """What the stores of one process share: its connections, and the turn to write. stalled: whether the disk of a
    SQLite database hangs; it is not asked for anything then, since a thread that waits for it can do nothing else."""

    def __init__(self, engine: Engine, stalled: Callable[[], bool] = lambda: False) -> None:
        self._engine = engine
        self._is_sqlite = engine.dialect.name == "sqlite"
        self._stalled = stalled
        self._writing: AbstractContextManager[Any] = threading.Lock() if self._is_sqlite else nullcontext()

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """A connection to read with."""
        self._check_disk()
        try:
            with self._engine.connect() as connection:
                yield connection
        except (SQLAlchemyError, UnicodeDecodeError) as problem:  # SQLite decodes what a damaged file holds
            raise busy(problem) from problem

    @contextmanager
    def write(self, moves: Moves = "answers", *, patience_s: float | None = None) -> Generator[Connection]:
        """One transaction, which also moves the revision on that it should. `patience_s`: how long one of its
        statements may take on PostgreSQL, where that is more than the usual three seconds."""
        counter = {"answers": schema.revision.c.n, "people": schema.revision.c.people}.get(moves)
        self._check_disk()
        try:
            with self._writing, self._engine.connect() as raw:
                connection = raw.execution_options(sqlite_begin="BEGIN IMMEDIATE")
                with connection.begin():
                    if patience_s is not None:
                        be_patient(connection, patience_s)
                    if counter is not None:
                        # First, for whoever holds this row has the turn to write, on PostgreSQL too: what is read
                        # in the transaction holds until it ends.
                        connection.execute(update(schema.revision).values({counter: counter + 1}))
                    yield connection
        except (SQLAlchemyError, UnicodeDecodeError) as problem:  # SQLite decodes what a damaged file holds
            raise busy(problem) from problem

    def _check_disk(self) -> None:
        if self._is_sqlite and self._stalled():
            raise StoreBusy("the disk of the database does not respond")

    def kept_open(self, patience_s: float) -> Connection | None:
        """A connection of the caller's own, to be kept and closed by it: PostgreSQL knows by that who is there; None
        of SQLite, which does not. It bears a server that is silent for so long. Raises SQLAlchemy's errors."""
        if self._is_sqlite:
            return None
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        driver: Any = connection.connection.driver_connection
        driver.patience_s = patience_s
        return connection

    def scrub(self) -> None:
        """Have what was overwritten or removed leave SQLite's write-ahead log too, as far as no reader is in it now;
        else it goes with the next look at the log. PostgreSQL keeps old rows until it vacuums."""
        with self.reading() as connection:
            driver: Any = connection.connection.driver_connection
            if self._is_sqlite:
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def revision(self) -> int:
        """The number that every transaction moves on by which an answer may change."""
        with self.reading() as connection:
            return connection.execute(select(schema.revision.c.n)).scalar_one()

    def revision_of_all(self) -> int:
        """The number that every transaction moves on but those that move nothing. Both counters only grow, so their
        sum is never the same again."""
        both = schema.revision.c.n + schema.revision.c.people
        with self.reading() as connection:
            return connection.execute(select(both)).scalar_one()


def be_patient(connection: Connection, patience_s: float) -> None:
    """Let each statement of this transaction take so long on PostgreSQL."""
    if connection.dialect.name == "postgresql":
        from outcry.database.postgresql import let_take  # noqa: PLC0415 - the driver comes with an extra

        let_take(connection, patience_s)


def new_id(done: Any) -> int:
    """The number the database gave the row just inserted."""
    return int(done.inserted_primary_key[0])


def busy(problem: SQLAlchemyError | UnicodeDecodeError) -> StoreBusy:
    """As what a driver's error leaves."""
    said = problem.orig if isinstance(problem, DBAPIError) and problem.orig else problem
    return StoreBusy(f"the database did not do as asked: {said}")
