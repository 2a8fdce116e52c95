"""Stored sessions of one contract, and what they carry forward: the prior session, levels and the average range."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import islice

from outcry.market.calendar import Calendar, SessionKind
from outcry.market.instruments import Contract
from outcry.market.ladder import IB_BRACKETS, Ladder
from outcry.market.levels import POC_LOOKBACK_SESSIONS, CarriedLevels, CompletedSession, carried_levels
from outcry.market.opening import IncompleteSession
from outcry.market.profile import SessionProfile, profile_of
from outcry.market.snapshot import load
from outcry.sessions.store_model import SessionRow

ADR_SESSIONS = 20


class StoredSession:
    """A stored session. Its ladder (volume by price) is decoded and its profile computed on first use."""

    def __init__(self, row: SessionRow, contract: Contract) -> None:
        self.row, self.contract = row, contract

    @cached_property
    def ladder(self) -> Ladder:
        """The session's brackets and its volume at each price."""
        return load(self.row.profile)

    @cached_property
    def profile(self) -> SessionProfile:
        """The levels computed from the ladder."""
        return profile_of(self.ladder, IB_BRACKETS)

    @property
    def completed(self) -> CompletedSession:
        """The session in the form that `market.levels` takes as input."""
        return CompletedSession(self.row.trade_date, self.ladder, self.profile, self.row.complete)


@dataclass(frozen=True, slots=True)
class SessionHistory:
    """The stored RTH sessions of one contract, from which a later session's references are computed.

    sessions: ascending. Partial sessions test and repair levels but create none. The look-back counts complete sessions
    (60 for POCs, 20 for extremes and the average range), however many days lie between them.
    """

    sessions: Sequence[StoredSession]

    @property
    def prior(self) -> StoredSession | None:
        """The newest complete session in the history."""
        return next((stored for stored in reversed(self.sessions) if stored.row.complete), None)

    def carried(self) -> CarriedLevels:
        """Return the naked POCs and poor extremes that are left at the close of the newest session."""
        first = len(self.sessions)
        complete = 0
        while first and complete < POC_LOOKBACK_SESSIONS:  # decode only sessions inside the look-back
            first -= 1
            complete += self.sessions[first].row.complete
        return carried_levels([stored.completed for stored in self.sessions[first:]])

    def average_range_ticks(self) -> int | None:
        """Return the average range of the last twenty complete sessions (or fewer) in whole ticks; None without any."""
        newest = islice((s for s in reversed(self.sessions) if s.row.complete), ADR_SESSIONS)
        ranges = [stored.profile.high - stored.profile.low for stored in newest]
        return sum(ranges) // len(ranges) if ranges else None


@dataclass(frozen=True, slots=True)
class SessionInContext:
    """A completed session with the earlier sessions of its contract.

    It also has the contract it was rolled from, if any.
    """

    session: StoredSession
    history: SessionHistory
    rolled_from: Contract | None

    @property
    def trade_date(self) -> date:
        """The session's trade date."""
        return self.session.row.trade_date

    def carried(self) -> CarriedLevels:
        """Return the naked POCs and poor extremes that are left at the close of this session."""
        return SessionHistory((*self.history.sessions, self.session)).carried()


def incomplete_sessions(
    history: SessionHistory, calendar: Calendar, root: str, last: date
) -> tuple[IncompleteSession, ...]:
    """Return the RTH sessions of the look-back, up to and including `last`, that lack a complete recording."""
    complete = [stored.row.trade_date for stored in history.sessions if stored.row.complete]
    complete = complete[-POC_LOOKBACK_SESSIONS:]
    first = complete[0] if complete else last
    partial = {s.row.trade_date: s.row.holes for s in history.sessions if not s.row.complete}
    return tuple(
        IncompleteSession(
            session.trade_date, session.trade_date in partial, partial.get(session.trade_date, ())
        )
        for session in calendar.sessions(root, first, last)
        if session.kind is SessionKind.RTH and session.trade_date not in set(complete)
    )
