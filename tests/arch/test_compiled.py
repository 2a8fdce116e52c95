"""The wheel with compiled modules has the results of the pure Python form (decision 0059).

`make test` compiles every listed module, without optimization, and compares the market's results and what is computed
from real recordings. `make soak` compiles as a release does and runs the tests of every package that has a compiled
module against it.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest
from support.wheel import build_release, unpack_wheel

ROOT = Path(__file__).parents[2]
PATTERNS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["files"]
#: The tests of the packages with compiled modules; those of `http` are with the API's.
SUITES = {"api" if pattern.startswith("src/outcry/http/") else pattern.split("/")[2] for pattern in PATTERNS}
KERNELS = sorted(path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*.c"))
MODULES = sorted({path.relative_to(ROOT / "src") for pattern in PATTERNS for path in ROOT.glob(pattern)})


def printed(sources: Path, *call: object) -> str:
    """Return what a Python program prints when it runs the form in a folder."""
    done = subprocess.run(
        [sys.executable, *map(str, call)], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(sources)},
        capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    return done.stdout


def version(sources: Path) -> str:
    reported = printed(sources, "-c", "from outcry.cli import main; main()", "--version")
    return reported.partition(" ")[2].strip()


def test_every_pattern_names_a_module() -> None:
    assert [pattern for pattern in PATTERNS if not list(ROOT.glob(pattern))] == []


def test_the_compiled_form_has_the_results_of_the_pure_one(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Compare results of simulated trades, then all that is computed from six real recordings.

    Each recording is replayed, imported, and computed again. One test compares both, because the build takes long."""
    name = unpack_wheel(tmp_path, compiled=True, opt_level=0)
    assert not name.endswith("-any.whl")
    assert [
        module for module in MODULES if not list((tmp_path / module).parent.glob(f"{module.stem}.*.so"))
    ] == []
    assert [
        kernel for kernel in KERNELS if not list((tmp_path / kernel).parent.glob(f"{kernel.stem}.*.so"))
    ] == []
    assert (version(tmp_path), version(ROOT / "src")) == ("(compiled)", "(pure Python)")
    for name, counted, least in (("market", "alerts", 20), ("request", "answered", 1500)):
        pure, compiled = (
            json.loads(printed(form, "-m", f"tests.arch.{name}_results")) for form in (ROOT / "src", tmp_path)
        )
        assert (pure.pop("form"), compiled.pop("form")) == ("pure Python", "compiled")
        assert compiled == pure
        assert compiled[counted] > least

    shared = request.getfixturevalue("shared")  # without market data, the test ends here as skipped
    recordings = ("lean", "6e", "dbn/futures")
    pure, compiled = (
        printed(form, "-m", "tests.golden.recording_digests", shared, *recordings).splitlines()
        for form in (ROOT / "src", tmp_path)
    )
    assert (pure.pop(0), compiled.pop(0)) == ("pure Python", "compiled")
    assert compiled == pure
    assert (len(pure), sum(" alert answers " in line for line in pure)) == (18, 4)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the wheels of a release."""
    folder = tmp_path_factory.mktemp("release") / "dist"
    build_release(folder)
    return folder


@pytest.fixture(scope="module")
def environment(dist: Path) -> Path:
    """Return a virtual environment where pip has installed the wheel that it prefers on this system.

    Dependencies are those of the tests, which come after it on the import path."""
    folder = dist.parent / "environment"
    venv.create(folder, with_pip=True)
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--find-links", dist, "openoutcry"], check=True, timeout=300)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


@pytest.mark.soak
def test_pip_installs_the_compiled_wheel_of_a_release(dist: Path, environment: Path) -> None:
    """The wheel's tag names other Linux systems too, since an index refuses one for this machine alone."""
    names = sorted(path.name for path in dist.iterdir())
    assert [bool(re.search("-(many|musl)linux[^-]*[.]whl$", name)) for name in names] == [True, False]
    assert names[1].endswith("-py3-none-any.whl")
    command = [environment / "bin/outcry", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.endswith(" (compiled)\n")


@pytest.mark.soak
@pytest.mark.parametrize("suite", [*sorted(SUITES), "golden", "library"])
def test_the_compiled_form_passes_the_tests(environment: Path, suite: str) -> None:
    (release,) = environment.glob("lib/python*/site-packages")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", f"tests/{suite}"], cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(release)}, capture_output=True, text=True, check=False, timeout=3600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:]
    assert "outcry: compiled" in done.stdout
