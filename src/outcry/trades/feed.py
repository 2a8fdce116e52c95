"""The port for a live feed: history, then what happens now, on one stream a contract.

An adapter opens a stream from a cursor, sends the history since then as rows flagged `BACKFILL`, says `CaughtUp`, and
goes on with live rows. It delivers at least once: after a reconnect it may repeat what lies after its cursor, and the
service recognises repeats there, and only there. It never leaves a hole in silence: what it cannot bring is a `Gap`.

Errors: `FeedLost` when the connection is gone and worth trying again, `FeedRefused` when trying again is of no use
until a person has done something.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import IntFlag, StrEnum
from typing import Literal, Protocol

import numpy as np

from outcry.market.instruments import Contract
from outcry.trades.records import Quality, Rows

#: Feeds whose trades nobody made. What was computed from them is known by this name, live and in the store.
SIMULATED_SOURCES = frozenset({"simulator"})

#: A cursor lies this far before the newest row known, for what was under way when the feed broke.
OVERLAP_NS = 2_000_000_000

#: One trade of a live feed: as `records.TRADE`, with the time it was received (ns UTC) and the feed's own number for
#: it (0 where it has none) by which it may be amended.
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
    """`flags` of a live row."""

    BACKFILL = 1  # history: sent before `CaughtUp`, or to repair a gap
    ESTIMATED_TIME = 2  # the feed gives no exchange time; `ts_event` is our own


class Resume(StrEnum):
    """How a feed can go on after an interruption."""

    BY_TIME = "by_time"
    BY_ID = "by_id"
    NONE = "none"


class Backfill(StrEnum):
    """What history of the session a feed brings when opened."""

    TICKS = "ticks"
    BARS_1S = "bars_1s"
    BARS_1M = "bars_1m"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class FeedCaps:
    """What a feed can do. resolution_ns: of its event times. reach_ns: how far back its history goes, 0: none.

    from_cursor: its history begins at the cursor, or a `Gap` says from where; False for a program that pushes what it
    has without a look at the cursor.
    lag_ns: how late its rows come by its own nature (a file written now and then). own_clock: its time is not the
    present (a replay, a simulation): whether a session is open is judged by the times it sends. invented: its trades
    are made up, and everything computed from them says so.
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
    """Where to begin: rows at or after `since_ns` (event time). `last_id`: the newest number known, 0: none.

    barred_ns: starts of minutes of days under way that only bars have told of, given to a feed that begins: it may send
    trades in their place (`Replaced`). answered_ns: when the session answered now begins, its overnight included (ns
    UTC), 0: not known. A feed whose history is bars sends trades in their place from there on.
    """

    since_ns: int
    last_id: int = 0
    barred_ns: tuple[int, ...] = ()
    answered_ns: int = 0


@dataclass(frozen=True, slots=True)
class Trades:
    """Trades in the order they came, dtype `LIVE_TRADE`."""

    rows: Rows


@dataclass(frozen=True, slots=True)
class Bars:
    """Completed bars, dtype `records.BAR`, stamped at their start, in order."""

    rows: Rows
    quality: Quality
    backfill: bool = False


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """History is complete up to `at_ns`, in this quality; from here on it is live.

    After an interruption it also ends the overlap, if it is not before the newest row known: an equal row that comes
    later is another trade.
    """

    at_ns: int
    quality: Quality


@dataclass(frozen=True, slots=True)
class Gap:
    """Between two instants (ns UTC, half-open) trades are missing, and why."""

    from_ns: int
    to_ns: int
    why: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """All trades between two instants (ns UTC, half-open) have been sent now."""

    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Replaced:
    """All that was traded between two instants (ns UTC, half-open, at edges of bars), trade by trade: it takes the
    place of the bars that told of this time so far. `rows` as in `Trades`, in order of time, none outside; there may be
    none. Sent after `CaughtUp`, oldest time first, in pieces of some thousand rows."""

    from_ns: int
    to_ns: int
    rows: Rows


@dataclass(frozen=True, slots=True)
class Amend:
    """The exchange took back a trade or corrected it, named by the feed's number. New price 10⁻⁹, size lots."""

    id: int
    kind: Literal["cancel", "correct"]
    price: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The link lives, and by the feed's clock it is `at_ns`: nothing earlier is still to come, but by accident."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class VolumeCounter:
    """The feed's own count of lots of the trade date up to `at_ns`: what we have must add up to it."""

    at_ns: int
    volume_lots: int


#: The code of a `Status` before news of the past.
CATCHING_UP = "catching_up"


@dataclass(frozen=True, slots=True)
class Status:
    """Whether the subscription stands; `code` is stable, `text` for a person. With the code `CATCHING_UP` what follows
    is news, but of the past: the stream is not live until another status follows."""

    subscribed: bool
    code: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """The feed has no more to send, ever: a recording is over."""

    at_ns: int


Event = (
    Trades | Bars | Replaced | CaughtUp | Gap | Repaired | Amend | Heartbeat | VolumeCounter | Status | Ended
)


class FeedLost(Exception):
    """The connection is gone; worth trying again. `code` is stable."""

    retry = True

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(text or code)
        self.code = code


class FeedRefused(FeedLost):
    """The feed will not have us (a login that failed): no use trying again until a person has acted."""

    retry = False


class LoginRefused(FeedRefused):
    """The login was refused twice running, or has ended: the person has to sign in anew, with other entries perhaps."""


class Feed(Protocol):
    """One connection to one source. `name` is short, lower case, and names the source in answers and on the tape."""

    name: str
    caps: FeedCaps
    #: Which performance of a recording this is; a stream begun by another one starts over. Empty: there is but one.
    run: str

    async def contracts(self) -> list[Contract]:
        """The contracts this feed can bring now; empty: whichever are asked for."""
        ...

    def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """Stream a contract from a cursor. Raises `FeedLost` or `FeedRefused` when it breaks."""
        ...

    async def close(self) -> None:
        """Let go of the connection; open streams end."""
        ...
