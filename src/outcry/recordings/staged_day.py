"""The rows of an import for one contract and trade date, on their way to the tape."""

from dataclasses import dataclass, field
from datetime import date

import numpy as np

from outcry.market.calendar import Session
from outcry.market.instruments import Contract
from outcry.recordings.contributions import joined_set_aside
from outcry.recordings.tape import DbnWriter
from outcry.sessions.store_model import (
    NO_FILE,
    Contribution,
    RecordingId,
    RecordingRow,
    SetAside,
    TapeFile,
)
from outcry.trades.coverage import Span
from outcry.trades.dedupe import Times
from outcry.trades.records import Quality, Rows
from outcry.trades.rows import volume_of


@dataclass(slots=True)
class Counts:
    """Counts of rows, lots, off-tick rows and late rows; also the first and last time (ns UTC)."""

    rows: int = 0
    volume: int = 0
    off_tick: int = 0
    out_of_order: int = 0
    first_ns: int = 2**63 - 1
    last_ns: int = -(2**63)

    @staticmethod
    def of(rows: Rows, quality: Quality) -> "Counts":
        """Return the counts of rows that are in order of time, none of them off-tick or late."""
        return Counts(
            len(rows), volume_of(rows, quality), 0, 0, int(rows["ts_event"][0]), int(rows["ts_event"][-1])
        )

    def add(self, more: "Counts", rows: Rows) -> None:
        """Add counts and the times of `rows`, which are in order of time."""
        self.rows += more.rows
        self.volume += more.volume
        self.off_tick += more.off_tick
        self.out_of_order += more.out_of_order
        if len(rows):
            self.first_ns = min(self.first_ns, int(rows["ts_event"][0]))
            self.last_ns = max(self.last_ns, int(rows["ts_event"][-1]))


@dataclass(slots=True)
class StagedDay:
    """The rows of an import for one contract and trade date, which become a tape file.

    `counts`, `file`, `spans`, `from_feed` and `set_aside` are those of the recording: of the new rows together with the
    rows that the tape has already. `own` has the new rows alone. It is None if an earlier version imported them too, so
    that the recording has them already.

    `pure`: the tape had no rows of the day and the new rows came in order, so the profile that was computed while they
    were read is valid. `fresh`: rows of earlier imports that have no tape file of their own are lost. `damaged`: path
    of the unreadable tape file that this one replaces. `obsolete`: tape files that may no longer be needed. `others`:
    contributions of other imports to write.
    """

    owner: int
    contract: Contract
    trade_date: date
    source: str
    quality: Quality
    counts: Counts = field(default_factory=Counts)
    seen: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    parts: list[TapeFile] = field(default_factory=list[TapeFile])
    writer: DbnWriter | None = None
    disordered: bool = False
    file: TapeFile = NO_FILE
    pure: bool = True
    fresh: bool = False
    damaged: str = ""
    changed: bool = True
    spans: tuple[Span, ...] = ()
    from_feed: bool = False
    set_aside: SetAside = ()
    duplicates: Times = field(default_factory=lambda: np.zeros(0, np.int64))
    obsolete: list[str] = field(default_factory=list[str])
    own: Contribution | None = None
    others: list[Contribution] = field(default_factory=list[Contribution])

    @property
    def id(self) -> RecordingId:
        """Identity of the recording: contract, trade date, source and quality."""
        return self.contract.key, str(self.trade_date), self.source, self.quality.value

    @property
    def first_ns(self) -> int:
        """Time of the first row (ns UTC)."""
        return self.counts.first_ns

    @property
    def last_ns(self) -> int:
        """Time of the last row (ns UTC)."""
        return self.counts.last_ns

    @property
    def ordered_file(self) -> TapeFile | None:
        """The tape file with the new rows, if they are all in one and in order."""
        return self.parts[0] if len(self.parts) == 1 and not self.disordered else None

    def add(self, open_ns: int, rows: Rows, counts: Counts) -> None:
        """Count rows of the session that opens at `open_ns`. They must be in order of time."""
        off_tick, late = self.seen.get(open_ns, (0, 0))
        self.seen[open_ns] = off_tick + counts.off_tick, late + counts.out_of_order
        if len(rows):
            times = rows["ts_event"]
            repeats = self.quality is not Quality.TICKS and (
                bool((times[1:] == times[:-1]).any()) or int(times[0]) == self.counts.last_ns
            )
            self.disordered |= int(times[0]) < self.counts.last_ns or repeats
        self.counts.add(counts, rows)

    def duplicates_in(self, session: Session) -> int:
        """Return how many rows of the imported file, within a session, were stored already."""
        return int(((self.duplicates >= session.open_ns) & (self.duplicates < session.close_ns)).sum())

    def contribution(self, digest: str, file: TapeFile, counts: Counts) -> Contribution:
        """Return the contribution of an import, whose rows alone are in a tape file. digest: identifies the import."""
        set_aside = tuple((open_ns, *seen) for open_ns, seen in sorted(self.seen.items()) if any(seen))
        return Contribution(
            self.owner, digest, self.contract.key, self.trade_date, self.source, self.quality, 0, file.path,
            file.digest, counts.rows, counts.volume, counts.first_ns, counts.last_ns, self.spans, self.from_feed,
            set_aside,
        )  # fmt: skip

    def count_set_aside(self, parts: list[SetAside]) -> None:
        """Set the rows set aside in the recording, from those of its contributions."""
        self.set_aside = joined_set_aside(parts)
        self.counts.off_tick = sum(off_tick for _, off_tick, _ in self.set_aside)
        self.counts.out_of_order = sum(late for _, _, late in self.set_aside)

    def recording(self, now_ns: int) -> RecordingRow:
        """Return the database row of the finished tape file."""
        c = self.counts
        return RecordingRow(
            self.owner, self.contract.key, self.trade_date, self.source, self.quality, self.file.path, c.rows,
            c.volume, c.off_tick, c.out_of_order, c.first_ns, c.last_ns, now_ns, self.spans, self.file.digest,
            self.from_feed,
        )  # fmt: skip
