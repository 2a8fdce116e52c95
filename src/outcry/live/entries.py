"""Entries of a stream's log: every input of the computation, in the order in which it was applied.

An entry contains everything that applying it needs, so a stream can be recovered from its log alone. Each row counts as
one entry, so positions and results do not depend on how rows were grouped.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Literal

import msgspec
import numpy as np

from outcry.live.model import Frame, LogDamaged
from outcry.market.opening import Opening
from outcry.trades.feed import LIVE_TRADE
from outcry.trades.records import BAR, Quality, Rows


class Entry(msgspec.Struct, frozen=True, tag_field="is"):
    """Base class of all log entries."""

    @property
    def count(self) -> int:
        """The number of log positions that the entry takes: one for each row."""
        return 1


class Began(Entry, frozen=True, tag="began"):
    """Log entry, the first of a stream: properties of the feed that delivers it.

    run: identifies one playback of a recording; empty for other feeds. lag_ns: the delay that the feed always has.
    """

    run: str
    own_clock: bool
    invented: bool
    lag_ns: int


class Taken(Entry, frozen=True, tag="taken"):
    """Log entry: a process has acquired the stream. The previous owner can append nothing after this entry."""

    by: str


class Opened(Entry, frozen=True, tag="opened"):
    """Log entry: a session opens with these reference levels, or the current session's reference levels change."""

    opening: bytes


class Day(msgspec.Struct, frozen=True, array_like=True):
    """A trade date of the exchange, and the end of its last trading window (ns UTC)."""

    trade_date: str
    end_ns: int


class TradeRows(Entry, frozen=True, tag="trades"):
    """Log entry: trades of one session and trade date, in order of arrival: `LIVE_TRADE` rows as bytes."""

    day: Day
    data: bytes

    @property
    def rows(self) -> Rows:
        """The trades as an array."""
        return np.frombuffer(self.data, LIVE_TRADE)

    @property
    def count(self) -> int:
        """The number of log positions that the entry takes: one for each trade."""
        return len(self.data) // LIVE_TRADE.itemsize


class BarRows(Entry, frozen=True, tag="bars"):
    """Log entry: completed bars of one session and trade date, all of one length: `records.BAR` rows as bytes."""

    day: Day
    data: bytes
    quality: Quality
    bar_ns: int
    backfill: bool

    @property
    def rows(self) -> Rows:
        """The bars as an array."""
        return np.frombuffer(self.data, BAR)

    @property
    def count(self) -> int:
        """The number of log positions that the entry takes: one for each bar."""
        return len(self.data) // BAR.itemsize


class Replacement(Entry, frozen=True, tag="replacement"):
    """Log entry: all trades of one session between two times (half-open), which replace the bars of that time.

    The trades are `LIVE_TRADE` rows as bytes.
    """

    day: Day
    from_ns: int
    to_ns: int
    data: bytes

    @property
    def rows(self) -> Rows:
        """The trades as an array."""
        return np.frombuffer(self.data, LIVE_TRADE)


class Mark(Entry, frozen=True, tag="mark"):
    """Log entry: event time (the clock of the trades) has reached this time (ns UTC), and nothing traded."""

    at_ns: int


class Caught(Entry, frozen=True, tag="caught"):
    """Log entry: history up to this time (ns UTC) is complete. Trades after this entry can fire alerts."""

    at_ns: int
    quality: Quality


class Hole(Entry, frozen=True, tag="hole"):
    """Log entry: trades between two timestamps (half-open) are missing."""

    from_ns: int
    to_ns: int
    why: str


class Mended(Entry, frozen=True, tag="mended"):
    """Log entry: trades between two timestamps were missing, and all of them have been delivered now."""

    from_ns: int
    to_ns: int


class Amended(Entry, frozen=True, tag="amended"):
    """Log entry: a trade was cancelled or corrected.

    id: the feed's number of the trade. The price is in units of 10⁻⁹.
    """

    id: int
    kind: Literal["cancel", "correct"]
    price: int
    size: int


