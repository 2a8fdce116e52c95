"""What a session is measured against when it opens: the completed sessions its owner may use, and the front month.

Rules kept: structure is per contract, so levels are of the contract's own sessions; the front is chosen by volume from
completed sessions, between sessions only.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from outcry.accounts.licences import OPERATOR, Scope
from outcry.core.calendar import Session, SessionKind
from outcry.core.instruments import Contract, Universe
from outcry.core.levels import Carried, Completed, carried
from outcry.core.opening import Opening, Prior
from outcry.core.roll import Front, fronts
from outcry.ports.clock import Clock
from outcry.ports.store import SessionRow, SessionStore
from outcry.services.shelf import ADR_SESSIONS, StoredSession, visible

#: Sessions older than this carry nothing: the look-back of naked POCs is 60 sessions.
LOOKBACK = timedelta(days=120)

#: Sessions kept worked out: those of a whole universe for a month.
_MOST_KEPT = 2048
_Identity = tuple[int, str, int, str, int, int]

#: What a user may see besides his own recordings.
ScopeOf = Callable[[int], Scope]


@dataclass(frozen=True, slots=True)
class _Known:
    """Completed sessions before an instant: of the contract, ascending, and the RTH lots of each contract."""

    sessions: Sequence[StoredSession]
    front: Front | None
    overnight: StoredSession | None


class References:
    """Makes openings from the store. Its method blocks, and may raise `StoreBusy`."""

    def __init__(self, store: SessionStore, universe: Universe, scope_of: ScopeOf, clock: Clock) -> None:
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
        known = self._known(owner, contract, session)
        completed = [stored.completed for stored in known.sessions]
        whole = [done for done in completed if done.whole]
        ranges = [done.profile.high - done.profile.low for done in whole[-ADR_SESSIONS:]]
        if overnight is None and session.kind is SessionKind.RTH and known.overnight is not None:
            overnight = (known.overnight.profile.high, known.overnight.profile.low)
        front, rolled_from = self._front(known.front, contract, session, streamed)
        return Opening(
            contract=contract.key, root=contract.root, kind=session.kind, trade_date=session.trade_date,
            segments=session.segments, short=session.short, prior=_prior(whole),
            carried=carried(completed) if completed else Carried((), (), ()),
            overnight=overnight if session.kind is SessionKind.RTH else None,
            average_range=sum(ranges) // len(ranges) if ranges else None,
            rolled_from=rolled_from, front=front,
        )  # fmt: skip

    def _known(self, owner: int, contract: Contract, session: Session) -> _Known:
        earliest = session.trade_date - LOOKBACK
        rows = [
            self._stored(row)
            for row in self._rows(owner, contract.root)
            if earliest <= row.trade_date <= session.trade_date and row.open_ns < session.open_ns
        ]
        best = sorted(self._best(owner, rows), key=lambda stored: stored.row.open_ns)
        regular = [stored for stored in best if stored.row.kind is SessionKind.RTH]
        nights = [
            stored
            for stored in best
            if stored.row.kind is SessionKind.ETH
            and stored.contract == contract
            and stored.row.trade_date == session.trade_date
        ]
        mine = [stored for stored in regular if stored.contract == contract]
        return _Known(
            mine, self._front_on(contract.root, session.trade_date, regular), nights[-1] if nights else None
        )

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

    def _rows(self, owner: int, root: str) -> Sequence[SessionRow]:
        owners = (OPERATOR,) if owner == OPERATOR else self._scope_of(owner).owners
        return self._store.sessions(owners, root)

    def _best(self, owner: int, rows: Sequence[StoredSession]) -> Sequence[StoredSession]:
        """One row for each session: the operator uses all of the operator's, a user what a user may see now. What day
        is being played does not matter: an embargo ends by the clock."""
        if owner == OPERATOR:
            return rows
        return visible(rows, self._scope_of(owner), self._clock.now_ns())[0]

    def _front_on(self, root: str, day: date, regular: Sequence[StoredSession]) -> Front | None:
        """The front by volume of a trade date that has not traded yet."""
        volumes: dict[date, dict[Contract, int]] = {}
        for stored in regular:
            if stored.row.complete and stored.row.trade_date < day:
                lots = volumes.setdefault(stored.row.trade_date, {})
                lots[stored.contract] = lots.get(stored.contract, 0) + stored.row.volume
        if not volumes:
            return None
        volumes[day] = {}
        return fronts(volumes, self._universe.products[root].roll_sessions, self._universe.roll_deadline)[-1]

    def _front(
        self, newest: Front | None, contract: Contract, session: Session, streamed: Sequence[Contract]
    ) -> tuple[bool, str | None]:
        """Whether the contract is the front of the session, and which one it was rolled from.

        The front is the one volume says, rolled by calendar at its deadline; where the feed does not bring that one,
        the nearest that it brings.
        """
        by_calendar = self._universe.front(contract.root, session.trade_date)
        chosen = newest.contract if newest else by_calendar
        if session.trade_date > self._universe.roll_deadline(chosen):
            chosen = by_calendar
        brought = sorted({*streamed, contract}, key=lambda c: (c.year, c.month))
        if chosen not in brought:
            later = [c for c in brought if (c.year, c.month) > (chosen.year, chosen.month)]
            chosen = later[0] if later else brought[-1]
        is_front = chosen == contract
        if not is_front or newest is None:
            return is_front, None
        before = newest.rolled_from if newest.contract == contract else newest.contract
        return True, before.key if before else None


def _prior(whole: Sequence[Completed]) -> Prior | None:
    if not whole:
        return None
    newest = whole[-1]
    profile = newest.profile
    return Prior(
        newest.trade_date, profile.poc, profile.vah, profile.val, profile.high, profile.low, profile.close
    )
