"""Migrated databases for tests, of each engine, with any number of connections."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine
from support.engines.postgres import Postgres

from outcry.database import migrate as migration
from outcry.database.database import DATABASE_FILE, Database, open_engine, sqlite_url

SCRIPTS = Path(migration.__file__).parent / "migrations"
KINDS = ("sqlite", "postgresql")


class Place:
    """Location of a test database; closing it closes all engines opened from it."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self.url = url
        self._stack = stack

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite")

    def engine(self) -> Engine:
        """Return an engine with its own connections, as in a separate process."""
        engine = open_engine(self.url)
        self._stack.callback(engine.dispose)
        return engine

    def open(self) -> Database:
        """Return a database of the stores over such an engine."""
        return Database(self.engine())


class Places:
    """Factory of databases that copies a migrated template, which is faster than migrating each."""

    def __init__(self, folder: Path, postgres: Callable[[], Postgres]) -> None:
        self._folder = folder
        self._postgres = postgres
        self._templates: dict[str, str] = {}

    @contextmanager
    def place(self, kind: str, folder: Path, *, migrated: bool = True) -> Iterator[Place]:
        """Create a database; `folder`: of its file if it has one; `migrated`: with the schema, otherwise empty."""
        make = self._sqlite if kind == "sqlite" else self._postgresql
        with ExitStack() as stack:
            yield Place(make(folder, stack, migrated=migrated), stack)

    def _sqlite(self, folder: Path, _stack: ExitStack, *, migrated: bool) -> str:
        if migrated:
            if "sqlite" not in self._templates:
                self._templates["sqlite"] = self._migrated(str(sqlite_url(self._folder)))
            shutil.copy(self._folder / DATABASE_FILE, folder / DATABASE_FILE)
        return str(sqlite_url(folder))

    def _postgresql(self, _folder: Path, stack: ExitStack, *, migrated: bool) -> str:
        server, template = self._postgres(), "template0"
        if migrated:
            if "postgresql" not in self._templates:
                name = server.database()
                self._migrated(server.url(name))
                self._templates["postgresql"] = name
            template = self._templates["postgresql"]
        name = server.database(template)
        stack.callback(server.drop, name)
        # The URL as users write it; our code chooses the driver.
        return server.url(name).replace("+psycopg", "")

    def _migrated(self, url: str) -> str:
        engine = open_engine(url)
        migration.migrate(engine)
        engine.dispose()
        return url


def upgrade(engine: Engine, revision: str) -> None:
    """Migrate an empty database to the schema of an earlier version."""
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
