"""Sessions as data: which session an instant belongs to, and which there were.

Owns the reading of hours and exceptions (`core.hours`) into windows of nanoseconds. Rules kept (rules §3.2,
§3.3): a trade date is the exchange's, so Sunday evening is Monday's and a holiday's half-day is the next
business day's; a day without regular hours has no session, and its trading joins the overnight of the next
that has them; regular hours end at the early close, and do not take place if it leaves an hour or less of
them. All times go through `zoneinfo`; windows are half-open.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from operator import itemgetter
from zoneinfo import ZoneInfo

from outcry.core.hours import Begins, DayKind, DayRow, HoursRow, Window
from outcry.core.instruments import Product
from outcry.core.units import NANOS_PER_SECOND

Segment = tuple[int, int]
ONE_DAY = timedelta(days=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Regular hours cut to this or less do not take place: rules §3.3.
SHORTEST_RTH_NS = 60 * 60 * NANOS_PER_SECOND
#: No product stays closed longer; a search for the trade date before ends there.
LONGEST_CLOSURE_DAYS = 12
#: Whose holidays stand for an exchange's.
EXCHANGE_GROUPS = {"CME": "index", "CBOT": "rates", "NYMEX": "energy", "COMEX": "metals"}


class SessionKind(StrEnum):
    """The product's regular hours, or everything between them."""

    RTH = "rth"
    ETH = "eth"


@dataclass(frozen=True, slots=True)
class Session:
    """One session of a product. `segments`: half-open windows (ns UTC) in order, without the maintenance
    break; `short`: the close was brought forward."""

    root: str
    trade_date: date
    kind: SessionKind
    segments: tuple[Segment, ...]
    short: bool

    @property
    def open_ns(self) -> int:
        """Start of the first segment."""
        return self.segments[0][0]

    @property
    def close_ns(self) -> int:
        """End of the last segment, not included."""
        return self.segments[-1][1]


@dataclass(frozen=True, slots=True)
class TradingDay:
    """One trade date of a product and the half-open windows (ns UTC) whose trades carry it."""

    root: str
    trade_date: date
    segments: tuple[Segment, ...]

    @property
    def open_ns(self) -> int:
        """Start of the first window."""
        return self.segments[0][0]

    @property
    def close_ns(self) -> int:
        """End of the last window, not included."""
        return self.segments[-1][1]


@dataclass(frozen=True, slots=True)
class _Year:
    """All trade dates and sessions of one product with trade dates in one year, and their segments by
    start."""

    days: tuple[TradingDay, ...]
    sessions: tuple[Session, ...]
    starts: tuple[int, ...]
    spans: tuple[tuple[int, Session], ...]


