"""The latest state of each live stream, as its owner publishes it to every process that answers requests.

Each of these processes receives all states and answers from its own memory. An older state never replaces a newer one,
whichever process sent it and however late it arrives.
"""

from dataclasses import dataclass

#: Time (s) after which a state that was not published again expires.
RETENTION_S = 600.0

#: The log position at which the owner acquired the stream, and the state's number since then. The greater is newer.
Order = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Latest:
    """The latest published state of a live stream.

    key: `StreamKey.text`. order: says which of two states is newer. body: the encoded state, empty if the stream was
    removed from display.
    """

    key: str
    order: Order
    body: bytes
