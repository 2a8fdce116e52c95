"""Which process counts the requests of each partition, as known to one replica (process that applies limits).

A partition is a share of the API keys and client addresses. An epoch is one ownership term of a partition. After a
replica has accepted a new epoch, it rejects answers from the previous one.
"""

from collections.abc import Iterable


class OwnerEpochs:
    """Track which process counts the requests of each partition, and its epoch (ownership term).

    known: the epoch of each partition whose owner has received this replica's history (its allowed requests). lost:
    partitions whose owner did not respond.
    """

    def __init__(self) -> None:
        self.known: dict[int, str] = {}
        self.lost = set[int]()
        self._homes: dict[int, str] = {}
        self._last: dict[int, str] = {}
        self._previous: dict[int, str] = {}

    def home(self, partition: int) -> str | int:
        """Return the name of a partition's owner, or the partition number while the owner is unknown.

        Reports on partitions with the same result go to the same process, so one message can carry them.
        """
        return self._homes.get(partition, partition)

    def accept(self, partition: int, epoch: str, owner: str) -> None:
        """Store the owner and the epoch (ownership term) of a partition.

        Call it after the owner has received this replica's history (the requests that it allowed).
        """
        last = self._last.get(partition)
        if last is not None and last != epoch:
            self._previous[partition] = last
        self.known[partition] = self._last[partition] = epoch
        self._homes[partition] = owner

    def holds(self, partition: int, epoch: str, owner: str, *, with_history: bool) -> bool:
        """Return whether an owner's answer that names this epoch (ownership term) is valid.

        `with_history`: whether our message to the owner included the requests that this replica had allowed before.
        """
        if not epoch or epoch == self._previous.get(partition):
            return False
        if with_history and partition not in self.known:
            self.accept(partition, epoch, owner)
        return self.known.get(partition) == epoch

    def leave(self, partitions: Iterable[int]) -> None:
        """Forget who owns these partitions, so that the next requests find each owner again."""
        for partition in partitions:
            self._homes.pop(partition, None)

    def forget(self, partitions: Iterable[int]) -> None:
        """Forget the epochs (ownership terms) of these partitions.

        The next request to their owners then includes the requests that this replica has allowed.
        """
        for partition in partitions:
            self.known.pop(partition, None)

    def lose(self, partitions: Iterable[int]) -> None:
        """Record that the owners of these partitions do not respond."""
        self.lost.update(partitions)
