"""Checks that rows of weekly hours fit together: trade dates must not overlap, and regular hours need trading.

The checks compare minutes of adjacent days in local time, so they need no dates.
"""

from collections.abc import Iterable, Sequence
from datetime import date

from outcry.market.hours import DAY_MINUTES, HoursRow, OnDay, Window

_WEEK = 7


def same_dates(one: HoursRow, other: HoursRow) -> bool:
    """Return whether the dates on which two rows apply overlap."""
    return one.valid_from <= (other.valid_to or date.max) and other.valid_from <= (one.valid_to or date.max)


def applies_twice(one: HoursRow, other: HoursRow) -> bool:
    """Return whether two rows give the hours of the same product, variant and day."""
    return bool(
        one.variant == other.variant
        and set(one.roots) & set(other.roots)
        and set(one.days) & set(other.days)
        and same_dates(one, other)
    )


def runs_into_next(row: HoursRow, rows: Iterable[HoursRow]) -> bool:
    """Return whether a trade date of `row` starts before the previous trade date of the same product ends.

    rows: all rows of trading hours that may precede it, `row` included. Rows of variants are ignored.
    """
    if row.globex is None:
        return False
    others = [
        (other, other.globex)
        for other in rows
        if other.globex is not None and set(other.roots) & set(row.roots) and same_dates(other, row)
    ]
    return any(_overlaps(row.globex[0], day, others) for day in row.days)


def _overlaps(first: Window, day: int, others: Sequence[tuple[HoursRow, tuple[Window, ...]]]) -> bool:
    """Return whether a first window of a weekday starts before the end of the weekday that trades before it."""
    for back in range(1, _WEEK + 1):
        before = [windows for other, windows in others if (day - back) % _WEEK in other.days]
        if before:
            distance = back * DAY_MINUTES
            start = first.start - distance if first.starts_on is OnDay.LAST_TRADE_DATE else first.start_minute
            return any(windows[-1].end_minute - distance > start for windows in before)
    return False


def outside_trading(rth: Window, trading: Sequence[Window]) -> bool:
    """Return whether regular hours start or end at a time at which the product does not trade.

    Hours from the previous trade date (`^`) must be part of a window that starts there too, because any other time of
    that date belongs to its own regular hours.
    """
    starts = any(
        w.start_minute <= rth.start_minute < w.end_minute
        for w in trading
        if rth.starts_on is not OnDay.LAST_TRADE_DATE or w.starts_on is rth.starts_on
    )
    ends = any(w.start_minute < rth.end_minute <= w.end_minute for w in trading)
    return not (starts and ends)
