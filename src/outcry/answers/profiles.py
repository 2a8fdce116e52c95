"""Selects the sessions of a profile: hours of a day, a range of days or a calendar period, of one contract.

Prices of another contract month belong to another auction, so a profile counts the sessions of one contract only: the
contract of its newest session (rules §9). A live session counts as far as it has traded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from outcry.access.licences import Scope
from outcry.answers.live_answers import LiveAnswers, QueryResult
from outcry.answers.profile_building import ProfilePart, ProfileSelection, chosen_profile
from outcry.answers.profile_sources import ContractSessions, ProfileReader, ProfileRequest
from outcry.answers.selection import ResolvedSymbol, Selector
from outcry.answers.session_view import CompletedSelection, SessionView
from outcry.base.errors import InvalidParameter, NoLicensedSource, NotFound
from outcry.market.calendar import Calendar, Session
from outcry.market.periods import period_of
from outcry.market.profile_settings import SESSION_KINDS, Hours
from outcry.market.units import NANOS_PER_SECOND
from outcry.market.volume_statistics import VolumeSums
from outcry.recordings.session_trades import SessionTrades
from outcry.wire.profile import ProfileAnswer

#: The longest range of one profile in trade dates, about a year, and that of one that reads trades from the tape.
MAX_DAYS, MAX_DAYS_OF_TRADES = 260, 23
_LONGEST_RANGE = timedelta(days=370)
#: How long an answer with an open session is cached. Each takes milliseconds, so they are not rebuilt for every trade.
_LIVE_NS = NANOS_PER_SECOND


@dataclass(frozen=True)
class _Source:
    """The sessions from which a profile can be made: the open one if it is live, and the completed ones."""

    opened: SessionView | None
    completed: CompletedSelection | None
    now_ns: int

    def newest(self, hours: Hours) -> date:
        """Return the trade date of the newest session that can have traded in the hours."""
        opened = self.opened
        if opened is not None:
            overnight = opened.live is not None and opened.live.overnight_ladder is not None
            traded = opened.kind in SESSION_KINDS[hours] or (hours == "overnight" and overnight)
            if traded or self.completed is None:
                return opened.trade_date
        assert self.completed is not None, "one of both exists"
        return self.completed.sessions[-1].trade_date

    @property
    def data_ns(self) -> int:
        """The time up to which sessions can have traded; that of the feed, which may replay the past."""
        return self.opened.live.last_ns if self.opened is not None and self.opened.live else self.now_ns


class Profiles:
    """Answers `GET /api/profile` for chosen hours, days and settings. Calls may block on the database."""

    def __init__(
        self, calendar: Calendar, selector: Selector, live_answers: LiveAnswers, trades: SessionTrades | None
    ) -> None:
        self._calendar, self._selector, self._live_answers = calendar, selector, live_answers
        self._trades = trades

    def answer(
        self, scope: Scope, named: ResolvedSymbol, request: ProfileRequest, now_ns: int
    ) -> QueryResult[ProfileAnswer]:
        """Return a profile. Raises `NoLicensedSource`, `NotFound` and `InvalidParameter`."""
        source = self._source(scope, named, now_ns)
        first, last = self._range(request, source)
        root = named.product.root
        sessions = [
            session
            for session in self._calendar.sessions(root, first, last)
            if session.kind in SESSION_KINDS[request.hours]
        ]
        most = MAX_DAYS_OF_TRADES if request.needs_trades else MAX_DAYS
        if len({session.trade_date for session in sessions}) > most:
            name = "from" if request.first else "period"
            raise InvalidParameter("invalid_parameter.range", parameter=name, most=most)
        contract = self._contract(source, first, last)
        reader = ProfileReader(self._trades, named.product, request)
        parts = list(self._parts(contract, sessions, reader)) if contract else []
        if contract is None or not parts:
            raise NotFound("not_found.session", symbol=root, date=request.date or request.first or str(first))
        known = {(part.trade_date, part.kind) for part in parts}
        ended = [session for session in sessions if session.close_ns <= source.data_ns]
        live = not all(part.final for part in parts)
        selection = ProfileSelection(
            view=contract.view(last), settings=request.settings, parts=parts, first=first, last=last,
            develops=live or len(ended) < len(sessions), period=request.period,
            missing=[(s.trade_date, s.kind) for s in ended if (s.trade_date, s.kind) not in known],
            anchored=self._anchored(contract, [s for s in sessions if (s.trade_date, s.kind) in known], reader),
        )  # fmt: skip
        return QueryResult(chosen_profile(selection), self._fresh_until(source, sessions, live=live))

    def _source(self, scope: Scope, named: ResolvedSymbol, now_ns: int) -> _Source:
        seen, _ = self._selector.live_channel(scope, named)
        opened = self._live_answers.view(seen) if seen else None
        try:
            completed = self._selector.completed(scope, named, now_ns)
        except NoLicensedSource:
            if opened is None:
                raise
            completed = None
        return _Source(opened, completed, now_ns)

    def _range(self, request: ProfileRequest, source: _Source) -> tuple[date, date]:
        """Return the first and last trade date that a request asks for."""
        if request.first is None and request.last is None:
            day = date.fromisoformat(request.date) if request.date else source.newest(request.hours)
            return period_of(day, request.period or "day")
        if request.date is not None or request.period is not None:
            name = "date" if request.date is not None else "period"
            raise InvalidParameter("invalid_parameter.exclusive", parameter=name)
        if request.first is None:
            raise InvalidParameter("invalid_parameter.from_missing", parameter="from")
        first = date.fromisoformat(request.first)
        last = date.fromisoformat(request.last) if request.last else max(source.newest(request.hours), first)
        if first > last:
            raise InvalidParameter("invalid_parameter.order", parameter="from")
        if last - first > _LONGEST_RANGE:
            raise InvalidParameter("invalid_parameter.range", parameter="from", most=MAX_DAYS)
        return first, last

    def _contract(self, source: _Source, first: date, last: date) -> ContractSessions | None:
        """Return the sessions of the contract that was the front, or was named, in the newest session of the range."""
        opened, completed = source.opened, source.completed
        if opened is not None and first <= opened.trade_date <= last:
            return ContractSessions(opened.contract, opened, completed)
        if completed is None:
            return None
        newest = next((s for s in reversed(completed.sessions) if first <= s.trade_date <= last), None)
        return ContractSessions(newest.session.contract.key, None, completed) if newest else None

    @staticmethod
    def _parts(
        contract: ContractSessions, sessions: Sequence[Session], reader: ProfileReader
    ) -> Iterator[ProfilePart]:
        """Yield the sessions that are recorded, in order of time."""
        return (part for session in sessions if (part := reader.part(contract, session)) is not None)

    @staticmethod
    def _anchored(
        contract: ContractSessions, sessions: Sequence[Session], reader: ProfileReader
    ) -> VolumeSums | None:
        """Return the sums over the trades since the anchor; None without one."""
        anchor_ns = reader.request.anchor_ns
        if anchor_ns is None:
            return None
        return sum((reader.since(contract, session, anchor_ns) for session in sessions), VolumeSums())

    @staticmethod
    def _fresh_until(source: _Source, sessions: list[Session], *, live: bool) -> int | None:
        """Return how long the answer is valid: until an open session has changed, or the next session ends."""
        if live or source.completed is None:
            return source.now_ns + _LIVE_NS
        ends = [session.close_ns for session in sessions if session.close_ns > source.now_ns]
        return min([source.completed.fresh_until_ns, *ends])
