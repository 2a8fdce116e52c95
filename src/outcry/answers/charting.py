"""Market profile charts: the newest sessions with brackets, volumes and levels, and the open session.

The chart answer contains everything a chart shows, so that clients compute nothing. A bracket prints every row from
its low to its high once; therefore brackets are sent instead of letters per row.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import TypedDict
from weakref import WeakKeyDictionary

import msgspec

from outcry.answers import describe
from outcry.base.timestamps import iso_timestamp
from outcry.live.model import AlertRow
from outcry.live.registry import VisibleChannel
from outcry.market.calendar import Calendar, SessionKind
from outcry.market.instruments import Product
from outcry.market.ladder import BRACKET_MINUTES, Ladder, bracket_windows, letter
from outcry.market.live_session import LiveView
from outcry.market.profile import levels_of
from outcry.market.units import price_text
from outcry.sessions.session_history import StoredSession
from outcry.sessions.visible_sessions import SessionInContext, VisibleSessions
from outcry.trades.feed import SIMULATED_SOURCES
from outcry.wire.answers import DataSource, DatedLevel, Method, Overnight, PriorLevels, number
from outcry.wire.chart import (
    ChartAnswer,
    ChartBracket,
    ChartSession,
    Extreme,
    NightProfile,
    Notation,
    PathPoint,
    TouchedPoc,
)

#: Maximum and default number of sessions.
MAX_SESSIONS, DEFAULT_SESSIONS = 60, 5
_POINT_32ND_E9 = 31_250_000


def notation_of(product: Product) -> Notation:
    """Return how prices of a product are written."""
    decimals = len(price_text(product.tick_e9).partition(".")[2])
    if product.sector == "rates" and _POINT_32ND_E9 % product.tick_e9 == 0:
        return Notation(kind="32nds", decimals=decimals, parts=_POINT_32ND_E9 // product.tick_e9)
    return Notation(kind="decimal", decimals=decimals, parts=1)


class _Drawn(TypedDict):
    """Fields of a chart session that depend on its ladder only."""

    brackets: list[ChartBracket]
    low: float
    volumes: list[int]
    path: list[PathPoint]


class Charts:
    """Builds chart answers. The ladder-dependent fields of a completed session are computed once."""

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar
        self._made: WeakKeyDictionary[StoredSession, _Drawn] = WeakKeyDictionary()
        self._nights: WeakKeyDictionary[StoredSession, NightProfile] = WeakKeyDictionary()

    def answer(
        self, product: Product, places: Sequence[SessionInContext], visible: VisibleSessions | None,
        seen: VisibleChannel | None, state: str,
        count: int, fired: Sequence[AlertRow],
    ) -> ChartAnswer:  # fmt: skip
        """Return the newest `count` sessions of `places` and the open session of `seen`; there must be at least one.

        `fired` are the alerts of the channel of `seen`.
        """
        tick = product.tick_e9
        view = seen.channel.view() if seen is not None else None
        drawn = [self._completed(product, place, visible) for place in places if visible is not None]
        if view is not None and seen is not None:
            drawn = [session for session in drawn if session.date != str(view.opening.trade_date)]
            drawn.append(self._open(product, view, seen.channel.key.feed))
        drawn = _repaired(drawn)[-count:]
        return ChartAnswer(
            symbol=product.root, name=product.name, contract=drawn[-1].contract, tick_size=number(tick),
            notation=notation_of(product), time_zone=product.zone, sessions=drawn,
            missing=self._missing(product.root, drawn),
            **(
                _live_part(view, seen, fired, tick)
                if view and seen
                else _delayed_part(places[-1], visible, state, tick)
            ),
        )  # fmt: skip

    def _completed(
        self, product: Product, place: SessionInContext, visible: VisibleSessions | None
    ) -> ChartSession:
        stored, row, tick = place.session, place.session.row, product.tick_e9
        night = visible.overnight_of(stored) if visible is not None else None
        # cache only what does not depend on the caller's access to other sessions
        drawn = self._made.get(stored) or self._made.setdefault(
            stored, self._drawn(product, row.trade_date, stored.ladder)
        )
        return ChartSession(
            date=str(row.trade_date), contract=stored.contract.key,
            open=iso_timestamp(row.open_ns), close=iso_timestamp(row.close_ns), final=True,
            levels=describe.session(place, night, tick), **drawn,
            ib_extensions=describe.ib_extensions(stored.profile, tick),
            overnight=self._completed_night(product, night) if night else None,
        )  # fmt: skip

    def _completed_night(self, product: Product, night: StoredSession) -> NightProfile:
        return self._nights.get(night) or self._nights.setdefault(
            night, self._night(product, night.row.trade_date, night.ladder)
        )

    def _open(self, product: Product, view: LiveView, feed: str) -> ChartSession:
        opening, tick = view.opening, product.tick_e9
        if opening.kind is SessionKind.ETH:
            regular = self._calendar.session(product.root, opening.trade_date, SessionKind.RTH)
            opens, closes = (
                (regular.open_ns, regular.close_ns) if regular else (opening.close_ns, opening.close_ns)
            )
            return ChartSession(
                date=str(opening.trade_date), contract=opening.contract,
                open=iso_timestamp(opens), close=iso_timestamp(closes), final=False, levels=None, brackets=[],
                low=None, volumes=[], path=[], ib_extensions=[],
                overnight=self._night(product, opening.trade_date, view.ladder),
            )  # fmt: skip
        night = _range(view.overnight, tick)
        if view.overnight_ladder is not None:
            night = self._night(product, opening.trade_date, view.overnight_ladder)
        return ChartSession(
            date=str(opening.trade_date), contract=opening.contract,
            open=iso_timestamp(opening.open_ns), close=iso_timestamp(opening.close_ns), final=False,
            levels=describe.open_session(view, feed, tick), **self._drawn(product, opening.trade_date, view.ladder),
            ib_extensions=describe.ib_extensions(view.profile, tick), overnight=night,
        )  # fmt: skip

    def _drawn(self, product: Product, day: date, ladder: Ladder) -> _Drawn:
        tick = product.tick_e9
        return {
            "brackets": self._brackets(product, day, SessionKind.RTH, ladder),
            "low": number(ladder.low_ticks * tick), "volumes": list(ladder.volume), "path": _path(ladder, tick),
        }  # fmt: skip

    def _night(self, product: Product, day: date, ladder: Ladder) -> NightProfile:
        tick = product.tick_e9
        return NightProfile(
            high=number(ladder.high_ticks * tick), low=number(ladder.low_ticks * tick),
            brackets=self._brackets(product, day, SessionKind.ETH, ladder), volumes=list(ladder.volume),
        )  # fmt: skip

    def _brackets(self, product: Product, day: date, kind: SessionKind, ladder: Ladder) -> list[ChartBracket]:
        session, tick = self._calendar.session(product.root, day, kind), product.tick_e9
        windows = bracket_windows(session.segments, BRACKET_MINUTES) if session is not None else ()
        return [
            ChartBracket(
                # session hours corrected after the fold may have fewer brackets
                start=iso_timestamp(windows[b.index][0] if b.index < len(windows) else b.first_ns),
                letter=letter(b.index), open=number(b.open_ticks * tick), high=number(b.high_ticks * tick),
                low=number(b.low_ticks * tick), close=number(b.close_ticks * tick),
            )
            for b in ladder.brackets
        ]  # fmt: skip

    def _missing(self, root: str, drawn: Sequence[ChartSession]) -> list[str]:
        """Return the regular trade dates between the first and last session that are not in the chart."""
        first, last = (date.fromisoformat(session.date) for session in (drawn[0], drawn[-1]))
        known = {session.date for session in drawn}
        days = (
            str(session.trade_date)
            for session in self._calendar.sessions(root, first, last + timedelta(days=1))
            if session.kind is SessionKind.RTH and first < session.trade_date < last
        )
        return [day for day in days if day not in known]


class _Source(TypedDict):
    """Fields of a chart answer that differ between live and delayed."""

    data_source: DataSource
    live: bool
    as_of: str | None
    updated_at: str | None
    state: str
    invented: bool
    last_price: float | None
    average_range: float | None
    prior: PriorLevels | None
    overnight: Overnight | None
    naked_pocs: list[DatedLevel]
    poor_highs: list[DatedLevel]
    poor_lows: list[DatedLevel]
    touched_pocs: list[TouchedPoc]
    repaired_highs: list[DatedLevel]
    repaired_lows: list[DatedLevel]
    method: Method


def _live_part(view: LiveView, seen: VisibleChannel, fired: Sequence[AlertRow], tick: int) -> _Source:
    opening = view.opening
    pocs, highs, lows = describe.carried(opening.carried, tick)
    touched, repaired_highs, repaired_lows = describe.spent(view, fired, tick)
    prior, average = opening.prior, opening.average_range
    return {
        "data_source": seen.source, "live": True, "as_of": None, "updated_at": iso_timestamp(view.last_ns),
        "state": "live", "invented": seen.channel.simulated, "last_price": number(view.last_ticks * tick),
        "average_range": number(average * tick) if average is not None else None,
        "prior": describe.value(prior.poc, prior.vah, prior.val, tick) if prior else None,
        "overnight": describe.high_low(view.overnight, tick),
        "naked_pocs": pocs, "poor_highs": highs, "poor_lows": lows, "touched_pocs": touched,
        "repaired_highs": repaired_highs, "repaired_lows": repaired_lows, "method": describe.method(view.ladder),
    }  # fmt: skip


def _delayed_part(place: SessionInContext, visible: VisibleSessions | None, state: str, tick: int) -> _Source:
    stored, average = place.session, place.average_range_ticks()
    pocs, highs, lows = describe.carried(place.carried(), tick)
    profile = stored.profile
    return {
        "data_source": "delayed", "live": False, "as_of": str(stored.row.trade_date), "updated_at": None,
        "state": state, "invented": stored.row.source in SIMULATED_SOURCES, "last_price": None,
        "average_range": number(average * tick) if average is not None else None,
        "prior": describe.value(profile.poc, profile.vah, profile.val, tick),
        "overnight": describe.overnight(visible.overnight_of(stored) if visible is not None else None, tick),
        "naked_pocs": pocs, "poor_highs": highs, "poor_lows": lows, "touched_pocs": [], "repaired_highs": [],
        "repaired_lows": [], "method": describe.method(stored.ladder),
    }  # fmt: skip


def _path(ladder: Ladder, tick: int) -> list[PathPoint]:
    """Return POC and value area after each bracket."""
    points: list[PathPoint] = []
    for bracket in ladder.brackets:
        until = ladder.until(bracket.index)
        if until is not None:
            poc, low, high, _ = levels_of(until.tpo_counts())
            at = until.low_ticks
            points.append(
                PathPoint(
                    letter=letter(bracket.index), poc=number((at + poc) * tick),
                    vah=number((at + high) * tick), val=number((at + low) * tick),
                )
            )  # fmt: skip
    return points


def _range(overnight: tuple[int, int] | None, tick: int) -> NightProfile | None:
    """Return an overnight profile of which only the range is known."""
    if overnight is None:
        return None
    high, low = overnight
    return NightProfile(high=number(high * tick), low=number(low * tick), brackets=[], volumes=[])


def _repaired(drawn: Sequence[ChartSession]) -> list[ChartSession]:
    """Return the sessions with the state of each poor extreme: repaired by a later session of the contract, or open."""
    found: list[ChartSession] = []
    highest: dict[str, float] = {}
    lowest: dict[str, float] = {}
    for session in reversed(drawn):
        levels, contract = session.levels, session.contract
        if levels is None:
            found.append(session)
            continue
        high: Extreme | None = None
        low: Extreme | None = None
        if levels.poor_high:
            high = "repaired" if highest.get(contract, levels.high) > levels.high else "open"
        if levels.poor_low:
            low = "repaired" if lowest.get(contract, levels.low) < levels.low else "open"
        found.append(msgspec.structs.replace(session, poor_high=high, poor_low=low))
        highest[contract] = max(highest.get(contract, levels.high), levels.high)
        lowest[contract] = min(lowest.get(contract, levels.low), levels.low)
    return found[::-1]
