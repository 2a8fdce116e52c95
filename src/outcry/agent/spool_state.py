"""What is remembered of a line beside its events, from one start of the agent to the next.

Rule kept: it is written whole or not at all.
"""

from contextlib import suppress
from pathlib import Path

import msgspec

from outcry.trades.feed import FeedCaps


class SpoolState(msgspec.Struct):
    """session: the newest run, empty where there was none. instead: what stands in the place of events before `first`
    that there was no room for, as they travel. caps: what the feed could do."""

    session: str = ""
    first: int = 0
    instead: list[bytes] = []
    caps: FeedCaps | None = None

    @staticmethod
    def read(path: Path) -> "SpoolState":
        """What was written; of a file that is missing or cannot be read, nothing."""
        with suppress(OSError, ValueError):
            return msgspec.json.decode(path.read_bytes(), type=SpoolState)
        return SpoolState()

    def write(self, path: Path) -> None:
        """Write it whole or not at all. Raises `OSError`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        new.write_bytes(msgspec.json.encode(self))
        new.replace(path)
