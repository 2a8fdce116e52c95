"""Tests are a package with absolute imports; the benchmarks, the simulation and `support` do not import it."""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.distribution import SECONDS, unit_of

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
#: The packages that each of these may not import.
FORBIDDEN = {
    "src": {"tests", "support", "bench", "sim"},
    "support": {"tests", "bench", "sim"},
    "bench": {"tests"},
    "sim": {"tests"},
}  # fmt: skip


def imported(source: str) -> Iterator[str]:
    """Return the modules that a source imports, and those named in strings, as for `import_module` and `-m`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=module, level=level):
                yield "." * level + (module or "")
            case ast.Constant(value=str(text)) if text.isascii() and " " not in text:
                yield text
            case _:
                pass


def breaches(source: str, forbidden: set[str]) -> set[str]:
    """Return the forbidden packages that a source imports."""
    return {top for module in imported(source) if "." in module or module in forbidden
            if (top := module.partition(".")[0]) in forbidden}  # fmt: skip


@pytest.mark.parametrize("part", FORBIDDEN)
def test_what_is_no_test_imports_no_test(part: str) -> None:
    found = {
        str(path.relative_to(ROOT)): named
        for path in sorted((ROOT / part).rglob("*.py"))
        if (named := breaches(path.read_text(), FORBIDDEN[part]))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "from tests.timeouts import within",
        "import tests.timeouts",
        "from tests import timeouts",
        "import_module(f'tests.feeds.{name}_peer')",
        "run([sys.executable, '-m', 'tests.e2e.kill_worker'])",
    ],
)
def test_a_breach_is_found(source: str) -> None:
    assert breaches(source, {"tests"}) == {"tests"}


def test_every_folder_with_tests_is_a_package() -> None:
    folders = {path.parent for path in TESTS.rglob("*.py")}
    assert (
        sorted(str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").is_file())
        == []
    )


def test_tests_are_imported_by_their_full_name() -> None:
    """Imports are neither relative nor by a bare file name, which needs the folder on `sys.path`."""
    known = {*sys.stdlib_module_names, "tests", "support", "bench", "sim", "tools", "outcry"}
    bare = {path.stem for path in TESTS.rglob("*.py")} - known
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _named(node)
        if name.startswith(".") or name in bare
    }
    assert found == set()


def _named(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [name.name for name in names]
        case ast.ImportFrom(module=module, level=level):
            return ["." * level + (module or "")]
        case _:
            return []


def test_no_two_test_files_share_a_name() -> None:
    """File names are unique, so that a failure can be located by the file name alone."""
    counted = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert [name for name, count in counted.items() if count > 1] == []


def test_the_files_that_take_long_exist() -> None:
    assert [unit for unit in SECONDS if not (ROOT / unit.partition("[")[0]).is_file()] == []


@pytest.mark.parametrize(
    ("test", "unit"),
    [
        ("tests/web/test_every_page.py::test_a_page[/docs-en]", "tests/web/test_every_page.py[en]"),
        ("tests/web/test_every_page.py::test_every_state_is_shown", "tests/web/test_every_page.py"),
        ("tests/web/test_links.py::test_a_link[x::y-en]", "tests/web/test_links.py"),
    ],
)
def test_a_test_runs_with_its_file_or_with_its_language(test: str, unit: str) -> None:
    assert unit_of(test) == unit
