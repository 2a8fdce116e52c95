"""Interface for sharing the latest state of each live stream with every process that answers requests.

Each process receives all states, so it reads them from its own memory. An older state never replaces a newer one,
regardless of its sender and delay.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

#: Time (s) after which a state that was not published again expires.
KEPT_S = 600.0

#: The log position at which the owner acquired the stream, and the state's number since then. The greater is newer.
Order = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Latest:
    """The latest state of a stream.

    `key`: `StreamKey.text`; `body`: the encoded state, empty if the stream is no longer shown.
    """

    key: str
    order: Order
    body: bytes


class LatestStates(Protocol):
    """The latest states of all streams."""

    async def put(self, states: Sequence[Latest]) -> Mapping[str, Order]:
        """Store one state for each key, unless a newer state of that key is stored.

        Return the keys of the states not stored, with the order of the newer state. Another process may have acquired
        these streams. Raises `BusDown`; the caller then puts the newest state of each stream again.
        """
        ...

    def watch(self) -> AsyncGenerator[Latest | None]:
        """Yield all current states, then None once, then every change.

        Some states that change during the first part are yielded after None. Changes of a stream arrive in
        order. A slow reader receives only the newest. The iteration does not end while the bus is available.
        Raises `BusDown`; the caller then starts again.
        """
        ...
