"""Selects the sessions of a profile: hours of a day, a range, a calendar period or a list, of one contract.

Prices of another contract month belong to another auction, so a profile counts the sessions of one contract only: the
contract of its newest session (rules §9). A live session counts as far as it has traded.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from outcry.access.licences import Scope
from outcry.answers.live_answers import LiveAnswers, QueryResult
from outcry.answers.profile_building import ProfileSelection, Split, chosen_profile
from outcry.answers.profile_levels import ProfilePart
from outcry.answers.profile_request import MAX_DAYS, MAX_DAYS_OF_TRADES, ProfileRequest
from outcry.answers.profile_sources import ContractSessions, ProfileReader
from outcry.answers.selection import ResolvedSymbol, Selector
from outcry.answers.session_view import CompletedSelection, SessionView
from outcry.base.errors import InvalidParameter, NoLicensedSource, NotFound
from outcry.base.timestamps import exact_timestamp
from outcry.live.open_trades import Earlier, OpenTrades
from outcry.live.registry import Channel, VisibleChannel
from outcry.market.calendar import Calendar, SessionKind
from outcry.market.instruments import Product
from outcry.market.profile_settings import SESSION_KINDS, Hours
from outcry.market.session_parts import (
    OutsideSelection,
    SessionPart,
    Span,
    SpansOverlap,
    session_parts,
    split_at,
)
from outcry.market.units import NANOS_PER_SECOND
from outcry.market.volume_statistics import VolumeSums
from outcry.market.windows import Segment
from outcry.recordings.session_trades import SessionTrades
from outcry.wire.profile import ProfileAnswer

#: How long an answer with an open session is cached. Each takes milliseconds, so they are not rebuilt for every trade.
_LIVE_NS = NANOS_PER_SECOND
#: Streams whose current trade date is in memory as single trades, because a request needed them: 20 to 50 MB each.
_MOST_OPEN = 4

#: The pieces of a split selection: the half-open time of each (ns UTC), and its parts of sessions.
_Pieces = Sequence[tuple[Segment, Sequence[SessionPart]]]


@dataclass(frozen=True)
class _Source:
    """The sessions from which a profile can be made: the open one if it is live, and the completed ones."""

    seen: VisibleChannel | None
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
        #: By channel, used last at the end.
        self._open: OrderedDict[Channel, OpenTrades] = OrderedDict()
        self._lock = threading.Lock()

    def answer(
        self, scope: Scope, named: ResolvedSymbol, request: ProfileRequest, now_ns: int
    ) -> QueryResult[ProfileAnswer]:
        """Return a profile. Raises `NoLicensedSource`, `NotFound`, `InvalidParameter`, `Occupied` and `StoreBusy`."""
        source, root = self._source(scope, named, now_ns), named.product.root
        spans = request.spans(source.newest(request.hours))
        chosen = self._chosen(root, request, spans)
        pieces = _pieces(chosen, request)
        _check_length(chosen, pieces, request)
        contract = self._contract(source, {part.session.trade_date for part in chosen})
        if contract is None:
            raise NotFound("not_found.session", symbol=root, date=str(chosen[-1].session.trade_date))
        reader = ProfileReader(self._trades, self._open_trades(source, contract), named.product, request)
        read = {part: reader.parts(contract, [part, *_within(part, pieces)]) for part in chosen}
        parts = [found[0] for found in read.values() if found is not None and found[0] is not None]
        if not parts:
            raise _nothing(root, chosen, recorded=any(found is not None for found in read.values()))
        first, last = _dates(spans, chosen)
        live, ended_ns = not all(part.final for part in parts), source.data_ns
        answer = chosen_profile(
            ProfileSelection(
                view=contract.view(last), settings=request.settings, parts=parts, first=first, last=last,
                develops=_develops(chosen[-1].end_ns, parts, ended_ns), period=request.period,
                missing=[
                    (part.session.trade_date, part.session.kind)
                    for part in chosen
                    if read[part] is None and part.end_ns <= ended_ns
                ],
                anchored=self._anchored(contract, parts, reader), left_out=self._left_out(root, chosen),
                splits=_splits(pieces, read, ended_ns) if request.split else (),
            )
        )  # fmt: skip
        return QueryResult(answer, self._fresh_until(source, chosen, live=live))

    def _source(self, scope: Scope, named: ResolvedSymbol, now_ns: int) -> _Source:
        seen, _ = self._selector.live_channel(scope, named)
        opened = self._live_answers.view(seen) if seen else None
        try:
            completed = self._selector.completed(scope, named, now_ns)
        except NoLicensedSource:
            if opened is None:
                raise
            completed = None
        return _Source(seen, opened, completed, now_ns)

    def _chosen(self, root: str, request: ProfileRequest, spans: Sequence[Span]) -> list[SessionPart]:
        """Return the parts of sessions that a request selects, at least one."""
        try:
            chosen = session_parts(self._calendar, root, SESSION_KINDS[request.hours], spans)
        except SpansOverlap as problem:
            start, end = map(exact_timestamp, problem.between)
            raise InvalidParameter(
                "invalid_parameter.overlap", parameter="sessions", start=start, end=end
            ) from problem
        if not chosen:
            if all(isinstance(edge, date) for span in spans for edge in (span.first, span.last)):
                raise NotFound("not_found.session", symbol=root, date=str(spans[0].first))
            raise NotFound("not_found.hours", symbol=root, session=request.hours)
        return chosen

    @staticmethod
    def _contract(source: _Source, days: set[date]) -> ContractSessions | None:
        """Return the sessions of the contract that was the front, or was named, in the newest of the trade dates."""
        opened, completed = source.opened, source.completed
        if opened is not None and opened.trade_date in days:
            return ContractSessions(opened.contract, opened, completed)
        if completed is None:
            return None
        newest = next((s for s in reversed(completed.sessions) if s.trade_date in days), None)
        return ContractSessions(newest.session.contract.key, None, completed) if newest else None

    def _open_trades(self, source: _Source, contract: ContractSessions) -> OpenTrades | None:
        """Return the trades of the open session's trade date, if the profile can have that session."""
        if contract.opened is None or source.seen is None:
            return None
        channel, view = source.seen.channel, contract.opened
        if channel.read_log is None:
            return None
        night = self._calendar.session(view.product.root, view.trade_date, SessionKind.ETH)
        since_ns = min(view.open_ns, night.open_ns) if night else view.open_ns
        with self._lock:
            found = self._open.pop(channel, None)
            if found is None or found.since_ns != since_ns:
                found = OpenTrades(
                    channel.read_log, view.product.tick_e9, since_ns, self._earlier(channel, view.product)
                )
            self._open[channel] = found
            while len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)
        return found

    def _earlier(self, channel: Channel, product: Product) -> Earlier | None:
        """Return a function that reads what a stream has stored of a session with earlier trade dates."""
        key, trades = channel.key, self._trades
        if trades is None:
            return None
        return lambda session: trades.earlier(key.owner, key.contract.key, key.feed, session, product.tick_e9)

    @staticmethod
    def _anchored(
        contract: ContractSessions, parts: Sequence[ProfilePart], reader: ProfileReader
    ) -> VolumeSums | None:
        """Return the sums over the trades since the anchor; None without one."""
        anchor_ns = reader.request.anchor_ns
        if anchor_ns is None:
            return None
        return sum((reader.since(contract, part, anchor_ns) for part in parts), VolumeSums())

    def _left_out(self, root: str, chosen: Sequence[SessionPart]) -> list[date]:
        """Return the trade dates between the first and last part whose regular session is not selected."""
        asked = {part.session for part in chosen}
        first, last = chosen[0].session.trade_date, chosen[-1].session.trade_date
        between = self._calendar.sessions(root, first, last)
        return [s.trade_date for s in between if s.kind is SessionKind.RTH and s not in asked]

    @staticmethod
    def _fresh_until(source: _Source, chosen: Sequence[SessionPart], *, live: bool) -> int | None:
        """Return how long the answer is valid: until an open session has changed, or the next session ends."""
        if live or source.completed is None:
            return source.now_ns + _LIVE_NS
        ends = [part.session.close_ns for part in chosen if part.session.close_ns > source.now_ns]
        return min([source.completed.fresh_until_ns, *ends])


