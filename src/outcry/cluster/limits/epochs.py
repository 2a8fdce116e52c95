"""The owner and epoch of each partition of limits, as a replica knows them.

After a new epoch, the replica never accepts the previous one again.
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

    def accept(self, partition: int, epoch: str, owner: str) -> None:
        """Accept an epoch: its owner has received our history and counts from now on."""
        last = self._last.get(partition)
        if last is not None and last != epoch:
            self._former[partition] = last
        self.known[partition] = self._last[partition] = epoch
        self._homes[partition] = owner

    def holds(self, partition: int, epoch: str, owner: str, *, told: bool) -> bool:
        """Return whether an answer of this epoch is valid. `told`: the request carried our history."""
        if not epoch or epoch == self._former.get(partition):
            return False
        if told and partition not in self.known:
            self.accept(partition, epoch, owner)
        return self.known.get(partition) == epoch

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
