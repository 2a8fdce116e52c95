"""Answers queries for levels, profiles and history: from the live feed if there is one, else from completed sessions.

An answer that is not live is `delayed`, and its live-only fields are null. An answer never contains data of a session
or feed that its caller may not see.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeVar

from outcry.access.licences import VISITOR, Scope
from outcry.answers import describe
from outcry.answers.alerts import AlertAnswers
from outcry.answers.builder import context_answer, levels_answer
from outcry.answers.charting import DEFAULT_SESSIONS, Charts, notation_of
from outcry.answers.live_answers import LiveAnswers, QueryResult
from outcry.answers.matching import GivenPrices, Matches
from outcry.answers.presets import presets_answer
from outcry.answers.profile_building import profile_answer
from outcry.answers.profile_request import ProfileRequest
from outcry.answers.profiles import Profiles
from outcry.answers.scanning import ScanRow
from outcry.answers.selection import ResolvedSymbol, Selector, utc_date
from outcry.answers.session_view import SessionView
from outcry.base.errors import InvalidParameter, MissingSymbol, NoLicensedSource, NotFound, UnknownSymbol
from outcry.base.sizes import size
from outcry.base.timestamps import iso_timestamp
from outcry.live.registry import Registry, VisibleChannel
from outcry.live.store import LiveStore
from outcry.market.calendar import Calendar, SessionKind
from outcry.market.instruments import Contract, Product, Universe, UnknownName
from outcry.market.methods import PRESETS
from outcry.market.playbook import ScenarioState
from outcry.market.saved_setting import SavedSetting
from outcry.people.preset_store import PresetRow, SqlPresets
from outcry.recordings.session_trades import ReadTape, SessionTrades
from outcry.sessions.completed_sessions import CompletedSessions
from outcry.sessions.session_history import SessionInContext
from outcry.sessions.store import SqlStore
from outcry.sessions.visibility import next_midnight
from outcry.trades.feed import SIMULATED_SOURCES
from outcry.wire.alerts import AlertsAnswer, AlertsHistoryAnswer
from outcry.wire.answers import (
    Answer,
    ContextAnswer,
    DatedLevel,
    HistoryAnswer,
    LevelsAnswer,
    SymbolsAnswer,
    SymbolState,
    number,
)
from outcry.wire.chart import ChartAnswer
from outcry.wire.match import MatchAnswer
from outcry.wire.presets import PresetsAnswer
from outcry.wire.profile import ProfileAnswer

__all__ = ["Query", "QueryResult", "SymbolStatus"]

MAX_HISTORY = 500
_IDLE = frozenset({"stale_link", "stale_market", "disconnected"})

A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True)
class SymbolStatus:
    """Product and contract of a symbol, its live channel (a contract's live stream) if any, and its state.

    `state` is `live`, or the code of the reason why the symbol is not live.
    """

    root: str
    contract: Contract | None
    seen: VisibleChannel | None
    state: str


class Query:
    """Answers the queries of API and pages. Thread-safe; calls may block on the database."""

    def __init__(
        self, store: SqlStore, universe: Universe, calendar: Calendar, registry: Registry | None = None,
        alerts: LiveStore | None = None, read_tape: ReadTape | None = None, presets: SqlPresets | None = None,
    ) -> None:  # fmt: skip
        self._store, self._universe, self._calendar = store, universe, calendar
        self._registry = registry or Registry()
        self._completed = CompletedSessions(store, universe, calendar)
        self._selector = Selector(universe, calendar, self._registry, self._completed)
        self._live_answers = LiveAnswers(universe)
        self._alerts = AlertAnswers(self._registry, universe, alerts)
        self._charts = Charts(calendar)
        trades = SessionTrades(store, read_tape) if read_tape else None
        self._profiles = Profiles(calendar, self._selector, self._live_answers, trades)
        self._matches = Matches(store, calendar, self._selector, read_tape)
        self._presets = presets
        self._hours: dict[str, tuple[date, str]] = {}

    def revision(self) -> int:
        """Return the database's revision, a counter of changes."""
        return self._store.revision()

    def watch_store(self, revision_seen: Callable[[], int | None], frozen: Callable[[], bool]) -> None:
        """Read the database's revision and state from a poller, so that requests do not query the database for it.

        revision_seen: returns the revision (a counter of changes), None if the poller did not read it recently. frozen:
        returns whether the database's disk is stalled.
        """
        self._completed.revision_seen, self._completed.frozen = revision_seen, frozen

    def watch(self, scope: Scope, symbol: str, now_ns: int) -> SymbolStatus:
        """Return the product, contract and live stream of a symbol. Raises `UnknownSymbol`."""
        named = self._resolve(symbol, now_ns)
        seen, state = self._selector.live_channel(scope, named)
        return SymbolStatus(named.product.root, named.contract, seen, state)

    def levels(self, scope: Scope, symbol: str | None, now_ns: int) -> QueryResult[LevelsAnswer]:
        """Answer `GET /api/levels`. Raises `MissingSymbol`, `UnknownSymbol`, `NoLicensedSource`."""
        return self._answer(levels_answer, scope, symbol, now_ns)

    def context(self, scope: Scope, symbol: str, now_ns: int) -> QueryResult[ContextAnswer]:
        """Answer `GET /api/context`. Raises as `levels` does."""
        return self._answer(context_answer, scope, symbol, now_ns)

    def profile(self, scope: Scope, symbol: str, date: str | None, now_ns: int) -> QueryResult[ProfileAnswer]:
        """Answer `GET /api/profile`. Without a date the answer describes the open session, if it is live.

        Raises as `levels` does, and `NotFound` for a date without a completed session.
        """
        if date is None:
            return self._answer(profile_answer, scope, symbol, now_ns)
        completed = self._selector.completed(scope, self._resolve(symbol, now_ns), now_ns)
        wanted = _day(date, "date")
        session = next((s for s in completed.sessions if s.trade_date == wanted), None)
        if session is None:
            raise NotFound("not_found.session", symbol=completed.product.root, date=date)
        return QueryResult(profile_answer(completed.view(session)), completed.fresh_until_ns)

    def chosen_profile(
        self, scope: Scope, symbol: str, request: ProfileRequest, now_ns: int
    ) -> QueryResult[ProfileAnswer]:
        """Answer `GET /api/profile` for chosen hours, days or settings. Raises as `profile` does.

        `request.method` may be one of the caller's own presets. Raises `InvalidParameter` for any other name: a preset
        of another user is as unknown as one that does not exist.
        """
        if request.method not in PRESETS:
            own = self._own_preset(scope, request.method)
            if own is None:
                raise InvalidParameter("invalid_parameter.method", parameter="method")
            request = request.with_own(own)
        return self._profiles.answer(scope, self._resolve(symbol, now_ns), request, now_ns)

    def profile_methods(self, scope: Scope) -> Sequence[str]:
        """Return the names that the parameter `method` of `GET /api/profile` may have, the default first.

        These are the presets, then those that the caller saved and that this version can use.
        """
        return [preset.name for preset in presets_answer(self._saved(scope)).presets]

    def _own_preset(self, scope: Scope, name: str) -> SavedSetting | None:
        return (
            self._presets.named(scope.user_id, name) if self._presets and scope.user_id != VISITOR else None
        )

    def presets(self, scope: Scope, now_ns: int) -> QueryResult[PresetsAnswer]:
        """Answer `GET /api/presets`: the presets of this version, then those that the caller saved."""
        return QueryResult(presets_answer(self._saved(scope)), next_midnight(now_ns))

    def _saved(self, scope: Scope) -> Sequence[PresetRow]:
        return self._presets.of(scope.user_id) if self._presets and scope.user_id != VISITOR else ()

    def match(
        self, scope: Scope, symbol: str, day: str, given: GivenPrices, now_ns: int
    ) -> QueryResult[MatchAnswer]:
        """Answer `GET /api/match`. Raises as `profile` does, and `Occupied` while another search runs."""
        return self._matches.answer(scope, self._resolve(symbol, now_ns), _day(day, "date"), given, now_ns)

    def scenarios(self, scope: Scope, symbol: str, now_ns: int) -> Sequence[ScenarioState] | None:
        """Return the scenarios of a symbol's open session; None if it is not live. Raises `UnknownSymbol`."""
        view = self._open_session(scope, self._resolve(symbol, now_ns))
        return view.live.scenarios if view and view.live else None

    def chart(self, scope: Scope, symbol: str, sessions: int | None, now_ns: int) -> QueryResult[ChartAnswer]:
        """Answer `GET /api/chart`: the newest sessions (at most 60) and the open one if it is live.

        Raises as `levels` does.
        """
        named, count = self._resolve(symbol, now_ns), sessions or DEFAULT_SESSIONS
        seen, _ = self._selector.live_channel(scope, named)
        opened = self._live_answers.view(seen) if seen else None
        alerts = self._registry.alerts_of([seen.channel] if seen else [])
        try:
            completed = self._selector.completed(scope, named, now_ns)
        except NoLicensedSource:
            if opened is None:
                raise
            return QueryResult(self._charts.answer([], opened, count, alerts), now_ns)
        views = [completed.view(session) for session in completed.sessions[-count:]]
        answer = self._charts.answer(views, opened, count, alerts)
        return QueryResult(answer, now_ns if answer.live else completed.fresh_until_ns)

    def history(
        self, scope: Scope, symbol: str, from_: str | None, to: str | None, now_ns: int
    ) -> QueryResult[HistoryAnswer]:
        """Answer `GET /api/history`: at most the newest 500 sessions; none if `from` is after `to`.

        Raises as `levels` does.
        """
        completed = self._selector.completed(scope, self._resolve(symbol, now_ns), now_ns)
        first = _day(from_, "from") if from_ else date.min
        last = _day(to, "to") if to else date.max
        wanted = [session for session in completed.sessions if first <= session.trade_date <= last]
        sessions = [describe.session(completed.view(session)) for session in wanted[-MAX_HISTORY:]]
        answer = HistoryAnswer(
            symbol=completed.product.root,
            from_=from_ or (sessions[0].date if sessions else to or ""),
            to=to or (sessions[-1].date if sessions else from_ or ""),
            count=len(sessions),
            sessions=sessions,
        )
        return QueryResult(answer, completed.fresh_until_ns)

    def alerts(self, scope: Scope, symbol: str | None, now_ns: int) -> QueryResult[AlertsAnswer]:
        """Answer `GET /api/alerts`: the alerts of the current trade date.

        Without a symbol, these are the alerts of all products. An unknown symbol has none.
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
        stored = self._completed.roots(scope)
        fresh = next_midnight(now_ns)
        states: list[SymbolState] = []
        for product in self._universe.products.values():
            if product.parent is None:
                newest = None
                if product.root in stored:
                    visible, until = self._completed.visible(scope, product, now_ns)
                    fresh = min(fresh, until)
                    newest = visible.newest
                states.append(self._state(scope, product, newest, now_ns))
        return QueryResult(SymbolsAnswer(count=len(states), symbols=states), fresh)

    def scan(self, scope: Scope, now_ns: int) -> list[ScanRow]:
        """Return all products with their current levels, in the universe's order."""
        return [self._scanned(scope, state, now_ns) for state in self.symbols(scope, now_ns).answer.symbols]

    def _scanned(self, scope: Scope, state: SymbolState, now_ns: int) -> ScanRow:
        product = self._universe.products[state.symbol]
        tick = product.tick_e9
        levels = newest = None
        if state.data_source is not None:
            with suppress(NoLicensedSource):  # an embargo that has just begun
                levels = self.levels(scope, state.symbol, now_ns).answer
            visible, _ = self._completed.visible(scope, product, now_ns)
            newest = visible.newest
        average = newest.average_range_ticks if newest else None
        return ScanRow(
            state, levels, number(newest.session.profile.close * tick) if newest else None,
            number(average * tick) if average is not None else None, notation_of(product),
            None if state.live else self.last_data_at(scope, state.symbol), self._touched(scope, product),
        )  # fmt: skip

    def _touched(self, scope: Scope, product: Product) -> list[DatedLevel]:
        """Return the naked POCs at which the open session of a product has traded."""
        view = self._open_session(scope, ResolvedSymbol(product.root, product, None))
        return list(describe.spent(view.live, (), product.tick_e9)[0]) if view and view.live else []

    def last_data_at(self, scope: Scope, root: str) -> str | None:
        """Return when an idle feed of a product last sent data (ISO 8601 UTC); None without an idle feed."""
        last_ns = [
            view.last_ns
            for seen in self._registry.channels(scope, root)
            if seen.channel.availability.reason in _IDLE and (view := seen.channel.view()) is not None
        ]
        return iso_timestamp(max(last_ns)) if last_ns else None

    def _state(
        self, scope: Scope, product: Product, newest: SessionInContext | None, now_ns: int
    ) -> SymbolState:
        seen, state = self._selector.live_channel(scope, ResolvedSymbol(product.root, product, None))
        contract = newest.session.contract.key if newest else None
        return SymbolState(
            symbol=product.root, name=product.name, exchange=product.exchange, sector=product.sector,
            tick_size=number(product.tick_e9), tick_value=number(product.tick_value_e9), months=product.months,
            size_step=size(1, product.size_step_e9),
            micro=[micro.root for micro in self._universe.products.values() if micro.parent == product.root],
            rth=self._hours_of(product, utc_date(now_ns)), time_zone=product.zone,
            contract=seen.channel.key.contract.key if seen else contract,
            data_source=seen.source if seen else "delayed" if newest else None, live=seen is not None,
            as_of=str(newest.trade_date) if newest and not seen else None, state=state,
            invented=seen.channel.simulated if seen else bool(newest)
            and newest.session.row.source in SIMULATED_SOURCES,
        )  # fmt: skip

    def _hours_of(self, product: Product, day: date) -> str:
        """Return the regular hours of a product in the weeks around a day, as text such as `09:30–16:15`."""
        cached = self._hours.get(product.root)
        if cached is None or cached[0] != day:
            near = self._calendar.sessions(product.root, day - timedelta(days=10), day + timedelta(days=10))
            regular = [session for session in near if session.kind is SessionKind.RTH]
            cached = self._hours[product.root] = (day, describe.hours(regular, product.zone))
        return cached[1]

    def _answer(
        self, build: Callable[[SessionView], A], scope: Scope, symbol: str | None, now_ns: int
    ) -> QueryResult[A]:
        """Build an answer about the open session if it is live, else about the newest completed one."""
        named = self._resolve(symbol, now_ns)
        seen, _ = self._selector.live_channel(scope, named)
        if seen is not None:
            live_answer = self._live_answers.of(build, seen)
            rendered = live_answer.render(now_ns)
            if rendered is not None:
                self._completed.preload(scope, named.product)
                return QueryResult(rendered.answer, next_midnight(now_ns), live_answer)
        completed = self._selector.completed(scope, named, now_ns)
        return QueryResult(build(completed.view(completed.sessions[-1])), completed.fresh_until_ns)

    def _resolve(self, symbol: str | None, now_ns: int) -> ResolvedSymbol:
        """Return the product and contract that a symbol means. Raises `MissingSymbol`, `UnknownSymbol`."""
        if not symbol or not symbol.strip():
            raise MissingSymbol("missing_symbol")
        try:
            meant = self._universe.resolve(symbol, utc_date(now_ns))
        except UnknownName as problem:
            raise UnknownSymbol(
                "unknown_symbol", symbol=symbol, suggestions=list(problem.suggestions)
            ) from problem
        return ResolvedSymbol(symbol, meant.product, meant.contract)

    def _open_session(self, scope: Scope, named: ResolvedSymbol) -> SessionView | None:
        """Return a symbol's open session; None if it is not live."""
        seen, _ = self._selector.live_channel(scope, named)
        return self._live_answers.view(seen) if seen else None


def _day(text: str, parameter: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as problem:
        raise InvalidParameter("invalid_parameter.date", parameter=parameter) from problem
