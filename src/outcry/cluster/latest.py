"""The port for the latest states of live streams, at every process that answers requests.

States are pushed to every process, so a read is local. An older state never replaces a newer one, whichever process
sends it and however late.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

#: A state that was not published again within this time may be deleted and is not shown any more.
KEPT_S = 600.0

#: The log position at which the owner acquired the stream, and the number of the state since: the greater is the newer.
Order = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Latest:
    """The state of a stream. `key`: `StreamKey.text`; `body`: empty if the stream is not shown any more."""

    key: str
    order: Order
    body: bytes


class LatestStates(Protocol):
    """Latest states of all streams."""

    async def put(self, states: Sequence[Latest]) -> Mapping[str, Order]:
        """Let these be the latest, each unless a newer one is; return the keys of those that were not taken, and the
        order of what is there: somebody else may have taken the stream up. One state a key. Raises `BusDown`; what
        was to be put is put again then, in its newest state."""
        ...

    def watch(self) -> AsyncGenerator[Latest | None]:
        """Every state there is (of those that change just then some come after), then None once, then every change as
        it comes, in order for each stream; of changes that come faster than they are read, the newest. Never ends
        while the bus is there; raises `BusDown`, and is then begun anew."""
        ...
