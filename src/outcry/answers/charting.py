"""Market profile charts: the newest sessions with brackets, volumes and levels, and the open session.

The chart answer contains everything a chart shows, so that clients compute nothing. A bracket (the period of one
letter) prints its letter once in every row from its low to its high. The answer therefore lists brackets, not the
letters of each row.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import TypedDict
from weakref import WeakKeyDictionary

import msgspec

from outcry.answers import describe
from outcry.answers.builder import as_of
from outcry.answers.session_view import SessionView
from outcry.base.sizes import Size
from outcry.base.timestamps import iso_timestamp
from outcry.live.model import AlertRow
from outcry.market.calendar import Calendar, SessionKind
from outcry.market.instruments import Product
from outcry.market.ladder import BRACKET_MINUTES, Ladder, bracket_windows, letter
from outcry.market.profile import levels_of
from outcry.market.units import price_text
from outcry.sessions.session_history import StoredSession
from outcry.wire.answers import number
from outcry.wire.chart import (
    ChartAnswer,
    ChartBracket,
    ChartSession,
    Extreme,
    NightProfile,
    Notation,
    PathPoint,
)

#: Maximum and default number of sessions.
MAX_SESSIONS, DEFAULT_SESSIONS = 60, 5
_POINT_32ND_E9 = 31_250_000


def notation_of(product: Product) -> Notation:
    """Return the price format of a product, such as decimals or 32nds."""
    decimals = len(price_text(product.tick_e9).partition(".")[2])
    if product.sector == "rates" and _POINT_32ND_E9 % product.tick_e9 == 0:
        return Notation(kind="32nds", decimals=decimals, parts=_POINT_32ND_E9 // product.tick_e9)
    return Notation(kind="decimal", decimals=decimals, parts=1)


class _Profile(TypedDict):
    """The fields of a chart's session that depend only on its ladder (the volume at each price)."""

    brackets: list[ChartBracket]
    low: float
    volumes: list[Size]
    path: list[PathPoint]


class Charts:
    """Builds the answers for market profile charts.

    The fields that depend on a completed session's ladder (the volume at each price) are computed once.
    """

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar
        self._profiles: WeakKeyDictionary[StoredSession, _Profile] = WeakKeyDictionary()
        self._overnights: WeakKeyDictionary[StoredSession, NightProfile] = WeakKeyDictionary()

    def answer(
        self, completed: Sequence[SessionView], opened: SessionView | None, count: int, alerts: Sequence[AlertRow]
    ) -> ChartAnswer:  # fmt: skip
        """Return the chart of the newest `count` completed sessions and the open one.

        There must be at least one session. `alerts` are those of the open session.
        """
        views = [view for view in completed if opened is None or view.trade_date != opened.trade_date]
        views += [opened] if opened else []
        newest = views[-1]
        product, live, average_range = newest.product, newest.live, newest.average_range
        tick_e9 = product.tick_e9
        sessions = _repaired([self._session(view) for view in views])[-count:]
        pocs, highs, lows = describe.carried(newest.carried(), tick_e9)
        touched, repaired_highs, repaired_lows = (
            describe.spent(live, alerts, tick_e9) if live else ([], [], [])
        )
        return ChartAnswer(
            symbol=product.root, name=product.name, contract=newest.contract, tick_size=number(tick_e9),
            notation=notation_of(product), time_zone=product.zone, sessions=sessions,
            missing=self._missing(product.root, sessions), data_source=newest.source, live=live is not None,
            as_of=as_of(newest), updated_at=iso_timestamp(live.last_ns) if live else None, state=newest.state,
            invented=newest.simulated, last_price=number(live.last_ticks * tick_e9) if live else None,
            average_range=number(average_range * tick_e9) if average_range is not None else None,
            prior=describe.value_area(newest.reference, tick_e9),
            overnight=describe.high_low(newest.overnight, tick_e9),
            naked_pocs=pocs, poor_highs=highs, poor_lows=lows, touched_pocs=touched, repaired_highs=repaired_highs,
            repaired_lows=repaired_lows, method=describe.method(newest.ladder),
        )  # fmt: skip

    def _session(self, view: SessionView) -> ChartSession:
        if view.kind is SessionKind.ETH:
            return self._before_the_open(view)
        return ChartSession(
            date=str(view.trade_date), contract=view.contract,
            open=iso_timestamp(view.open_ns), close=iso_timestamp(view.close_ns), final=view.live is None,
            levels=describe.session(view), **self._profile_of(view),
            ib_extensions=describe.session_ib_extensions(view),
            overnight=self._overnight_of(view),
        )  # fmt: skip

    def _before_the_open(self, view: SessionView) -> ChartSession:
        """Return the chart session of a day whose regular session has not opened yet, without levels.

        It has the hours of the regular session and the overnight session so far.
        """
        regular = self._calendar.session(view.product.root, view.trade_date, SessionKind.RTH)
        opens_ns, closes_ns = (
            (regular.open_ns, regular.close_ns) if regular else (view.close_ns, view.close_ns)
        )
        return ChartSession(
            date=str(view.trade_date), contract=view.contract,
            open=iso_timestamp(opens_ns), close=iso_timestamp(closes_ns), final=False, levels=None, brackets=[],
            low=None, volumes=[], path=[], ib_extensions=[],
            overnight=self._overnight(view.product, view.trade_date, view.ladder),
        )  # fmt: skip

    def _profile_of(self, view: SessionView) -> _Profile:
        """Return the chart fields that depend on the ladder only; those of a completed session are cached.

        Fields that depend on the caller's access to other sessions must not be cached here, because all callers share
        the cache.
        """
        cached = self._profiles.get(view.stored) if view.stored else None
        if cached is not None:
            return cached
        tick_e9, ladder = view.product.tick_e9, view.ladder
        profile = _Profile(
            brackets=self._brackets(view.product, view.trade_date, SessionKind.RTH, ladder),
            low=number(ladder.low_ticks * tick_e9), path=_path(ladder, tick_e9),
            volumes=describe.volumes(ladder, view.product),
        )  # fmt: skip
        return self._profiles.setdefault(view.stored, profile) if view.stored else profile

    def _overnight_of(self, view: SessionView) -> NightProfile | None:
        """Return the overnight session before a regular one.

        For some overnight sessions only high and low are known, not the profile.
        """
        stored, live = view.stored_overnight, view.live
        if stored is not None:
            return self._overnights.get(stored) or self._overnights.setdefault(
                stored, self._overnight(view.product, stored.row.trade_date, stored.ladder)
            )
        if live is not None and live.overnight_ladder is not None:
            return self._overnight(view.product, view.trade_date, live.overnight_ladder)
        if view.overnight is None:
            return None
        high, low = (number(ticks * view.product.tick_e9) for ticks in view.overnight)
        return NightProfile(high=high, low=low, brackets=[], volumes=[])

    def _overnight(self, product: Product, day: date, ladder: Ladder) -> NightProfile:
        tick = product.tick_e9
        return NightProfile(
            high=number(ladder.high_ticks * tick), low=number(ladder.low_ticks * tick),
            brackets=self._brackets(product, day, SessionKind.ETH, ladder), volumes=describe.volumes(ladder, product),
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


def _path(ladder: Ladder, tick: int) -> list[PathPoint]:
    """Return the POC and value area at the end of each bracket."""
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


def _repaired(drawn: Sequence[ChartSession]) -> list[ChartSession]:
    """Return the chart's sessions with the state of each poor extreme.

    The state is repaired (by a later session of the contract) or open.
    """
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
