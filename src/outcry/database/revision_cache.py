"""What a process keeps in memory of the store, and when it looks again.

Rule kept: it looks again when the store's revision has moved, asked at most every 200 ms, so that what any process
changes holds everywhere within a second.
"""

from collections.abc import Callable
from threading import Lock

REFRESH_NS = 200_000_000


class RevisionCache:
    """Looks again at the store when its revision has moved. Safe to refresh from any thread."""

    def __init__(self, revision_of: Callable[[], int]) -> None:
        self._revision_of = revision_of
        self._lock = Lock()
        self._revision: int | None = None
        self._asked_ns: int | None = None
        #: Moves only when what is mirrored here has changed, not with every import.
        self.generation = 0

    def refresh(self, now_ns: int, *, force: bool = False) -> None:
        """Ask the store for its revision if it is time to, and load again if it moved; may raise
        `StoreBusy`."""
        with self._lock:
            if self._lapse():
                self.generation += 1
            # A clock set back must not stop the asking: hence the distance, not the difference.
            if not force and self._asked_ns is not None and abs(now_ns - self._asked_ns) < REFRESH_NS:
                return
            revision = self._revision_of()  # before loading: a change while loading is then seen next time
            if revision != self._revision:
                if self._load():
                    self.generation += 1
                self._revision = revision
            self._asked_ns = now_ns

    def _lapse(self) -> bool:
        """Let go of what is over by now; return whether anything was."""
        return False

    def _load(self) -> bool:
        """Load all; return whether anything here changed."""
        raise NotImplementedError
