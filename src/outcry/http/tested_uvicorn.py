"""The versions of uvicorn whose private parts our protocols use.

`strict_protocol` and `protocol` are subclasses of uvicorn's protocol and depend on parts that uvicorn may change in any
release. Other programs in the same environment may need another version. With a version outside this range, the server
uses uvicorn's own protocol instead (decision 0079).
"""

import re

#: The first tested version, and the first untested one after it: major and minor number. `pyproject.toml` has the same.
FIRST = (0, 34)
BEFORE = (0, 55)
RANGE = f">={FIRST[0]}.{FIRST[1]},<{BEFORE[0]}.{BEFORE[1]}"


def is_tested(version: str) -> bool:
    """Return whether a version of uvicorn is in the tested range. Patch releases do not matter."""
    found = re.match(r"([0-9]+)\.([0-9]+)", version)
    return found is not None and FIRST <= (int(found[1]), int(found[2])) < BEFORE
