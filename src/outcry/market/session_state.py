"""A live session as it is written down: everything but its opening, as canonical JSON.

Rule kept: what is written in another edition is refused, never guessed at; the trades are in the log.
"""

import json
from typing import Any

from outcry.market.snapshot import dump, load

VERSION = 3


def encode(held: dict[str, Any]) -> bytes:
    """Write what `LiveSession.hold` took."""
    ladder = held["ladder"]
    whole = {"version": VERSION} | held | {"ladder": json.loads(dump(ladder)) if ladder else None}
    return json.dumps(whole, separators=(",", ":")).encode()


def decode(data: bytes) -> dict[str, Any]:
    """Read what `encode` wrote; raise `ValueError` for a version this program does not know."""
    held: dict[str, Any] = json.loads(data)
    if held["version"] != VERSION:
        raise ValueError(f"session of version {held['version']}, this program reads {VERSION}")
    ladder = held["ladder"]
    return held | {"ladder": load(json.dumps(ladder).encode()) if ladder is not None else None}
