"""Completed sessions of one product that a caller may see, each with the sessions before it.

If a user and the operator have a recording of the same session, the user's is used. The front contract is chosen by
volume, and changes between sessions only.
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
    """The completed sessions of one product that one scope (what a caller may see) includes at one time.

    damaged: stored sessions whose rows fail their checksum; they are not used. Histories, fronts and the like are
    computed from the sessions once. Thread-safe.
    """

    def __init__(
        self, product: Product, universe: Universe, visible: Iterable[StoredSession],
        damaged: Sequence[DamagedSession] = (),
    ) -> None:  # fmt: skip
        self.product, self._universe = product, universe
        self.damaged = damaged
        #: RTH sessions of each contract, ascending: the complete ones, and with them the partial ones.
        self._complete: dict[Contract, list[StoredSession]] = {}
        self._regular: dict[Contract, list[StoredSession]] = {}
        self._overnight: dict[tuple[Contract, date], StoredSession] = {}
        self._in_context: dict[Contract | None, Sequence[SessionInContext]] = {}
        for session in sorted(visible, key=lambda s: s.row.open_ns):
            row, contract = session.row, session.contract
            if row.kind is SessionKind.RTH:
                self._regular.setdefault(contract, []).append(session)
                if row.complete:
                    self._complete.setdefault(contract, []).append(session)
            elif row.complete:
                self._overnight[contract, row.trade_date] = session

    def __bool__(self) -> bool:
        return bool(self._complete)

    def contract_of_key(self, key: str) -> Contract | None:
        """Return the contract with this key (`ESZ2026`) if it has stored RTH sessions; otherwise None."""
        return next((contract for contract in self._regular if contract.key == key), None)

    def history(self, contract: Contract) -> SessionHistory:
        """Return all RTH sessions of a contract, including partial ones."""
        return SessionHistory.of(self._regular.get(contract, ()))

    def on(self, trade_date: date, without: Contract) -> list[StoredSession]:
        """Return the complete RTH sessions of the other contracts on a trade date, largest volume first."""
        found = [
            session
            for contract, sessions in self._complete.items()
            for session in sessions
            if contract != without and session.row.trade_date == trade_date
        ]
        return sorted(found, key=lambda session: -session.row.volume)

    @cached_property
    def fronts(self) -> Sequence[Front]:
        """The front contract (by volume) of every trade date that has a session, ascending."""
        regular = (stored for sessions in self._complete.values() for stored in sessions)
        return fronts(rth_volumes(regular), RollRule.of(self._universe, self.product.root))

    def overnight_of(self, session: StoredSession) -> StoredSession | None:
        """Return the complete overnight session before an RTH session; None if there is none."""
        return self.overnight_on(session.contract, session.row.trade_date)

    def overnight_on(self, contract: Contract, trade_date: date) -> StoredSession | None:
        """Return a contract's complete overnight session of a trade date; None if there is none."""
        return self._overnight.get((contract, trade_date))

    def contract_named(self, symbol: str) -> Contract | None:
        """Return the contract that a symbol names, if it has stored sessions; otherwise None.

        A one-digit year is read as the year nearest to the data.
        """
        for contract in sorted(self._complete, key=lambda c: (c.year, c.month), reverse=True):
            newest = self._complete[contract][-1].row.trade_date
            try:
                named = self._universe.resolve(symbol, newest, history=True).contract
            except UnknownName:
                return None
            if named == contract:
                return contract
        return None

    @property
    def newest(self) -> SessionInContext | None:
        """The newest complete RTH session of the front contract."""
        found = self.in_context(None)
        return found[-1] if found else None

    def in_context(self, contract: Contract | None) -> Sequence[SessionInContext]:
        """Return every complete RTH session of a contract, ascending.

        For None, return for each date the session of the contract that was the front contract then.
        """
        found = self._in_context.get(contract)
        if found is None:
            found = self._of_contract(contract) if contract else self._of_fronts()
            self._in_context[contract] = found
        return found

    def _of_contract(self, contract: Contract) -> Sequence[SessionInContext]:
        stored = self._regular.get(contract, ())
        complete = (at for at, session in enumerate(stored) if session.row.complete)
        return [SessionInContext(SessionHistory(stored, at), None) for at in complete]

    def _of_fronts(self) -> Sequence[SessionInContext]:
        by_date = {
            contract: {session.trade_date: session for session in self.in_context(contract)}
            for contract in self._complete
        }
        found = ((by_date[front.contract].get(front.trade_date), front) for front in self.fronts)
        return [SessionInContext(each.history, front.rolled_from) for each, front in found if each]


def rth_volumes(regular: Iterable[StoredSession]) -> Volumes:
    """Return the RTH volume in lots of complete sessions, by trade date and contract, to choose the front contract."""
    volumes: dict[date, dict[Contract, int]] = {}
    for stored in regular:
        if stored.row.complete:
            volumes.setdefault(stored.row.trade_date, {})[stored.contract] = stored.row.volume
    return volumes


def visible_to(
    scope: Scope, stored: Iterable[StoredSession], now_ns: int
) -> tuple[list[StoredSession], int | None]:
    """Return the sessions that a caller may see now, and the next time (ns UTC) at which the caller may see more.

    Of several recordings of a session one is returned: a complete one rather than a partial one, then the user's own
    rather than another owner's.
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
