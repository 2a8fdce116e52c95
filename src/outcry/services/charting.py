"""What a market profile chart is drawn from: the newest sessions with their brackets, volumes and levels, and the one
open now.

Rules kept: everything a chart shows is worked out here, by the core; whoever draws derives nothing. A bracket prints
every row from its low to its high once, so brackets stand for letters.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Literal, TypedDict
from weakref import WeakKeyDictionary

import msgspec

from outcry.core.calendar import Calendar, SessionKind
from outcry.core.instruments import Product
from outcry.core.ladder import BRACKET_MINUTES, Bracket, Ladder, letter
from outcry.core.live import LiveView
from outcry.core.profile import levels_of
from outcry.core.units import NANOS_PER_MINUTE, price_text
from outcry.ports.feed import INVENTED_SOURCES
from outcry.services import describe
from outcry.services.answers import (
    Answer,
    DataSource,
    DatedLevel,
    IbExtension,
    Method,
    Overnight,
    PriorLevels,
    SessionLevels,
    number,
)
from outcry.services.live.board import Seen
from outcry.services.shelf import Place, Shelf, StoredSession

#: As many sessions as are shown at most, and where nobody says.
MOST_SESSIONS, USUAL_SESSIONS = 60, 5
_POINT_32ND_E9 = 31_250_000
_BRACKET_NS = BRACKET_MINUTES * NANOS_PER_MINUTE

Extreme = Literal["open", "repaired"]


class Notation(Answer, frozen=True, kw_only=True):
    """How the exchange writes its prices: `decimal` with so many decimals, or points and `32nds`, these in halves (2),
    quarters (4) or eighths (8)."""

    kind: Literal["decimal", "32nds"]
    decimals: int
    parts: int


class ChartBracket(Answer, frozen=True, kw_only=True):
    """One bracket: its letter, its start (ISO 8601 UTC), and its prices."""

    letter: str
    start: str
    open: float
    high: float
    low: float
    close: float


class PathPoint(Answer, frozen=True, kw_only=True):
    """Value as it stood when a bracket ended."""

    letter: str
    poc: float
    vah: float
    val: float


class NightProfile(Answer, frozen=True, kw_only=True):
    """The overnight session: its range, brackets, and lots a tick from `low` upwards; these empty where only the range
    is known."""

    high: float
    low: float
    brackets: list[ChartBracket]
    volumes: list[int]


class ChartSession(Answer, frozen=True, kw_only=True):
    """One trade date. `open`, `close`: of its regular session (ISO 8601 UTC). Before that opens `levels` is null, and
    there are no brackets; `overnight` is then the night so far.

    volumes: lots a tick from `low` upwards. path: value at the end of each bracket. poor_high, poor_low: null where the
    extreme is not poor, else `open`, or `repaired` once a later regular session of the contract traded beyond it.
    """

    date: str
    contract: str
    open: str
    close: str
    final: bool
    levels: SessionLevels | None
    brackets: list[ChartBracket]
    low: float | None
    volumes: list[int]
    path: list[PathPoint]
    ib_extensions: list[IbExtension]
    overnight: NightProfile | None
    poor_high: Extreme | None = None
    poor_low: Extreme | None = None


class ChartAnswer(Answer, frozen=True, kw_only=True):
    """`GET /api/chart`: sessions oldest first. `missing`: trade dates between them whose session is not known.

    `naked_pocs`, `poor_highs`, `poor_lows`, `prior` and `overnight` as in `GET /api/levels`. `average_range`: the mean
        range of up to twenty regular sessions before the newest, null where there are none.
    """

    symbol: str
    name: str
    contract: str
    tick_size: float
    notation: Notation
    time_zone: str
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
    sessions: list[ChartSession]
    missing: list[str]
    method: Method


def notation_of(product: Product) -> Notation:
    """How prices of a product are written."""
    decimals = len(price_text(product.tick_e9).partition(".")[2])
    if product.sector == "rates" and _POINT_32ND_E9 % product.tick_e9 == 0:
        return Notation(kind="32nds", decimals=decimals, parts=_POINT_32ND_E9 // product.tick_e9)
    return Notation(kind="decimal", decimals=decimals, parts=1)


class Charts:
    """Makes chart answers. What is drawn of a completed session is worked out once."""

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar
        self._made: WeakKeyDictionary[StoredSession, ChartSession] = WeakKeyDictionary()

    def answer(
        self, product: Product, places: Sequence[Place], shelf: Shelf | None, seen: Seen | None, state: str, count: int
    ) -> ChartAnswer:  # fmt: skip
        """The newest `count` sessions of `places`, the open one of `seen` among them. There is one of them at least."""
        tick = product.tick_e9
        view = seen.channel.view() if seen is not None else None
        drawn = [self._completed(place, shelf, tick) for place in places if shelf is not None]
        if view is not None and seen is not None:
            drawn = [session for session in drawn if session.date != str(view.opening.trade_date)]
            drawn.append(self._open(product, view, seen.channel.key.feed))
        drawn = _repaired(drawn)[-count:]
        return ChartAnswer(
            symbol=product.root, name=product.name, contract=drawn[-1].contract, tick_size=number(tick),
            notation=notation_of(product), time_zone=product.zone, sessions=drawn,
            missing=self._missing(product.root, drawn),
            **(_live_part(view, seen, tick) if view and seen else _delayed_part(places[-1], shelf, state, tick)),
        )  # fmt: skip

    def _completed(self, place: Place, shelf: Shelf | None, tick: int) -> ChartSession:
        stored = place.session
        night = shelf.overnight_of(stored) if shelf is not None else None
        known = self._made.get(stored)
        if known is None or (known.overnight is None) != (night is None):
            row, ladder = stored.row, stored.ladder
            known = self._made[stored] = ChartSession(
                date=str(row.trade_date), contract=stored.contract.key,
                open=describe.instant(row.open_ns), close=describe.instant(row.close_ns), final=True,
                levels=describe.session(place, night, tick), **_drawn(ladder, row.open_ns, tick),
                ib_extensions=describe.ib_extensions(stored.profile, tick),
                overnight=_night(night.ladder, tick) if night else None,
            )  # fmt: skip
        return known

    def _open(self, product: Product, view: LiveView, feed: str) -> ChartSession:
        opening, tick = view.opening, product.tick_e9
        if opening.kind is SessionKind.ETH:
            regular = self._calendar.session(product.root, opening.trade_date, SessionKind.RTH)
            opens, closes = (
                (regular.open_ns, regular.close_ns) if regular else (opening.close_ns, opening.close_ns)
            )
            return ChartSession(
                date=str(opening.trade_date), contract=opening.contract,
                open=describe.instant(opens), close=describe.instant(closes), final=False, levels=None, brackets=[],
                low=None, volumes=[], path=[], ib_extensions=[], overnight=_night(view.ladder, tick),
            )  # fmt: skip
        night = _night(view.night, tick) if view.night else _range(view.overnight, tick)
        return ChartSession(
            date=str(opening.trade_date), contract=opening.contract,
            open=describe.instant(opening.open_ns), close=describe.instant(opening.close_ns), final=False,
            levels=describe.open_session(view, feed, tick), **_drawn(view.ladder, opening.open_ns, tick),
            ib_extensions=describe.ib_extensions(view.profile, tick), overnight=night,
        )  # fmt: skip

    def _missing(self, root: str, drawn: Sequence[ChartSession]) -> list[str]:
        """Regular trade dates between the first and the last that are not among them."""
        first, last = (date.fromisoformat(session.date) for session in (drawn[0], drawn[-1]))
        known = {session.date for session in drawn}
        days = (
            str(session.trade_date)
            for session in self._calendar.sessions(root, first, last + timedelta(days=1))
            if session.kind is SessionKind.RTH and first < session.trade_date < last
        )
        return [day for day in days if day not in known]


class _Source(TypedDict):
    """What an answer has from where it comes from."""

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
    method: Method


class _Drawn(TypedDict):
    """What a session has from its ladder."""

    brackets: list[ChartBracket]
    low: float
    volumes: list[int]
    path: list[PathPoint]


def _live_part(view: LiveView, seen: Seen, tick: int) -> _Source:
    opening = view.opening
    pocs, highs, lows = describe.carried(opening.carried, tick)
    prior, average = opening.prior, opening.average_range
    return {
        "data_source": seen.source, "live": True, "as_of": None, "updated_at": describe.instant(view.last_ns),
        "state": "live", "invented": seen.channel.invented, "last_price": number(view.last_ticks * tick),
        "average_range": number(average * tick) if average is not None else None,
        "prior": describe.value(prior.poc, prior.vah, prior.val, tick) if prior else None,
        "overnight": describe.high_low(view.overnight, tick),
        "naked_pocs": pocs, "poor_highs": highs, "poor_lows": lows, "method": describe.method(view.ladder),
    }  # fmt: skip


def _delayed_part(place: Place, shelf: Shelf | None, state: str, tick: int) -> _Source:
    stored, average = place.session, place.average_range_ticks()
    pocs, highs, lows = describe.carried(place.carried(), tick)
    profile = stored.profile
    return {
        "data_source": "delayed", "live": False, "as_of": str(stored.row.trade_date), "updated_at": None,
        "state": state, "invented": stored.row.source in INVENTED_SOURCES, "last_price": None,
        "average_range": number(average * tick) if average is not None else None,
        "prior": describe.value(profile.poc, profile.vah, profile.val, tick),
        "overnight": describe.overnight(shelf.overnight_of(stored) if shelf is not None else None, tick),
        "naked_pocs": pocs, "poor_highs": highs, "poor_lows": lows, "method": describe.method(stored.ladder),
    }  # fmt: skip


def _drawn(ladder: Ladder, open_ns: int, tick: int) -> _Drawn:
    return {
        "brackets": [_bracket(bracket, open_ns, tick) for bracket in ladder.brackets],
        "low": number(ladder.low_ticks * tick), "volumes": list(ladder.volume), "path": _path(ladder, tick),
    }  # fmt: skip


def _bracket(bracket: Bracket, open_ns: int, tick: int) -> ChartBracket:
    """A bracket, its start counted from an instant at which one begins."""
    start_ns = bracket.first_ns - (bracket.first_ns - open_ns) % _BRACKET_NS
    return ChartBracket(
        letter=letter(bracket.index), start=describe.instant(start_ns),
        open=number(bracket.open_ticks * tick), high=number(bracket.high_ticks * tick),
        low=number(bracket.low_ticks * tick), close=number(bracket.close_ticks * tick),
    )  # fmt: skip


def _path(ladder: Ladder, tick: int) -> list[PathPoint]:
    """Value after each bracket, from the ladder as it stood then."""
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


def _night(ladder: Ladder, tick: int) -> NightProfile:
    return NightProfile(
        high=number(ladder.high_ticks * tick), low=number(ladder.low_ticks * tick),
        brackets=[_bracket(bracket, 0, tick) for bracket in ladder.brackets],  # nights begin on the half-hour
        volumes=list(ladder.volume),
    )  # fmt: skip


def _range(overnight: tuple[int, int] | None, tick: int) -> NightProfile | None:
    """A night of which only the range is known."""
    if overnight is None:
        return None
    high, low = overnight
    return NightProfile(high=number(high * tick), low=number(low * tick), brackets=[], volumes=[])


def _repaired(drawn: Sequence[ChartSession]) -> list[ChartSession]:
    """The same with each poor extreme's state, which is what later sessions of the contract have done to it."""
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
