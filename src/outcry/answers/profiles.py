"""Selects the sessions of a profile: hours of a day, a range of days or a calendar period, of one contract.

Prices of another contract month belong to another auction, so a profile counts the sessions of one contract only: the
contract of its newest session (rules §9). A live session counts as far as it has traded.
"""

from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property

from outcry.access.licences import Scope
from outcry.answers.live_answers import LiveAnswers, QueryResult
from outcry.answers.profile_building import ProfilePart, ProfileSelection, chosen_profile
from outcry.answers.selection import ResolvedSymbol, Selector
from outcry.answers.session_view import CompletedSelection, SessionView
from outcry.base.errors import InvalidParameter, NoLicensedSource, NotFound
from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.composite import with_brackets
from outcry.market.ladder import BRACKET_MINUTES, Ladder, bracket_windows
from outcry.market.methods import PRESETS
from outcry.market.profile_settings import SESSION_KINDS, Hours, ProfileSettings
from outcry.market.units import NANOS_PER_SECOND
from outcry.sessions.session_history import SessionInContext
from outcry.sessions.visible_sessions import VisibleSessions
from outcry.wire.profile import Period, ProfileAnswer

#: The longest range of one profile in trade dates, about a year.
MAX_DAYS = 260
_LONGEST_RANGE = timedelta(days=370)
#: How long an answer with an open session is cached. Each takes milliseconds, so they are not rebuilt for every trade.
_LIVE_NS = NANOS_PER_SECOND
#: Presets that a ladder can answer: the others count closes.
METHODS = tuple(name for name, method in PRESETS.items() if method.placement == "range")


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """The parameters of `GET /api/profile`, checked one by one. Dates are ISO text; None means the default."""

    date: str | None = None
    first: str | None = None
    last: str | None = None
    period: Period | None = None
    hours: Hours = "rth"
    bracket_minutes: int = BRACKET_MINUTES
    row_ticks: int = 1
    method: str = "dalton"

    @property
    def settings(self) -> ProfileSettings:
        """Return the settings of the profile."""
        return ProfileSettings(
            PRESETS[self.method], self.hours, bracket_minutes=self.bracket_minutes, row_ticks=self.row_ticks
        )


def period_of(day: date, period: Period) -> tuple[date, date]:
    """Return the first and last calendar day of the period that contains a day. Weeks begin on Monday."""
    if period == "day":
        return day, day
    if period == "week":
        monday = day - timedelta(days=day.weekday())
        return monday, monday + timedelta(days=6)
    months = 3 if period == "quarter" else 1
    first = (day.month - 1) // months * months + 1
    last = first + months - 1
    return date(day.year, first, 1), date(day.year, last, monthrange(day.year, last)[1])


@dataclass(frozen=True)
class _Source:
    """The sessions from which a profile can be made: the open one if it is live, and the completed ones."""

    opened: SessionView | None
    completed: CompletedSelection | None
    now_ns: int

    def newest(self, hours: Hours) -> date:
        """Return the trade date of the newest session that can have traded in the hours."""
        if self.opened is not None and (self.opened.kind in SESSION_KINDS[hours] or self.completed is None):
            return self.opened.trade_date
        assert self.completed is not None, "one of both exists"
        return self.completed.sessions[-1].trade_date

    @property
    def data_ns(self) -> int:
        """The time up to which sessions can have traded; that of the feed, which may replay the past."""
        return self.opened.live.last_ns if self.opened is not None and self.opened.live else self.now_ns


