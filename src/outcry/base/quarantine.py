"""File names for damaged files, which are renamed and not deleted so that someone can inspect them."""

from itertools import count
from pathlib import Path


def unused_name(path: Path, suffix: str) -> Path:
    """Return an unused file name next to a file: `a.log.damaged`, `a.log.damaged2` and so on."""
    for number in count(1):
        found = path.with_name(f"{path.name}.{suffix}{'' if number == 1 else number}")
        if not found.exists():
            return found
    raise AssertionError("count never ends")
