"""The wheel with compiled modules has the results of the pure Python form (decision 0059).

`make test` compiles every listed module, without optimization, and compares the market's results. `make soak` compiles
as a release does and runs the tests of every package that has a compiled module against it.
"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.wheel import unpack_wheel

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("market_results.py")
PATTERNS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["files"]
#: The tests of the packages with compiled modules; those of `http` are with the API's.
SUITES = {"api" if pattern.startswith("src/outcry/http/") else pattern.split("/")[2] for pattern in PATTERNS}
MODULES = sorted({path.relative_to(ROOT / "src") for pattern in PATTERNS for path in ROOT.glob(pattern)})


def results(sources: Path) -> dict[str, object]:
    """Return the market's results for simulated trades, computed by the form in a folder."""
    done = subprocess.run(
        [sys.executable, RESULTS], env=os.environ | {"PYTHONPATH": str(sources)}, capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip
    return json.loads(done.stdout)


def version(sources: Path) -> str:
    call = [sys.executable, "-c", "from outcry.cli import main; main()", "--version"]
    environment = os.environ | {"PYTHONPATH": str(sources)}
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.partition(" ")[2].strip()


def test_every_pattern_names_a_module() -> None:
    assert [pattern for pattern in PATTERNS if not list(ROOT.glob(pattern))] == []


def test_the_compiled_form_has_the_results_of_the_pure_one(tmp_path: Path) -> None:
    name = unpack_wheel(tmp_path, compiled=True, opt_level=0)
    assert not name.endswith("-any.whl")
    assert [
        module for module in MODULES if not list((tmp_path / module).parent.glob(f"{module.stem}.*.so"))
    ] == []
    assert (version(tmp_path), version(ROOT / "src")) == ("(compiled)", "(pure Python)")
    pure, compiled = results(ROOT / "src"), results(tmp_path)
    assert (pure.pop("form"), compiled.pop("form")) == ("pure Python", "compiled")
    assert compiled == pure
    assert compiled["alerts"] > 20


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder into which the compiled wheel of a release is installed."""
    folder = tmp_path_factory.mktemp("release")
    unpack_wheel(folder, compiled=True)
    return folder


@pytest.mark.soak
@pytest.mark.parametrize("suite", [*sorted(SUITES), "golden", "library"])
def test_the_compiled_form_passes_the_tests(release: Path, suite: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", f"tests/{suite}"], cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(release)}, capture_output=True, text=True, check=False, timeout=3600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:]
    assert "outcry: compiled" in done.stdout
