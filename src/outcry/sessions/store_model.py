"""The port for what is kept in the database: accounts, recordings, sessions.

Every method may raise `StoreBusy`. `revision()` grows with every committed change an answer may rest on, by
whichever process, and is cheap enough to ask several times a second: caches of what the store holds are keyed by it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol

from sqlalchemy import Connection

from outcry.market.calendar import SessionKind
from outcry.sessions.tape_model import TapeFile
from outcry.trades.records import Quality

#: Contract, trade date, source and quality: what no two recordings of an owner share.
RecordingId = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class RecordingRow:
    """One tape file: what one source said of one contract on one trade date. `owner` 0 is the operator.

    `first_ns` and `last_ns` are the first and last event; counts are rows; `path` is relative to the tape folder;
    `spans`: from and until (ns UTC) which the files and feeds it came from held all there was; `from_feed`: whether a
    live feed is among them, which then was away in between; `digest`: the file's SHA-256 in hexadecimal, empty where it
    was written before digests were stored.
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
        """The tape file, to be read."""
        return TapeFile(self.path, self.digest)

    @property
    def id(self) -> "RecordingId":
        """What no two recordings of an owner share."""
        return self.contract, str(self.trade_date), self.source, self.quality.value


#: Hour of the week in the product's zone (0 is Monday, 0:00), minutes of it with a trade, minutes it was open.
Activity = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A folded session: its window, its source, and its profile as `core.snapshot` bytes. `owner` 0 is the operator.

    `short`: the close was brought forward. `complete`: its close was five minutes past when it was folded, and it has
    no holes. `holes`: windows (half-open, ns UTC, in order) that usual trade does not explain. `activity`: in how many
    minutes it traded, by hour.
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
    """How a complete session traded. volume: lots."""

    contract: str
    trade_date: date
    kind: SessionKind
    volume: int
    activity: Activity


@dataclass(frozen=True, slots=True)
class DamagedSession:
    """A stored session that does not match its checksum, by what its row says now: it is answered nowhere."""

    owner: int
    root: str
    contract: str
    trade_date: str
    kind: str


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """Sessions of one owner, contract, source and kind, counted: how many, how many of them complete, and the first and
    last trade date."""

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
        """A number that changes whenever anything was committed that an answer may rest on; a sign-in is no such
        thing."""
        ...

    def import_known(self, owner: int, digest: str) -> bool:
        """Whether a file of these bytes was imported for this owner before."""
        ...

    def imported(self, owner: int, digest: str) -> Sequence[RecordingId]:
        """The recordings that import brought rows of; none where it was before this was stored."""
        ...

    def recordings(self, owner: int, contract: str, first: date, last: date) -> Sequence[RecordingRow]:
        """Recordings of a contract between two trade dates, both included."""
        ...

    def sessions_of(self, owner: int, contract: str, first: date, last: date) -> Sequence[SessionRow]:
        """Sessions of one contract between two trade dates, both included; none that is damaged."""
        ...

    def traded(self, owner: int, root: str, first: date, last: date) -> Sequence[Traded]:
        """How the complete sessions of a product traded between two trade dates, both included."""
        ...

    def all_recordings(self) -> Sequence[RecordingRow]:
        """Every recording there is, but those whose row is damaged."""
        ...

    def has_damaged_recordings(self) -> bool:
        """Whether the row of any recording is damaged: `all_recordings` lacks it then."""
        ...

    def add_digest(self, recording: RecordingRow, digest: str) -> None:
        """Store the digest of a recording's file, unless another file has taken its place. Does not move the
        revision."""
        ...

    def replace_sessions(self, owner: int, contract: str, sessions: Sequence[SessionRow]) -> None:
        """Put these sessions in the place of all that were kept of a contract, in one transaction."""
        ...

    def tape_paths(self) -> frozenset[str]:
        """Every tape file a recording names."""
        ...

    def tape_named(self, paths: Sequence[str]) -> frozenset[str]:
        """Those of these tape files that a recording names: what a crash left over is none of them."""
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
        """Keep all of one file's recordings and sessions in one transaction, replacing those of the same identity.

        `digest` empty: what it came from is no file, and need not be known again. `brought`: recordings that hold rows
        of the file; `fresh`: those that hold rows of no other file now, so that an import which once brought some has
        to be taken in again."""
        ...

    def forget_source(self, source: str, also: Callable[[Connection, str], None]) -> list[str]:
        """Remove everything a source brought, whoever owns it, in one transaction: recordings and sessions, and what
        `also` removes of the source. Return the tape files that nothing names any more, to be removed after this. For
        feeds: an imported file stays known as such."""
        ...

    def sessions(self, owners: Sequence[int], root: str) -> Sequence[SessionRow]:
        """All sessions of a product of these owners, oldest first; none that is damaged."""
        ...

    def sessions_and_damaged(
        self, owners: Sequence[int], root: str
    ) -> tuple[Sequence[SessionRow], Sequence[DamagedSession]]:
        """The same, and the damaged ones, from one reading."""
        ...

    def roots(self, owners: Sequence[int]) -> Sequence[str]:
        """The products these owners have sessions of."""
        ...

    def datasets(self) -> Sequence[DatasetRow]:
        """What there is of everyone, counted, by owner, contract, source and kind; oldest contract first."""
        ...
