"""The source uses what every system has: POSIX-only parts are behind guards, in the modules listed here."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.windows_rules import FUNCTIONS, MODULES, SIGNALS

SOURCE = Path(__file__).parents[2] / "src" / "outcry"
#: Modules that use POSIX-only names, each only where they exist.
GUARDED = {
    "base/file_lock.py": {"fcntl"},
    "base/open_files.py": {"resource"},
    "base/portable_files.py": {"os.open"},
    "delivery/guarded_connection.py": {"select.poll"},
    "http/connections.py": {"os.open"},  # opens and closes the null device
    "http/parking.py": {
        "select.EPOLLIN",
        "select.EPOLLRDHUP",
        "select.epoll",
    },  # used if `select` has `epoll`
    "http/workers.py": {"time.pthread_getcpuclockid"},
}
#: Names that exist on Windows, but differ there: `os.open` changes newlines.
DIFFERENT = {"os.open", "select.epoll", "select.EPOLLIN", "select.EPOLLRDHUP", "select.poll",
             "time.pthread_getcpuclockid", "time.tzset"}  # fmt: skip
NAMES = DIFFERENT | {f"os.{name}" for name in FUNCTIONS.split()} | {f"signal.{n}" for n in SIGNALS.split()}


def posix_only(source: str) -> Iterator[str]:
    """Yield the POSIX-only names that a source uses."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name in MODULES)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (name for each in names if (name := f"{module}.{each.name}") in NAMES)
                yield from {module} & MODULES
            case ast.Attribute(value=ast.Name(id=module), attr=attr) if f"{module}.{attr}" in NAMES:
                yield f"{module}.{attr}"
            case _:
                pass


def test_only_these_modules_use_what_windows_lacks() -> None:
    found = {
        path.relative_to(SOURCE).as_posix(): named
        for path in sorted(SOURCE.rglob("*.py"))
        if (named := set(posix_only(path.read_text("utf-8"))))
    }
    assert found == GUARDED


@pytest.mark.parametrize(
    "source",
    ["import fcntl", "from os import pread", "import os\nos.statvfs('.')", "import signal\nsignal.SIGKILL",
     "from resource import getrlimit", "import os\nos.open('x', os.O_RDONLY)"],
)  # fmt: skip
def test_a_use_is_found(source: str) -> None:
    assert list(posix_only(source))


def test_text_files_name_their_encoding() -> None:
    """Without one, Windows uses the code page of the machine."""
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"read_text", "write_text"}
        and len(node.args) < (1 if node.func.attr == "read_text" else 2)
        and not any(keyword.arg == "encoding" for keyword in node.keywords)
    ]  # fmt: skip
    assert found == []
