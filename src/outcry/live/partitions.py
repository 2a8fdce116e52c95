"""The port for partitions: which of the processes that do the same work sees to which share of it.

Rules kept: of a partition one process at a time is told that it has it; one that was stopped and went on may believe so
a moment longer, so whatever it writes must be refused by what it writes to (`TradeLog`), and nothing here is proof.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol
from zlib import crc32

#: How many shares streams, and limits, are cut into. Part of what is kept: see docs/cluster.md before changing it.
PARTITIONS = 64

#: Characters at the end of a stream's name that tell the delivery month: `Z2026`.
_MONTH = 5

Turn = Callable[[int], Awaitable[None]]


def partition_of(name: str) -> int:
    """The partition that a subject of the limiter, or anything with a name, belongs to."""
    return crc32(name.encode()) % PARTITIONS


def partition_of_stream(key: str) -> int:
    """The partition of a stream, by `StreamKey.text`: that of all contracts of its feed and product, for the front one
    is chosen among them."""
    return partition_of(key[:-_MONTH])


class Partitions(Protocol):
    """The partitions of this process, as they come and go. For one event loop."""

    async def run(self, gained: Turn, lost: Turn) -> None:
        """Take part until cancelled, and call `gained` and `lost` for each partition, one call at a time for the same
        one. `gained` has ended before the partition counts as `owned`; `lost` is called after it stopped to, and where
        `gained` raised, or was cut short because the partition was lost meanwhile. What they raise is told.

        Cancelled, it hands over what it has: `lost` is called for each, and another process may have it at once. Of one
        that dies, others have them within about two seconds; they are spread evenly over the processes there are."""
        ...

    @property
    def owned(self) -> frozenset[int]:
        """Partitions that are this process's now, as far as it knows."""
        ...
