"""A stream at one position, held to be written: taken in microseconds, encoded beside the event loop."""

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
#: Begins a stored snapshot, followed by its digest; an earlier Outcry stored the snapshot alone.
_SEAL = b"OUTCRY1\n"
_DIGEST_BYTES = 16


#: How MessagePack begins an array of 16 or more fields, which a snapshot is.
_ARRAY = b"\xdc"


class SnapshotDamaged(ValueError):
    """A stored snapshot is not what was stored."""

    def __init__(self, stream: str) -> None:
        super().__init__(f"the stored snapshot of the stream {stream} does not match its digest")


class SessionPart(msgspec.Struct, array_like=True):
    """A session in a snapshot."""

    opening: bytes
    opened_at: int
    data: bytes


class SnapshotRecord(msgspec.Struct, array_like=True):
    """All of a stream. The order of fields is the form: change the version with it."""

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
    night: tuple[str, bytes] | None = None  # last, and with a default: older snapshots are without it


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """A stream yet to be written: sessions with their openings and positions, the rows of the last seconds, and all
    the rest."""

    sessions: list[tuple[Opening, int, dict[str, Any]]]
    recent: list[Rows]
    rest: SnapshotRecord

    def encode(self) -> bytes:
        """Write it."""
        rest = self.rest
        parts = [SessionPart(opening.dump(), at, encode(held)) for opening, at, held in self.sessions]
        recent = since(self.recent, rest.latest_ns - OVERLAP_NS).tobytes()
        return msgspec.msgpack.encode(msgspec.structs.replace(rest, sessions=parts, recent=recent))


def sealed(stream: str, position: int, data: bytes) -> bytes:
    """A snapshot as it is stored: with a digest over the stream it is of, the position and every byte."""
    return _SEAL + _digest(stream, position, data) + data


def unsealed(stream: str, position: int, data: bytes) -> bytes:
    """What `sealed` was given. Raises `SnapshotDamaged`."""
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
    """Read what `StreamSnapshot.encode` wrote. Raises `ValueError` for what it cannot read."""
    found = msgspec.msgpack.decode(data, type=SnapshotRecord)
    if found.version != VERSION:
        raise ValueError(f"snapshot of version {found.version}, this program reads {VERSION}")
    return found


def plays_back(data: bytes) -> bool:
    """Whether a snapshot is of a recording played back, which can be played again."""
    try:
        return read(data).own_clock
    except ValueError:
        return False


def night_bytes(night: tuple[date, Ladder] | None) -> tuple[str, bytes] | None:
    """An overnight session that is over, as a snapshot has it."""
    return (str(night[0]), dump(night[1])) if night else None


def night_of(held: tuple[str, bytes] | None) -> tuple[date, Ladder] | None:
    """The same, read. Raises `ValueError`."""
    return (date.fromisoformat(held[0]), load(held[1])) if held else None


def since(chunks: Sequence[Rows], first_ns: int) -> Rows:
    """Rows of chunks from an event time on, as they came."""
    rows = [chunk[chunk["ts_event"] >= first_ns] for chunk in chunks]
    return np.concatenate(rows) if rows else np.zeros(0, LIVE_TRADE)
