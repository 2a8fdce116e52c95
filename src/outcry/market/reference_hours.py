"""Parses and validates the tables of weekly hours, holidays and dated exceptions (overrides).

A table is accepted as a whole, or rejected with an error that names the file, the row (1 is the header) and the column.
Every row has its source (`source`) and the date it was last checked (`checked_on`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, time
from itertools import combinations

from outcry.market.hours import DAY_NAMES, DayKind, DayRow, HoursRow, read_clock, read_days, read_windows
from outcry.market.instruments import Product
from outcry.market.reference_rows import BadReference, Row, one_of, read_date, rows
from outcry.market.weekly_hours import applies_twice, outside_trading, runs_into_next, same_dates

HOURS_COLUMNS = "roots,variant,days,valid_from,valid_to,globex,rth,source,checked_on,note"
DAY_COLUMNS = "date,name,applies_to,day,opens,closes,rth_opens,rth_closes,source,checked_on,note"


def _kind(text: str) -> DayKind:
    return DayKind(one_of({kind.value: kind for kind in DayKind})(text))


def parse_hours(
    text: str, products: Mapping[str, Product], file: str = "sessions.csv", known: Iterable[HoursRow] = ()
) -> tuple[HoursRow, ...]:
    """Parse the weekly hours; return the rows of `known`, then those of the table, in order.

    known: rows of another table. If the table names a root, all its hours are those of the table. Raises
    `BadReference`, also if two rows apply to the same product and day, if trade dates overlap, or if a product has no
    hours.
    """
    full_size = {product.root: product for product in products.values() if product.parent is None}
    read: list[tuple[HoursRow, Row]] = []
    for row in rows(text, file, HOURS_COLUMNS):
        hours = _hours(row, full_size)
        for before, _ in read:
            if applies_twice(before, hours):
                raise row.refuse(
                    f"overlaps another row of {' '.join(set(before.roots) & set(hours.roots))}", "valid_from"
                )
        read.append((hours, row))
    own = [hours for hours, _ in read]
    for hours, row in read:
        _check_week(row, hours, own)
    named = {root for hours in own for root in hours.roots}
    others = (replace(row, roots=tuple(root for root in row.roots if root not in named)) for row in known)
    whole = (*(row for row in others if row.roots), *own)
    for root in full_size:
        if not any(root in hours.roots and not hours.variant for hours in whole):
            raise BadReference(file, 1, f"{root} has no hours: add a row for it without a variant", "roots")
    return whole


def _hours(row: Row, known: Mapping[str, Product]) -> HoursRow:
    roots = row.read("roots", str.split)
    for root in roots:
        row.read("roots", lambda _text, root=root: one_of(known)(root))
    variant = row.cells["variant"]
    regular = row.read("rth", read_windows)
    globex = row.maybe("globex", read_windows)
    if globex is None and not variant:
        raise row.refuse("is empty, and only a variant's may be", "globex")
    if len(regular) != 1:
        raise row.refuse("is not one window; the breaks in it are those of the trading hours (globex)", "rth")
    valid_from, valid_to = row.read("valid_from", read_date), row.maybe("valid_to", read_date)
    if valid_to is not None and valid_to < valid_from:
        raise row.refuse("is before valid_from", "valid_to")
    return HoursRow(
        tuple(roots), variant, row.read("days", read_days), valid_from, valid_to, globex, regular[0],
        row.read("source", str), row.read("checked_on", read_date), row.cells["note"], row.file,
    )  # fmt: skip


def _check_week(row: Row, hours: HoursRow, table: Iterable[HoursRow]) -> None:
    """Reject hours whose trade dates overlap, or whose regular hours start or end while the product does not trade."""
    ordinary = [other for other in table if not other.variant and set(other.roots) & set(hours.roots)]
    if not hours.variant and runs_into_next(hours, ordinary):
        raise row.refuse("starts before the trading of the previous trade date ends", "globex")
    for other in ordinary:
        applies = set(other.days) & set(hours.days) and same_dates(other, hours)
        if applies and other.globex is not None and outside_trading(hours.rth, other.globex):
            raise row.refuse("starts or ends outside the trading hours (globex)", "rth")


def parse_days(
    text: str,
    products: Mapping[str, Product],
    hours: Iterable[HoursRow],
    file: str = "holidays.csv",
    *,
    planned: bool = True,
) -> tuple[DayRow, ...]:
    """Parse holidays or overrides, in the order of the table.

    hours: the weekly hours; a row for a weekday on which nothing trades is an error. planned: whether the table lists
    the holidays of whole years. Raises `BadReference`, also if two rows name the same day of a group or root.
    """
    weekdays = _weekdays_by_name(products, hours)
    read: list[DayRow] = []
    seen: set[tuple[str, date]] = set()
    for row in rows(text, file, DAY_COLUMNS):
        day = _day_row(row, weekdays, planned=planned)
        for name in day.names:
            if (name, day.day) in seen:
                raise row.refuse(f"{day.day} is given twice for {name}", "date")
            seen.add((name, day.day))
        read.append(day)
    return tuple(read)


def _weekdays_by_name(products: Mapping[str, Product], hours: Iterable[HoursRow]) -> dict[str, set[int]]:
    """Return the weekdays on which each product and each group of products trades."""
    names = {p.root: p.group for p in products.values() if p.parent is None}
    found: dict[str, set[int]] = {name: set() for pair in names.items() for name in pair}
    for row in hours:
        for root in row.roots:
            if root in names:  # not the hours of a product that another table has made a micro
                found[root].update(row.days)
                found[names[root]].update(row.days)
    return found


def _day_row(row: Row, known: Mapping[str, set[int]], *, planned: bool) -> DayRow:
    day = row.read("date", read_date)
    names = row.read("applies_to", str.split)
    for name in names:
        row.read("applies_to", lambda _text, name=name: one_of(known)(name))
        if day.weekday() not in known[name]:
            raise row.refuse(f"{day} is a {DAY_NAMES[day.weekday()]}, on which {name} never trades", "date")
    kind = row.read("day", _kind)
    times: dict[str, time | None] = {
        column: row.maybe(column, read_clock) for column in ("opens", "closes", "rth_opens", "rth_closes")
    }
    if kind is DayKind.CLOSED and any(times.values()):
        raise row.refuse("a closed day has no times", "day")
    for first, second in combinations(times, 2):
        start, end = times[first], times[second]
        if first.endswith("opens") and second.endswith("closes") and start and end and end <= start:
            raise row.refuse(f"is not after {first}", second)
    return DayRow(
        day, row.read("name", str), tuple(names), kind, times["opens"], times["closes"], times["rth_opens"],
        times["rth_closes"], row.read("source", str), row.read("checked_on", read_date), row.cells["note"], planned,
        row.file,
    )  # fmt: skip
