"""Brings a database to the schema of this program, through Alembic's migrations.

Rule kept: a database of a newer program is refused, never touched.
"""

from pathlib import Path

from sqlalchemy import Engine, inspect, text

HEAD = "0007"
_FOLDER = Path(__file__).parent / "migrations"


class SchemaTooNew(Exception):
    """The database was migrated by a newer Outcry."""


def current(engine: Engine) -> str | None:
    """The migration the database stands at; None for an empty one."""
    if not inspect(engine).has_table("alembic_version"):
        return None
    with engine.connect() as connection:
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def migrate(engine: Engine) -> bool:
    """Apply what is missing; return whether anything was. Raises `SchemaTooNew`."""
    at = current(engine)
    if at == HEAD:
        return False
    from alembic import command  # noqa: PLC0415 - a fifth of a second that a database in order need not pay
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if at is not None and at not in known:
        raise SchemaTooNew(
            f"the database stands at migration {at}, which this Outcry does not know: use a newer one"
        )
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return True
