"""The completed sessions a caller may see of one product, decoded once and kept while the store does not change.

Rules kept: only what the scope shows, now; a person's own recording before the operator's of the same session; the
front contract by volume, between sessions only.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import islice

from outcry.access.licences import Scope
from outcry.database.errors import StoreBusy
from outcry.market.calendar import Calendar, SessionKind
from outcry.market.instruments import Contract, Product, Universe, UnknownName
from outcry.market.ladder import IB_BRACKETS, Ladder
from outcry.market.levels import POC_LOOKBACK_SESSIONS, Carried, Completed, carried
from outcry.market.opening import Missed
from outcry.market.profile import SessionProfile, profile_of
from outcry.market.roll import Front, RollRule, Volumes, fronts
from outcry.market.snapshot import load
from outcry.market.units import NANOS_PER_DAY
from outcry.sessions.store_model import DamagedSession, SessionRow, SessionStore

ADR_SESSIONS = 20
_KEPT_PRODUCTS = 256


class StoredSession:
    """A session row with its ladder and profile, worked out when first asked for."""

    def __init__(self, row: SessionRow, contract: Contract) -> None:
        self.row, self.contract = row, contract

    @cached_property
    def ladder(self) -> Ladder:
        """What was traded."""
        return load(self.row.profile)

    @cached_property
    def profile(self) -> SessionProfile:
        """Its levels."""
        return profile_of(self.ladder, IB_BRACKETS)

    @property
    def completed(self) -> Completed:
        """As `core.levels` takes it."""
        return Completed(self.row.trade_date, self.ladder, self.profile, self.row.complete)


@dataclass(frozen=True, slots=True)
class Past:
    """RTH sessions of one contract that a later session is measured against, live and delayed alike.

    sessions: ascending, partial ones included; they test and repair levels and make none. The look-back counts
    recorded whole sessions (60 for POCs, 20 for extremes and the average range), however many days lie between.
    """

    sessions: Sequence[StoredSession]

    @property
    def prior(self) -> StoredSession | None:
        """The newest whole session."""
        return next((stored for stored in reversed(self.sessions) if stored.row.complete), None)

    def carried(self) -> Carried:
        """Naked POCs and poor extremes as they stood when the newest session completed."""
        first = len(self.sessions)
        whole = 0
        while first and whole < POC_LOOKBACK_SESSIONS:  # decode no session that carries nothing
            first -= 1
            whole += self.sessions[first].row.complete
        return carried([stored.completed for stored in self.sessions[first:]])

    def average_range_ticks(self) -> int | None:
        """The average range of up to twenty whole sessions, in whole ticks; None where there are none."""
        newest = islice((s for s in reversed(self.sessions) if s.row.complete), ADR_SESSIONS)
        ranges = [stored.profile.high - stored.profile.low for stored in newest]
        return sum(ranges) // len(ranges) if ranges else None


def missed(past: Past, calendar: Calendar, root: str, last: date) -> tuple[Missed, ...]:
    """The regular sessions from the oldest of the look-back until a trade date, included, of which no whole one is
    known."""
    whole = [stored.row.trade_date for stored in past.sessions if stored.row.complete][
        -POC_LOOKBACK_SESSIONS:
    ]
    first = whole[0] if whole else last
    partial = {stored.row.trade_date: stored.row.holes for stored in past.sessions if not stored.row.complete}
    return tuple(
        Missed(session.trade_date, session.trade_date in partial, partial.get(session.trade_date, ()))
        for session in calendar.sessions(root, first, last)
        if session.kind is SessionKind.RTH and session.trade_date not in set(whole)
    )


def rth_volumes(regular: Iterable[StoredSession]) -> Volumes:
    """RTH lots of each contract on each trade date, of whole sessions: what the front is chosen by."""
    volumes: dict[date, dict[Contract, int]] = {}
    for stored in regular:
        if stored.row.complete:
            volumes.setdefault(stored.row.trade_date, {})[stored.contract] = stored.row.volume
    return volumes


@dataclass(frozen=True, slots=True)
class Place:
    """The session an answer describes, the sessions of its contract before it, and the contract it follows."""

    session: StoredSession
    past: Past
    rolled_from: Contract | None

    @property
    def prior(self) -> StoredSession | None:
        """The completed session before the one described."""
        return self.past.prior

    def carried(self) -> Carried:
        """Naked POCs and poor extremes as they stood when the session completed."""
        return Past((*self.past.sessions, self.session)).carried()

    def average_range_ticks(self) -> int | None:
        """The average RTH range of up to twenty earlier sessions, in whole ticks; None where there are none."""
        return self.past.average_range_ticks()


class Shelf:
    """What one scope may see of one product at one instant."""

    def __init__(
        self, product: Product, universe: Universe, visible: Iterable[StoredSession],
        damaged: Sequence[DamagedSession] = (),
    ) -> None:  # fmt: skip
        self.product, self._universe = product, universe
        #: Stored sessions that no answer uses, as their rows do not match their checksums.
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

    def recorded(self, contract: Contract) -> Past:
        """All regular sessions of a contract, partial ones included."""
        of_it = [*self._by_contract.get(contract, ()), *self._partial.get(contract, ())]
        return Past(sorted(of_it, key=lambda stored: stored.row.open_ns))

    @cached_property
    def fronts(self) -> Sequence[Front]:
        """The front contract of every trade date with a session, ascending."""
        regular = (stored for sessions in self._by_contract.values() for stored in sessions)
        return fronts(rth_volumes(regular), RollRule.of(self._universe, self.product.root))

    def overnight_of(self, session: StoredSession) -> StoredSession | None:
        """The overnight before a session, if the whole of it is known."""
        return self._overnight.get((session.contract, session.row.trade_date))

    def contract_named(self, symbol: str) -> Contract | None:
        """The contract with sessions that a symbol names: a one-digit year means the one nearest to the data."""
        for contract in sorted(self._by_contract, key=lambda c: (c.year, c.month), reverse=True):
            newest = self._by_contract[contract][-1].row.trade_date
            try:
                named = self._universe.resolve(symbol, newest, history=True).contract
            except UnknownName:
                return None
            if named == contract:
                return contract
        return None

    def places(self, contract: Contract | None) -> list[Place]:
        """Every session of a contract, or of whichever was front, ascending, each with what came before it."""
        if contract is not None:
            sessions = self._by_contract.get(contract, [])
            return [self._place(sessions, index, None) for index in range(len(sessions))]
        found: list[Place] = []
        for front in self.fronts:
            sessions = self._by_contract[front.contract]
            index = next((i for i, s in enumerate(sessions) if s.row.trade_date == front.trade_date), None)
            if index is not None:
                found.append(self._place(sessions, index, front.rolled_from))
        return found

    def _place(self, sessions: Sequence[StoredSession], index: int, rolled_from: Contract | None) -> Place:
        session = sessions[index]
        earlier = sessions[:index]
        if pieces := self._partial.get(session.contract):
            before = [piece for piece in pieces if piece.row.open_ns < session.row.open_ns]
            earlier = sorted((*earlier, *before), key=lambda stored: stored.row.open_ns)
        return Place(session, Past(earlier), rolled_from)


def _rank(session: StoredSession, scope: Scope) -> tuple[bool, bool]:
    return session.row.complete, session.row.owner == scope.user_id


def visible(
    stored: Iterable[StoredSession], scope: Scope, now_ns: int
) -> tuple[list[StoredSession], int | None]:
    """Return the sessions a scope may see now, one of each, the whole before the partial; and the next instant (ns UTC)
    at which it may see more."""
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


def next_midnight(now_ns: int) -> int:
    """The end of the UTC day."""
    return (now_ns // NANOS_PER_DAY + 1) * NANOS_PER_DAY


#: Sound sessions of owners and a product, and the damaged ones.
_Kept = tuple[list[StoredSession], Sequence[DamagedSession]]


class Shelves:
    """The shelf of any scope and product. Safe to call from several threads. `seen`: the store's revision where a
    watcher has just read it; None: the store is asked each time. `frozen`: whether the disk of the store hangs: the
    sessions read last are answered then."""

    def __init__(
        self, store: SessionStore, universe: Universe, seen: Callable[[], int | None] = lambda: None,
        frozen: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self._store, self._universe, self._seen, self._frozen = store, universe, seen, frozen
        self._roots: OrderedDict[tuple[int, ...], tuple[int, frozenset[str]]] = OrderedDict()
        self._stored: OrderedDict[tuple[int, str], tuple[int, _Kept]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, scope: Scope, product: Product, now_ns: int) -> tuple[Shelf, int]:
        """What the scope may see of a product, and until when that holds."""
        seen, next_ns = visible(self._sessions(scope.owners, product.root), scope, now_ns)
        midnight = next_midnight(now_ns)  # a contract's one-digit year may mean another from then on
        fresh = midnight if next_ns is None else min(midnight, next_ns)
        return Shelf(product, self._universe, seen, self.damaged(scope, product.root)), fresh

    def damaged(self, scope: Scope, root: str) -> list[DamagedSession]:
        """The damaged sessions of a product, of owners the scope may see any session of."""
        return [row for row in self._kept(scope.owners, root)[1] if row.owner in scope.owners]

    def why_nothing(
        self, scope: Scope, product: Product, contract: Contract | None, now_ns: int
    ) -> tuple[list[str], int | None]:
        """Why a scope sees no completed session of a product, or of one contract: stable codes; and the instant (ns
        UTC) from which it will see one, if it is only early."""
        next_ns: int | None = None
        denied = False
        for session in self._sessions(scope.owners, product.root):
            row = session.row
            if (
                row.kind is not SessionKind.RTH
                or not row.complete
                or contract not in {None, session.contract}
            ):
                continue
            from_ns = scope.visible_from(row.owner, row.root, row.trade_date, row.close_ns)
            if from_ns is None:
                denied = True
            elif from_ns > now_ns:
                next_ns = from_ns if next_ns is None else min(next_ns, from_ns)
        reasons: list[str] = []
        if next_ns is not None:
            reasons.append("embargo")
        if denied or not scope.grants:
            reasons.append("not_granted")
        if next_ns is None and not denied:
            reasons.append("no_completed_session")
        return reasons, next_ns

    def roots(self, scope: Scope) -> frozenset[str]:
        """Products that the owners a scope may see have sessions of."""
        owners, revision = tuple(scope.owners), self._revision()
        with self._lock:
            held = self._roots.get(owners)
        if held and held[0] == revision:
            return held[1]
        try:
            found = frozenset(self._store.roots(owners))
        except StoreBusy:
            if held and self._frozen():
                return held[1]
            raise
        with self._lock:
            self._roots[owners] = (revision, found)
            while len(self._roots) > _KEPT_PRODUCTS:
                self._roots.popitem(last=False)
        return found

    def make_ready(self, scope: Scope, product: Product) -> None:
        """Have the sessions of a product in memory, for when its feed does not answer any more."""
        with suppress(StoreBusy):  # then they are read when they are asked for
            self._sessions(scope.owners, product.root)

    def _revision(self) -> int:
        seen = self._seen()
        return self._store.revision() if seen is None else seen

    def _sessions(self, owners: Sequence[int], root: str) -> list[StoredSession]:
        return self._kept(owners, root)[0]

    def _kept(self, owners: Sequence[int], root: str) -> _Kept:
        kept = [self._of_owner(owner, root) for owner in owners]
        return [session for sound, _ in kept for session in sound], [row for _, bad in kept for row in bad]

    def _of_owner(self, owner: int, root: str) -> _Kept:
        """One owner's sessions: the operator's are decoded once for all who may see them."""
        key = (owner, root)
        revision = self._revision()
        with self._lock:
            held = self._stored.get(key)
            if held and held[0] == revision:
                self._stored.move_to_end(key)
                return held[1]
        try:
            rows, damaged = self._store.sessions_and_damaged([owner], root)
        except StoreBusy:
            if held and self._frozen():
                return held[1]
            raise
        kept = [StoredSession(row, self._universe.contract(row.contract)) for row in rows], damaged
        with self._lock:
            self._stored[key] = (revision, kept)
            while len(self._stored) > _KEPT_PRODUCTS:
                self._stored.popitem(last=False)
        return kept
