"""The sessions of one contract as sources of a profile: open, stored, or recomputed from the tape."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from outcry.answers.profile_levels import ProfilePart
from outcry.answers.profile_request import ProfileRequest
from outcry.answers.session_view import CompletedSelection, SessionView
from outcry.base.errors import InvalidParameter, NotFound
from outcry.base.timestamps import exact_timestamp
from outcry.live.open_trades import OpenTrades
from outcry.market.calendar import Session, SessionKind
from outcry.market.composite import Counted, with_brackets
from outcry.market.instruments import Product
from outcry.market.ladder import BRACKET_MINUTES, Ladder, bracket_windows
from outcry.market.session_parts import SessionPart
from outcry.market.session_rows import BarAcross
from outcry.market.volume_statistics import VolumeSums
from outcry.recordings.session_trades import SessionTrades, not_stored
from outcry.sessions.session_history import SessionInContext, StoredSession


@dataclass(frozen=True)
class ContractSessions:
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
        opened = self.opened
        if opened is not None and opened.trade_date == session.trade_date:
            if opened.kind is session.kind:
                return opened.ladder, False
            if session.kind is SessionKind.ETH and opened.live and opened.live.overnight_ladder:
                return opened.live.overnight_ladder, True
        stored = self.stored(session)
        return (stored.ladder, True) if stored else None

    def stored(self, session: Session) -> StoredSession | None:
        """Return a completed session as it is stored; None if it is not."""
        if session.kind is SessionKind.RTH:
            regular = self.regular.get(session.trade_date)
            return regular.session if regular else None
        visible = self.completed.visible if self.completed else None
        contract = visible.contract_of_key(self.contract) if visible else None
        return visible.overnight_on(contract, session.trade_date) if visible and contract else None

    def view(self, last: date) -> SessionView:
        """Return the newest session up to a trade date: the open one, or the newest completed regular one."""
        if self.opened is not None and self.opened.trade_date <= last:
            return self.opened
        assert self.completed is not None, "a profile without an open session is of completed ones"
        dated = self.regular
        newest = max((day for day in dated if day <= last), default=max(dated, default=None))
        return self.completed.view(dated[newest] if newest else self.completed.sessions[-1])


@dataclass(frozen=True)
class ProfileReader:
    """Reads parts of sessions: from the ladders of sessions where these suffice, else from their trades or bars.

    trades: None if this process has no tape. open_trades: those of the open session's trade date; None without one.
    """

    trades: SessionTrades | None
    open_trades: OpenTrades | None
    product: Product
    request: ProfileRequest

    def parts(
        self, contract: ContractSessions, pieces: Sequence[SessionPart]
    ) -> Sequence[ProfilePart | None] | None:
        """Return parts of one session with the brackets of the request; None if the session is not recorded.

        A part in which nothing traded is None. Raises `NotFound` if the trades are needed and not stored here, and
        `InvalidParameter` for an instant inside a bar.
        """
        session, minutes = pieces[0].session, self.request.bracket_minutes
        found = contract.ladder(session)
        if found is None:
            return None
        (ladder, final), whole = found, all(piece.whole for piece in pieces)
        if self.request.needs_trades or not whole:
            try:
                return self._refolded(
                    contract.stored(session) if final else None, pieces, ladder, final=final
                )
            except NotFound:
                if self.request.needs_rows or not whole:
                    raise  # otherwise only the delta is unknown
        if ladder.brackets[-1].index >= len(bracket_windows(session.segments, BRACKET_MINUTES)):
            return None  # the session's hours were corrected after it was stored
        counted = with_brackets(ladder, session.segments, BRACKET_MINUTES, minutes)
        return [ProfilePart(piece, final, counted) for piece in pieces]

    def _refolded(
        self, stored: StoredSession | None, pieces: Sequence[SessionPart], ladder: Ladder, *, final: bool
    ) -> Sequence[ProfilePart | None]:
        session, counting = pieces[0].session, self.request.counting
        windows = [piece.windows for piece in pieces]
        lots = sum(ladder.volume) if final else None
        try:
            if stored is not None:
                found = self._tape(session).refold(
                    stored.row, session, self.product.tick_e9, counting, windows
                )
            else:
                found = self._live(session).refold(session, counting, windows, lots)
        except BarAcross as problem:
            raise self._bar_across(problem, session) from problem
        return [
            ProfilePart(
                piece, final, Counted(one.ladder, bracket_windows(session.segments, counting.minutes)),
                deltas=one.deltas if self.request.delta else None, unknown_lots=one.unknown_lots, closes=one.closes,
            )
            if one is not None
            else None
            for piece, one in zip(pieces, found, strict=True)
        ]  # fmt: skip

    def since(self, contract: ContractSessions, part: ProfilePart, anchor_ns: int) -> VolumeSums:
        """Return the sums over the trades of a part at or after a time."""
        if part.part.end_ns <= anchor_ns:
            return VolumeSums()
        ladder: Ladder | None = part.counted.ladder
        rest = part.part.cut(anchor_ns, part.part.end_ns)
        if rest is not None and rest != part.part:
            session, stored = rest.session, contract.stored(rest.session) if part.final else None
            if stored is not None:
                ladder = self._tape(session).since(stored.row, rest.windows, session, self.product.tick_e9)
            else:
                lots = sum(part.counted.ladder.volume) if part.final and part.part.whole else None
                ladder = self._live(session).since(session, rest.windows, lots)
        return VolumeSums.of(ladder.volume, ladder.low_ticks) if ladder is not None else VolumeSums()

    def _tape(self, session: Session) -> SessionTrades:
        if self.trades is None:
            raise not_stored(session)
        return self.trades

    def _live(self, session: Session) -> OpenTrades:
        """Return the trades of the open session's trade date."""
        if self.open_trades is None:
            raise not_stored(session)
        return self.open_trades

    def _bar_across(self, problem: BarAcross, session: Session) -> InvalidParameter:
        """Return the error for an instant inside a bar."""
        return InvalidParameter(
            "invalid_parameter.inside_bar", parameter=self.request.parameter_of(problem.at_ns),
            date=str(session.trade_date), at=exact_timestamp(problem.at_ns), start=exact_timestamp(problem.start_ns),
            end=exact_timestamp(problem.end_ns),
        )  # fmt: skip
