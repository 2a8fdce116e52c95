"""Stream keys, logs, snapshots and alert rows, and the interfaces of their stores.

Input is logged before it is applied. A snapshot is never replaced by an older one. An alert is recorded once by its
identity, in one transaction with the position that its stream has reached.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol

from sqlalchemy import ColumnElement, Connection

from outcry.access.licences import Audience
from outcry.market.alerts.machine import AlertType, Severity
from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract, Universe


@dataclass(frozen=True, slots=True, order=True)
class StreamKey:
    """The identity of an ordered stream: owner, feed and contract. Owner 0 is the operator."""

    owner: int
    feed: str
    contract: Contract

    @property
    def text(self) -> str:
        """The key as used in file names and columns, such as `0/demo/ESZ2026`."""
        return f"{self.owner}/{self.feed}/{self.contract.key}"

    @classmethod
    def read(cls, text: str, universe: Universe) -> "StreamKey":
        """Parse `text`. Raises `LookupError`, `ValueError`."""
        owner, feed, contract = text.split("/")
        return cls(int(owner), feed, universe.contract(contract))


@dataclass(frozen=True, slots=True)
class Frame:
    """A batch of log entries that were appended together.

    It has `count` entries from position `first` on, encoded in `blob`.
    """

    first: int
    count: int
    blob: bytes


class LogDamaged(Exception):
    """A log has unreadable entries before its end. The message names the file, the byte and the remedy."""


class LogInUse(Exception):
    """Another process writes to this log."""


class LogTakenOver(Exception):
    """Another process has written to the stream's log and owns it now, so our state of the stream is invalid."""


class TradeLog(Protocol):
    """The log of every stream. Positions count entries from 0; each trade is one entry, however trades were batched.

    Methods that read or remove entries may raise `StoreBusy` while the log is unavailable.
    """

    def keys(self, partitions: Collection[int] | None = None) -> Sequence[str]:
        """Return the names of streams with entries (`StreamKey.text`), in `partitions` or in all."""
        ...

    def last(self, key: str) -> int:
        """Return the position after the newest entry, 0 for an empty log.

        Call it first when a stream is acquired. It reads the log again, so that entries can be appended after those
        that another process has written.
        """
        ...

    def append(self, key: str, first: int, count: int, blob: bytes) -> None:
        """Append entries to a stream's log at position `first`.

        Entries that exist already are left as they are, so a repetition does nothing. They survive the process once
        `pending_write` has nothing to wait for. Raises `ValueError` for a gap or a partial overlap, `OSError` for a
        full disk (the log is unchanged) and `LogTakenOver`.
        """
        ...

    def pending_write(self, key: str) -> Awaitable[None] | None:
        """Return an awaitable for when everything appended survives the process; None if it does already.

        Nothing computed from these entries may be published before. The awaitable raises `LogTakenOver` if the entries
        are lost to another process, and waits while the log is unavailable. For the event loop of the engine.
        """
        ...

    def stalled(self, key: str) -> str | None:
        """Return why entries of a stream have waited for two seconds without any being persisted, or None.

        Never blocks.
        """
        ...

    def check_ownership(self, key: str) -> None:
        """Check that no other process has written to the stream since this one did. Raises `LogTakenOver`.

        Call it right before other data is written that depends on the log.
        """
        ...

    def read(self, key: str, first: int) -> Iterator[Frame]:
        """Yield the frames of a stream, beginning with the one that contains entry `first`.

        If that was dropped, begin with the oldest. An incomplete end, as a crash leaves it, is cut off. Raises
        `LogDamaged`.
        """
        ...

    def cut(self, key: str) -> None:
        """Start a new file with the next entry, so that the entries before it can be dropped later."""
        ...

    def drop(self, key: str, before: int) -> None:
        """Remove the files that contain only entries before a position. The result of `last` does not change."""
        ...

    def forget(self, key: str) -> None:
        """Remove a stream's log. Its next entry is at position 0."""
        ...

    def take_notices(self, key: str) -> Sequence[str]:
        """Return the repairs of a stream's log since the last call, as lines for the operator."""
        ...

    def salvage(self, key: str, position: int, lost: Callable[[int], bytes]) -> Sequence[str]:
        """Rebuild a damaged log from its readable entries; return a line for each loss, for the operator.

        There is none if the log is whole or cannot be rebuilt. Damaged files are renamed and not deleted. position: of
        the snapshot that the stream continues from, 0 without one. Lost entries before it become one frame with the
        blob `lost(count)`; after it the log ends before the first lost entry.
        """
        ...

    def quarantine(self, key: str) -> None:
        """Remove a stream's log as `forget` does, but keep its damaged files under another name for inspection."""
        ...

    def sync(self) -> None:
        """Sync everything appended to the disk, so that it survives a crash of the machine."""
        ...


#: Parameters that are prices: 10⁻⁹ in stored alerts, numbers in answers.
PRICE_PARAMS = frozenset(
    {
        "tick",
        "level",
        "reached",
        "vah",
        "val",
        "poc",
        "probeExtreme",
        "ibHigh",
        "ibLow",
        "ibRange",
        "ext150",
        "ext200",
        "distanceAtOpen",
    }
)


@dataclass(frozen=True, slots=True)
class AlertRow:
    """An alert as stored. Prices in 10⁻⁹, times in ns UTC.

    key: `<symbol>:<type>:<epoch_ms>`. params: as in the API, with prices in 10⁻⁹. seq: the order of commit, 0 before
    it. recorded_ns: when the alert was recorded, by the clock of its feed as `at_ns` is; None for alerts stored by
    versions without it. It is not part of the alert's identity: the same trades give the same alert whenever they are
    played.
    """

    owner: int
    feed: str
    contract: str
    symbol: str
    type: AlertType
    severity: Severity
    session: SessionKind
    trade_date: date
    key: str
    at_ns: int
    price_e9: int
    ref: str
    params: Mapping[str, object]
    invented: bool
    seq: int = 0
    recorded_ns: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class FanOut:
    """Who receives alerts as they are recorded.

    audience: of a feed's owner and a root. now_ns: by the machine's clock. since_ns: by the market's clock; earlier
    alerts are not sent.
    """

    audience: Callable[[int, str], Audience]
    now_ns: int
    since_ns: int = 0


class AlertEntries(Protocol):
    """Interface to the outbox, whose entries change in the same transaction as their alerts."""

    def enter(self, connection: Connection, alerts: Sequence[AlertRow], whom: FanOut) -> None:
        """Write outbox entries of newly recorded alerts, for all matching subscriptions."""
        ...

    def forget_alerts(self, connection: Connection, *which: ColumnElement[bool]) -> None:
        """Delete alerts. Their outbox entries stay but are not sent any more."""
        ...


class Snapshots(Protocol):
    """Storage of the newest snapshot of every stream. Each method may raise `StoreBusy`."""

    def save_snapshots(self, rows: Sequence[tuple[str, int, bytes]]) -> None:
        """Store snapshots `(stream, position, bytes)`, except where a later one is stored.

        Does not change the revision.
        """
        ...

    def snapshot(self, key: str) -> tuple[int, bytes] | None:
        """Return the position and bytes of a stream's newest snapshot."""
        ...

    def forget_snapshot(self, key: str) -> None:
        """Remove a stream's snapshot."""
        ...
