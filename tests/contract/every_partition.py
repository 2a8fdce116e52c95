"""Partitions of a process that runs alone: it owns all of them."""

import asyncio

from outcry.live.partitions import PARTITIONS, Turn


class EveryPartition:
    """Partitions that are all owned from the start of `run` until it is cancelled. Implements `Partitions`."""

    def __init__(self, count: int = PARTITIONS) -> None:
        self._all = frozenset(range(count))
        self._owned: frozenset[int] = frozenset()

    @property
    def owned(self) -> frozenset[int]:
        """See `Partitions`."""
        return self._owned

    async def run(self, gained: Turn, lost: Turn) -> None:
        """See `Partitions`. An error of `gained` ends it, because no other process can acquire the partition."""
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