class Calendar:
    """Answers by product; years are worked out when first asked for and kept.

    variants: root → variant of its regular hours (`{"ES": "cash"}`), for this calendar's answers; a method's
    own `variant` goes before it. Roots are those of `products`, micros too (their parent's hours). A method
    raises `KeyError` for an unknown root.
    """

    def __init__(
        self,
        products: Mapping[str, Product],
        hours: Iterable[HoursRow],
        days: Iterable[DayRow],
        variants: Mapping[str, str] | None = None,
    ) -> None:
        self._products = products
        self._hours = tuple(hours)
        self._days: dict[tuple[str, date], DayRow] = {}
        self._rows = tuple(days)
        for row in self._rows:  # later rows win: overrides are given after holidays
            self._days.update({(name, row.day): row for name in row.names})
        self._variants = dict(variants or {})
        self._zones = {zone: ZoneInfo(zone) for zone in {product.zone for product in products.values()}}
        self._of_root: dict[tuple[str, str], tuple[HoursRow, ...]] = {}
        self._segments: dict[tuple[str, date], tuple[Segment, ...]] = {}
        self._years: dict[tuple[str, int, str], _Year] = {}

    def with_variants(self, variants: Mapping[str, str]) -> "Calendar":
        """The same calendar with other regular hours for some roots."""
        return Calendar(self._products, self._hours, self._rows, {**self._variants, **variants})

    def variants(self, root: str) -> tuple[str, ...]:
        """Names of the regular hours a product can be asked for, the usual first (an empty name)."""
        own = self._base(root)
        return tuple(dict.fromkeys(row.variant for row in self._hours if own in row.roots))

    def is_business_day(self, name: str, day: date) -> bool:
        """Whether a date is a trade date of a root, or of an exchange (`CME`, `CBOT`, `NYMEX`, `COMEX`)."""
        if day.weekday() >= 5:
            return False
        row = (
            self._days.get((EXCHANGE_GROUPS[name], day)) if name in EXCHANGE_GROUPS else self._row(name, day)
        )
        return row is None or row.kind in {DayKind.OPEN, DayKind.NO_RTH}

    def sessions(
        self, root: str, first: date, last: date, *, variant: str | None = None
    ) -> tuple[Session, ...]:
        """Sessions of both kinds with trade dates between two dates, both included, in order of open."""
        years = [self._year(root, year, variant) for year in range(first.year, last.year + 1)]
        return tuple(s for year in years for s in year.sessions if first <= s.trade_date <= last)

    def session(
        self, root: str, trade_date: date, kind: SessionKind, *, variant: str | None = None
    ) -> Session | None:
        """The session of a trade date; None where it does not take place."""
        of_day = self.sessions(root, trade_date, trade_date, variant=variant)
        return next((session for session in of_day if session.kind is kind), None)

    def session_at(self, root: str, at_ns: int, *, variant: str | None = None) -> Session | None:
        """The session an instant (ns UTC) lies in; None in the maintenance break and while closed."""
        for year in self._years_near(at_ns):
            table = self._year(root, year, variant)
            index = bisect_right(table.starts, at_ns) - 1
            if index >= 0 and at_ns < table.spans[index][0]:
                return table.spans[index][1]
        return None

    def trade_date_at(self, root: str, at_ns: int) -> date | None:
        """The exchange's trade date of a trade at an instant (ns UTC); None while there is no trading."""
        days = self.trade_dates(root, at_ns, at_ns + 1)
        return days[0].trade_date if days else None

    def trading_days(self, root: str, first: date, last: date) -> tuple[TradingDay, ...]:
        """Trade dates between two dates, both included, with their windows."""
        years = [self._year(root, year, None) for year in range(first.year, last.year + 1)]
        return tuple(day for year in years for day in year.days if first <= day.trade_date <= last)

    def trade_dates(self, root: str, first_ns: int, last_ns: int) -> tuple[TradingDay, ...]:
        """Trade dates with a window that touches `[first_ns, last_ns)` (ns UTC), in order."""
        first, last = (EPOCH + timedelta(seconds=at // NANOS_PER_SECOND) for at in (first_ns, last_ns))
        around = timedelta(days=LONGEST_CLOSURE_DAYS)
        days = self.trading_days(root, first.date() - ONE_DAY, (last + around).date())
        return tuple(
            day for day in days if any(start < last_ns and first_ns < end for start, end in day.segments)
        )

    def _years_near(self, at_ns: int) -> tuple[int, ...]:
        """Years whose trade dates an instant may belong to: its own, or the next in the last days of
        December."""
        at = EPOCH + timedelta(seconds=at_ns // NANOS_PER_SECOND)
        near = {(at + timedelta(days=days)).year for days in (-1, 0, LONGEST_CLOSURE_DAYS)}
        return tuple(sorted(near))

    def _base(self, root: str) -> str:
        return self._products[root].parent or root

    def _row(self, root: str, day: date) -> DayRow | None:
        """What is special about a date: a row that names the root, else one that names its group."""
        own = self._base(root)
        return self._days.get((own, day)) or self._days.get((self._products[own].group, day))

    def _hours_of(self, root: str, day: date, variant: str = "") -> HoursRow | None:
        key = (self._base(root), variant)
        rows = self._of_root.get(key)
        if rows is None:
            rows = tuple(row for row in self._hours if key[0] in row.roots and row.variant == variant)
            self._of_root[key] = rows
        return next((row for row in rows if row.holds(day)), None)

    def _trades_on(self, root: str, day: date) -> bool:
        return self.is_business_day(root, day) and self._hours_of(root, day) is not None

    def _trade_date_before(self, root: str, day: date) -> date:
        """The trade date before; where there is none (the product is new), the day a long closure ago."""
        for back in range(1, LONGEST_CLOSURE_DAYS):
            if self._trades_on(root, day - back * ONE_DAY):
                return day - back * ONE_DAY
        return day - LONGEST_CLOSURE_DAYS * ONE_DAY

    def _at(self, root: str, day: date, clock: time) -> int:
        moment = datetime.combine(day, clock, self._zones[self._products[root].zone]) - EPOCH
        return (moment.days * 86_400 + moment.seconds) * NANOS_PER_SECOND

    def _own_windows(self, root: str, day: date) -> list[Segment]:
        """Windows of one calendar day's trading, cut to its late open and early close."""
        hours, row = self._hours_of(root, day), self._row(root, day)
        if hours is None or hours.globex is None or (row and row.kind is DayKind.CLOSED):
            return []
        joined = row is not None and row.kind is DayKind.JOINED
        if joined and any(window.begins is Begins.LAST_TRADE_DATE for window in hours.globex):
            return []  # the next trade date's own window reaches back over this day
        opens = self._at(root, day, row.opens) if row and row.opens else None
        closes = self._at(root, day, row.closes) if row and row.closes else None
        cut: list[Segment] = []
        for window in hours.globex:
            start, end = self._bounds(root, day, window)
            start = start if opens is None else max(start, opens)
            end = end if closes is None else min(end, closes)
            if start < end:
                cut.append((start, end))
        return cut

    def _bounds(self, root: str, day: date, window: Window) -> Segment:
        begins = day
        if window.begins is Begins.EVE:
            begins = day - ONE_DAY
        elif window.begins is Begins.LAST_TRADE_DATE:
            begins = self._trade_date_before(root, day)
        return self._at(root, begins, window.start), self._at(root, day, window.end)

    def _windows(self, root: str, day: date) -> tuple[Segment, ...]:
        """All windows of a trade date: its own, and before them those of half-days that carry its date."""
        known = self._segments.get((root, day))
        if known is None:
            windows: list[Segment] = []
            joined = self._trade_date_before(root, day) + ONE_DAY
            while joined < day:
                if joined.weekday() < 5:
                    windows += self._own_windows(root, joined)
                joined += ONE_DAY
            known = _merged(windows + self._own_windows(root, day))
            self._segments[root, day] = known
        return known

    def _rth(self, root: str, day: date, variant: str) -> tuple[Segment, bool] | None:
        """The regular hours of a trade date and whether their close was brought forward; None without
        them."""
        hours, row = self._hours_of(root, day, variant) or self._hours_of(root, day), self._row(root, day)
        if hours is None or (row and row.kind is not DayKind.OPEN) or not self._trades_on(root, day):
            return None
        start, usual = self._bounds(root, day, hours.rth)
        end = usual
        if row:
            start = max(start, self._at(root, day, row.opens)) if row.opens else start
            end = min(end, self._at(root, day, row.closes)) if row.closes else end
            start = self._at(root, day, row.rth_opens) if row.rth_opens else start
            end = self._at(root, day, row.rth_closes) if row.rth_closes else end
        return ((start, end), end < usual) if end - start > SHORTEST_RTH_NS else None

    def _year(self, root: str, year: int, variant: str | None) -> _Year:
        chosen = self._variants.get(self._base(root), "") if variant is None else variant
        key = (root, year, chosen)
        if key not in self._years:
            self._years[key] = self._build(root, year, chosen)
        return self._years[key]

    def _build(self, root: str, year: int, variant: str) -> _Year:
        days, sessions = list[TradingDay](), list[Session]()
        day, last_day = date(year, 1, 1), date(year, 12, 31)
        pending, after = self._pending(root, day, variant)
        while day <= last_day:
            if self._trades_on(root, day) and (windows := self._windows(root, day)):
                days.append(TradingDay(root, day, windows))
                pending += windows
                if regular := self._rth(root, day, variant):
                    (start, end), short = regular
                    overnight = _clipped(pending, after, start)
                    if overnight:
                        sessions.append(Session(root, day, SessionKind.ETH, overnight, short=False))
                    sessions.append(Session(root, day, SessionKind.RTH, _clipped(pending, start, end), short))
                    pending, after = list(windows), end
            day += ONE_DAY
        spans = sorted(
            ((s, e, session) for session in sessions for s, e in session.segments), key=itemgetter(0)
        )
        starts = tuple(start for start, _, _ in spans)
        return _Year(tuple(days), tuple(sessions), starts, tuple((end, session) for _, end, session in spans))

    def _pending(self, root: str, day: date, variant: str) -> tuple[list[Segment], int]:
        """Windows since the last trade date with regular hours before a date, and where those hours ended."""
        pending: list[Segment] = []
        for back in range(1, 2 * LONGEST_CLOSURE_DAYS):
            before = day - back * ONE_DAY
            if not self._trades_on(root, before):
                continue
            pending = [*self._windows(root, before), *pending]
            if regular := self._rth(root, before, variant):
                return pending, regular[0][1]
        return pending, pending[0][0] if pending else self._at(root, day, time())


def _merged(windows: list[Segment]) -> tuple[Segment, ...]:
    """Windows in order, those that touch made one."""
    merged: list[Segment] = []
    for start, end in sorted(windows):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _clipped(windows: Iterable[Segment], start: int, end: int) -> tuple[Segment, ...]:
    """The parts of windows that lie in `[start, end)`, those that touch made one."""
    return _merged([(max(a, start), min(b, end)) for a, b in windows if a < end and start < b])
