"""Partitions of a process that runs alone: it owns all of them."""

import asyncio

from outcry.live.partitions import PARTITIONS, Turn


class EveryPartition:
    """Implements `Partitions`: has each from when it is run until that is cancelled."""

    def __init__(self, count: int = PARTITIONS) -> None:
        self._all = frozenset(range(count))
        self._owned: frozenset[int] = frozenset()

    @property
    def owned(self) -> frozenset[int]:
        """See `Partitions`."""
        return self._owned

    async def run(self, gained: Turn, lost: Turn) -> None:
        """See `Partitions`. What `gained` raises ends it: there is nobody else to take the partition up."""
        try:
            async with asyncio.TaskGroup() as taking_up:
                for number in self._all:
                    taking_up.create_task(self._take_up(number, gained))
            await asyncio.Event().wait()
        finally:
            self._owned = frozenset()
            await asyncio.gather(*(lost(number) for number in self._all))

    async def _take_up(self, number: int, gained: Turn) -> None:
        await gained(number)
        self._owned |= {number}
