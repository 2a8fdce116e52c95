"""The exchange's last-trading-day and first-notice rules, each as a named function.

Each row of `data/products.csv` selects a rule by its name in `EXPIRY_RULES` or `NOTICE_RULES`. Sources: the CME Group
rulebook chapters as quoted by LEAN's FuturesExpiryFunctions, and rules §9; for other exchanges general knowledge.
"""

import calendar as months
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

ONE_DAY = timedelta(days=1)
THURSDAY, FRIDAY, WEDNESDAY, TUESDAY, MONDAY = 3, 4, 2, 1, 0


@dataclass(frozen=True, slots=True)
class BusinessDays:
    """Arithmetic with the business days of one product."""

    is_one: Callable[[date], bool]

    def on_or_before(self, day: date) -> date:
        """Return the day itself, or the nearest business day before it."""
        while not self.is_one(day):
            day -= ONE_DAY
        return day

    def on_or_after(self, day: date) -> date:
        """Return the day itself, or the nearest business day after it."""
        while not self.is_one(day):
            day += ONE_DAY
        return day

    def before(self, day: date, count: int) -> date:
        """Return the business day that is `count` business days before a day. The day itself does not count."""
        for _ in range(count):
            day = self.on_or_before(day - ONE_DAY)
        return day

    def nth(self, year: int, month: int, count: int) -> date:
        """Return the `count`-th business day of a month, counted from 1."""
        day = self.on_or_after(date(year, month, 1))
        for _ in range(count - 1):
            day = self.on_or_after(day + ONE_DAY)
        return day

    def nth_last(self, year: int, month: int, count: int) -> date:
        """Return the `count`-th last business day of a month, counted from 1."""
        return self.before(_after_month(year, month), count)


Rule = Callable[[BusinessDays, int, int], date]


def _after_month(year: int, month: int) -> date:
    return date(year + 1, 1, 1) if month == 12 else date(year, month + 1, 1)


def _month_before(year: int, month: int) -> tuple[int, int]:
    return (year - 1, 12) if month == 1 else (year, month - 1)


def _nth_weekday(year: int, month: int, weekday: int, count: int) -> date:
    first = date(year, month, 1)
    return first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (count - 1))


def _last_weekday(year: int, month: int, weekday: int) -> date:
    last = date(year, month, months.monthrange(year, month)[1])
    return last - timedelta(days=(last.weekday() - weekday) % 7)


def third_friday(days: BusinessDays, year: int, month: int) -> date:
    """Return the last trading day of equity indices: the third Friday, or the business day before it.

    For example, ESM6 ends on a Thursday, because the third Friday is Juneteenth.
    """
    return days.on_or_before(_nth_weekday(year, month, FRIDAY, 3))


def crude(days: BusinessDays, year: int, month: int) -> date:
    """Return CL's last trading day: three business days before the 25th of the month before delivery.

    It is four business days if the 25th is not a business day.
    """
    day = date(*_month_before(year, month), 25)
    return days.before(day, 3 if days.is_one(day) else 4)


def crude_micro(days: BusinessDays, year: int, month: int) -> date:
    """Return MCL's last trading day: the business day before CL's last trading day."""
    return days.before(crude(days, year, month), 1)


def natural_gas(days: BusinessDays, year: int, month: int) -> date:
    """Return NG's last trading day: three business days before the first day of the delivery month."""
    return days.before(date(year, month, 1), 3)


def natural_gas_micro(days: BusinessDays, year: int, month: int) -> date:
    """Return MNG's last trading day: the business day before NG's last trading day."""
    return days.before(date(year, month, 1), 4)


def last_of_month_before(days: BusinessDays, year: int, month: int) -> date:
    """Return the last business day of the month before delivery: the last trading day of RB and HO.

    It is also the first notice day of several products.
    """
    return days.before(date(year, month, 1), 1)


def third_last(days: BusinessDays, year: int, month: int) -> date:
    """Return the last trading day of GC, SI, HG and PL: the third last business day of the delivery month."""
    return days.nth_last(year, month, 3)


def third_last_of_month_before(days: BusinessDays, year: int, month: int) -> date:
    """Return MHG's last trading day: the third last business day of the month before the contract's month."""
    return days.before(date(year, month, 1), 3)


