"""The port for the latest answers: what every live stream says now, at every process that answers.

Rules kept: what is read was brought here before anybody asked, so a read makes no hop; an older state never takes the
place of a newer one, whoever sends it and however late.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

#: A state that has not been put again for so long may be forgotten, and is shown no more.
KEPT_S = 600.0

#: When the owner of a stream took it up, as a position of its log, and which state since: the greater is the newer.
Order = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Latest:
    """The state of a stream. `key`: `StreamKey.text`. `body`: empty: the stream is shown no more."""

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
