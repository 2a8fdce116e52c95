"""The owners of limits as a replica knows them: the epoch of each partition, and the partitions without an owner.

An epoch that another epoch has followed is never accepted again.
"""

from collections.abc import Iterable


class OwnerEpochs:
    """Track the current owner and epoch of each partition.

    known: the epoch of each partition whose owner has received our history; lost: partitions whose owner did not
    respond.
    """

    def __init__(self) -> None:
        self.known: dict[int, str] = {}
        self.lost = set[int]()
        self._homes: dict[int, str] = {}
        self._last: dict[int, str] = {}
        self._former: dict[int, str] = {}

    def home(self, partition: int) -> str | int:
        """Return the owner's name, or the partition while it is unknown; equal results share messages."""
        return self._homes.get(partition, partition)

    def crown(self, partition: int, reign: str, owner: str) -> None:
        """Accept an epoch: its owner has received our history and counts from now on."""
        last = self._last.get(partition)
        if last is not None and last != reign:
            self._former[partition] = last
        self.known[partition] = self._last[partition] = reign
        self._homes[partition] = owner

    def holds(self, partition: int, reign: str, owner: str, *, told: bool) -> bool:
        """Return whether an answer of this epoch is valid. `told`: the request carried our history."""
        if not reign or reign == self._former.get(partition):
            return False
        if told and partition not in self.known:
            self.crown(partition, reign, owner)
        return self.known.get(partition) == reign

    def leave(self, partitions: Iterable[int]) -> None:
        """Forget the owners of partitions, so that each is located separately."""
        for partition in partitions:
            self._homes.pop(partition, None)

    def forget(self, partitions: Iterable[int]) -> None:
        """Forget the epochs of partitions, so that the next request carries our history."""
        for partition in partitions:
            self.known.pop(partition, None)

    def lose(self, partitions: Iterable[int]) -> None:
        """Mark partitions as having no responding owner."""
        self.lost.update(partitions)
