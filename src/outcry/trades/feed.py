"""Interface of a live feed: one stream per contract, with history first and live events after it.

An adapter opens a stream from a cursor, sends the history since then as rows flagged `BACKFILL`, sends `CaughtUp`, and
continues with live rows. Each row is delivered at least once. After a reconnect the adapter may repeat rows after its
cursor (the time to start from), and the service removes duplicates only there. Data it cannot deliver is reported as a
`Gap`.

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
    """Flags that mark a row of a live feed, such as history."""

    BACKFILL = 1  # history: sent before `CaughtUp`, or to repair a gap
    ESTIMATED_TIME = 2  # the feed has no exchange time; `ts_event` is our own


class Resume(StrEnum):
    """How a feed continues after an interruption of its connection."""

    BY_TIME = "by_time"
    BY_ID = "by_id"
    NONE = "none"


class Backfill(StrEnum):
    """How much history of the current session a feed delivers when opened."""

    TICKS = "ticks"
    BARS_1S = "bars_1s"
    BARS_1M = "bars_1m"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class FeedCaps:
    """Capabilities and properties of a feed.

    resolution_ns: precision of its event times. reach_ns: how far back its history goes; 0 without history. lag_ns: its
    usual delay, for example of a file written at intervals. own_clock: its time is not the present (a replay or
    simulation); whether a session is open depends on the times it sends. invented: its trades are simulated, and
    answers say so. from_cursor: its history starts at the cursor, or a `Gap` reports from where; False for a program
    that pushes its data regardless of the cursor.
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

    last_id: the newest known id; 0 without one. barred_ns: starts of minutes of open trade dates that only bars cover;
    a starting feed may replace them with trades (`Replaced`). answered_ns: start of the current session including its
    overnight (ns UTC), 0 if unknown; a feed whose history is bars replaces bars from there on.
    """

    since_ns: int
    last_id: int = 0
    barred_ns: tuple[int, ...] = ()
    answered_ns: int = 0


@dataclass(frozen=True, slots=True)
class Trades:
    """Feed event: trades in order of arrival, dtype `LIVE_TRADE`."""

    rows: Rows


@dataclass(frozen=True, slots=True)
class Bars:
    """Feed event: completed bars, dtype `records.BAR`, stamped at their start, in order."""

    rows: Rows
    quality: Quality
    backfill: bool = False


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Feed event: history is complete up to `at_ns`, in this quality; the events after it are live.

    After an interruption the feed repeats no more rows after this event, unless `at_ns` is before the newest known row.
    A row after it that equals an earlier one is another trade.
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
    """Feed event: all trades of a window that was reported as missing have been sent now (half-open, ns UTC)."""

    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Replaced:
    """Feed event: all trades of a half-open window (ns UTC, at bar boundaries), which replace the bars of that time.

    rows: as in `Trades`, in order of time, all inside the window; may be empty. Sent after `CaughtUp`, oldest window
    first, some thousand rows at a time.
    """

    from_ns: int
    to_ns: int
    rows: Rows


@dataclass(frozen=True, slots=True)
class Amend:
    """Feed event: the exchange busted or corrected a trade, named by the feed's id. New price in 10⁻⁹, size in lots."""

    id: int
    kind: Literal["cancel", "correct"]
    price: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Feed event: the connection works. at_ns: time of the feed's clock; earlier events are no longer expected."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class VolumeCounter:
    """Feed event: the feed's own count of the trade date's volume up to `at_ns`, in lots.

    If the volume received stays below it, trades are missing.
    """

    at_ns: int
    volume_lots: int


#: Code of a `Status` before late events of the past.
CATCHING_UP = "catching_up"


@dataclass(frozen=True, slots=True)
class Status:
    """Feed event: state of the subscription. code: stable; text: for a person.

    After a status with the code `CATCHING_UP`, events are in the past, and the stream is not live until another status
    follows.
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
    """The connection is lost; retry. code: stable."""

    retry = True

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(text or code)
        self.code = code


class FeedRefused(FeedLost):
    """The feed refused access, for example after a failed login. A retry is useless until a person acts."""

    retry = False


class LoginRefused(FeedRefused):
    """The login was refused twice in a row, or has expired. The user must sign in again."""


class Feed(Protocol):
    """One connection to one source of trades. name: short, lower case; names the source in answers and on the tape."""

    name: str
    caps: FeedCaps
    #: Identifies one replay of a recording; a stream of another run starts over. Empty if there is only one run.
    run: str

    async def contracts(self) -> list[Contract]:
        """Return the contracts this feed can deliver now; empty: any contract requested."""
        ...

    def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """Stream the events of a contract from a cursor. Raises `FeedLost` or `FeedRefused`."""
        ...

    async def close(self) -> None:
        """Close the connection and end open streams."""
        ...
