"""Stream keys, frames of logs and alert rows, and the interfaces of their stores.

A snapshot is never replaced by an older one. An alert with the same identity is recorded only once. The transaction
that records it also stores the position that its stream has reached.
"""

from collections.abc import Callable, Mapping, Sequence
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
        """The key as text for file names and database columns, such as `0/demo/ESZ2026`."""
        return f"{self.owner}/{self.feed}/{self.contract.key}"

    @classmethod
    def read(cls, text: str, universe: Universe) -> "StreamKey":
        """Parse the result of `text`. Raises `LookupError`, `ValueError`."""
        owner, feed, contract = text.split("/")
        return cls(int(owner), feed, universe.contract(contract))


@dataclass(frozen=True, slots=True)
class Frame:
    """A batch of log entries that were appended together.

    It has `count` entries, the first of them at log position `first`, encoded in `blob`.
    """

    first: int
    count: int
    blob: bytes


class LogDamaged(Exception):
    """A log has unreadable entries before its end. The message names the file, the byte and the remedy."""


class LogInUse(Exception):
    """Another process writes to this log."""


class LogTakenOver(Exception):
    """Another process has written to the stream's log and owns it now.

    This process's state of the stream is therefore invalid.
    """


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
    """An alert as stored. Prices are in units of 10⁻⁹, times in ns UTC.

    key: `<symbol>:<type>:<epoch_ms>`. params: as in the API, with prices in units of 10⁻⁹. seq: number in the order of
    commit, 0 before the commit. recorded_ns: when the alert was recorded, by the clock of its feed, like `at_ns`; None
    for alerts that an older version stored. It is not part of the alert's identity: the same trades give the same alert
    whenever they are played.
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
    """Who receives alerts at the time when they are recorded.

    audience: returns the recipients, given a feed's owner and a product root. now_ns: the machine's clock. since_ns: by
    the market's clock; earlier alerts are not sent.
    """

    audience: Callable[[int, str], Audience]
    now_ns: int
    since_ns: int = 0


class AlertEntries(Protocol):
    """Interface to the outbox (messages to deliver), which changes in the same transaction as the alerts."""

    def enter(self, connection: Connection, alerts: Sequence[AlertRow], whom: FanOut) -> None:
        """Write outbox entries for newly recorded alerts, one for each matching subscription."""
        ...

    def forget_alerts(self, connection: Connection, *which: ColumnElement[bool]) -> None:
        """Delete alerts that match the conditions. Their outbox entries stay but are not sent any more."""
        ...


class Snapshots(Protocol):
    """Storage of the newest snapshot of every stream. Each method may raise `StoreBusy`."""

    def save_snapshots(self, rows: Sequence[tuple[str, int, bytes]]) -> None:
        """Store snapshots `(stream, position, bytes)`, except where a snapshot of a later position is stored.

        The database revision does not change, because caches of responses would then become invalid.
        """
        ...

    def snapshot(self, key: str) -> tuple[int, bytes] | None:
        """Return the position and bytes of a stream's newest snapshot."""
        ...

    def forget_snapshot(self, key: str) -> None:
        """Remove a stream's snapshot."""
        ...
