"""Computes trading windows in ns UTC from the tables of hours, holidays and overrides.

A holiday's half-day belongs to the next trade date. Regular hours end at an early close, and do not take place if an
hour or less of them would remain (rules §3.2, §3.3). Local times are converted with `zoneinfo`. Windows are half-open.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from outcry.market.hours import DAY_MINUTES, DayKind, DayRow, HoursRow, OnDay, Window
from outcry.market.instruments import Product
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_SECOND

Segment = tuple[int, int]

ONE_DAY = timedelta(days=1)
YEAR = timedelta(days=365)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Regular hours cut to this length or less do not take place (rules §3.3).
SHORTEST_RTH_NS = NANOS_PER_HOUR
#: No product stays closed longer; the search for the previous trade date ends there.
LONGEST_CLOSURE_DAYS = 12


class TradingHours:
    """Trading hours of all products.

    `days`: dates with other hours. A later row takes precedence over an earlier one, and a row for a root over one for
    its group. A method raises `KeyError` for an unknown root; a micro has its parent's hours.
    """

    def __init__(
        self, products: Mapping[str, Product], hours: Iterable[HoursRow], days: Iterable[DayRow]
    ) -> None:
        self._products = products
        self._hours = tuple(hours)
        self._days: dict[tuple[str, date], DayRow] = {}
        self._years: dict[str, list[int]] = {}
        for row in days:
            self._days.update({(name, row.day): row for name in row.names})
            for name in row.names if row.planned else ():
                self._years.setdefault(name, []).append(row.day.year)
        self._zones = {zone: ZoneInfo(zone) for zone in {product.zone for product in products.values()}}
        self._weekdays: dict[str, set[int]] = {}
        for row in self._hours:
            for root in row.roots:
                self._weekdays.setdefault(root, set()).update(row.days)
        self._of_root: dict[tuple[str, str], tuple[HoursRow, ...]] = {}
        self._known: dict[tuple[str, date], tuple[Segment, ...]] = {}

    def base(self, root: str) -> str:
        """Return the root whose hours apply: the parent for a micro."""
        return self._products[root].parent or root

    def representative(self, root: str) -> str:
        """Return the first product that has the same hours and holidays, and therefore sessions at the same times."""
        return self._representatives[root]

    @cached_property
    def _representatives(self) -> Mapping[str, str]:
        own_days: dict[str, list[DayRow]] = {}
        for (name, _), row in self._days.items():
            own_days.setdefault(name, []).append(row)
        first: dict[tuple[object, ...], str] = {}
        found: dict[str, str] = {}
        for root, product in self._products.items():
            own = self.base(root)
            hours = tuple(number for number, row in enumerate(self._hours) if own in row.roots)
            days = tuple(own_days.get(own, ()))
            found[root] = first.setdefault((product.zone, self._products[own].group, hours, days), root)
        return found

    def zone(self, root: str) -> ZoneInfo:
        """Return the time zone of a product's hours."""
        return self._zones[self._products[root].zone]

    def weekdays(self, root: str) -> frozenset[int]:
        """Return the weekdays (0 is Monday) for which the tables have hours of a product."""
        return frozenset(self._weekdays[self.base(root)])

    def variants(self, root: str) -> tuple[str, ...]:
        """Return the names of a product's sets of regular hours. The default set has the empty name."""
        own = self.base(root)
        return tuple(dict.fromkeys(row.variant for row in self._hours if own in row.roots))

    def begin(self, root: str) -> date:
        """Return the first day for which the tables have hours of a product. It has no sessions before that day."""
        own = self.base(root)
        return min(row.valid_from for row in self._hours if own in row.roots)

    def known_years(self, root: str) -> range:
        """Return the years whose holidays the tables list for a product; empty if the tables list no holidays for it.

        In other years every weekday of its trading hours counts as an ordinary trade date.
        """
        own = self.base(root)
        years = [*self._years.get(own, ()), *self._years.get(self._products[own].group, ())]
        return range(min(years), max(years) + 1) if years else range(0)

    def holidays_ending(self, on: date) -> Mapping[str, date]:
        """Return the last day with known holidays, of each calendar that ends less than a year after a date.

        A calendar is that of a group of products, or of a root whose group has no holidays.
        """
        found: dict[str, date] = {}
        for root, product in self._products.items():
            if product.parent is None and (years := self.known_years(root)):
                last = date(years[-1], 12, 31)
                if last < on + YEAR:
                    found.setdefault(product.group if product.group in self._years else root, last)
        return found

    def rows_on(self, root: str, day: date) -> tuple[HoursRow, ...]:
        """Return the rows of weekly hours whose dates include a day, of any weekday, variants included."""
        own = self.base(root)
        return tuple(
            row
            for row in self._hours
            if own in row.roots and row.valid_from <= day and (row.valid_to is None or day <= row.valid_to)
        )

    def special_days(self, root: str, first: date) -> tuple[DayRow, ...]:
        """Return the rows of holidays and overrides that apply to a product from a day on, in order of date."""
        names = {self.base(root), self._products[root].group}
        days = sorted({day for name, day in self._days if name in names and day >= first})
        return tuple(row for day in days if (row := self._row(root, day)) is not None)

    def is_business_day(self, root: str, day: date) -> bool:
        """Return whether a product can have a trade date on a date: a weekday of its hours and no holiday."""
        if day.weekday() not in self._weekdays[self.base(root)]:
            return False
        row = self._row(root, day)
        return row is None or row.kind in {DayKind.OPEN, DayKind.NO_RTH}

    def trades_on(self, root: str, day: date) -> bool:
        """Return whether a date is a trade date of a product: a business day on which it has hours."""
        return self.is_business_day(root, day) and self._hours_of(root, day) is not None

    def windows(self, root: str, day: date) -> tuple[Segment, ...]:
        """Return all trading windows of a trade date, including those of earlier half-days that belong to it."""
        known = self._known.get((root, day))
        if known is None:
            found: list[Segment] = []
            joined = self._trade_date_before(root, day) + ONE_DAY
            while joined < day:
                found += self._own_windows(root, joined)
                joined += ONE_DAY
            known = self._known[root, day] = merged(found + self._own_windows(root, day))
        return known

    def regular(self, root: str, day: date, variant: str) -> tuple[Segment, bool] | None:
        """Return the regular hours of a date and whether they close early; None if the date has no regular hours.

        The hours are one span; `windows` has the breaks in it. variant: name of a set of regular hours; an unknown name
        means the default.
        """
        row = self._row(root, day)
        hours = self._hours_of(root, day, variant) or self._hours_of(root, day)
        if hours is None or not self.trades_on(root, day) or (row and row.kind is not DayKind.OPEN):
            return None
        usual = start, end = self._bounds(root, day, hours.rth)
        if row:
            start = max(start, self._at(root, day, row.opens)) if row.opens else start
            end = min(end, self._at(root, day, row.closes)) if row.closes else end
            start = self._at(root, day, row.rth_opens) if row.rth_opens else start
            end = min(end, self._at(root, day, row.rth_closes)) if row.rth_closes else end
        if (start, end) != usual and end - start <= SHORTEST_RTH_NS:
            return None
        return ((start, end), end < usual[1]) if clipped(self.windows(root, day), start, end) else None

    def _row(self, root: str, day: date) -> DayRow | None:
        own = self.base(root)
        return self._days.get((own, day)) or self._days.get((self._products[own].group, day))

    def _hours_of(self, root: str, day: date, variant: str = "") -> HoursRow | None:
        key = (self.base(root), variant)
        rows = self._of_root.get(key)
        if rows is None:
            rows = tuple(row for row in self._hours if key[0] in row.roots and row.variant == variant)
            self._of_root[key] = rows
        return next((row for row in rows if row.holds(day)), None)

    def _trade_date_before(self, root: str, day: date) -> date:
        """Return the previous trade date. If the product is new and has none, return the previous day."""
        for back in range(1, LONGEST_CLOSURE_DAYS):
            if self.trades_on(root, day - back * ONE_DAY):
                return day - back * ONE_DAY
        return day - ONE_DAY

    def _own_windows(self, root: str, day: date) -> list[Segment]:
        """Return the trading windows of one calendar day alone, limited by a late open or early close of that day."""
        hours, row = self._hours_of(root, day), self._row(root, day)
        if hours is None or hours.globex is None or (row and row.kind is DayKind.CLOSED):
            return []
        joined = row is not None and row.kind is DayKind.JOINED
        if joined and any(window.reaches_back for window in hours.globex):
            return []  # the window of the next trade date includes this day
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
        # Trading on joined days is part of a window that reaches back; otherwise they have windows of their own.
        before = self._trade_date_before if window.reaches_back else self._trading_day_before

        def calendar_day(on: OnDay) -> date:
            if on is OnDay.LAST_TRADE_DATE:
                return before(root, day)
            return day - ONE_DAY if on is OnDay.EVE else day

        return (
            self._at_minute(root, calendar_day(window.starts_on), window.start),
            self._at_minute(root, calendar_day(window.ends_on), window.end),
        )

    def _trading_day_before(self, root: str, day: date) -> date:
        """Return the previous trade date, or a later joined day before `day`: its evening too belongs to `day`."""
        trade_date = self._trade_date_before(root, day)
        joined = day - ONE_DAY
        while joined > trade_date:
            row = self._row(root, joined)
            if row is not None and row.kind is DayKind.JOINED and self._hours_of(root, joined) is not None:
                return joined
            joined -= ONE_DAY
        return trade_date

    def _at_minute(self, root: str, day: date, minute: int) -> int:
        days, minute = divmod(minute, DAY_MINUTES)
        return self._at(root, day + days * ONE_DAY, time(*divmod(minute, 60)))

    def _at(self, root: str, day: date, clock: time) -> int:
        moment = datetime.combine(day, clock, self.zone(root)) - EPOCH
        return (moment.days * 86_400 + moment.seconds) * NANOS_PER_SECOND


def merged(windows: Iterable[Segment]) -> tuple[Segment, ...]:
    """Return windows in order, with adjacent ones merged."""
    found: list[Segment] = []
    for start, end in sorted(windows):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)


def clipped(windows: Iterable[Segment], start: int, end: int) -> tuple[Segment, ...]:
    """Return the parts of windows inside `[start, end)`, with adjacent ones merged."""
    return merged((max(a, start), min(b, end)) for a, b in windows if a < end and start < b)
