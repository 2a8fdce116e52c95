"""Interface that assigns partitions of the streams (or of other work) to processes.

One process at a time owns a partition. A process that was paused may still believe that it owns one. So ownership here
is no proof: the stores to which a process writes must refuse a process that is no longer the owner (`TradeLog`).
"""

import re
from collections.abc import Awaitable, Callable
from typing import Protocol
from zlib import crc32

from outcry.market.symbols import MONTH_CODES

#: Number of partitions of streams and limits. Stored data depends on it:
#: read docs/guides/cluster.md before changing it.
PARTITIONS = 64

#: The delivery month at the end of a stream's name, `Z2026`; names of undated contracts have none.
_MONTH = re.compile(rf"[{MONTH_CODES}][0-9]{{4}}\Z")

Turn = Callable[[int], Awaitable[None]]


def partition_of(name: str) -> int:
    """Return the partition to which a piece of work belongs, given its name.

    The work may be a stream or, for example, the rate limit of a key.
    """
    return crc32(name.encode()) % PARTITIONS


def partition_of_stream(key: str) -> int:
    """Return the partition to which a stream belongs, given its name (`StreamKey.text`).

    All contracts of a feed and product have the same partition, because the front contract is chosen among them.
    """
    return partition_of(_MONTH.sub("", key))


class Partitions(Protocol):
    """The partitions of work that this process owns; it gains and loses them over time.

    Not thread-safe: use it on one event loop.
    """

    async def run(self, gained: Turn, lost: Turn) -> None:
        """Acquire a share of the partitions until cancelled; call `gained` and `lost` for each partition.

        Calls for one partition never overlap. A partition counts as `owned` once `gained` has ended. `lost` is called
        after ownership has ended, and after `gained` raised an error or was cancelled by a loss. Errors of both are
        reported. When `run` is cancelled, it calls `lost` for each partition, and other processes may acquire the
        partitions at once. If a process stops, the others acquire its partitions within about two seconds, spread
        evenly.
        """
        ...

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that this process owns, as far as this process knows."""
        ...
