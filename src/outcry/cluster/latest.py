"""The latest state of each live stream, as shared with every process that answers requests.

Each process receives all states, so it reads them from its own memory. An older state never replaces a newer one,
regardless of its sender and delay.
"""

from dataclasses import dataclass

#: Time (s) after which a state that was not published again expires.
RETENTION_S = 600.0

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
