"""Interface that assigns partitions of the streams (or of other work) to processes.

One process at a time owns a partition. A process that was paused may still believe that it owns one, so the stores that
it writes to must refuse it (`TradeLog`); ownership here is no proof.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol
from zlib import crc32

#: Number of partitions of streams and limits. Stored data depends on it: read docs/cluster.md before changing it.
PARTITIONS = 64

#: Number of characters of the delivery month at the end of a stream's name: `Z2026`.
_MONTH = 5

Turn = Callable[[int], Awaitable[None]]


def partition_of(name: str) -> int:
    """Return the partition to which a name belongs, such as the subject of a rate limit."""
    return crc32(name.encode()) % PARTITIONS


def partition_of_stream(key: str) -> int:
    """Return the partition to which a stream belongs, given its name (`StreamKey.text`).

    All contracts of a feed and product share it, because the front contract is chosen among them.
    """
    return partition_of(key[:-_MONTH])


class Partitions(Protocol):
    """The partitions of work that this process gains and loses. For one event loop."""

    async def run(self, gained: Turn, lost: Turn) -> None:
        """Acquire a share of the partitions until cancelled; call `gained` and `lost` for each partition.

        Calls for a partition are made one at a time. A partition counts as `owned` after `gained` has ended. `lost` is
        called after ownership ended, and after `gained` raised or was cancelled by a loss. Errors of both are reported.
        When `run` is cancelled, it calls `lost` for each partition, and other processes may acquire them at once. Other
        processes acquire the partitions of a stopped process within about two seconds, spread evenly.
        """
        ...

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that this process owns, as far as it knows."""
        ...
