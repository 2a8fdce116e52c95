"""Which process currently counts each partition of request limits, as seen by one replica.

An epoch is one ownership term of a partition. After a replica has accepted a new epoch, it rejects answers from the
previous one.
"""

from collections.abc import Iterable


class OwnerEpochs:
    """Track the current owner and epoch (ownership term) of each partition of request limits.

    known: the epoch of each partition whose owner has received the history of this replica; lost: partitions whose
    owner did not respond.
    """

    def __init__(self) -> None:
        self.known: dict[int, str] = {}
        self.lost = set[int]()
        self._homes: dict[int, str] = {}
        self._last: dict[int, str] = {}
        self._previous: dict[int, str] = {}

    def home(self, partition: int) -> str | int:
        """Return the name of a partition's owner, or the partition number while the owner is unknown.

        Reports on partitions with the same result can go into one message.
        """
        return self._homes.get(partition, partition)

    def accept(self, partition: int, epoch: str, owner: str) -> None:
        """Accept a new epoch, because its owner has received the history of this replica."""
        last = self._last.get(partition)
        if last is not None and last != epoch:
            self._previous[partition] = last
        self.known[partition] = self._last[partition] = epoch
        self._homes[partition] = owner

    def holds(self, partition: int, epoch: str, owner: str, *, with_history: bool) -> bool:
        """Return whether an answer from this epoch is valid.

        `with_history`: whether our request included the requests that this replica had allowed.
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
        """Forget the epochs of these partitions.

        The next request to their owners then includes the requests that this replica has allowed.
        """
        for partition in partitions:
            self.known.pop(partition, None)

    def lose(self, partitions: Iterable[int]) -> None:
        """Record that the owners of these partitions do not respond."""
        self.lost.update(partitions)
