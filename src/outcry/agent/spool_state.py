"""The state of a queue that is stored beside its events and survives a restart of the agent."""

from contextlib import suppress
from pathlib import Path

import msgspec

from outcry.trades.feed import FeedCaps


class SpoolState(msgspec.Struct):
    """The state of a queue, stored beside its events.

    session: the newest run, empty without one. first: number of the first event not discarded. instead: encoded events
    that replace the discarded ones before `first`. caps: the capabilities of the feed.
    """

    session: str = ""
    first: int = 0
    instead: list[bytes] = []
    caps: FeedCaps | None = None

    @staticmethod
    def read(path: Path) -> "SpoolState":
        """Return the stored state, or an empty one if the file is missing or unreadable."""
        with suppress(OSError, ValueError):
            return msgspec.json.decode(path.read_bytes(), type=SpoolState)
        return SpoolState()

    def write(self, path: Path) -> None:
        """Write the state atomically. Raises `OSError`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        new.write_bytes(msgspec.json.encode(self))
        new.replace(path)
