"""Ports of the live engine: the log every input goes to first, snapshots, and the alerts that came of them.

Rules kept: input is logged before it is applied; a snapshot is never replaced by an older one; an alert is recorded
once by its identity, in one transaction with the position its stream has reached.
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
    """One ordered stream: whose feed, which feed, which contract. `owner` 0 is the operator."""

    owner: int
    feed: str
    contract: Contract

    @property
    def text(self) -> str:
        """As file and column name it: `0/demo/ESZ2026`."""
        return f"{self.owner}/{self.feed}/{self.contract.key}"

    @classmethod
    def read(cls, text: str, universe: Universe) -> "StreamKey":
        """The stream of that `text`. Raises `LookupError`, `ValueError`."""
        owner, feed, contract = text.split("/")
        return cls(int(owner), feed, universe.contract(contract))


@dataclass(frozen=True, slots=True)
class Frame:
    """What was appended at once: entries `first` to `first + count`, not included, as `blob`."""

    first: int
    count: int
    blob: bytes


class LogDamaged(Exception):
    """A log holds what cannot be read, other than a torn end: names file, byte and what to do."""


class LogInUse(Exception):
    """Another process writes to this log."""


class LogTakenOver(Exception):
    """Another process has written to a stream's log meanwhile: it is that one's now, and what we know of it is void."""


class TradeLog(Protocol):
    """The log of every stream. Positions count entries from 0; a trade is one entry, however it was batched. What reads
    or removes may raise `StoreBusy` where the log cannot be reached."""

    def keys(self, partitions: Collection[int] | None = None) -> Sequence[str]:
        """Streams with anything in their log, by `StreamKey.text`; of these partitions, or of all."""
        ...

    def last(self, key: str) -> int:
        """The position after the newest entry; 0 for an empty log. Whoever takes a stream up asks this first: it looks
        at the log itself, and where another process has written to it, it may be appended to again from here on."""
        ...

    def append(self, key: str, first: int, count: int, blob: bytes) -> None:
        """Add entries at `first`. Entries already there are kept as they are, so a repeat does nothing; a hole raises
        `ValueError`, and so does what is there in part, for a blob cannot be split. When this returns, and `unkept` has
        nothing to wait for, the entries survive the process. Raises `OSError` (a full disk), the log being as it was,
        and `LogTakenOver`."""
        ...

    def pending_write(self, key: str) -> Awaitable[None] | None:
        """What to wait for until all that was appended to a stream survives the process; None where it does. It raises
        `LogTakenOver`, and then what was not kept by then never is; for a log that cannot be reached it waits. Until it
        is over nothing that came of those entries is told to anybody. For the event loop of the engine."""
        ...

    def stalled(self, key: str) -> str | None:
        """Why entries of a stream have waited for two seconds and more without any being kept; None where none has.
        Never blocks."""
        ...

    def check_ownership(self, key: str) -> None:
        """Return if no other process has written to a stream since this one did, by the log itself. Raises
        `LogTakenOver`. For what is written elsewhere on the strength of the log, just before it is."""
        ...

    def read(self, key: str, first: int) -> Iterator[Frame]:
        """Frames there are now, from the one that holds `first` on; from the oldest kept where that one was dropped,
        as its own `first` then tells. A torn end is what a crash left, and is cut off. Raises `LogDamaged`."""
        ...

    def cut(self, key: str) -> None:
        """Begin a new file with the next entry, so that all before it can be dropped later."""
        ...

    def drop(self, key: str, before: int) -> None:
        """Forget entries before a position, as far as whole files go. `last` stays as it is."""
        ...

    def forget(self, key: str) -> None:
        """Remove a stream's log: its next entry is at 0."""
        ...

    def take_notices(self, key: str) -> Sequence[str]:
        """What was done to a stream's log since this was last asked, for an operator: a torn end moved away."""
        ...

    def salvage(self, key: str, position: int, lost: Callable[[int], bytes]) -> Sequence[str]:
        """Put a damaged log together from what can be read, and return a line for each thing lost; none where it is
        whole, or where this log cannot do it. Damaged files are renamed and stay.

        position: of the snapshot the stream goes on from, 0 without one. Lost entries before it become one frame with
        the blob `lost(count)`; after it the log ends before the first lost entry."""
        ...

    def quarantine(self, key: str) -> None:
        """Let a stream's log begin at 0 as `forget` does, but rename files that a person may still want to read."""
        ...

    def sync(self) -> None:
        """Put what was appended on the disk itself, so that it survives the machine too."""
        ...


