"""Loads stored sessions: for API responses about completed sessions, and for the opening of a live session.

The opening of a live session is the stored data that it starts from: prior levels, naked POCs and the average range.
API responses use a product's whole history, which stays in memory until the database changes. An opening reads the
database each time, so that it includes a session that completed a moment ago. Levels belong to one contract. The front
contract is chosen by volume of completed sessions, and changes between sessions only.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from outcry.access.licences import OPERATOR, Scope
from outcry.database.errors import StoreBusy
from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.instruments import Contract, Product, Universe
from outcry.market.opening import Opening, Prior
from outcry.market.roll import Front, RollRule, front_on
from outcry.sessions.session_history import SessionHistory, StoredSession, incomplete_sessions
from outcry.sessions.store import SqlStore
from outcry.sessions.store_model import DamagedSession, SessionRow
from outcry.sessions.visibility import LoadedSessions, Visibility
from outcry.sessions.visible_sessions import VisibleSessions, rth_volumes, visible_to

_MAX_CACHED_OWNERS, _MAX_CACHED_PRODUCTS = 4096, 256
#: Sessions that openings keep decoded: about a month of the whole universe.
_MAX_DECODED_SESSIONS = 2048

_Identity = tuple[int, str, int, str, int, int]


@dataclass(frozen=True, slots=True)
class _BeforeOpen:
    """The stored data from which a new session starts.

    history: earlier RTH sessions of its contract. damaged: stored sessions that are damaged and therefore left out.
    overnight: the complete overnight session before it, if stored.
    """

    history: SessionHistory
    damaged: Sequence[DamagedSession]
    front: Front | None
    overnight: StoredSession | None


class CompletedSessions:
    """Stored sessions, selected by product and by scope (what a caller may see).

    Safe to call from several threads; every method blocks. Any method may raise `StoreBusy`. While the database's disk
    hangs, all methods but `opening` return what they read last, if anything, instead of raising.
    """

    def __init__(self, store: SqlStore, universe: Universe, calendar: Calendar) -> None:
        self._store, self._universe, self._calendar = store, universe, calendar
        #: The database's revision if a watcher has just read it; None: the database is read each time.
        self.revision_seen: Callable[[], int | None] = lambda: None
        #: Whether the database's disk hangs.
        self.frozen: Callable[[], bool] = lambda: False
        self._visibility = Visibility(universe)
        #: With the revision at which they were read; least recently read or used first.
        self._roots: OrderedDict[int, tuple[int, frozenset[str]]] = OrderedDict()
        self._loaded: OrderedDict[tuple[int, str], tuple[int, LoadedSessions]] = OrderedDict()
        #: Sessions decoded for openings, least recently used first. A stored row is only ever replaced as a whole.
        self._decoded: OrderedDict[_Identity, StoredSession] = OrderedDict()
        self._lock = threading.Lock()

    # -- completed sessions

    def visible(self, scope: Scope, product: Product, now_ns: int) -> tuple[VisibleSessions, int]:
        """Return the sessions of a product that a caller may see, and when (ns UTC) that selection changes."""
        return self._visibility.of(scope, product, self._load(scope.owners, product.root), now_ns)

    def unavailable_reasons(
        self, scope: Scope, product: Product, contract: Contract | None, now_ns: int
    ) -> tuple[list[str], int | None]:
        """Return codes that explain why a caller sees no completed session of a product, or of one contract.

        If only an embargo prevents it, also return when the embargo ends (ns UTC).
        """
        next_ns: int | None = None
        denied = False
        loaded = self._load(scope.owners, product.root)
        for session in (one for each in loaded for one in each.intact):
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
        """Return the roots (such as ES) of the products of which the data owners in a scope have stored sessions."""
        return frozenset[str]().union(*(self._roots_of(owner) for owner in scope.owners))

    def _roots_of(self, owner: int) -> frozenset[str]:
        revision = self._revision()
        with self._lock:
            cached = self._roots.get(owner)
        if cached and cached[0] == revision:
            return cached[1]
        try:
            found = frozenset(self._store.roots((owner,)))
        except StoreBusy:
            if cached and self.frozen():
                return cached[1]
            raise
        with self._lock:
            self._roots[owner] = (revision, found)
            while len(self._roots) > _MAX_CACHED_OWNERS:
                self._roots.popitem(last=False)
        return found

    def preload(self, scope: Scope, product: Product) -> None:
        """Load a product's sessions into memory, so that requests do not wait for them when its feed stops."""
        with suppress(StoreBusy):  # they are then loaded on the first request
            self._load(scope.owners, product.root)

    def _revision(self) -> int:
        seen = self.revision_seen()
        return self._store.revision() if seen is None else seen

    def _load(self, owners: Sequence[int], root: str) -> list[LoadedSessions]:
        return [self._load_owner(owner, root) for owner in owners if root in self._roots_of(owner)]

    def _load_owner(self, owner: int, root: str) -> LoadedSessions:
        """Load the sessions of one owner and product. The operator's are decoded once for all users."""
        key = (owner, root)
        revision = self._revision()
        with self._lock:
            cached = self._loaded.get(key)
            if cached and cached[0] == revision:
                self._loaded.move_to_end(key)
                return cached[1]
        try:
            rows, damaged = self._store.sessions_and_damaged([owner], root)
        except StoreBusy:
            if cached and self.frozen():
                return cached[1]
            raise
        loaded = self._updated(cached[1] if cached else None, rows, damaged)
        with self._lock:
            self._loaded[key] = (revision, loaded)
            while len(self._loaded) > _MAX_CACHED_PRODUCTS:
                self._loaded.popitem(last=False)
        return loaded

    def _updated(
        self, before: LoadedSessions | None, rows: Sequence[SessionRow], damaged: Sequence[DamagedSession]
    ) -> LoadedSessions:
        """Decode the sessions in database rows; reuse those decoded `before` for rows that have not changed.

        Every write to the database causes this call, and most writes concern other sessions.
        """
        known = {_identity(one.row): one for one in before.intact} if before else {}
        intact = [
            one
            if (one := known.get(_identity(row))) and one.row == row
            else StoredSession(row, self._universe.contract(row.contract))
            for row in rows
        ]
        if before and intact == before.intact and damaged == before.damaged:
            return before
        return LoadedSessions(intact, damaged)

    # -- openings

    def opening(
        self, scope: Scope | None, contract: Contract, session: Session, overnight: tuple[int, int] | None,
        streamed: Sequence[Contract], now_ns: int,
    ) -> Opening:  # fmt: skip
        """Return the stored data from which a new session starts: prior levels, naked POCs and the average range.

        scope: the sessions that the feed's owner may use; None: all sessions of the operator. overnight: high and low
        (ticks) if the stream has seen the overnight session. streamed: contracts of the product that the feed streams;
        the front is one of them. now_ns: the clock's time (ns UTC), which decides whether an embargo has ended, even if
        the session is a replay of an earlier date. Raises `StoreBusy`, even while the database's disk hangs.
        """
        before = self._before_open(scope, contract, session, streamed, now_ns)
        if overnight is None and session.kind is SessionKind.RTH and before.overnight is not None:
            overnight = (before.overnight.profile.high, before.overnight.profile.low)
        front, rolled_from = self._front(before.front, contract, session, streamed)
        history, yesterday = before.history, session.trade_date - timedelta(days=1)
        incomplete = (
            incomplete_sessions(history, self._calendar, contract.root, yesterday) if history.sessions else ()
        )
        return Opening(
            contract=contract.key, root=contract.root, kind=session.kind, trade_date=session.trade_date,
            segments=session.segments, short=session.short, prior=_prior(history), carried=history.carried(),
            overnight=overnight if session.kind is SessionKind.RTH else None,
            average_range=history.average_range_ticks(), rolled_from=rolled_from, front=front,
            damaged=tuple((row.contract, row.trade_date, row.kind) for row in before.damaged),
            incomplete=incomplete, period_pocs=history.period_pocs(),
        )  # fmt: skip

    def _before_open(
        self,
        scope: Scope | None,
        contract: Contract,
        session: Session,
        streamed: Sequence[Contract],
        now_ns: int,
    ) -> _BeforeOpen:
        owners = (OPERATOR,) if scope is None else scope.owners
        rows, damaged = self._store.sessions_and_damaged(owners, contract.root)
        stored: Sequence[StoredSession] = [
            self._decode(row)
            for row in rows
            if row.trade_date <= session.trade_date and row.open_ns < session.open_ns
        ]
        if scope is not None:
            stored = visible_to(scope, stored, now_ns)[0]
        stored = sorted(stored, key=lambda one: one.row.open_ns)
        regular = [one for one in stored if one.row.kind is SessionKind.RTH]
        overnight = [
            one
            for one in stored
            if one.contract == contract
            and one.row.kind is SessionKind.ETH
            and one.row.trade_date == session.trade_date
            and one.row.complete
        ]
        history = SessionHistory.of([one for one in regular if one.contract == contract])
        rule = RollRule.of(self._universe, contract.root)
        front = front_on(rth_volumes(regular), session.trade_date, {*streamed, contract}, rule)
        return _BeforeOpen(history, damaged, front, overnight[-1] if overnight else None)

    def _decode(self, row: SessionRow) -> StoredSession:
        """Return the decoded session of a database row, from the cache if an earlier opening needed it too."""
        identity = _identity(row)
        with self._lock:
            stored = self._decoded.pop(identity, None)
            stored = stored or StoredSession(row, self._universe.contract(row.contract))
            self._decoded[identity] = stored
            while len(self._decoded) > _MAX_DECODED_SESSIONS:
                self._decoded.popitem(last=False)
        return stored

    def _front(
        self, newest: Front | None, contract: Contract, session: Session, streamed: Sequence[Contract]
    ) -> tuple[bool, str | None]:
        """Return whether a contract is the front contract of the session, and the contract from which it was rolled.

        newest: the front by volume; without volumes (None) the calendar chooses it. If the feed does not stream the
        chosen contract, the nearest contract that it streams is the front.
        """
        chosen = newest.contract if newest else self._universe.front(contract.root, session.trade_date)
        available = sorted({*streamed, contract}, key=lambda c: (c.year, c.month))
        if chosen not in available:
            later = [c for c in available if (c.year, c.month) > (chosen.year, chosen.month)]
            chosen = later[0] if later else available[-1]
        if newest is None or newest.contract != contract:
            return chosen == contract, None
        return True, newest.rolled_from.key if newest.rolled_from else None


def _prior(history: SessionHistory) -> Prior | None:
    if history.prior is None:
        return None
    profile, trade_date = history.prior.profile, history.prior.row.trade_date
    return Prior(trade_date, profile.poc, profile.vah, profile.val, profile.high, profile.low, profile.close)


def _identity(row: SessionRow) -> _Identity:
    return (row.owner, row.contract, row.open_ns, row.source, row.received_ns, row.volume)
