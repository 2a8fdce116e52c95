"""Trading sessions by date and time.

A trade date is the exchange's, so Sunday evening belongs to Monday. RTH is the product's regular hours. ETH is
everything from the previous regular close to the next regular open. Both are without the breaks in which the product
does not trade. A day without regular
hours has no session of its own. Its trading belongs to the overnight session of the next day with regular hours (rules
§3.2, §3.3). Windows are in ns UTC, and their end is not included.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Generic, TypeVar

from outcry.market.hours import DayRow, HoursRow
from outcry.market.instruments import Product
from outcry.market.units import NANOS_PER_DAY
from outcry.market.windows import (
    EPOCH,
    LONGEST_CLOSURE_DAYS,
    ONE_DAY,
    Segment,
    TradingHours,
    clipped,
)

#: Limits of ns UTC, and no product traded before. Times outside have no session and no trade date.
FIRST_YEAR, LAST_YEAR = 1971, 2261
#: Start of each of these years, and of the year after (ns UTC).
_NEW_YEARS_NS = tuple(
    (date(year, 1, 1) - EPOCH.date()).days * NANOS_PER_DAY for year in range(FIRST_YEAR, LAST_YEAR + 2)
)
#: An overnight session may begin this long before its trade date, across two closures.
_EARLIEST_OPEN_NS = 2 * LONGEST_CLOSURE_DAYS * NANOS_PER_DAY
#: No trade date ends later after the midnight (UTC) at which it starts: it may pass midnight, in a zone behind UTC.
_LATEST_END_NS = 3 * NANOS_PER_DAY
#: Days whose years are cached: more than streams and pages of the present and its past use at a time.
_DAYS_CACHED = 1024


class SessionKind(StrEnum):
    """Regular trading hours (RTH), or the overnight session before them (ETH)."""

    RTH = "rth"
    ETH = "eth"


@dataclass(frozen=True, slots=True)
class Session:
    """One session of a product.

    segments: half-open windows (ns UTC) in order, without breaks. short: the session closes early.
    """

    root: str
    trade_date: date
    kind: SessionKind
    segments: tuple[Segment, ...]
    short: bool

    @property
    def open_ns(self) -> int:
        """Return the start of the first segment (ns UTC)."""
        return self.segments[0][0]

    @property
    def close_ns(self) -> int:
        """Return the end of the last segment, not included (ns UTC)."""
        return self.segments[-1][1]


@dataclass(frozen=True, slots=True)
class TradingDay:
    """One trade date of a product and the half-open windows (ns UTC) in which it trades."""

    root: str
    trade_date: date
    segments: tuple[Segment, ...]

    @property
    def open_ns(self) -> int:
        """Return the start of the first window (ns UTC)."""
        return self.segments[0][0]

    @property
    def close_ns(self) -> int:
        """Return the end of the last window, not included (ns UTC)."""
        return self.segments[-1][1]


Item = TypeVar("Item", Session, TradingDay)


class _Timeline(Generic[Item]):
    """Lookup of sessions or trade dates by time. Their segments must be ascending and must not overlap."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.items = tuple(items)
        spans = [(start, end, item) for item in self.items for start, end in item.segments]
        self._starts = [start for start, _, _ in spans]
        self._ends = [(end, item) for _, end, item in spans]

    def at(self, at_ns: int) -> Item | None:
        index = bisect_right(self._starts, at_ns) - 1
        return self._ends[index][1] if index >= 0 and at_ns < self._ends[index][0] else None


