"""A single process works without the `cluster` package: it serves, and its tests pass."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Tests of a single process, from the fold to the API; running all of them would double the time.
REPRESENTATIVE = (
    "tests/live/test_engine.py",
    "tests/app/test_secret.py",
    "tests/api/test_api_answers.py",
    "tests/golden/test_worked_sessions.py",
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which `outcry` is a copy without the package `cluster`."""
    copy = tmp_path_factory.mktemp("without") / "src"
    shutil.copytree(
        ROOT / "src" / "outcry", copy / "outcry", ignore=shutil.ignore_patterns("__pycache__", "cluster")
    )
    return {**os.environ, "PYTHONPATH": str(copy)}


def test_the_copy_is_what_is_imported(environment: dict[str, str]) -> None:
    script = "import importlib.util as u, outcry; print(outcry.__file__, u.find_spec('outcry.cluster'))"
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == [f"{environment['PYTHONPATH']}/outcry/__init__.py", "None"]


def test_the_demo_answers(environment: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from outcry.cli import main; main()"]
    arguments = ["serve", "--demo", "--port", "0", "--data", str(tmp_path / "demo")]
    with subprocess.Popen(
        [*command, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as served:
        try:
            assert served.stdout is not None
            request = next(line for line in served.stdout if line.startswith("curl"))
            found = re.search(r'"x-api-key: (\w+)" "([^"]+)"', request)
            assert found is not None, request
            key, url = found.groups()
            with urllib.request.urlopen(urllib.request.Request(url, headers={"x-api-key": key})) as answer:
                assert json.load(answer)["symbol"] == "ES"
        finally:
            served.terminate()


def test_tests_of_a_single_process_pass(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *REPRESENTATIVE]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
