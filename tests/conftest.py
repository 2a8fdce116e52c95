"""Fixtures of every suite: folders of temporary files and shared data, and a migrated database to copy."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import Engine, PoolProxiedConnection

from outcry.base.build_form import form
from outcry.database.database import open_engine, sqlite_url
from outcry.database.migrate import current, migrate

pytest_plugins = ["tests.installations", "tests.recordings.file_readers"]

# Temporary files are in memory if there is room, because a disk takes 5 to 20 ms for each flush, and tests flush
# thousands of times. Set TMPDIR to place them elsewhere.
MEMORY, ROOM = Path("/dev/shm"), 4 << 30
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # discard the cached folder

# Every run has the same examples, so that a failure is caused by a change; `make fuzz` tries new ones.
# The duration of an example depends on the machine, so it is not limited.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", UNTIMED, derandomize=True)
settings.register_profile("fresh", UNTIMED, derandomize=False, print_blob=True)
settings.load_profile("repeatable")


def pytest_report_header() -> str:
    """Name the form under test."""
    return f"outcry: {form()}"


def pytest_sessionstart() -> None:
    """Refuse to test modules that were compiled in place before their sources changed."""
    for built in (Path(__file__).parents[1] / "src" / "outcry").rglob("*.so"):
        source = built.with_name(built.name.partition(".")[0] + ".py")
        if source.stat().st_mtime > built.stat().st_mtime:
            pytest.exit(
                f"{source} changed after it was compiled: run `make compiled` again, or `make pure`", 4
            )


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real market data and independent expected values: `SHARED_DATA`, or `../shared`.

    The folder is not part of the project. Without it, tests that need it are skipped with a message; in CI they fail.
    """
    folder = Path(os.environ.get("SHARED_DATA") or Path(__file__).parents[2] / "shared")
    if not (folder / "vectors").is_dir():
        message = f"no market data at {folder}: set SHARED_DATA to the folder with data/ and vectors/"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return folder


@pytest.fixture(scope="session", autouse=True)
def copied_databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let `open_installation` copy a migrated SQLite database instead of migrating each, which is ten times as fast.

    Databases of an earlier schema, and those of the migration tests, are migrated.
    """
    engine = open_engine(str(sqlite_url(tmp_path_factory.mktemp("migrated"))))
    migrate(engine)
    template = sqlite3.connect(":memory:", check_same_thread=False)
    with engine.connect() as connection:
        _driver(connection.connection).backup(template)
    engine.dispose()

    def copy(engine: Engine) -> bool:
        if engine.dialect.name != "sqlite" or current(engine) is not None:
            return migrate(engine)
        with engine.connect() as connection:
            template.backup(_driver(connection.connection))
        return True

    with patch("outcry.database.migrate.migrate", copy):
        yield
    template.close()


def _driver(pooled: PoolProxiedConnection) -> sqlite3.Connection:
    driver = pooled.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver
