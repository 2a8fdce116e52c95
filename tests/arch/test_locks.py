"""The locks in requirements/ hold every dependency at the version of constraints.txt, with hashes: `make lock`."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "requirements"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
#: The packages that the image of deploy/ runs with.
DEPLOYED = {"cluster", "databento", "ibkr", "massive", "projectx"}
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
REMEDY = "run `make lock`, and commit requirements/ with it"


def entries(lock: Path) -> dict[str, tuple[Requirement, int]]:
    """Return the number of hashes of each pinned requirement, by name."""
    text = re.sub(r"^\s*#.*$", "", lock.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found: dict[str, tuple[Requirement, int]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        requirement = Requirement(line.partition(" --hash")[0])
        found[canonicalize_name(requirement.name)] = requirement, len(HASH.findall(line))
    return found


def version_of(requirement: Requirement) -> str:
    (pin,) = requirement.specifier
    assert pin.operator == "==", requirement
    return pin.version


def constraints() -> dict[str, str]:
    lines = (line.partition("==") for line in (ROOT / "constraints.txt").read_text().split())
    return {canonicalize_name(name): version for name, _, version in lines}


def wanted(extras: set[str], groups: set[str]) -> list[Requirement]:
    project, named = PROJECT["project"], list[str]()
    named += project["dependencies"]
    for extra in extras:
        named += project["optional-dependencies"][extra]
    for group in groups:
        named += PROJECT["dependency-groups"][group]
    return [each for each in map(Requirement, named) if each.name != PROJECT["project"]["name"]]


@pytest.mark.parametrize(("name", "least"), [("dev.txt", 30), ("deploy.txt", 30), ("build.txt", 3)])
def test_everything_in_a_lock_has_one_version_and_hashes(name: str, least: int) -> None:
    locked, chosen = entries(LOCKS / name), constraints()
    assert len(locked) > least
    for each, (requirement, hashes) in locked.items():
        assert hashes, f"{each} has no hash in {name}: {REMEDY}"
        assert version_of(requirement) == chosen.get(each, version_of(requirement)), f"{each}: {REMEDY}"


@pytest.mark.parametrize(
    ("name", "extras", "groups"),
    [
        ("dev.txt", set(PROJECT["project"]["optional-dependencies"]), set(PROJECT["dependency-groups"])),
        ("deploy.txt", DEPLOYED, set()),
    ],
)
def test_a_lock_holds_what_the_project_asks_for(name: str, extras: set[str], groups: set[str]) -> None:
    locked = entries(LOCKS / name)
    for requirement in wanted(extras, groups):
        each = canonicalize_name(requirement.name)
        assert each in locked, f"{requirement} is not in {name}: {REMEDY}"
        assert version_of(locked[each][0]) in requirement.specifier, f"{requirement} in {name}: {REMEDY}"


def test_the_build_lock_holds_what_builds_the_project() -> None:
    locked = entries(LOCKS / "build.txt")
    for requirement in (*PROJECT["dependency-groups"]["build"], *PROJECT["build-system"]["requires"]):
        needed = Requirement(requirement)
        assert version_of(locked[canonicalize_name(needed.name)][0]) in needed.specifier, REMEDY


def test_every_constraint_is_locked_and_the_image_runs_on_the_same_versions() -> None:
    developed, deployed = entries(LOCKS / "dev.txt"), entries(LOCKS / "deploy.txt")
    assert set(constraints()) - set(developed) == set(), REMEDY
    for each, (requirement, _) in (deployed | entries(LOCKS / "build.txt")).items():
        assert version_of(requirement) == version_of(developed[each][0]), f"{each}: {REMEDY}"
    assert {"mypy", "pytest"} & set(deployed) == set()


def test_compiled_packages_are_locked_for_other_machines_too() -> None:
    """There is a wheel for each Python version on Linux, macOS and Windows; a pure Python package has two files."""
    locked = entries(LOCKS / "dev.txt")
    for each in ("aiohttp", "cryptography", "msgspec", "numpy", "pyarrow", "zstandard"):
        assert locked[each][1] >= 20, each


def test_nothing_is_installed_without_hashes() -> None:
    """Both `make`, which CI uses, and the image install with hashes only.

    test_deploy_images.py checks the image. `make lock` itself installs the tool that writes the locks if it is missing.
    """
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    installs = [line for line in text.splitlines() if "pip install" in line]
    safe = ("--require-hashes", "--no-deps --no-build-isolation --editable .", "test -x $(BIN)/uv ||")
    assert installs
    assert [line for line in installs if not any(each in line for each in safe)] == []
