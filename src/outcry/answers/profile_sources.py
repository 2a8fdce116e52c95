"""The sessions of one contract as sources of a profile: open, stored, or recomputed from the tape."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property

from outcry.answers.profile_building import ProfilePart
from outcry.answers.session_view import CompletedSelection, SessionView
from outcry.base.errors import NotFound
from outcry.market.calendar import Session, SessionKind
from outcry.market.composite import Counted, with_brackets
from outcry.market.instruments import Product
from outcry.market.ladder import BRACKET_MINUTES, Ladder, bracket_windows
from outcry.market.methods import PRESETS
from outcry.market.profile_kernels import Closes
from outcry.market.profile_settings import Hours, ProfileSettings
from outcry.market.saved_setting import SavedSetting
from outcry.market.volume_statistics import VolumeSums
from outcry.recordings.session_trades import SessionTrades, not_stored
from outcry.sessions.session_history import SessionInContext, StoredSession
from outcry.sessions.store_model import SessionRow
from outcry.wire.profile import Period


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """The parameters of `GET /api/profile`, checked one by one. Dates are ISO text; None means the default.

    method: name of a preset, or of one of the caller's own. named: those of the parameters `session`, `bracket` and
    `row` that the caller named, with spaces between them; the others follow from an own preset. own: that preset.
    """

    date: str | None = None
    first: str | None = None
    last: str | None = None
    period: Period | None = None
    hours: Hours = "rth"
    bracket_minutes: int = BRACKET_MINUTES
    row_ticks: int = 1
    method: str = "dalton"
    delta: bool = False
    anchor_ns: int | None = None
    named: str = ""
    own: SavedSetting | None = None

    def with_own(self, own: SavedSetting) -> "ProfileRequest":
        """Return the request with the values of a user's own preset, except those that the caller named."""
        named = self.named.split()
        return replace(
            self,
            own=own,
            hours=self.hours if "session" in named else own.hours,
            bracket_minutes=self.bracket_minutes if "bracket" in named else own.bracket_minutes,
            row_ticks=self.row_ticks if "row" in named else own.row_ticks,
        )

    @property
    def needs_trades(self) -> bool:
        """Return whether the ladders of stored sessions cannot answer the request."""
        settings = self.settings
        return (
            self.delta
            or self.bracket_minutes < BRACKET_MINUTES
            or settings.counts_closes
            or bool(settings.bar_minutes)
        )

    @property
    def settings(self) -> ProfileSettings:
        """Return the settings of the profile."""
        own = self.own
        return ProfileSettings(
            PRESETS[self.method] if own is None else own.method,
            self.hours,
            bracket_minutes=self.bracket_minutes,
            row_ticks=self.row_ticks,
            bar_minutes=0 if own is None else own.bar_minutes,
            label="ticks" if own is None else own.label,
        )


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
    """Reads what the ladders of sessions do not have from their trades. trades: None if this process has no tape."""

    trades: SessionTrades | None
    product: Product
    request: ProfileRequest

    def part(self, contract: ContractSessions, session: Session) -> ProfilePart | None:
        """Return a session with the brackets of the request; None if it is not recorded."""
        found = contract.ladder(session)
        if found is None:
            return None
        (ladder, final), minutes = found, self.request.bracket_minutes
        stored, settings = contract.stored(session) if final else None, self.request.settings
        if self.request.needs_trades and not settings.counts_closes:
            try:
                return self._refolded(stored, session)
            except NotFound:
                if minutes < BRACKET_MINUTES or settings.bar_minutes:
                    raise  # otherwise only the delta is unknown
        if ladder.brackets[-1].index >= len(bracket_windows(session.segments, BRACKET_MINUTES)):
            return None  # the session's hours were corrected after it was stored
        counted = with_brackets(ladder, session.segments, BRACKET_MINUTES, max(minutes, BRACKET_MINUTES))
        closes = self._closes(stored, session) if settings.counts_closes else None
        return ProfilePart(session.trade_date, session.kind, final, counted, closes=closes)

    def _closes(self, stored: StoredSession | None, session: Session) -> Closes:
        minutes = self.request.settings.close_minutes
        return self._tape(session).closes(_row(stored, session), session, self.product.tick_e9, minutes)

    def _refolded(self, stored: StoredSession | None, session: Session) -> ProfilePart:
        minutes = self.request.bracket_minutes
        found = self._tape(session).refold(
            _row(stored, session), session, self.product.tick_e9, minutes, self.request.settings.bar_minutes
        )
        return ProfilePart(
            session.trade_date,
            session.kind,
            final=True,
            counted=Counted(found.ladder, bracket_windows(session.segments, minutes)),
            deltas=found.deltas if self.request.delta else None,
            unknown_lots=found.unknown_lots,
        )

    def since(self, contract: ContractSessions, session: Session, anchor_ns: int) -> VolumeSums:
        """Return the sums over the trades of a session at or after a time. The session must be recorded."""
        found = contract.ladder(session)
        if found is None or session.close_ns <= anchor_ns:
            return VolumeSums()
        ladder: Ladder | None = found[0]
        if anchor_ns > session.open_ns:
            stored = contract.stored(session) if found[1] else None
            ladder = self._tape(session).since(
                _row(stored, session), session, self.product.tick_e9, anchor_ns
            )
        return VolumeSums.of(ladder.volume, ladder.low_ticks) if ladder is not None else VolumeSums()

    def _tape(self, session: Session) -> SessionTrades:
        if self.trades is None:
            raise not_stored(session)
        return self.trades


def _row(stored: StoredSession | None, session: Session) -> SessionRow:
    """Return the row of a stored session. The trades of an open session are stored after its close."""
    if stored is None:
        raise not_stored(session)
    return stored.row
