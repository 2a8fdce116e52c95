"""Git tracks no binary files except an allow-list: no builds, wheels or recordings."""

import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Patterns of binary files that may be tracked, and their maximum size in bytes.
ALLOWED = {
    "docs/images/*.png": 200_000,
    "src/outcry/web/static/vendor/*/*.woff2": 100_000,
}


def tracked(folder: Path) -> list[str]:
    """Return the names of tracked files. Staged files count."""
    call = ["git", "-C", folder, "ls-files", "--cached", "-z"]
    done = subprocess.run(call, capture_output=True, timeout=60, check=True)
    return [name for name in done.stdout.decode().split("\0") if name]


def is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        return False


def refused(folder: Path) -> list[str]:
    """Return the tracked files that are neither text nor allowed."""
    found: list[str] = []
    for name in tracked(folder):
        path = folder / name
        if not path.is_file():  # deleted, but not staged
            continue
        content = path.read_bytes()
        limits = [limit for pattern, limit in ALLOWED.items() if fnmatch(name, pattern)]
        if not is_text(content) and not any(len(content) <= limit for limit in limits):
            found.append(name)
    return found


def test_only_allowed_binaries_are_tracked() -> None:
    assert refused(ROOT) == []
    names = tracked(ROOT)
    unused = [pattern for pattern in ALLOWED if not any(fnmatch(name, pattern) for name in names)]
    assert unused == []


@pytest.mark.parametrize(
    ("name", "content", "is_refused"),
    [
        ("outcry-0.1.0-py3-none-any.whl", b"PK\x03\x04\x00\x00", True),  # although .gitignore lists it
        ("tests/data/es.dbn", b"DBN\x01\xff\xfe", True),
        ("docs/images/page.png", b"\x89PNG\r\n\x1a\n\x00", False),
        ("docs/images/large.png", b"\x89PNG" + bytes(200_000), True),
        ("src/outcry/picture.png", b"\x89PNG\r\n\x1a\n\x00", True),
        ("docs/notes.md", "Schlüssel – ein Text".encode(), False),
        ("empty", b"", False),
    ],
)
def test_a_binary_that_is_not_allowed_is_refused(
    tmp_path: Path, name: str, content: bytes, *, is_refused: bool
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("*.whl\n")
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    subprocess.run(["git", "-C", tmp_path, "add", "--force", name], check=True)
    assert refused(tmp_path) == ([name] if is_refused else [])
