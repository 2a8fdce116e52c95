"""A cache bounded by memory. When it is full, it removes what was least recently used.

Entries are in two generations. A use moves an entry to the young generation. When the young generation uses half of the
memory, it becomes the old generation, and the previous old generation is removed. So finding an entry of the young
generation costs one lookup and writes nothing, unlike in a list in order of use.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RecentlyUsed(Generic[K, V]):
    """A cache of entries by key.

    `weigh` returns the approximate size of an entry; all entries together have at most `most_bytes`. `young`, `old`:
    the entries by generation. These two dictionaries are never replaced by others, so that `responder.c` may read them.
    """

    __slots__ = ("_half_bytes", "_weigh", "_young_bytes", "old", "young")

    def __init__(self, most_bytes: int, weigh: Callable[[K], int]) -> None:
        self._half_bytes = most_bytes // 2
        self._weigh = weigh
        self.young: dict[K, V] = {}
        self.old: dict[K, V] = {}
        self._young_bytes = 0

    def __len__(self) -> int:
        return len(self.young) + len(self.old)

    def get(self, key: K) -> V | None:
        """Return an entry, and count it as used."""
        found = self.young.get(key)
        if found is None and self.old:
            found = self.old.pop(key, None)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        """Add or replace an entry, and count it as used."""
        self.old.pop(key, None)
        if key not in self.young:
            weight = self._weigh(key)
            if self._young_bytes + weight > self._half_bytes:
                self.old.clear()
                self.old.update(self.young)
                self.young.clear()
                self._young_bytes = 0
            self._young_bytes += weight
        self.young[key] = value

    def drop(self, key: K) -> None:
        """Remove an entry, if there is one."""
        self.old.pop(key, None)
        if self.young.pop(key, None) is not None:
            self._young_bytes -= self._weigh(key)

    def clear(self) -> None:
        """Remove all entries."""
        self.young.clear()
        self.old.clear()
        self._young_bytes = 0
