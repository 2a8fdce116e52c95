"""Migrate a database to the schema of this version, with Alembic.

A database of a newer version is refused unchanged. If several processes start at once, one migrates and the others
wait. A migration only adds, so that running processes of the previous version keep working during a rolling upgrade.
"""

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError

from outcry.database.database import be_patient
from outcry.database.errors import StoreBusy
from outcry.database.lock_order import lock_migration

HEAD = "0010"
_FOLDER = Path(__file__).parent / "migrations"
#: Migrating a big table takes long, and other processes wait for it.
_PATIENCE_S = 3600.0


class SchemaTooNew(Exception):
    """A newer version of Outcry migrated the database."""


class NotUnicode(Exception):
    """The encoding of the database does not support every text."""


def current(engine: Engine) -> str | None:
    """Return the id of the migration that a database is at; None for an empty one."""
    with engine.connect() as connection:
        return _current(connection)


def prepare(engine: Engine) -> None:
    """Migrate a database that is being opened. Raises as `migrate` does, and `StoreBusy` if it cannot be opened."""
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
    """Apply missing migrations; return whether there were any. Raises `SchemaTooNew` and `NotUnicode`."""
    if current(engine) == HEAD:
        return False
    from alembic import command  # noqa: PLC0415 - takes 0.2 s, which an up-to-date database need not pay
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    with engine.execution_options(sqlite_begin="BEGIN IMMEDIATE").connect() as connection, connection.begin():
        be_patient(connection, _PATIENCE_S)
        lock_migration(connection)
        _check_encoding(connection)
        at = _current(connection)  # another process may have migrated while this one waited
        if at is not None and at not in known:
            raise SchemaTooNew(
                f"the database stands at migration {at}, which this Outcry does not know: use a newer one"
            )
        if at != HEAD:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    return at != HEAD


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
