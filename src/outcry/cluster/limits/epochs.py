"""Where the owners of limits are, as a replica knows it: who reigns over each partition, and which have nobody.

Rule kept: a reign that another followed never counts again, whoever still believes in it.
"""

from collections.abc import Iterable


class OwnerEpochs:
    """known: the reign of each partition that has been told our past; lost: partitions whose owner did not answer."""

    def __init__(self) -> None:
        self.known: dict[int, str] = {}
        self.lost = set[int]()
        self._homes: dict[int, str] = {}
        self._last: dict[int, str] = {}
        self._former: dict[int, str] = {}

    def home(self, partition: int) -> str | int:
        """The owner's name; the partition, while nobody is known: partitions with the same home share messages."""
        return self._homes.get(partition, partition)

    def crown(self, partition: int, reign: str, owner: str) -> None:
        """A reign has heard our past and counts from now on."""
        last = self._last.get(partition)
        if last is not None and last != reign:
            self._former[partition] = last
        self.known[partition] = self._last[partition] = reign
        self._homes[partition] = owner

    def holds(self, partition: int, reign: str, owner: str, *, told: bool) -> bool:
        """Whether an answer in the name of a reign counts. `told`: it has just been told our past."""
        if not reign or reign == self._former.get(partition):
            return False
        if told and partition not in self.known:
            self.crown(partition, reign, owner)
        return self.known.get(partition) == reign

    def leave(self, partitions: Iterable[int]) -> None:
        """Their owners are to be looked for anew, each by itself."""
        for partition in partitions:
            self._homes.pop(partition, None)

    def forget(self, partitions: Iterable[int]) -> None:
        """Whoever owns them is to be told our past."""
        for partition in partitions:
            self.known.pop(partition, None)

    def lose(self, partitions: Iterable[int]) -> None:
        """Their owners do not answer."""
        self.lost.update(partitions)
