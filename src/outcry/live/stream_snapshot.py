"""Snapshots of a stream. The event loop copies the state within microseconds; another thread encodes the copy."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np

from outcry.live.entries import Day
from outcry.market.ladder import Ladder
from outcry.market.live_session import encode
from outcry.market.opening import Opening
from outcry.market.snapshot import dump, load
from outcry.trades.feed import LIVE_TRADE, OVERLAP_NS
from outcry.trades.records import Quality, Rows

VERSION = 1
#: Prefix of a stored snapshot, followed by its digest. Early versions stored the snapshot without both.
_SEAL = b"OUTCRY1\n"
_DIGEST_BYTES = 16


#: First byte of a MessagePack array of 16 or more fields, such as a snapshot.
_ARRAY = b"\xdc"


class SnapshotDamaged(ValueError):
    """A stored snapshot does not match its digest."""

    def __init__(self, stream: str) -> None:
        super().__init__(f"the stored snapshot of the stream {stream} does not match its digest")


class SessionPart(msgspec.Struct, array_like=True):
    """A session in a snapshot. opened_at: the log position at which it opened."""

    opening: bytes
    opened_at: int
    data: bytes


class SnapshotRecord(msgspec.Struct, array_like=True):
    """The encoded state of a stream. The order of the fields is the format: after a change, also change `VERSION`."""

    version: int
    run: str
    own_clock: bool
    invented: bool
    lag_ns: int
    begun_at: int
    sessions: list[SessionPart]
    warm: bool
    quality: Quality
    latest_ns: int
    time_ns: int
    covered_ns: int
    holes: list[tuple[int, int]]
    pending: list[str]
    days: list[tuple[Day, int]]
    recent: bytes
    last_bar_ns: int
    barred_ns: int
    degraded: str
    night: tuple[str, bytes] | None = None  # last and optional, because older snapshots lack it


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """The copied state of a stream, not encoded yet.

    sessions: each with its opening and log position. recent: the rows of the last seconds, in batches of `LIVE_TRADE`
    as bytes. rest: all other fields.
    """

    sessions: list[tuple[Opening, int, dict[str, Any]]]
    recent: list[bytes]
    rest: SnapshotRecord

    def encode(self) -> bytes:
        """Encode the snapshot."""
        rest = self.rest
        parts = [SessionPart(opening.dump(), at, encode(held)) for opening, at, held in self.sessions]
        recent = since(self.recent, rest.latest_ns - OVERLAP_NS).tobytes()
        return msgspec.msgpack.encode(msgspec.structs.replace(rest, sessions=parts, recent=recent))


def sealed(stream: str, position: int, data: bytes) -> bytes:
    """Return an encoded snapshot in the form in which it is stored, with a digest over stream, position and bytes."""
    return _SEAL + _digest(stream, position, data) + data


def unsealed(stream: str, position: int, data: bytes) -> bytes:
    """Check the digest of a stored snapshot, and return the encoded snapshot in it. Raises `SnapshotDamaged`."""
    if not data.startswith(_SEAL):
        if data[:1] == _ARRAY:
            return data
        raise SnapshotDamaged(stream)
    at = len(_SEAL) + _DIGEST_BYTES
    if data[len(_SEAL) : at] != _digest(stream, position, data[at:]):
        raise SnapshotDamaged(stream)
    return data[at:]


def _digest(stream: str, position: int, data: bytes) -> bytes:
    digest = blake2b(f"{stream}\n{position}\n".encode(), digest_size=_DIGEST_BYTES)
    digest.update(data)
    return digest.digest()


def read(data: bytes) -> SnapshotRecord:
    """Decode a snapshot from the result of `StreamSnapshot.encode`. Raises `ValueError`."""
    found = msgspec.msgpack.decode(data, type=SnapshotRecord)
    if found.version != VERSION:
        raise ValueError(f"snapshot of version {found.version}, this program reads {VERSION}")
    return found


def plays_back(data: bytes) -> bool:
    """Return whether the stream of a snapshot plays back a recording, which can be played again."""
    try:
        return read(data).own_clock
    except ValueError:
        return False


def night_bytes(night: tuple[date, Ladder] | None) -> tuple[str, bytes] | None:
    """Encode a completed overnight session: its trade date and its ladder."""
    return (str(night[0]), dump(night[1])) if night else None


def night_of(held: tuple[str, bytes] | None) -> tuple[date, Ladder] | None:
    """Decode a completed overnight session from the result of `night_bytes`. Raises `ValueError`."""
    return (date.fromisoformat(held[0]), load(held[1])) if held else None


def since(batches: Sequence[bytes], first_ns: int) -> Rows:
    """Return rows from an event time (ns UTC) on, in order of arrival. batches: `LIVE_TRADE` rows as bytes."""
    rows = np.frombuffer(b"".join(batches), LIVE_TRADE)
    return rows[rows["ts_event"] >= first_ns]
