"""A stream at one position, held to be written: taken in microseconds, encoded beside the event loop."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import msgspec
import numpy as np

from outcry.core.ladder import Ladder
from outcry.core.live import encode
from outcry.core.opening import Opening
from outcry.core.snapshot import dump, load
from outcry.ports.feed import LIVE_TRADE, OVERLAP_NS
from outcry.ports.records import Quality, Rows
from outcry.services.live.entries import Day

VERSION = 1


class Part(msgspec.Struct, array_like=True):
    """A session in a snapshot."""

    opening: bytes
    opened_at: int
    data: bytes


class Snapshot(msgspec.Struct, array_like=True):
    """All of a stream. The order of fields is the form: change the version with it."""

    version: int
    run: str
    own_clock: bool
    invented: bool
    lag_ns: int
    begun_at: int
    sessions: list[Part]
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
class Held:
    """A stream yet to be written: sessions with their openings and positions, the rows of the last seconds, and all
    the rest."""

    sessions: list[tuple[Opening, int, dict[str, Any]]]
    recent: list[Rows]
    rest: Snapshot

    def encode(self) -> bytes:
        """Write it."""
        rest = self.rest
        parts = [Part(opening.dump(), at, encode(held)) for opening, at, held in self.sessions]
        recent = since(self.recent, rest.latest_ns - OVERLAP_NS).tobytes()
        return msgspec.msgpack.encode(msgspec.structs.replace(rest, sessions=parts, recent=recent))


def read(data: bytes) -> Snapshot:
    """Read what `Held.encode` wrote. Raises `ValueError` for what it cannot read."""
    found = msgspec.msgpack.decode(data, type=Snapshot)
    if found.version != VERSION:
        raise ValueError(f"snapshot of version {found.version}, this program reads {VERSION}")
    return found


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
