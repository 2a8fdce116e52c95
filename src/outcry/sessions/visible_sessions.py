"""Completed sessions of one product that a caller may see, each with the sessions before it.

A user's own recording takes precedence over the operator's of the same session. The front contract is chosen by volume,
and changes between sessions only.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from functools import cached_property

from outcry.access.licences import Scope
from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract, Product, Universe, UnknownName
from outcry.market.roll import Front, RollRule, Volumes, fronts
from outcry.sessions.session_history import SessionHistory, SessionInContext, StoredSession
from outcry.sessions.store_model import DamagedSession


class VisibleSessions:
    """Completed sessions of one product that one scope (what a caller may see) sees at one time.

    damaged: stored sessions whose rows fail their checksum; no answer uses them.
    """

    def __init__(
        self, product: Product, universe: Universe, visible: Iterable[StoredSession],
        damaged: Sequence[DamagedSession] = (),
    ) -> None:  # fmt: skip
        self.product, self._universe = product, universe
        self.damaged = damaged
        self._by_contract: dict[Contract, list[StoredSession]] = {}
        self._overnight: dict[tuple[Contract, date], StoredSession] = {}
        self._partial: dict[Contract, list[StoredSession]] = {}
        for session in sorted(visible, key=lambda s: s.row.open_ns):
            if not session.row.complete:
                if session.row.kind is SessionKind.RTH:
                    self._partial.setdefault(session.contract, []).append(session)
            elif session.row.kind is SessionKind.RTH:
                self._by_contract.setdefault(session.contract, []).append(session)
            else:
                self._overnight[session.contract, session.row.trade_date] = session

    def __bool__(self) -> bool:
        return bool(self._by_contract)

    def history(self, contract: Contract) -> SessionHistory:
        """Return all RTH sessions of a contract, including partial ones."""
        of_it = [*self._by_contract.get(contract, ()), *self._partial.get(contract, ())]
        return SessionHistory(sorted(of_it, key=lambda stored: stored.row.open_ns))

    @cached_property
    def fronts(self) -> Sequence[Front]:
        """The front contract (by volume) of every trade date that has a session, ascending."""
        regular = (stored for sessions in self._by_contract.values() for stored in sessions)
        return fronts(rth_volumes(regular), RollRule.of(self._universe, self.product.root))

    def overnight_of(self, session: StoredSession) -> StoredSession | None:
        """Return the complete overnight session before an RTH session, if there is one."""
        return self._overnight.get((session.contract, session.row.trade_date))

    def contract_named(self, symbol: str) -> Contract | None:
        """Return the contract that a symbol names, among those with stored sessions.

        A one-digit year is read as the year nearest to the data.
        """
        for contract in sorted(self._by_contract, key=lambda c: (c.year, c.month), reverse=True):
            newest = self._by_contract[contract][-1].row.trade_date
            try:
                named = self._universe.resolve(symbol, newest, history=True).contract
            except UnknownName:
                return None
            if named == contract:
                return contract
        return None

    def in_context(self, contract: Contract | None) -> list[SessionInContext]:
        """Return every complete RTH session of a contract, ascending; None: of the front contract of each date."""
        if contract is not None:
            sessions = self._by_contract.get(contract, [])
            return [self._in_context(sessions, index, None) for index in range(len(sessions))]
        found: list[SessionInContext] = []
        for front in self.fronts:
            sessions = self._by_contract[front.contract]
            index = next((i for i, s in enumerate(sessions) if s.row.trade_date == front.trade_date), None)
            if index is not None:
                found.append(self._in_context(sessions, index, front.rolled_from))
        return found

    def _in_context(
        self, sessions: Sequence[StoredSession], index: int, rolled_from: Contract | None
    ) -> SessionInContext:
        session = sessions[index]
        earlier = sessions[:index]
        if partial := self._partial.get(session.contract):
            before = [stored for stored in partial if stored.row.open_ns < session.row.open_ns]
            earlier = sorted((*earlier, *before), key=lambda stored: stored.row.open_ns)
        return SessionInContext(session, SessionHistory(earlier), rolled_from)


def rth_volumes(regular: Iterable[StoredSession]) -> Volumes:
    """Return the RTH volume in lots by trade date and contract, of complete sessions. The front contract is chosen by
    it."""
    volumes: dict[date, dict[Contract, int]] = {}
    for stored in regular:
        if stored.row.complete:
            volumes.setdefault(stored.row.trade_date, {})[stored.contract] = stored.row.volume
    return volumes


def visible_to(
    scope: Scope, stored: Iterable[StoredSession], now_ns: int
) -> tuple[list[StoredSession], int | None]:
    """Return one recording of each session that a scope may see now, and the next time (ns UTC) it may see more.

    A complete recording takes precedence over a partial one, then the user's own over another owner's.
    """
    best: dict[tuple[Contract, date, SessionKind], StoredSession] = {}
    next_ns: int | None = None
    for session in stored:
        row = session.row
        from_ns = scope.visible_from(row.owner, row.root, row.trade_date, row.close_ns)
        if from_ns is None:
            continue
        if from_ns > now_ns:
            next_ns = from_ns if next_ns is None else min(next_ns, from_ns)
        else:
            key = (session.contract, row.trade_date, row.kind)
            if key not in best or _rank(session, scope) > _rank(best[key], scope):
                best[key] = session
    return list(best.values()), next_ns


def _rank(session: StoredSession, scope: Scope) -> tuple[bool, bool]:
    return session.row.complete, session.row.owner == scope.user_id
