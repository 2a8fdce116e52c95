"""What every suite may use: where the shared data and vectors lie."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples each run, so that a change is judged by what it changed; `make fuzz` tries others.
# How long an example takes says something of the machine and nothing of what is tested.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", UNTIMED, derandomize=True)
settings.register_profile("fresh", UNTIMED, derandomize=False, print_blob=True)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real market data and independent expected values: `SHARED_DATA`, or `../shared`.

    It is no part of the project. Where it is absent the tests that need it say so loudly; in CI they fail.
    """
    folder = Path(os.environ.get("SHARED_DATA") or Path(__file__).parents[2] / "shared")
    if not (folder / "vectors").is_dir():
        message = f"no market data at {folder}: set SHARED_DATA to the folder with data/ and vectors/"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return folder