@dataclass(frozen=True)
class _OfContract:
    """The sessions of one contract."""

    contract: str
    opened: SessionView | None
    completed: CompletedSelection | None

    @cached_property
    def regular(self) -> Mapping[date, SessionInContext]:
        """The completed regular sessions by trade date."""
        if self.completed is None:
            return {}
        visible = self.completed.visible
        found = visible.contract_of_key(self.contract)
        return {one.trade_date: one for one in visible.in_context(found)} if found else {}

    def ladder(self, session: Session) -> tuple[Ladder, bool] | None:
        """Return the ladder of a session and whether it has completed; None if the session has none."""
        opened, day = self.opened, session.trade_date
        if opened is not None and opened.trade_date == day:
            if opened.kind is session.kind:
                return opened.ladder, False
            if session.kind is SessionKind.ETH and opened.live and opened.live.overnight_ladder:
                return opened.live.overnight_ladder, True
        if session.kind is SessionKind.RTH:
            regular = self.regular.get(day)
            return (regular.session.ladder, True) if regular else None
        overnight = self._overnight(self.completed.visible, day) if self.completed else None
        return overnight and (overnight, True)

    def _overnight(self, visible: VisibleSessions, day: date) -> Ladder | None:
        found = visible.contract_of_key(self.contract)
        stored = visible.overnight_on(found, day) if found else None
        return stored.ladder if stored else None

    def view(self, last: date) -> SessionView:
        """Return the newest session up to a trade date: the open one, or the newest completed regular one."""
        if self.opened is not None and self.opened.trade_date <= last:
            return self.opened
        assert self.completed is not None, "a profile without an open session is of completed ones"
        dated = self.regular
        newest = max((day for day in dated if day <= last), default=max(dated, default=None))
        return self.completed.view(dated[newest] if newest else self.completed.sessions[-1])


class Profiles:
    """Answers `GET /api/profile` for chosen hours, days and settings. Calls may block on the database."""

    def __init__(self, calendar: Calendar, selector: Selector, live_answers: LiveAnswers) -> None:
        self._calendar, self._selector, self._live_answers = calendar, selector, live_answers

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
        if len({session.trade_date for session in sessions}) > MAX_DAYS:
            raise InvalidParameter("invalid_parameter.range", parameter="from", most=MAX_DAYS)
        contract = self._contract(source, first, last)
        parts = list(self._parts(contract, sessions, request)) if contract else []
        if contract is None or not parts:
            raise NotFound("not_found.session", symbol=root, date=request.date or request.first or str(first))
        known = {(part.trade_date, part.kind) for part in parts}
        ended = [session for session in sessions if session.close_ns <= source.data_ns]
        live = not all(part.final for part in parts)
        selection = ProfileSelection(
            view=contract.view(last), settings=request.settings, parts=parts, first=first, last=last,
            develops=live or len(ended) < len(sessions), period=request.period,
            missing=[(s.trade_date, s.kind) for s in ended if (s.trade_date, s.kind) not in known],
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

    def _contract(self, source: _Source, first: date, last: date) -> _OfContract | None:
        """Return the sessions of the contract that was the front, or was named, in the newest session of the range."""
        opened, completed = source.opened, source.completed
        if opened is not None and first <= opened.trade_date <= last:
            return _OfContract(opened.contract, opened, completed)
        if completed is None:
            return None
        newest = next((s for s in reversed(completed.sessions) if first <= s.trade_date <= last), None)
        return _OfContract(newest.session.contract.key, None, completed) if newest else None

    def _parts(
        self, contract: _OfContract, sessions: list[Session], request: ProfileRequest
    ) -> Iterator[ProfilePart]:
        """Yield the sessions that are recorded, in order of time."""
        for session in sessions:
            found = contract.ladder(session)
            if found is None:
                continue
            ladder, final = found
            if ladder.brackets[-1].index >= len(bracket_windows(session.segments, BRACKET_MINUTES)):
                continue  # the session's hours were corrected after it was stored
            counted = with_brackets(ladder, session.segments, BRACKET_MINUTES, request.bracket_minutes)
            yield ProfilePart(session.trade_date, session.kind, final, counted)

    @staticmethod
    def _fresh_until(source: _Source, sessions: list[Session], *, live: bool) -> int | None:
        """Return how long the answer is valid: until an open session has changed, or the next session ends."""
        if live or source.completed is None:
            return source.now_ns + _LIVE_NS
        ends = [session.close_ns for session in sessions if session.close_ns > source.now_ns]
        return min([source.completed.fresh_until_ns, *ends])
