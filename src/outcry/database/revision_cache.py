"""Base class for data cached from the database, reloaded when its revision changes.

The database's revision is a counter of changes. Each process reads it up to every 200 ms, so that a change by any
process takes effect everywhere within a second.
"""

from collections.abc import Callable
from threading import Lock

REFRESH_NS = 200_000_000


class RevisionCache:
    """Base class of data that is cached from the database and reloaded when its revision changes.

    Any thread may call `refresh`.
    """

    def __init__(self, revision_of: Callable[[], int]) -> None:
        self._revision_of = revision_of
        self._lock = Lock()
        self._revision: int | None = None
        self._checked_ns: int | None = None
        #: Increments only when the cached data has changed, not with every import.
        self.generation = 0
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change of the cached data, in the thread that reloaded the data."""
        self._listeners.append(listener)

    def refresh(self, now_ns: int, *, force: bool = False, revision: int | None = None) -> None:
        """Reload the cached data if the database's revision has changed; check that at most every 200 ms.

        `force`: check the revision now. `revision`: the revision, if the caller has just read it. May raise
        `StoreBusy`.
        """
        with self._lock:
            if self._lapse():
                self._changed()
            # The absolute difference, so that setting the clock back does not stop the checks.
            known = self._checked_ns is not None and abs(now_ns - self._checked_ns) < REFRESH_NS
            if known and not force and revision is None:
                return
            if revision is None:
                revision = self._revision_of()
            # read before loading, so that a change meanwhile is found next time
            if revision != self._revision:
                if self._load():
                    self._changed()
                self._revision = revision
            self._checked_ns = now_ns

    def _changed(self) -> None:
        self.generation += 1
        for listener in self._listeners:
            listener()

    def _lapse(self) -> bool:
        """Drop cached entries that have expired; return whether there were any."""
        return False

    def _load(self) -> bool:
        """Load all data; return whether it differs from what was cached."""
        raise NotImplementedError
