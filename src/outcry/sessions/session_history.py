"""Stored sessions of one contract, and what they contribute to later ones: prior session, levels and average range."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import islice

from outcry.market.calendar import Calendar, SessionKind
from outcry.market.instruments import Contract
from outcry.market.ladder import IB_BRACKETS, Ladder
from outcry.market.levels import POC_LOOKBACK_SESSIONS, CarriedLevels, CompletedSession, carried_levels
from outcry.market.opening import IncompleteSession
from outcry.market.periods import PeriodPoc, naked_period_pocs
from outcry.market.profile import SessionProfile, profile_of, volume_area
from outcry.market.snapshot import load
from outcry.sessions.store_model import SessionRow

ADR_SESSIONS = 20


class StoredSession:
    """A stored session. Its ladder (volume by price) and its profile are computed on first use."""

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

    @cached_property
    def volume_area(self) -> tuple[int, int]:
        """The lowest and highest price (ticks) of the value area computed from volume."""
        return volume_area(self.ladder)

    @property
    def completed(self) -> CompletedSession:
        """The session as a `CompletedSession`, the form in which `market.levels` takes it."""
        return CompletedSession(self.row.trade_date, self.ladder, self.profile, self.row.complete)


@dataclass(frozen=True, slots=True)
class SessionHistory:
    """The stored RTH sessions of one contract before a later session, which takes its reference levels from them.

    stored: sessions of the contract, ascending; the history is the first `count` of them. So the histories of
    successive sessions can share one list. Partial sessions test and repair levels but create none. The look-back is a
    number of complete sessions (60 for POCs, 20 for extremes and the average range), however many days lie between
    them.
    """

    stored: Sequence[StoredSession]
    count: int

    @staticmethod
    def of(stored: Sequence[StoredSession]) -> "SessionHistory":
        """Return the history that consists of all these sessions."""
        return SessionHistory(stored, len(stored))

    @property
    def sessions(self) -> Sequence[StoredSession]:
        """The sessions of the history, ascending."""
        return self.stored[: self.count]

    @property
    def prior(self) -> StoredSession | None:
        """The newest complete session in the history."""
        return next(self._complete(), None)

    def carried(self) -> CarriedLevels:
        """Return the naked POCs and poor extremes that remain at the close of the newest session."""
        return carried_levels([stored.completed for stored in self.stored[self._look_back() : self.count]])

    def period_pocs(self) -> tuple[PeriodPoc, ...]:
        """Return the naked POCs of weeks and months at the close of the newest session."""
        first = self._look_back()
        recent = [stored.completed for stored in self.stored[first : self.count]]
        return naked_period_pocs(recent, cut=first > 0)

    def _look_back(self) -> int:
        """Return the index of the first session of the look-back, so that only sessions inside it are decoded."""
        first = self.count
        complete = 0
        while first and complete < POC_LOOKBACK_SESSIONS:
            first -= 1
            complete += self.stored[first].row.complete
        return first

    def average_range_ticks(self) -> int | None:
        """Return the average range of the last twenty complete sessions (or fewer) in whole ticks; None without any."""
        newest = islice(self._complete(), ADR_SESSIONS)
        ranges = [stored.profile.high - stored.profile.low for stored in newest]
        return sum(ranges) // len(ranges) if ranges else None

    def _complete(self) -> Iterator[StoredSession]:
        """Return the complete sessions, newest first."""
        return (stored for at in reversed(range(self.count)) if (stored := self.stored[at]).row.complete)


@dataclass(frozen=True)
class SessionInContext:
    """A completed session with the earlier sessions of its contract.

    history: the sessions before it. Also stores the contract from which its own was rolled, if any.
    """

    history: SessionHistory
    rolled_from: Contract | None

    @property
    def session(self) -> StoredSession:
        """The session itself."""
        return self.history.stored[self.history.count]

    @property
    def trade_date(self) -> date:
        """The session's trade date."""
        return self.session.row.trade_date

    @cached_property
    def carried(self) -> CarriedLevels:
        """The naked POCs and poor extremes that remain at the close of this session."""
        return SessionHistory(self.history.stored, self.history.count + 1).carried()

    @cached_property
    def period_pocs(self) -> tuple[PeriodPoc, ...]:
        """The naked POCs of weeks and months at the close of this session."""
        return SessionHistory(self.history.stored, self.history.count + 1).period_pocs()

    @cached_property
    def average_range_ticks(self) -> int | None:
        """The average session range before this session, in ticks."""
        return self.history.average_range_ticks()


def incomplete_sessions(
    history: SessionHistory, calendar: Calendar, root: str, last: date
) -> tuple[IncompleteSession, ...]:
    """Return the RTH sessions within the look-back, up to trade date `last`, that lack a complete recording.

    If the look-back reaches the oldest recorded session, they include incomplete ones before the first complete one.
    """
    complete = [stored.row.trade_date for stored in history.sessions if stored.row.complete]
    reaches_oldest = len(complete) < POC_LOOKBACK_SESSIONS
    complete = complete[-POC_LOOKBACK_SESSIONS:]
    first = complete[0] if complete else last
    partial = {s.row.trade_date: s.row.holes for s in history.sessions if not s.row.complete}
    oldest = [day for day in partial if day < first] if reaches_oldest else []
    days = [
        session.trade_date
        for session in calendar.sessions(root, first, last)
        if session.kind is SessionKind.RTH and session.trade_date not in set(complete)
    ]
    return tuple(IncompleteSession(day, day in partial, partial.get(day, ())) for day in (*oldest, *days))
