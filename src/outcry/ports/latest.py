"""The port for the latest answers: what every live stream says now, at every process that answers.

Rules kept: what is read was brought here before anybody asked, so a read makes no hop; an older state never takes the
place of a newer one, whoever sends it and however late.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Latest:
    """The state of a stream. `key`: `StreamKey.text`. `order`: when its owner took it up, as a position of its log, and
    the version since: of two states the greater is the newer. `body`: empty: the stream is shown no more."""

    key: str
    order: tuple[int, int]
    body: bytes


class LatestStates(Protocol):
    """Latest states of all streams."""

    async def put(self, states: Sequence[Latest]) -> Sequence[str]:
        """Let these be the latest, each unless a newer one is; return the keys of those that were not taken, for then
        somebody else has taken the stream up. Raises `BusDown`; what was to be put is put again then, in its newest
        state."""
        ...

    def watch(self) -> AsyncGenerator[Latest | None]:
        """Every state there is, then None once, then every change as it comes, in order for each stream. Never ends
        while the bus is there; raises `BusDown`, and is then begun anew."""
        ...
