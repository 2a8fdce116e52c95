"""Encodes ladders as canonical JSON, so that equal ladders have equal bytes.

The bytes contain the version of the format. Decoding another version raises an error.
"""

import json

from outcry.market.ladder import Bracket, Ladder

VERSION = 1


class SnapshotMismatch(ValueError):
    """The bytes are not a snapshot, or a snapshot in the format of another version."""


def dump(ladder: Ladder) -> bytes:
    """Encode a ladder as canonical JSON bytes."""
    brackets = [
        [b.index, b.open_ticks, b.high_ticks, b.low_ticks, b.close_ticks, b.first_ns, b.last_ns]
        for b in ladder.brackets
    ]
    whole = [VERSION, ladder.source, ladder.low_ticks, brackets, ladder.volume, ladder.touched]
    return json.dumps(whole, separators=(",", ":")).encode()


def load(data: bytes) -> Ladder:
    """Decode a ladder from the result of `dump`. Raises `SnapshotMismatch`."""
    try:
        version, source, low, brackets, volume, touched = json.loads(data)
        if version != VERSION:
            raise SnapshotMismatch(f"snapshot of version {version}, this program reads {VERSION}")
        return Ladder(
            tuple(Bracket(*bracket) for bracket in brackets),
            low,
            tuple(volume),
            tuple((a, b) for a, b in touched),
            source,
        )
    except (ValueError, TypeError) as problem:
        if isinstance(problem, SnapshotMismatch):
            raise
        raise SnapshotMismatch(f"not a snapshot: {problem}") from problem