class Calendar:
    """The calendar of all products. Each year is computed on first use and cached.

    variants: the default set of regular hours for products with several, by root (`{"ES": "cash"}`). A method's
    `variant` argument has precedence. Roots are those of `products`, including micros, which have their parent's hours.
    A method raises `KeyError` for an unknown root.
    """

    def __init__(
        self,
        products: Mapping[str, Product],
        hours: Iterable[HoursRow],
        days: Iterable[DayRow],
        variants: Mapping[str, str] | None = None,
    ) -> None:
        self.hours = TradingHours(products, hours, days)
        self._variants = dict(variants or {})
        self._days: dict[tuple[str, int], _Timeline[TradingDay]] = {}
        self._sessions: dict[tuple[str, int, str], _Timeline[Session]] = {}
        self._by_day: dict[tuple[str, date, SessionKind, str], Session] = {}

    def variants(self, root: str) -> tuple[str, ...]:
        """Return the names of a product's sets of regular hours. The default set has the empty name."""
        return self.hours.variants(root)

    def sessions(
        self, root: str, first: date, last: date, *, variant: str | None = None
    ) -> tuple[Session, ...]:
        """Return the sessions of both kinds from trade date `first` to `last`, both included, in order of open."""
        tables = (self._sessions_of(root, year, variant) for year in _years(first, last))
        return tuple(s for table in tables for s in table.items if first <= s.trade_date <= last)

    def session(
        self, root: str, trade_date: date, kind: SessionKind, *, variant: str | None = None
    ) -> Session | None:
        """Return the session of a trade date; None if there is none."""
        if not FIRST_YEAR <= trade_date.year <= LAST_YEAR:
            return None
        self._sessions_of(root, trade_date.year, variant)
        return self._by_day.get((root, trade_date, kind, self._chosen(root, variant)))

    def session_at(self, root: str, at_ns: int, *, variant: str | None = None) -> Session | None:
        """Return the session open at a time (ns UTC); None in the maintenance break and while closed."""
        for year in _years_near(at_ns):
            if (found := self._sessions_of(root, year, variant).at(at_ns)) is not None:
                return found
        return None

    def session_or_next(self, root: str, at_ns: int, *, variant: str | None = None) -> Session | None:
        """Return the first session that closes after a time (ns UTC).

        It is the current session, even if that is in a break or over a weekend, or else the next one.
        """
        for year in _years_near(at_ns):
            for session in self._sessions_of(root, year, variant).items:
                if session.close_ns > at_ns:
                    return session
        return None

    def next_session(self, root: str, at_ns: int, *, variant: str | None = None) -> Session | None:
        """Return the first session that opens after a time (ns UTC)."""
        for year in _years_near(at_ns):
            for session in self._sessions_of(root, year, variant).items:
                if session.open_ns > at_ns:
                    return session
        return None

    def next_window(self, root: str, at_ns: int, *, variant: str | None = None) -> tuple[Session, int] | None:
        """Return the session that trades next after a time (ns UTC), and when (ns UTC) trading starts or resumes."""
        windows = (
            (start, session)
            for year in _years_near(at_ns)
            for session in self._sessions_of(root, year, variant).items
            for start, _ in session.segments
            if start > at_ns
        )
        found = min(windows, key=lambda window: window[0], default=None)
        return (found[1], found[0]) if found else None

    def trade_date_at(self, root: str, at_ns: int) -> date | None:
        """Return the exchange's trade date at a time (ns UTC); None while closed."""
        for year in _years_near(at_ns):
            if (found := self._days_of(root, year).at(at_ns)) is not None:
                return found.trade_date
        return None

    def trading_days(self, root: str, first: date, last: date) -> tuple[TradingDay, ...]:
        """Return the trade dates between two dates, both included, with their trading windows."""
        tables = (self._days_of(root, year) for year in _years(first, last))
        return tuple(day for table in tables for day in table.items if first <= day.trade_date <= last)

    def trade_dates(self, root: str, first_ns: int, last_ns: int) -> tuple[TradingDay, ...]:
        """Return the trade dates that have a trading window overlapping `[first_ns, last_ns)` (ns UTC), in order."""
        years = sorted({*_years_near(first_ns), *_years_near(last_ns)})
        if not years:
            return ()
        days = self.trading_days(root, date(years[0], 1, 1), date(years[-1], 12, 31))
        return tuple(d for d in days if any(start < last_ns and first_ns < end for start, end in d.segments))

    def _chosen(self, root: str, variant: str | None) -> str:
        return self._variants.get(self.hours.base(root), "") if variant is None else variant

    def _days_of(self, root: str, year: int) -> _Timeline[TradingDay]:
        table = self._days.get((root, year))
        if table is None:
            table = self._days[root, year] = _Timeline(self._build_days(root, year))
        return table

    def _build_days(self, root: str, year: int) -> list[TradingDay]:
        """Compute the trade dates of a year, or copy those of a product with the same hours."""
        alike = self.hours.representative(root)
        if alike != root:
            return [
                TradingDay(root, day.trade_date, day.segments) for day in self._days_of(alike, year).items
            ]
        dates = (date(year, 1, 1) + n * ONE_DAY for n in range(366))
        trades = (day for day in dates if day.year == year and self.hours.trades_on(root, day))
        days = (TradingDay(root, day, self.hours.windows(root, day)) for day in trades)
        return [day for day in days if day.segments]

    def _sessions_of(self, root: str, year: int, variant: str | None) -> _Timeline[Session]:
        chosen = self._chosen(root, variant)
        table = self._sessions.get((root, year, chosen))
        if table is None:
            table = _Timeline(self._build(root, year, chosen))
            self._by_day.update({(root, s.trade_date, s.kind, chosen): s for s in table.items})
            self._sessions[root, year, chosen] = table
        return table

    def _build(self, root: str, year: int, variant: str) -> list[Session]:
        """Compute the sessions of a year's trade dates, or copy those of a product with the same hours.

        The overnight session of the first trade date begins in the year before.
        """
        alike = self.hours.representative(root)
        if alike != root:
            known = self._sessions_of(alike, year, variant).items
            return [Session(root, one.trade_date, one.kind, one.segments, one.short) for one in known]
        sessions: list[Session] = []
        pending, after = self._pending(root, date(year, 1, 1), variant)
        for day in self._days_of(root, year).items:
            pending += day.segments
            regular = self.hours.regular(root, day.trade_date, variant)
            if regular is None:
                continue
            (start, end), short = regular
            if overnight := clipped(pending, after, start):
                sessions.append(Session(root, day.trade_date, SessionKind.ETH, overnight, short=False))
            trading = clipped(pending, start, end)
            sessions.append(Session(root, day.trade_date, SessionKind.RTH, trading, short))
            pending, after = list(day.segments), end
        return sessions

    def _pending(self, root: str, day: date, variant: str) -> tuple[list[Segment], int]:
        """Return the trading windows since the last trade date with regular hours, and the end of those regular hours.

        `day` itself is not included. The end is in ns UTC; 0 if no such date was found. The next overnight session
        starts there.
        """
        pending: list[Segment] = []
        for back in range(1, 2 * LONGEST_CLOSURE_DAYS):
            before = day - back * ONE_DAY
            if self.hours.trades_on(root, before):
                pending = [*self.hours.windows(root, before), *pending]
                if regular := self.hours.regular(root, before, variant):
                    return pending, regular[0][1]
        return pending, 0


def _years(first: date, last: date) -> range:
    return range(max(first.year, FIRST_YEAR), min(last.year, LAST_YEAR) + 1)


def _years_near(at_ns: int) -> range:
    """Return the years whose trade dates may include a time.

    They are the year of the time itself, in December the next one, and in the first days of January the one before.
    """
    return _years_near_day(at_ns // NANOS_PER_DAY)


@lru_cache(_DAYS_CACHED)
def _years_near_day(day: int) -> range:
    """Return the result of `_years_near` for every time of a day. `day`: days since 1970, in UTC."""
    at_ns = day * NANOS_PER_DAY
    first = bisect_right(_NEW_YEARS_NS, at_ns - _LATEST_END_NS)
    last = bisect_right(_NEW_YEARS_NS, at_ns + _EARLIEST_OPEN_NS)
    return range(max(FIRST_YEAR - 1 + first, FIRST_YEAR), min(FIRST_YEAR - 1 + last, LAST_YEAR) + 1)