class Stored(Entry, frozen=True, tag="stored"):
    """Log entry: a completed session or trade date is stored in the database.

    what: for example `rth 2026-01-02` or `day 2026-01-02`.
    """

    what: str


class Lost(Entry, frozen=True, tag="lost"):
    """Log entry in place of entries that were lost when a file of the log was damaged."""

    entries: int

    @property
    def count(self) -> int:
        """The number of log positions that the entry takes: that of the lost entries."""
        return self.entries


LogEntry = (
    Began
    | Taken
    | Opened
    | TradeRows
    | BarRows
    | Replacement
    | Mark
    | Caught
    | Hole
    | Mended
    | Amended
    | Stored
    | Lost
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(LogEntry)


def encode(entry: LogEntry) -> bytes:
    """Encode a log entry."""
    return _encoder.encode(entry)


def decode(frame: Frame) -> LogEntry:
    """Decode the log entry in a frame. Raises `LogDamaged`."""
    try:
        entry = _decoder.decode(frame.blob)
    except msgspec.DecodeError as problem:
        raise LogDamaged(f"the log's entry at {frame.first} cannot be read: {problem}") from problem
    if entry.count != frame.count:
        raise LogDamaged(
            f"the log's entry at {frame.first} holds {entry.count} rows, {frame.count} were logged"
        )
    return entry


def opening_of(entry: Opened) -> Opening:
    """Decode the opening (session with reference levels) in an entry. Raises `LogDamaged`."""
    try:
        return Opening.load(entry.opening)
    except (ValueError, KeyError, TypeError) as problem:
        raise LogDamaged(f"an opening in the log cannot be read: {problem}") from problem


def part(frame: Frame, first: int, until: int) -> tuple[int, LogEntry]:
    """Return the entry in a frame and its log position, without trades outside `[first, until)`.

    A frame may combine trades of several appends, so position `first` can lie within the frame. Raises `LogDamaged`.
    """
    entry = decode(frame)
    if isinstance(entry, TradeRows) and (frame.first < first or frame.first + frame.count > until):
        begin, end = max(0, first - frame.first), until - frame.first
        size = LIVE_TRADE.itemsize
        return frame.first + begin, TradeRows(entry.day, entry.data[begin * size : end * size])
    return frame.first, entry


def entries_between(frames: Iterable[Frame], first: int, until: int) -> Iterator[tuple[int, LogEntry]]:
    """Yield the entries of frames from position `first` to `until` (excluded), each with its position."""
    for frame in frames:
        if frame.first >= until:
            return
        if frame.first + frame.count > first:
            yield part(frame, first, until)


def of_days(entries: Sequence[LogEntry], days: Set[Day]) -> Sequence[LogEntry]:
    """Return log entries, of the rows only those whose trade date is in `days`.

    Rows of other trade dates are stored already but can still be in the log. If any trade was amended, all entries are
    returned, because the amended trade may belong to any trade date.
    """
    if any(isinstance(entry, Amended) for entry in entries):
        return entries
    return [
        entry
        for entry in entries
        if not isinstance(entry, TradeRows | BarRows | Replacement) or entry.day in days
    ]


def lost_spans(entries: Iterable[LogEntry], since_ns: int, until_ns: int) -> list[tuple[int, int]]:
    """Return the time spans (half-open, ns UTC) in which entries were lost.

    A span lasts from the row before the lost entries to the row after them. since_ns, until_ns: limits of the span if
    there is no row before or after.
    """
    found: list[tuple[int, int]] = []
    before_ns, is_lost = since_ns, False
    for entry in entries:
        if isinstance(entry, Lost):
            is_lost = True
        elif isinstance(entry, TradeRows | BarRows):
            times = entry.rows["ts_event"]
            if is_lost:
                found.append((before_ns, int(times[0]) + 1))
                is_lost = False
            before_ns = int(times[-1])
    return [*found, (before_ns, until_ns + 1)] if is_lost else found
