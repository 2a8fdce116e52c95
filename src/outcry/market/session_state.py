"""The stored form of a live session: everything but its opening, as canonical JSON.

Decoding a state that another version wrote raises an error. The session is then rebuilt from the trades in the log.
"""

import json
from typing import Any

from outcry.market.snapshot import dump, load

VERSION = 3


def encode(state: dict[str, Any]) -> bytes:
    """Encode the result of `LiveSession.state`."""
    ladder = state["ladder"]
    whole = {"version": VERSION} | state | {"ladder": json.loads(dump(ladder)) if ladder else None}
    return json.dumps(whole, separators=(",", ":")).encode()


def decode(data: bytes) -> dict[str, Any]:
    """Decode the result of `encode`. Raises `ValueError` if another version wrote it."""
    state: dict[str, Any] = json.loads(data)
    if state["version"] != VERSION:
        raise ValueError(f"session of version {state['version']}, this program reads {VERSION}")
    ladder = state["ladder"]
    return state | {"ladder": load(json.dumps(ladder).encode()) if ladder is not None else None}
