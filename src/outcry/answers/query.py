"""Queries for levels, profiles and history: from the live feed if there is one, else from completed sessions.

An answer that is not live is `delayed`, and its live-only fields are null. An answer never contains data of a session
or feed that its caller may not see.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeVar

from outcry.access.licences import OPERATOR, VISITOR, Grant, Scope
from outcry.answers import describe
from outcry.answers.alerts import AlertAnswers
from outcry.answers.charting import DEFAULT_SESSIONS, Charts, notation_of
from outcry.answers.live_answers import LiveAnswer, LiveAnswers, QueryResult
from outcry.answers.scanning import ScanRow
from outcry.answers.symbol_resolver import ResolvedSymbol, SymbolResolver, utc_date
from outcry.answers.wording import state_text
from outcry.base.errors import InvalidParameter, NoLicensedSource, NotFound, UnknownSymbol
from outcry.base.timestamps import iso_timestamp
from outcry.live.model import LiveStore
from outcry.live.registry import Registry, VisibleChannel
from outcry.market.calendar import Calendar, SessionKind
from outcry.market.instruments import Contract, Product, Universe
from outcry.market.opening import IncompleteSession
from outcry.sessions.completed_sessions import CompletedSessions, next_midnight
from outcry.sessions.session_history import incomplete_sessions
from outcry.sessions.store import SqlStore
from outcry.sessions.visible_sessions import SessionInContext, VisibleSessions
from outcry.trades.feed import SIMULATED_SOURCES
from outcry.wire.alerts import AlertsAnswer, AlertsHistoryAnswer
from outcry.wire.answers import (
    DISCLAIMER,
    Answer,
    ContextAnswer,
    DatedLevel,
    HistoryAnswer,
    LevelsAnswer,
    ProfileAnswer,
    SymbolsAnswer,
    SymbolState,
    number,
)
from outcry.wire.chart import ChartAnswer

__all__ = ["Query", "QueryResult", "SymbolStatus"]

MAX_HISTORY = 500
#: Sees every completed session of the operator; only for warming the cache.
_ALL_OF_THE_OPERATORS = Scope(VISITOR, (Grant("everyone", "completed", (), None, None, 0),))
_SILENT = frozenset({"stale_link", "stale_market", "disconnected"})

A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True)
class SymbolStatus:
    """Product and contract of a symbol, its live channel if any, and its state.

    `state` is `live`, or the code of the reason why the symbol is not live.
    """

    root: str
    contract: Contract | None
    seen: VisibleChannel | None
    state: str


@dataclass(frozen=True, slots=True)
class _Selection:
    """Product, contract and visible completed sessions of a query, valid until `fresh_until_ns`."""

    product: Product
    contract: Contract | None
    visible: VisibleSessions
    fresh_until_ns: int


class Query:
    """Answers the queries of API and pages. Thread-safe; calls may block on the store."""

    def __init__(
        self, store: SqlStore, universe: Universe, calendar: Calendar, registry: Registry | None = None,
        alerts: LiveStore | None = None,
    ) -> None:  # fmt: skip
        self._store, self._universe, self._calendar = store, universe, calendar
        self._registry = registry or Registry()
        self._resolver = SymbolResolver(universe, self._registry)
        self._live_answers = LiveAnswers(universe)
        self._alerts = AlertAnswers(self._registry, universe, alerts)
        #: The store's revision as a poller has just read it; None without a poller.
        self.revision_seen: Callable[[], int | None] = lambda: None
        #: Whether the store's disk is stalled.
        self.frozen: Callable[[], bool] = lambda: False
        self._completed = CompletedSessions(store, universe, calendar, self._seen, self._is_frozen)
        self._charts = Charts(calendar)
        self._hours: dict[str, tuple[date, str]] = {}

    def revision(self) -> int:
        """Return the store's revision."""
        return self._store.revision()

    def _seen(self) -> int | None:
        return self.revision_seen()

    def _is_frozen(self) -> bool:
        return self.frozen()

    def watch(self, scope: Scope, symbol: str, now_ns: int) -> SymbolStatus:
        """Resolve a symbol and find its live channel. Raises `UnknownSymbol`."""
        named = self._resolver.resolve(symbol, now_ns)
        seen, state = self._resolver.live_channel(scope, named)
        return SymbolStatus(named.product.root, named.contract, seen, state)

    def levels(self, scope: Scope, symbol: str | None, now_ns: int) -> QueryResult[LevelsAnswer]:
        """Answer `GET /api/levels`. Raises `MissingSymbol`, `UnknownSymbol`, `NoLicensedSource`."""
        named = self._resolver.resolve(symbol, now_ns)
        seen, _ = self._resolver.live_channel(scope, named)
        if seen and (live := _followed(self._live_answers.levels(seen), now_ns)):
            self._completed.preload(scope, named.product)
            return live
        asked = self._ask(scope, named, now_ns)
        place = self._newest(asked)
        tick = asked.product.tick_e9
        levels = describe.carried(place.carried(), tick)
        profile = place.session.profile
        answer = LevelsAnswer(
            symbol=asked.product.root, data_source="delayed", live=False, as_of=str(place.session.row.trade_date),
            updated_at=None, last_price=None, bias=None, developing=None,
            prior=describe.value(profile.poc, profile.vah, profile.val, tick),
            overnight=None, naked_pocs=levels[0], poor_highs=levels[1], poor_lows=levels[2], playbook=None,
        )  # fmt: skip
        return QueryResult(answer, asked.fresh_until_ns)

    def context(self, scope: Scope, symbol: str, now_ns: int) -> QueryResult[ContextAnswer]:
        """Answer `GET /api/context`. Raises as `levels` does."""
        named = self._resolver.resolve(symbol, now_ns)
        seen, state = self._resolver.live_channel(scope, named)
        if seen and (live := _followed(self._live_answers.context(seen), now_ns)):
            self._completed.preload(scope, named.product)
            return live
        asked = self._ask(scope, named, now_ns)
        place = self._newest(asked)
        tick, profile = asked.product.tick_e9, place.session.profile
        overnight = asked.visible.overnight_of(place.session)
        levels = describe.carried(place.carried(), tick)
        answer = ContextAnswer(
            symbol=asked.product.root, data_source="delayed", live=False, as_of=str(place.session.row.trade_date),
            updated_at=None, state=state, reason=state_text(state), feed=None,
            contract=place.session.contract.key, rolled_from=place.rolled_from.key if place.rolled_from else None,
            invented=place.session.row.source in SIMULATED_SOURCES, disclaimer=DISCLAIMER,
            method=describe.method(place.session.ladder),
            session=self._session(place, asked.visible, tick), overnight=describe.overnight(overnight, tick),
            ib_extensions=describe.ib_extensions(profile, tick), bias=None, bias_votes=None,
            naked_pocs=levels[0], poor_highs=levels[1], poor_lows=levels[2],
            damaged_sessions=describe.damaged(
                (row.contract, row.trade_date, row.kind) for row in asked.visible.damaged
            ),
            completeness=describe.completeness(self._missed(asked, place)),
        )  # fmt: skip
        return QueryResult(answer, asked.fresh_until_ns)

    def _missed(self, asked: _Selection, place: SessionInContext) -> Sequence[IncompleteSession]:
        """Return the sessions of the look-back without a complete recording, including those after the answered one."""
        history = asked.visible.history(place.session.contract)
        return incomplete_sessions(
            history, self._calendar, asked.product.root, history.sessions[-1].row.trade_date
        )

    def profile(self, scope: Scope, symbol: str, date: str | None, now_ns: int) -> QueryResult[ProfileAnswer]:
        """Answer `GET /api/profile`; without a date it is of the open session if that is live.

        Raises as `levels` does, and `NotFound` for a date without a completed session.
        """
        named = self._resolver.resolve(symbol, now_ns)
        seen, _ = self._resolver.live_channel(scope, named) if date is None else (None, "")
        if seen and (live := _followed(self._live_answers.profile(seen), now_ns)):
            return live
        asked = self._ask(scope, named, now_ns)
        place = self._newest(asked)
        if date is not None:
            wanted = _day(date, "date")
            places = asked.visible.in_context(asked.contract)
            place = next((p for p in places if p.session.row.trade_date == wanted), None)
            if place is None:
                raise NotFound("not_found.session", symbol=asked.product.root, date=date)
        tick = asked.product.tick_e9
        answer = ProfileAnswer(
            symbol=asked.product.root, tick_size=number(tick), levels=self._session(place, asked.visible, tick),
            method=describe.method(place.session.ladder), rows=describe.rows(place.session.ladder, tick),
        )  # fmt: skip
        return QueryResult(answer, asked.fresh_until_ns)

    def chart(self, scope: Scope, symbol: str, sessions: int | None, now_ns: int) -> QueryResult[ChartAnswer]:
        """Answer `GET /api/chart`: the newest sessions (at most 60) and the open one if it is live. Raises as
        `levels`.
        """
        named = self._resolver.resolve(symbol, now_ns)
        seen, state = self._resolver.live_channel(scope, named)
        count, fired = sessions or DEFAULT_SESSIONS, self._registry.alerts_of([seen.channel] if seen else [])
        try:
            asked = self._ask(scope, named, now_ns)
        except NoLicensedSource:
            if seen is None or seen.channel.view() is None:
                raise
            return QueryResult(
                self._charts.answer(named.product, [], None, seen, state, count, fired), now_ns
            )
        places = asked.visible.in_context(asked.contract)[-count:]
        answer = self._charts.answer(named.product, places, asked.visible, seen, state, count, fired)
        return QueryResult(answer, now_ns if answer.live else asked.fresh_until_ns)

    def history(
        self, scope: Scope, symbol: str, from_: str | None, to: str | None, now_ns: int
    ) -> QueryResult[HistoryAnswer]:
        """Answer `GET /api/history`: at most the newest 500 sessions; none if `from` is after `to`. Raises as
        `levels`.
        """
        asked = self._ask(scope, self._resolver.resolve(symbol, now_ns), now_ns)
        first = _day(from_, "from") if from_ else date.min
        last = _day(to, "to") if to else date.max
        places = [
            p for p in asked.visible.in_context(asked.contract) if first <= p.session.row.trade_date <= last
        ]
        sessions = [
            self._session(place, asked.visible, asked.product.tick_e9) for place in places[-MAX_HISTORY:]
        ]
        answer = HistoryAnswer(
            symbol=asked.product.root,
            from_=from_ or (sessions[0].date if sessions else to or ""),
            to=to or (sessions[-1].date if sessions else from_ or ""),
            count=len(sessions),
            sessions=sessions,
        )
        return QueryResult(answer, asked.fresh_until_ns)

    def alerts(self, scope: Scope, symbol: str | None, now_ns: int) -> QueryResult[AlertsAnswer]:
        """Answer `GET /api/alerts` of the current trade date, for all products without a symbol; empty for an unknown
        one.
        """
        return self._alerts.current(scope, symbol, now_ns)

    def alerts_history(
        self, scope: Scope, symbol: str | None, from_: str | None, to: str | None, before: int | None,
        after: int | None, limit: int | None, now_ns: int,
    ) -> QueryResult[AlertsHistoryAnswer]:  # fmt: skip
        """Answer `GET /api/alerts/history`, newest first; empty for an unknown symbol."""
        return self._alerts.history(scope, symbol, from_, to, before, after, limit, now_ns)

    def symbols(self, scope: Scope, now_ns: int) -> QueryResult[SymbolsAnswer]:
        """Answer `GET /api/symbols`: every full-size product and its current data status for the caller."""
        held = self._completed.roots(scope)
        fresh = next_midnight(now_ns)
        states: list[SymbolState] = []
        for product in self._universe.products.values():
            if product.parent is None:
                place = None
                if product.root in held:
                    visible, until = self._completed.visible(scope, product, now_ns)
                    fresh = min(fresh, until)
                    place = next(reversed(visible.in_context(None)), None)
                states.append(self._state(scope, product, place, now_ns))
        return QueryResult(SymbolsAnswer(count=len(states), symbols=states), fresh)

    def scan(self, scope: Scope, now_ns: int) -> list[ScanRow]:
        """Return the scan universe with the levels of each product, in the universe's order."""
        return [self._scanned(scope, state, now_ns) for state in self.symbols(scope, now_ns).answer.symbols]

    def _scanned(self, scope: Scope, state: SymbolState, now_ns: int) -> ScanRow:
        product = self._universe.products[state.symbol]
        tick = product.tick_e9
        levels = place = None
        if state.data_source is not None:
            with suppress(NoLicensedSource):  # an embargo that has just begun
                levels = self.levels(scope, state.symbol, now_ns).answer
            places = self._completed.visible(scope, product, now_ns)[0].in_context(None)
            place = places[-1] if places else None
        average = place.average_range_ticks() if place else None
        return ScanRow(
            state, levels, number(place.session.profile.close * tick) if place else None,
            number(average * tick) if average is not None else None, notation_of(product),
            None if state.live else self.heard(scope, state.symbol), self._touched(scope, product),
        )  # fmt: skip

    def warm(self, owner: int, root: str, now_ns: int) -> None:
        """Compute and cache what answers about an owner's product depend on."""
        product = self._universe.products.get(root)
        if product is None or product.parent is not None:
            return
        scope = _ALL_OF_THE_OPERATORS if owner == OPERATOR else Scope(owner, ())
        places = self._completed.visible(scope, product, now_ns)[0].in_context(None)
        place = places[-1] if places else None
        if place is not None:
            place.carried()
            place.average_range_ticks()
        self._state(scope, product, place, now_ns)

    def _touched(self, scope: Scope, product: Product) -> list[DatedLevel]:
        """Return the naked POCs that traded in the open session of a product."""
        seen, _ = self._resolver.live_channel(scope, ResolvedSymbol(product.root, product, None))
        view = seen.channel.view() if seen else None
        return list(describe.spent(view, (), product.tick_e9)[0]) if view else []

    def heard(self, scope: Scope, root: str) -> str | None:
        """Return when an idle feed of a product last sent data (ISO 8601 UTC); None without an idle feed."""
        silent = [
            view.last_ns
            for seen in self._registry.channels(scope, root)
            if seen.channel.availability.reason in _SILENT and (view := seen.channel.view()) is not None
        ]
        return iso_timestamp(max(silent)) if silent else None

    def _state(
        self, scope: Scope, product: Product, place: SessionInContext | None, now_ns: int
    ) -> SymbolState:
        seen, state = self._resolver.live_channel(scope, ResolvedSymbol(product.root, product, None))
        contract = place.session.contract.key if place else None
        return SymbolState(
            symbol=product.root, name=product.name, exchange=product.exchange, sector=product.sector,
            tick_size=number(product.tick_e9), tick_value=number(product.tick_value_e9), months=product.months,
            micro=[micro.root for micro in self._universe.products.values() if micro.parent == product.root],
            rth=self._hours_of(product, utc_date(now_ns)), time_zone=product.zone,
            contract=seen.channel.key.contract.key if seen else contract,
            data_source=seen.source if seen else "delayed" if place else None, live=seen is not None,
            as_of=str(place.session.row.trade_date) if place and not seen else None, state=state,
            invented=seen.channel.simulated if seen else bool(place)
            and place.session.row.source in SIMULATED_SOURCES,
        )  # fmt: skip

    def _hours_of(self, product: Product, day: date) -> str:
        """The regular hours around a day, worked out once a day."""
        held = self._hours.get(product.root)
        if held is None or held[0] != day:
            near = self._calendar.sessions(product.root, day - timedelta(days=10), day + timedelta(days=10))
            regular = [session for session in near if session.kind is SessionKind.RTH]
            held = self._hours[product.root] = (day, describe.hours(regular, product.zone))
        return held[1]

    def _ask(self, scope: Scope, named: ResolvedSymbol, now_ns: int) -> _Selection:
        visible, fresh = self._completed.visible(scope, named.product, now_ns)
        root, contract, today = named.product.root, named.contract, utc_date(now_ns)
        if contract is not None:
            held = visible.contract_named(named.symbol)
            if held is None and self._universe.expiry(contract) < today:
                near = [root, self._universe.front(root, today).short_key]
                raise UnknownSymbol("unknown_symbol", symbol=named.symbol, suggestions=near)
            contract = held or contract
        if not visible.in_context(contract):
            state = self._resolver.live_channel(scope, named)[
                1
            ]  # not live, or the completed sessions would not be needed
            reasons, until_ns = self._completed.unavailable_reasons(scope, named.product, contract, now_ns)
            details = {} if until_ns is None else {"embargo_until": iso_timestamp(until_ns)}
            raise NoLicensedSource("no_licensed_source", symbol=root, reasons=[state, *reasons], **details)
        return _Selection(named.product, contract, visible, fresh)

    def _newest(self, asked: _Selection) -> SessionInContext:
        return asked.visible.in_context(asked.contract)[-1]

    def _session(
        self, place: SessionInContext, visible: VisibleSessions, tick_e9: int
    ) -> describe.SessionLevels:
        return describe.session(place, visible.overnight_of(place.session), tick_e9)


def _followed(live_answer: LiveAnswer[A], now_ns: int) -> QueryResult[A] | None:
    made = live_answer.render(now_ns)
    return QueryResult(made.answer, next_midnight(now_ns), live_answer) if made else None


def _day(text: str, parameter: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as problem:
        raise InvalidParameter("invalid_parameter.date", parameter=parameter) from problem
