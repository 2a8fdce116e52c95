"""What a session is measured against when it opens: the completed sessions its owner may use, and the front month.

Rules kept: structure is per contract, so levels are of the contract's own sessions; the front is chosen by volume from
completed sessions, between sessions only.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from outcry.access.licences import OPERATOR, Scope
from outcry.base.clock import Clock
from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.instruments import Contract, Universe
from outcry.market.opening import Opening, Prior
from outcry.market.roll import Front, RollRule, front_on
from outcry.sessions.completed_sessions import Past, StoredSession, missed, rth_volumes, visible
from outcry.sessions.store_model import DamagedSession, SessionRow, SessionStore

#: Sessions kept worked out: those of a whole universe for a month.
_MOST_KEPT = 2048
_Identity = tuple[int, str, int, str, int, int]

#: What a user may see besides his own recordings.
ScopeOf = Callable[[int], Scope]


@dataclass(frozen=True, slots=True)
class _Known:
    """What is stored from before a session opens: RTH sessions of its contract, its front, its whole overnight; and the
    damaged sessions that were left out."""

    past: Past
    damaged: Sequence[DamagedSession]
    front: Front | None
    overnight: StoredSession | None


class References:
    """Makes openings from the store. Its method blocks, and may raise `StoreBusy`."""

    def __init__(
        self, store: SessionStore, universe: Universe, scope_of: ScopeOf, clock: Clock, calendar: Calendar
    ) -> None:
        self._calendar = calendar
        self._store, self._universe, self._scope_of, self._clock = store, universe, scope_of, clock
        #: Sessions worked out before, the newest used last: a row of the store never changes but as a whole.
        self._worked_out: OrderedDict[_Identity, StoredSession] = OrderedDict()

    def opening(
        self, owner: int, contract: Contract, session: Session, overnight: tuple[int, int] | None,
        streamed: Sequence[Contract],
    ) -> Opening:  # fmt: skip
        """The opening of a session. overnight: high and low (ticks) if the stream itself has seen the night.

        streamed: contracts of the product this feed brings; the front is one of them.
        """
        known = self._known(owner, contract, session, streamed)
        before = session.trade_date - timedelta(days=1)
        if overnight is None and session.kind is SessionKind.RTH and known.overnight is not None:
            overnight = (known.overnight.profile.high, known.overnight.profile.low)
        front, rolled_from = self._front(known.front, contract, session, streamed)
        return Opening(
            contract=contract.key, root=contract.root, kind=session.kind, trade_date=session.trade_date,
            segments=session.segments, short=session.short, prior=_prior(known.past),
            carried=known.past.carried(),
            overnight=overnight if session.kind is SessionKind.RTH else None,
            average_range=known.past.average_range_ticks(),
            rolled_from=rolled_from, front=front,
            damaged=tuple((row.contract, row.trade_date, row.kind) for row in known.damaged),
            missed=missed(known.past, self._calendar, contract.root, before) if known.past.sessions else (),
        )  # fmt: skip

    def _known(
        self, owner: int, contract: Contract, session: Session, streamed: Sequence[Contract]
    ) -> _Known:
        stored, damaged = self._rows(owner, contract.root)
        rows = [
            self._stored(row)
            for row in stored
            if row.trade_date <= session.trade_date and row.open_ns < session.open_ns
        ]
        best = sorted(self._best(owner, rows), key=lambda stored: stored.row.open_ns)
        regular = [stored for stored in best if stored.row.kind is SessionKind.RTH]
        mine = [stored for stored in best if stored.contract == contract]
        nights = [
            stored
            for stored in mine
            if stored.row.kind is SessionKind.ETH
            and stored.row.trade_date == session.trade_date
            and stored.row.complete
        ]
        past = Past([stored for stored in mine if stored.row.kind is SessionKind.RTH])
        rule = RollRule.of(self._universe, contract.root)
        front = front_on(rth_volumes(regular), session.trade_date, {*streamed, contract}, rule)
        return _Known(past, damaged, front, nights[-1] if nights else None)

    def _stored(self, row: SessionRow) -> StoredSession:
        """The session of a row, with what was worked out of it when it was last asked for."""
        identity = (row.owner, row.contract, row.open_ns, row.source, row.received_ns, row.volume)
        known = self._worked_out.pop(identity, None) or StoredSession(
            row, self._universe.contract(row.contract)
        )
        self._worked_out[identity] = known
        while len(self._worked_out) > _MOST_KEPT:
            self._worked_out.popitem(last=False)
        return known

    def _rows(self, owner: int, root: str) -> tuple[Sequence[SessionRow], Sequence[DamagedSession]]:
        owners = (OPERATOR,) if owner == OPERATOR else self._scope_of(owner).owners
        return self._store.sessions_and_damaged(owners, root)

    def _best(self, owner: int, rows: Sequence[StoredSession]) -> Sequence[StoredSession]:
        """One row for each session: the operator uses all of the operator's, a user what a user may see now. What day
        is being played does not matter: an embargo ends by the clock."""
        if owner == OPERATOR:
            return rows
        return visible(rows, self._scope_of(owner), self._clock.now_ns())[0]

    def _front(
        self, newest: Front | None, contract: Contract, session: Session, streamed: Sequence[Contract]
    ) -> tuple[bool, str | None]:
        """Whether the contract is the front of the session, and which one it was rolled from.

        Without volumes the calendar chooses the front; where the feed does not bring the chosen one, it is the nearest
        that the feed brings.
        """
        chosen = newest.contract if newest else self._universe.front(contract.root, session.trade_date)
        brought = sorted({*streamed, contract}, key=lambda c: (c.year, c.month))
        if chosen not in brought:
            later = [c for c in brought if (c.year, c.month) > (chosen.year, chosen.month)]
            chosen = later[0] if later else brought[-1]
        if newest is None or newest.contract != contract:
            return chosen == contract, None
        return True, newest.rolled_from.key if newest.rolled_from else None


def _prior(past: Past) -> Prior | None:
    if past.prior is None:
        return None
    profile = past.prior.profile
    return Prior(
        past.prior.row.trade_date,
        profile.poc,
        profile.vah,
        profile.val,
        profile.high,
        profile.low,
        profile.close,
    )
