"""Interface of the database for recordings and sessions.

Every method may raise `StoreBusy`. `revision()` grows with every committed change that can affect an answer, by any
process. It is cheap enough to call several times a second, and caches of stored data are keyed by it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol

from sqlalchemy import Connection

from outcry.market.calendar import SessionKind
from outcry.sessions.tape_model import TapeFile
from outcry.trades.records import Quality

#: Contract, trade date, source and quality: unique among the recordings of an owner.
RecordingId = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class RecordingRow:
    """A recording: the tape file with one source's data of one contract on one trade date. Owner 0 is the operator.

    first_ns, last_ns: first and last event. Counts are rows. path: relative to the tape folder. spans: start and end
    (ns UTC) of the times its files and feeds cover completely. from_feed: whether one of them is a live feed, so that
    it was disconnected between spans. digest: SHA-256 of the file in hexadecimal; empty if it was written before
    digests were stored.
    """

    owner: int
    contract: str
    trade_date: date
    source: str
    quality: Quality
    path: str
    rows: int
    volume: int
    off_tick: int
    out_of_order: int
    first_ns: int
    last_ns: int
    received_ns: int
    spans: tuple[tuple[int, int], ...]
    digest: str = ""
    from_feed: bool = False

    @property
    def file(self) -> TapeFile:
        """The tape file."""
        return TapeFile(self.path, self.digest)

    @property
    def id(self) -> "RecordingId":
        """The identity among the recordings of an owner."""
        return self.contract, str(self.trade_date), self.source, self.quality.value


#: Rows of: hour of the week in the product's time zone (0 is Monday 0:00), minutes with a trade, open minutes.
Activity = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A folded session: its window, source, and profile as `market.snapshot` bytes. Owner 0 is the operator.

    short: it closed early. complete: it was folded at least five minutes after its close and has no holes. holes: gaps
    (half-open, ns UTC, in order) that usual activity does not explain. activity: minutes with trades by hour.
    """

    owner: int
    root: str
    contract: str
    trade_date: date
    kind: SessionKind
    open_ns: int
    close_ns: int
    source: str
    quality: Quality
    complete: bool
    short: bool
    rows: int
    volume: int
    off_tick: int
    out_of_order: int
    first_ns: int
    last_ns: int
    received_ns: int
    profile: bytes
    holes: tuple[tuple[int, int], ...] = ()
    activity: Activity = ()


@dataclass(frozen=True, slots=True)
class Traded:
    """Volume (lots) and activity of a complete session."""

    contract: str
    trade_date: date
    kind: SessionKind
    volume: int
    activity: Activity


@dataclass(frozen=True, slots=True)
class DamagedSession:
    """A stored session that does not match its checksum. No answer uses it. Values are as its row has them now."""

    owner: int
    root: str
    contract: str
    trade_date: str
    kind: str


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """Count of the sessions of one owner, contract, source and kind: all, complete ones, first and last trade date."""

    owner: int
    root: str
    contract: str
    source: str
    kind: SessionKind
    sessions: int
    complete: int
    first: date
    last: date


class SessionStore(Protocol):
    """Recordings and the sessions folded from them."""

    def revision(self) -> int:
        """Return a number that changes with every commit that can affect an answer. A sign-in cannot."""
        ...

    def import_known(self, owner: int, digest: str) -> bool:
        """Return whether a file with this digest was imported for this owner before."""
        ...

    def imported(self, owner: int, digest: str) -> Sequence[RecordingId]:
        """Return the recordings that an import added rows to; empty for imports before this was stored."""
        ...

    def recordings(self, owner: int, contract: str, first: date, last: date) -> Sequence[RecordingRow]:
        """Return the recordings of a contract between two trade dates, both included."""
        ...

    def sessions_of(self, owner: int, contract: str, first: date, last: date) -> Sequence[SessionRow]:
        """Return the intact sessions of one contract between two trade dates, both included."""
        ...

    def traded(self, owner: int, root: str, first: date, last: date) -> Sequence[Traded]:
        """Return volume and activity of a product's complete sessions between two trade dates, both included."""
        ...

    def all_recordings(self) -> Sequence[RecordingRow]:
        """Return all recordings except those with a damaged row."""
        ...

    def has_damaged_recordings(self) -> bool:
        """Return whether the row of any recording is damaged, so that `all_recordings` leaves it out."""
        ...

    def add_digest(self, recording: RecordingRow, digest: str) -> None:
        """Store the digest of a recording's file, unless another file has replaced it. Keeps the revision."""
        ...

    def replace_sessions(self, owner: int, contract: str, sessions: Sequence[SessionRow]) -> None:
        """Replace all stored sessions of a contract in one transaction."""
        ...

    def tape_paths(self) -> frozenset[str]:
        """Return all tape files that recordings name."""
        ...

    def tape_named(self, paths: Sequence[str]) -> frozenset[str]:
        """Return which of these tape files a recording names. Files left over from a crash are not among them."""
        ...

    def commit_import(
        self,
        owner: int,
        digest: str,
        name: str,
        recordings: Sequence[RecordingRow],
        sessions: Sequence[SessionRow],
        now_ns: int,
        *,
        brought: Sequence[RecordingId] = (),
        fresh: Sequence[RecordingId] = (),
    ) -> None:
        """Store all recordings and sessions of one file in one transaction, replacing those of the same identity.

        digest: empty if the source is not a file, so that it need not be recognised later. brought: recordings with
        rows of the file. fresh: those with rows of no other file now; earlier imports into them must be repeated.
        """
        ...

    def forget_source(self, source: str, also: Callable[[Connection, str], None]) -> list[str]:
        """Delete all recordings and sessions of a source, of all owners, in one transaction.

        also: deletes further rows of the source in it. Returns the tape files that are no longer named, for the caller
        to remove. For feeds only: imported files stay recorded as imported.
        """
        ...

    def sessions(self, owners: Sequence[int], root: str) -> Sequence[SessionRow]:
        """Return the intact sessions of a product of these owners, oldest first."""
        ...

    def sessions_and_damaged(
        self, owners: Sequence[int], root: str
    ) -> tuple[Sequence[SessionRow], Sequence[DamagedSession]]:
        """Return `sessions` and the damaged ones, from one read."""
        ...

    def roots(self, owners: Sequence[int]) -> Sequence[str]:
        """Return the roots of products that these owners have sessions of."""
        ...

    def datasets(self) -> Sequence[DatasetRow]:
        """Return counts of all sessions by owner, contract, source and kind, oldest contract first."""
        ...