#: Which parameters are prices: 10⁻⁹ where alerts are kept, numbers where they are answered.
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
    """An alert as kept. `seq`: the order of commit, 0 before that. Prices 10⁻⁹, times ns UTC.

    key: `<symbol>:<type>:<epoch_ms>`. params: as the interface gives them, prices in 10⁻⁹ where they are prices.
    recorded_ns: when it was recorded, by the clock of its feed, which `at_ns` is of too (the present; for a recording
    played back how far it has come; in the demonstration the simulated market's); None for one recorded before this was
    kept. It is no part of what the alert is: the same trades give the same alert whenever they are played.
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
    """To whom alerts go as they are recorded. `audience`: of a feed's owner and a root; `now_ns`: by the machine's
    clock; `since_ns`: by the clock of the market; what fired before goes to nobody."""

    audience: Callable[[int, str], Audience]
    now_ns: int
    since_ns: int = 0


class AlertEntries(Protocol):
    """Entries in the outbox, which change in the transaction that changes their alerts."""

    def enter(self, connection: Connection, alerts: Sequence[AlertRow], whom: FanOut) -> None:
        """Enter alerts just recorded for every subscription they are for."""
        ...

    def forget_alerts(self, connection: Connection, *which: ColumnElement[bool]) -> None:
        """Remove alerts; their entries stay and are not sent any more."""
        ...


class Snapshots(Protocol):
    """The newest state of every stream, from which on its log is read. Each method may raise `StoreBusy`."""

    def save_snapshots(self, rows: Sequence[tuple[str, int, bytes]]) -> None:
        """Keep `(stream, position, bytes)`, each unless a later one is kept; does not move the revision."""
        ...

    def snapshot(self, key: str) -> tuple[int, bytes] | None:
        """The newest snapshot of a stream."""
        ...

    def forget_snapshot(self, key: str) -> None:
        """Remove a stream's snapshot."""
        ...


class LiveStore(Protocol):
    """Positions and alerts. Every method may raise `StoreBusy`."""

    def position(self, key: str) -> int:
        """The position up to which a stream's alerts are recorded; 0 where nothing is known of it."""
        ...

    def forget_stream(self, key: str) -> None:
        """Remove a stream's position; its alerts stay."""
        ...

    def forget_alerts(self, key: StreamKey) -> None:
        """Remove the alerts of a stream that begins anew, to be fired and recorded again."""
        ...

    def record_alerts(
        self, alerts: Sequence[AlertRow], positions: Mapping[str, int], fan_out: FanOut | None = None
    ) -> Sequence[AlertRow]:
        """Keep new alerts and the positions reached, in one transaction; return those that were new, with `seq`,
        in the order given. One of the same owner, feed and key is known already and is left as it is; a position
        already past is too. Does not move the revision.

        With `fan_out`, each new alert is entered in the same transaction in the outbox of every subscription that is
        active or disabled, for its symbol and severity, and whose user is of the audience and not disabled."""
        ...

    def alerts(
        self, owners: Sequence[int] | None, *, after_seq: int = 0, symbol: str | None = None,
        first: date | None = None, last: date | None = None, before_seq: int | None = None, limit: int = 1000,
        newest_first: bool = False,
    ) -> Sequence[AlertRow]:  # fmt: skip
        """Alerts of these owners, or everybody's, by `seq`."""
        ...

    def last_seq(self) -> int:
        """The newest alert's `seq`; 0 where there is none."""
        ...
