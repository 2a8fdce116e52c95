"""Fixtures of every suite: folders of temporary files and shared data."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from outcry.base.build_form import form

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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Start the longest files first if files are distributed as a whole."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.distribution import LongestFirst

    return LongestFirst(config, log)


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