def seven_before_last(days: BusinessDays, year: int, month: int) -> date:
    """Return the last trading day of ZB and ZN: seven business days before the delivery month's last business day."""
    return days.before(days.nth_last(year, month, 1), 7)


def last_of_month(days: BusinessDays, year: int, month: int) -> date:
    """Return the last trading day of ZF, ZT and LE: the last business day of the delivery month."""
    return days.nth_last(year, month, 1)


def before_fifteenth(days: BusinessDays, year: int, month: int) -> date:
    """Return the last trading day of grains and oilseeds: the business day before the 15th of the delivery month."""
    return days.before(date(year, month, 15), 1)


def tenth(days: BusinessDays, year: int, month: int) -> date:
    """Return HE's last trading day: the tenth business day of the delivery month."""
    return days.nth(year, month, 10)


def feeder_thursday(days: BusinessDays, year: int, month: int) -> date:
    """Return GF's last trading day: the month's last Thursday, in November the one before Thanksgiving.

    The Thursday is a week earlier if it or one of the four weekdays before it is not a business day.
    """
    november = month == 11
    day = _nth_weekday(year, month, THURSDAY, 3) if november else _last_weekday(year, month, THURSDAY)
    while not all(days.is_one(day - timedelta(days=back)) for back in (0, 1, 2, 3, 6)):
        day -= timedelta(days=7)
    return day


def two_before_third_wednesday(days: BusinessDays, year: int, month: int) -> date:
    """Return the last trading day of most currencies: two business days before the third Wednesday.

    The Canadian dollar has its own rule, `one_before_third_wednesday`.
    """
    return days.before(_nth_weekday(year, month, WEDNESDAY, 3), 2)


def one_before_third_wednesday(days: BusinessDays, year: int, month: int) -> date:
    """Return 6C's last trading day: the business day before the third Wednesday."""
    return days.before(_nth_weekday(year, month, WEDNESDAY, 3), 1)


def last_friday(days: BusinessDays, year: int, month: int) -> date:
    """Return the last trading day of crypto futures: the last Friday, or the business day before it.

    London's holidays are not taken into account.
    """
    return days.on_or_before(_last_weekday(year, month, FRIDAY))


def last_tuesday(days: BusinessDays, year: int, month: int) -> date:
    """Return the last trading day of NSE index futures: the last Tuesday, or the business day before it."""
    return days.on_or_before(_last_weekday(year, month, TUESDAY))


def second_last(days: BusinessDays, year: int, month: int) -> date:
    """Return the last trading day of HKEX index futures: the second last business day of the month."""
    return days.nth_last(year, month, 2)


def before_second_friday(days: BusinessDays, year: int, month: int) -> date:
    """Return the last trading day of OSE index futures: the business day before the second Friday."""
    return days.before(_nth_weekday(year, month, FRIDAY, 2), 1)


def brent(days: BusinessDays, year: int, month: int) -> date:
    """Return the last trading day of ICE Brent: the last business day of the second month before delivery.

    It is one business day earlier if that is the business day before New Year's Day, as for each February contract.
    """
    year, month = _month_before(*_month_before(year, month))
    return days.nth_last(year, month, 2 if month == 12 else 1)


def first_monday(days: BusinessDays, year: int, month: int) -> date:
    """Return LE's first notice day: the first Monday of the delivery month, or the business day after it."""
    return days.on_or_after(_nth_weekday(year, month, MONDAY, 1))


EXPIRY_RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        third_friday, crude, crude_micro, natural_gas, natural_gas_micro, last_of_month_before, third_last,
        third_last_of_month_before, seven_before_last, last_of_month, before_fifteenth, tenth,
        feeder_thursday, two_before_third_wednesday, one_before_third_wednesday, last_friday,
        last_tuesday, second_last, before_second_friday, brent,
    )
}  # fmt: skip

#: First notice rules by name. `none`: the contract is settled in cash, or notices only follow the last trading day.
NOTICE_RULES: dict[str, Rule | None] = {
    "none": None,
    "last_of_month_before": last_of_month_before,
    "first_monday": first_monday,
}
