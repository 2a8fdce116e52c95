"""A cache bounded by memory that drops what was least recently used.

Entries are in two generations. A use moves an entry to the young generation. When the young generation uses half of the
memory, it becomes the old generation, and the previous old generation is dropped. A hit in the young generation
therefore costs one lookup and writes nothing, unlike a list in order of use.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RecentlyUsed(Generic[K, V]):
    """A cache of entries by key.

    `weigh` returns the approximate size of an entry; all together have at most `most_bytes`.
    """

    __slots__ = ("_half_bytes", "_old", "_weigh", "_young", "_young_bytes")

    def __init__(self, most_bytes: int, weigh: Callable[[K], int]) -> None:
        self._half_bytes = most_bytes // 2
        self._weigh = weigh
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._young_bytes = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: K) -> V | None:
        """Return an entry, and count it as used."""
        found = self._young.get(key)
        if found is None and self._old:
            found = self._old.pop(key, None)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        """Add or replace an entry, and count it as used."""
        self._old.pop(key, None)
        if key not in self._young:
            weight = self._weigh(key)
            if self._young_bytes + weight > self._half_bytes:
                self._old, self._young, self._young_bytes = self._young, {}, 0
            self._young_bytes += weight
        self._young[key] = value

    def drop(self, key: K) -> None:
        """Remove an entry, if there is one."""
        self._old.pop(key, None)
        if self._young.pop(key, None) is not None:
            self._young_bytes -= self._weigh(key)

    def clear(self) -> None:
        """Remove all entries."""
        self._young, self._old, self._young_bytes = {}, {}, 0
