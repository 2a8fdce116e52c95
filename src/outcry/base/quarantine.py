"""Names for damaged files that are kept for a person to look at."""

from itertools import count
from pathlib import Path


def unused_name(path: Path, suffix: str) -> Path:
    """Return a name beside a file that no file has: `a.log.damaged`, `a.log.damaged2` and so on."""
    for number in count(1):
        found = path.with_name(f"{path.name}.{suffix}{'' if number == 1 else number}")
        if not found.exists():
            return found
    raise AssertionError("count never ends")
