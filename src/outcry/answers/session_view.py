"""The session that an answer describes, open or completed, as a value with the same fields in both cases.

Everything that differs between a live and a delayed answer is a field of this class. The functions that build answers
therefore need not know whether a session is live.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from outcry.base.sizes import size
from outcry.base.timestamps import iso_timestamp
from outcry.live.registry import VisibleChannel
from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.instruments import Product
from outcry.market.ladder import Ladder
from outcry.market.levels import CarriedLevels
from outcry.market.live_session import LiveView
from outcry.market.opening import IncompleteSession, Prior
from outcry.market.periods import PeriodPoc
from outcry.market.profile import SessionProfile, volume_area
from outcry.market.windows import Segment
from outcry.sessions.session_history import SessionInContext, StoredSession, incomplete_sessions
from outcry.sessions.store_model import SessionRow
from outcry.sessions.visible_sessions import VisibleSessions
from outcry.trades.feed import SIMULATED_SOURCES
from outcry.wire.answers import DataQuality, DataSource


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session, and the earlier levels that its prices are compared with. Prices in ticks, times in ns UTC.

    state: `live`, or the code of the reason why the session is not live. feed: the live feed's name. simulated: whether
    the trades are simulated. prior: the newest complete regular session before this one. reference: the completed
    session that prices are measured against: the prior one of an open session, else this one. overnight: high and low
    of the overnight session before this one; of an overnight session, its own. volume_area: low and high of the
    value area that is computed from volume. volume_area, data, carried, period_pocs, incomplete: computed on each call,
    because not every answer contains them. damaged: contract, date and kind of damaged stored sessions.
    segments: half-open windows in which the session trades. live: set if the session is open. stored, stored_overnight:
    set if it is completed.
    """

    product: Product
    source: DataSource
    state: str
    feed: str | None
    simulated: bool
    contract: str
    rolled_from: str | None
    kind: SessionKind
    trade_date: date
    segments: tuple[Segment, ...]
    short: bool
    ib_complete: bool
    ladder: Ladder
    profile: SessionProfile
    prior: Prior | SessionProfile | None
    reference: Prior | SessionProfile
    overnight: tuple[int, int] | None
    average_range: int | None
    volume_area: Callable[[], tuple[int, int]]
    data: Callable[[], DataQuality]
    carried: Callable[[], CarriedLevels]
    period_pocs: Callable[[], Sequence[PeriodPoc]]
    incomplete: Callable[[], Sequence[IncompleteSession]]
    damaged: Sequence[tuple[str, str, str]]
    live: LiveView | None = None
    stored: StoredSession | None = None
    stored_overnight: StoredSession | None = None

    @property
    def open_ns(self) -> int:
        """The start of the first segment."""
        return self.segments[0][0]

    @property
    def close_ns(self) -> int:
        """The end of the last segment, not included."""
        return self.segments[-1][1]

    @property
    def session(self) -> Session:
        """The session with its hours."""
        return Session(self.product.root, self.trade_date, self.kind, self.segments, self.short)


def open_session(seen: VisibleChannel, product: Product) -> SessionView | None:
    """Return the open session of a live stream; None if the stream is not live or has no prior session."""
    channel = seen.channel
    live = channel.view()
    if live is None or live.opening.prior is None or not channel.availability.answers:
        return None
    opening, prior, ladder, feed = live.opening, live.opening.prior, live.ladder, channel.key.feed

    def data() -> DataQuality:
        return DataQuality(
            source=feed, invented=feed in SIMULATED_SOURCES,
            quality="ticks" if ladder.source == "trades" else None, complete=False, rows=None,
            volume=size(sum(ladder.volume), product.size_step_e9), off_tick=None, out_of_order=None,
            first=iso_timestamp(ladder.brackets[0].first_ns), last=iso_timestamp(live.last_ns),
        )  # fmt: skip

    return SessionView(
        product=product, source=seen.source, state="live", feed=feed, simulated=channel.simulated,
        contract=channel.key.contract.key, rolled_from=opening.rolled_from, kind=opening.kind,
        trade_date=opening.trade_date, segments=opening.segments, short=opening.short,
        ib_complete=live.ib_complete, ladder=ladder, profile=live.profile, prior=prior, reference=prior,
        overnight=live.overnight, average_range=opening.average_range,
        volume_area=lambda: volume_area(ladder), data=data,
        carried=lambda: opening.carried, period_pocs=lambda: opening.period_pocs,
        incomplete=lambda: opening.incomplete, damaged=opening.damaged, live=live,
    )  # fmt: skip


def completed_session(
    product: Product, session: SessionInContext, visible: VisibleSessions, calendar: Calendar, state: str
) -> SessionView:
    """Return a completed regular session. `state` is why the symbol is not live."""
    stored, row = session.session, session.session.row
    overnight, prior = visible.overnight_of(stored), session.history.prior
    simulated = row.source in SIMULATED_SOURCES

    def incomplete() -> Sequence[IncompleteSession]:
        """Return the incomplete sessions among those that levels look back on, up to the newest stored session."""
        history = visible.history(stored.contract)
        return incomplete_sessions(history, calendar, product.root, history.sessions[-1].row.trade_date)

    def data() -> DataQuality:
        return DataQuality(
            source=row.source, invented=simulated, quality=row.quality.value, complete=row.complete, rows=row.rows,
            volume=size(row.volume, product.size_step_e9), off_tick=row.off_tick, out_of_order=row.out_of_order,
            first=iso_timestamp(row.first_ns), last=iso_timestamp(row.last_ns),
        )  # fmt: skip

    return SessionView(
        product=product, source="delayed", state=state, feed=None, simulated=simulated, contract=stored.contract.key,
        rolled_from=session.rolled_from.key if session.rolled_from else None, kind=row.kind, trade_date=row.trade_date,
        segments=_segments(row, calendar, product.root), short=row.short, ib_complete=row.complete,
        ladder=stored.ladder, profile=stored.profile, prior=prior.profile if prior else None,
        reference=stored.profile,
        overnight=(overnight.profile.high, overnight.profile.low) if overnight else None,
        average_range=session.average_range_ticks, volume_area=lambda: stored.volume_area,
        data=data, carried=lambda: session.carried, period_pocs=lambda: session.period_pocs, incomplete=incomplete,
        damaged=[(damaged.contract, damaged.trade_date, damaged.kind) for damaged in visible.damaged],
        stored=stored, stored_overnight=overnight,
    )  # fmt: skip


def _segments(row: SessionRow, calendar: Calendar, root: str) -> tuple[Segment, ...]:
    """Return the trading windows of a stored session. They lack breaks if its hours were corrected since."""
    found = calendar.session(root, row.trade_date, row.kind)
    if found is not None and (found.open_ns, found.close_ns) == (row.open_ns, row.close_ns):
        return found.segments
    return ((row.open_ns, row.close_ns),)


@dataclass(frozen=True, slots=True)
class CompletedSelection:
    """The completed sessions that answer a query, oldest first, at least one. Valid until `fresh_until_ns`.

    state: the code of the reason why the symbol is not live.
    """

    product: Product
    state: str
    visible: VisibleSessions
    sessions: Sequence[SessionInContext]
    fresh_until_ns: int
    calendar: Calendar

    def view(self, session: SessionInContext) -> SessionView:
        """Return one of the sessions in the form that the builders of answers take."""
        return completed_session(self.product, session, self.visible, self.calendar, self.state)
