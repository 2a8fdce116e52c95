"""Interface of a live feed: one stream per contract, with history first and live events after it.

An adapter (the code for one kind of feed) opens a stream from a cursor, the time to start from. It sends the history
since then as rows flagged `BACKFILL`, sends `CaughtUp`, and continues with live rows. Each row is delivered at least
once. After a reconnect the adapter may repeat rows after its cursor; the service removes duplicates there and nowhere
else. The adapter reports data that it cannot deliver as a `Gap`.

`FeedLost`: the connection is lost; retry. `FeedRefused`: a retry is useless until a person acts.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import IntFlag, StrEnum
from typing import Literal, Protocol

import numpy as np

from outcry.market.instruments import Contract
from outcry.trades.records import Quality, Rows

#: Names of feeds with simulated trades. Live and stored data from them carries the name as its source.
SIMULATED_SOURCES = frozenset({"simulator"})

#: A cursor lies this far before the newest known row, to cover rows in transit when the feed broke.
OVERLAP_NS = 2_000_000_000

#: One trade of a live feed: as `records.TRADE`, with the time of receipt (ns UTC) and the feed's id, by which it may be
#: amended (0 without one).
LIVE_TRADE = np.dtype(
    [
        ("ts_event", "<i8"),
        ("ts_recv", "<i8"),
        ("price", "<i8"),
        ("size", "<u4"),
        ("side", "S1"),
        ("flags", "u1"),
        ("sequence", "<u4"),
        ("id", "<u8"),
    ]
)


class RowFlag(IntFlag):
    """Flags of a row of a live feed, for example that the row is history."""

    BACKFILL = 1  # history: sent before `CaughtUp`, or to repair a gap
    ESTIMATED_TIME = 2  # the feed has no exchange time; `ts_event` is our own


class Resume(StrEnum):
    """How a feed continues after its connection was interrupted."""

    BY_TIME = "by_time"
    BY_ID = "by_id"
    NONE = "none"


class Backfill(StrEnum):
    """How much history of the current session a feed delivers when a stream opens."""

    TICKS = "ticks"
    BARS_1S = "bars_1s"
    BARS_1M = "bars_1m"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class FeedCaps:
    """Capabilities and properties of a feed.

    resolution_ns: precision of its event times. reach_ns: how far back its history goes; 0 without history. lag_ns: its
    usual delay, for example that of a file written at intervals. own_clock: its time is not the present, as in a replay
    or simulation; the times it sends then decide whether a session is open. invented: its trades are simulated, and API
    responses say so. from_cursor: its history starts at the cursor, or a `Gap` reports where it starts. False for a
    program that pushes its data without regard to the cursor.
    """

    resolution_ns: int
    has_id: bool
    has_side: bool
    backfill: Backfill
    reach_ns: int
    resume: Resume
    has_volume_counter: bool
    lag_ns: int = 0
    own_clock: bool = False
    invented: bool = False
    from_cursor: bool = True


@dataclass(frozen=True, slots=True)
class Cursor:
    """Position from which a feed starts: rows at or after `since_ns` (event time).

    last_id: the newest known id of a trade; 0 without one. barred_ns: starts of the minutes, on trade dates not yet
    over, that are recorded as bars only; a starting feed may replace these bars with trades (`Replaced`). answered_ns:
    start of the current session, including the overnight session before it (ns UTC); 0 if unknown. If the history of a
    feed is bars, the feed replaces bars since `answered_ns` with trades.
    """

    since_ns: int
    last_id: int = 0
    barred_ns: tuple[int, ...] = ()
    answered_ns: int = 0


@dataclass(frozen=True, slots=True)
class Trades:
    """Feed event: trades in order of arrival, as rows of dtype `LIVE_TRADE`."""

    rows: Rows


@dataclass(frozen=True, slots=True)
class Bars:
    """Feed event: completed bars in order, stamped at their start, as rows of dtype `records.BAR`."""

    rows: Rows
    quality: Quality
    backfill: bool = False


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Feed event: the history up to `at_ns` has been sent, in this quality; the events after this one are live.

    After an interruption a feed may repeat rows, but only before this event, unless `at_ns` is before the newest known
    row. From then on, a row that equals an earlier one is another trade.
    """

    at_ns: int
    quality: Quality


@dataclass(frozen=True, slots=True)
class Gap:
    """Feed event: trades are missing in a half-open window (ns UTC). why: the reason."""

    from_ns: int
    to_ns: int
    why: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """Feed event: all trades of a window that was reported as a gap have been sent now. Half-open, ns UTC."""

    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Replaced:
    """Feed event: all trades of a half-open window (ns UTC, at bar boundaries), to replace the bars recorded for it.

    rows: as in `Trades`, in order of time, all inside the window; may be empty. The feed sends these events after
    `CaughtUp`, oldest window first, some thousand rows at a time.
    """

    from_ns: int
    to_ns: int
    rows: Rows


@dataclass(frozen=True, slots=True)
class Amend:
    """Feed event: the exchange cancelled (busted) or corrected a trade, which is identified by the feed's id for it.

    The new price is in units of 10⁻⁹, the new size in lots.
    """

    id: int
    kind: Literal["cancel", "correct"]
    price: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Feed event: the connection works. at_ns: the feed's clock; no more events with earlier times are expected."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class VolumeCounter:
    """Feed event: the feed's own count of the trade date's volume up to `at_ns`, in lots.

    If the volume of the trades received stays below this count, trades are missing.
    """

    at_ns: int
    volume_lots: int


#: Code of a `Status` before late events of the past.
CATCHING_UP = "catching_up"


@dataclass(frozen=True, slots=True)
class Status:
    """Feed event: state of the subscription. code: stable, for programs; text: for a person.

    After a status with the code `CATCHING_UP`, the feed sends events of the past. The stream is not live until another
    status follows.
    """

    subscribed: bool
    code: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """Feed event: the feed is finished, for example at the end of a recording."""

    at_ns: int


Event = (
    Trades | Bars | Replaced | CaughtUp | Gap | Repaired | Amend | Heartbeat | VolumeCounter | Status | Ended
)


class FeedLost(Exception):
    """The connection is lost; retry. code: stable reason, for programs."""

    retry = True

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(text or code)
        self.code = code


class FeedRefused(FeedLost):
    """The feed refused access, for example after a failed login. A retry is useless until a person acts."""

    retry = False


class LoginRefused(FeedRefused):
    """The vendor refused the login twice in a row, or the login has expired. The user must sign in again."""


class Feed(Protocol):
    """One connection to one source of trades.

    name: short, lower case; names the source in API responses and on the tape.
    """

    name: str
    caps: FeedCaps
    #: Identifies one replay of a recording; a stream of another run starts over. Empty if there is only one run.
    run: str

    async def contracts(self) -> list[Contract]:
        """Return the contracts that this feed can deliver now. Empty: it accepts any contract."""
        ...

    def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """Stream the events of a contract from a cursor. Raises `FeedLost` or `FeedRefused`."""
        ...

    async def close(self) -> None:
        """Close the connection and end open streams."""
        ...