def _pieces(chosen: Sequence[SessionPart], request: ProfileRequest) -> _Pieces:
    """Return the pieces between the instants of `split`; without these, none."""
    try:
        return split_at(chosen, request.split) if request.split else []
    except OutsideSelection as problem:
        raise InvalidParameter(
            "invalid_parameter.split_outside", parameter="split", at=exact_timestamp(problem.at_ns),
            start=exact_timestamp(chosen[0].windows[0][0]), end=exact_timestamp(chosen[-1].end_ns),
        ) from problem  # fmt: skip


def _within(part: SessionPart, pieces: _Pieces) -> list[SessionPart]:
    """Return what the pieces have of the session of a part."""
    return [one for _, parts in pieces for one in parts if one.session == part.session]


def _check_length(chosen: Sequence[SessionPart], pieces: _Pieces, request: ProfileRequest) -> None:
    """Refuse more trade dates than one profile can have, in all or with trades to be read from the tape."""
    cut = [part for part in (*chosen, *(one for _, parts in pieces for one in parts)) if not part.whole]
    for parts, most in ((chosen, MAX_DAYS), (chosen if request.needs_trades else cut, MAX_DAYS_OF_TRADES)):
        if len({part.session.trade_date for part in parts}) > most:
            raise InvalidParameter("invalid_parameter.range", parameter=request.range_parameter, most=most)


def _splits(
    pieces: _Pieces, read: Mapping[SessionPart, Sequence[ProfilePart | None] | None], ended_ns: int
) -> list[Split]:
    """Return the pieces of a split profile. read: for each selected part of a session that part and its pieces."""
    rest = {whole.session: list(found[1:]) for whole, found in read.items() if found is not None}
    splits: list[Split] = []
    for window, parts in pieces:
        found = [rest[part.session].pop(0) for part in parts if part.session in rest]
        traded = [part for part in found if part is not None]
        splits.append(Split(window, traded, _develops(window[1], traded, ended_ns)))
    return splits


def _develops(end_ns: int, parts: Sequence[ProfilePart], ended_ns: int) -> bool:
    """Return whether later trades can change a profile up to `end_ns`, given trades up to `ended_ns` (ns UTC)."""
    is_open = any(not part.final and part.part.end_ns == part.part.session.close_ns for part in parts)
    return is_open or end_ns > ended_ns


def _dates(spans: Sequence[Span], chosen: Sequence[SessionPart]) -> tuple[date, date]:
    """Return the first and last trade date of a profile: as requested, or those of its sessions."""
    if len(spans) == 1 and isinstance(spans[0].first, date) and isinstance(spans[0].last, date):
        return spans[0].first, spans[0].last
    return chosen[0].session.trade_date, chosen[-1].session.trade_date


def _nothing(root: str, chosen: Sequence[SessionPart], *, recorded: bool) -> NotFound:
    """Return the error for a selection without trades. recorded: whether any of its sessions is stored or open."""
    if not recorded:
        return NotFound("not_found.session", symbol=root, date=str(chosen[0].session.trade_date))
    start, end = exact_timestamp(chosen[0].windows[0][0]), exact_timestamp(chosen[-1].end_ns)
    return NotFound("not_found.no_trades", symbol=root, start=start, end=end)
