"""Create a database with the schema of this version, or migrate an older one with Alembic.

A database of a newer version is refused unchanged. If several processes start at once, one migrates and the others
wait. A migration only adds tables, columns and rows, so that running processes of the previous version keep working
during a rolling upgrade.
"""

from pathlib import Path

from sqlalchemy import (
    Connection,
    Engine,
    inspect,
    text,
)
from sqlalchemy.exc import DBAPIError

from outcry.database import schema
from outcry.database.database import be_patient
from outcry.database.errors import StoreBusy
from outcry.database.lock_order import lock_migration
from outcry.database.naming import metadata

HEAD = "0016"
_FOLDER = Path(__file__).parent / "migrations"
#: Migrating a big table takes long, and other processes wait for it.
_PATIENCE_S = 3600.0
#: The table in which Alembic stores the migration that a database is at.
_VERSION_TABLE = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
#: By default, users see the operator's completed sessions a day after their close.
_DAY_NS = 24 * 3600 * 1_000_000_000


class SchemaTooNew(Exception):
    """A newer version of Outcry migrated the database."""


class NotUnicode(Exception):
    """The encoding of the database does not support every text."""


def current(engine: Engine) -> str | None:
    """Return the id of the migration that a database is at; None for an empty one."""
    with engine.connect() as connection:
        return _current(connection)


def prepare(engine: Engine) -> None:
    """Migrate a database at the start of a process. Raises as `migrate` does, and `StoreBusy` if it does not open."""
    try:
        migrate(engine)
    except (DBAPIError, UnicodeDecodeError) as problem:
        hint = (
            "Check that it is an Outcry database and that its folder is writable, or restore it from a backup."
            if engine.dialect.name == "sqlite"
            else "Check OUTCRY_DATABASE_URL and that the server is running."
        )
        cause = problem.orig if isinstance(problem, DBAPIError) else problem
        raise StoreBusy(f"The database cannot be opened: {str(cause).strip()}. {hint}") from problem


def migrate(engine: Engine) -> bool:
    """Create the tables of an empty database, or apply missing migrations; return whether there was anything to do.

    Raises `SchemaTooNew` and `NotUnicode`.
    """
    if current(engine) == HEAD:
        return False
    with engine.execution_options(sqlite_begin="BEGIN IMMEDIATE").connect() as connection, connection.begin():
        be_patient(connection, _PATIENCE_S)
        lock_migration(connection)
        _check_encoding(connection)
        at = _current(connection)  # another process may have migrated while this one waited
        if at is None:
            _create(connection)
        elif at != HEAD:
            _upgrade(connection, at)
    return at != HEAD


def _create(connection: Connection) -> None:
    """Create all tables at once, with the rows that the migrations would insert.

    A test checks that the migrations give the same result.
    """
    metadata.create_all(connection, checkfirst=False)
    connection.execute(schema.revision.insert().values(n=1))
    first_grant = {
        "grantee": "everyone",
        "scope": "completed",
        "roots": "",
        "embargo_ns": _DAY_NS,
        "created_ns": 0,
    }
    connection.execute(schema.grants.insert().values(first_grant))
    connection.execute(text(_VERSION_TABLE))
    connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})


def _upgrade(connection: Connection, at: str) -> None:
    """Apply the migrations after the migration `at`. Raises `SchemaTooNew` if this version does not know `at`."""
    from alembic import command  # noqa: PLC0415 - takes 0.2 s, which other databases need not pay
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    if at not in {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}:
        raise SchemaTooNew(
            f"the database stands at migration {at}, which this Outcry does not know: use a newer one"
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _check_encoding(connection: Connection) -> None:
    """Check PostgreSQL's encoding, which is chosen when a database is created. SQLite always uses Unicode."""
    if connection.dialect.name == "postgresql":
        encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
        if encoding != "UTF8":
            raise NotUnicode(
                f"the database's encoding is {encoding}, in which not every text can be kept: make one in UTF8, by "
                "`createdb -T template0 -E UTF8 NAME`"
            )


def _current(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
