"""Database rows of recordings and sessions, as the store returns them."""

from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from outcry.market.calendar import SessionKind
from outcry.trades.records import Quality

#: Contract, trade date, source and quality: unique among the recordings of an owner.
RecordingId = tuple[str, str, str, str]


class TapeFile(NamedTuple):
    """A finished tape file: its path relative to the tape folder, and the SHA-256 of its bytes in hexadecimal.

    digest: empty for a file written before Outcry stored digests; such a file cannot be verified.
    """

    path: str
    digest: str


NO_FILE = TapeFile("", "")


@dataclass(frozen=True, slots=True)
class RecordingRow:
    """A recording: the tape file with one source's data of one contract on one trade date. Owner 0 is the operator.

    first_ns, last_ns: times of the first and last event. Counts are numbers of rows. path: relative to the tape folder.
    spans: start and end (ns UTC) of the times that its files and feeds cover completely. from_feed: whether one of them
    is a live feed, which was disconnected between the spans. digest: SHA-256 of the file in hexadecimal; empty if it
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
        """The tape file of the recording, with its digest."""
        return TapeFile(self.path, self.digest)

    @property
    def id(self) -> "RecordingId":
        """The key that identifies the recording among those of its owner."""
        return self.contract, str(self.trade_date), self.source, self.quality.value


#: Of sessions: open (ns UTC), rows left out because their price was off-tick, and rows that came out of order.
SetAside = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Contribution:
    """The rows that one import, or all live feeds together, added to one recording.

    A recording is the union of its contributions, merged in order of `position`. digest: identifies the import; empty
    for live feeds, and for the rows of imports by versions that stored no contributions.

    path: tape file with these rows alone. Several contributions with equal rows, and the recording itself, may share a
    file. It is None if the rows are part of the contribution without a digest, and empty if the recording no longer has
    them, because a live feed's recording replaced them. file_digest: SHA-256 of that file. set_aside: rows of the
    import that are not on the tape, by session. Other fields are as in `RecordingRow`.
    """

    owner: int
    digest: str
    contract: str
    trade_date: date
    source: str
    quality: Quality
    position: int = 0
    path: str | None = None
    file_digest: str = ""
    rows: int = 0
    volume: int = 0
    first_ns: int = 0
    last_ns: int = 0
    spans: tuple[tuple[int, int], ...] = ()
    from_feed: bool = False
    set_aside: SetAside = ()

    @property
    def file(self) -> TapeFile:
        """The tape file with these rows alone, with its digest; `NO_FILE` if there is none."""
        return TapeFile(self.path or "", self.file_digest)

    @property
    def recording(self) -> "RecordingId":
        """The key of the recording that has these rows."""
        return self.contract, str(self.trade_date), self.source, self.quality.value


@dataclass(frozen=True, slots=True)
class ReadAs:
    """How a file was read. A value is None if the file itself states it, or if it does not apply.

    contract: the contract that the user named. tz: IANA zone of timestamps without a zone. stamp: whether the timestamp
    of a bar is its `open` or its `close`. scale: factor that turned stored numbers into prices. volume: `total` if the
    volume was a running total. decimal: `comma` if prices had a decimal comma. dates: `day-first` or `month-first`.
    bad_rows: `skip` or `keep` if invalid rows did not refuse the file.
    """

    format: str
    source: str
    contract: str | None = None
    tz: str | None = None
    stamp: str | None = None
    scale: str | None = None
    volume: str | None = None
    decimal: str | None = None
    dates: str | None = None
    bad_rows: str | None = None


@dataclass(frozen=True, slots=True)
class FileRead:
    """A file as an import read it. sha256: of its bytes. bytes: its size. rows: number of rows read.

    The text is empty and the others are None for imports by versions that did not store them.
    """

    sha256: str = ""
    bytes: int | None = None
    rows: int | None = None
    read_as: ReadAs | None = None


NO_DETAILS = FileRead()


@dataclass(frozen=True, slots=True)
class ImportRow:
    """An import of a file at `at_ns` (ns UTC). digest: SHA-256 of the file's bytes, name and options."""

    owner: int
    digest: str
    name: str
    at_ns: int
    file: FileRead = NO_DETAILS


#: Rows of: hour of the week in the product's time zone (0 is Monday 0:00), minutes with a trade, open minutes.
Activity = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A computed session: its window, its source, and its profile as `market.snapshot` bytes. Owner 0 is the operator.

    short: it closed early. complete: it has no holes, and was computed at least five minutes after its close. holes:
    gaps (half-open, ns UTC, in order) that usual activity does not explain. activity: number of minutes with trades by
    hour. segments: trading windows (half-open, ns UTC, in order) of the hours with which it was computed; empty if an
    earlier version stored it.
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
    segments: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Traded:
    """Volume (lots) and hourly activity (minutes with trades) of a complete session."""

    contract: str
    trade_date: date
    kind: SessionKind
    volume: int
    activity: Activity


@dataclass(frozen=True, slots=True)
class DamagedSession:
    """A stored session whose row does not match its checksum.

    It is not used; its values are those of the damaged row.
    """

    owner: int
    root: str
    contract: str
    trade_date: str
    kind: str


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """The sessions of one owner, contract, source and kind: how many, how many complete, first and last trade date."""

    owner: int
    root: str
    contract: str
    source: str
    kind: SessionKind
    sessions: int
    complete: int
    first: date
    last: date
