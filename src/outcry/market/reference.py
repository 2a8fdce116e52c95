"""Parses and validates the reference tables: products, weekly hours, holidays and dated exceptions (overrides).

A table is accepted as a whole, or rejected with an error that names the file, the row (1 is the header) and the column.
Every row has its source (`source`) and the date it was last checked (`checked_on`). This module parses text;
`trades.reference_tables` reads the files.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, time
from itertools import combinations
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from outcry.market.expiry import EXPIRY_RULES, NOTICE_RULES
from outcry.market.hours import DayKind, DayRow, HoursRow, read_clock, read_days, read_windows
from outcry.market.instruments import MONTH_CODES, Product
from outcry.market.symbols import LONGEST_ROOT, read_symbol
from outcry.market.units import PRICE_SCALE, e9_from_text
from outcry.market.windows import EXCHANGE_GROUPS, GROUPS

T = TypeVar("T")

PRODUCT_COLUMNS = (
    "root,name,exchange,sector,parent,tick,multiplier,unit,months,serial,skipped,zone,settle,expiry_rule,"
    "notice_rule,roll_sessions,projectx,aliases,source,checked_on,note"
)
#: Columns of an instrument that never expires must be empty.
_OF_MONTHS = ("serial", "skipped", "expiry_rule", "notice_rule", "roll_sessions")
#: Characters that are safe in folders, file names, NATS subjects and URLs; Windows cannot create folders with the names
#: of devices.
_ROOT = re.compile(r"(?!(?:CON|PRN|AUX|NUL|COM[0-9]|LPT[0-9])\Z)[A-Z0-9][A-Z0-9_-]{0,11}", re.ASCII)
_DATED_ROOT = re.compile(rf"[A-Z0-9]{{1,{LONGEST_ROOT}}}", re.ASCII)
#: Columns that a table of products may have besides.
PRODUCT_OPTIONS = ("size_step",)
ACTIVITY_COLUMNS = "root,regular,day,night,source,checked_on,note"
HOURS_COLUMNS = "roots,variant,days,valid_from,valid_to,globex,rth,source,checked_on,note"
DAY_COLUMNS = "date,name,applies_to,day,opens,closes,rth_opens,rth_closes,source,checked_on,note"


class BadReference(ValueError):
    """A reference table is invalid. The message names the file, the row (1 is the header) and the column."""

    def __init__(self, file: str, row: int, problem: str, column: str = "") -> None:
        place = f"row {row}, column {column}" if column else f"row {row}"
        super().__init__(f"{file}, {place}: {problem}")
        self.file, self.row, self.column, self.problem = file, row, column, problem


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of a table, with its file and line for error messages."""

    file: str
    number: int
    cells: Mapping[str, str]

    def refuse(self, problem: str, column: str = "") -> BadReference:
        return BadReference(self.file, self.number, problem, column)

    def read(self, column: str, reader: Callable[[str], T]) -> T:
        """Parse a cell with `reader`; an empty cell is an error."""
        text = self.cells[column]
        if not text:
            raise self.refuse("is empty", column)
        try:
            return reader(text)
        except ValueError as problem:
            raise self.refuse(str(problem), column) from problem

    def maybe(self, column: str, reader: Callable[[str], T]) -> T | None:
        """Parse a cell with `reader`; return None if the cell is empty."""
        return self.read(column, reader) if self.cells[column] else None

    def words(self, column: str) -> tuple[str, ...]:
        return tuple(self.cells[column].split())


def _rows(text: str, file: str, header_text: str, optional: tuple[str, ...] = ()) -> Iterator[_Row]:
    """Yield the rows of a table.

    The table must have the columns that `header_text` names and may have the `optional` ones, in any order. The cells
    of a missing optional column are empty.
    """
    columns = header_text.split(",")
    reader = csv.reader(text.removeprefix("\ufeff").splitlines(), strict=True)
    try:
        header = tuple(cell.strip() for cell in next(reader, ()))
        for missing in (column for column in columns if column not in header):
            raise BadReference(file, 1, "the column is missing", missing)
        for strange in (column for column in header if column not in {*columns, *optional}):
            raise BadReference(file, 1, "the column is not known", strange)
        if len(set(header)) < len(header):
            raise BadReference(file, 1, "a column is given twice")
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise BadReference(
                    file, reader.line_num, f"has {len(cells)} cells where the header has {len(header)}"
                )
            given = dict(zip(header, (cell.strip() for cell in cells), strict=True))
            yield _Row(file, reader.line_num, dict.fromkeys(optional, "") | given)
    except csv.Error as problem:
        raise BadReference(file, reader.line_num, str(problem)) from problem


def _positive(text: str) -> int:
    value = e9_from_text(text)
    if value <= 0:
        raise ValueError(f"{text!r} is not above zero")
    return value


def _day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a date YYYY-MM-DD") from None
    if day.isoformat() != text:
        raise ValueError(f"{text!r} is not a date YYYY-MM-DD")
    return day


def _root(text: str) -> str:
    if not _ROOT.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a ticker of at most 12 capital letters, digits, '-' and '_'; put other names into aliases"
        )
    return text


def _dated_root(text: str) -> str:
    if not _DATED_ROOT.fullmatch(_root(text)):
        raise ValueError(
            f"{text!r} is not a ticker of at most {LONGEST_ROOT} capital letters and digits, to which a month is added"
        )
    return text


def _months(text: str) -> str:
    order = [MONTH_CODES.find(code) for code in text]
    if -1 in order or order != sorted(set(order)):
        raise ValueError(f"{text!r} is not month codes ({MONTH_CODES}) in order of the year, each once")
    return text


def _zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{text!r} is not an IANA time zone") from None
    return text


def _one_of(known: Mapping[str, object]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in known:
            raise ValueError(f"{text!r} is none of {', '.join(known)}")
        return text

    return read


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 9):
        raise ValueError(f"{text!r} is not a number from 1 to 9")
    return int(text)


def _percent(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 100):
        raise ValueError(f"{text!r} is not a number from 1 to 100")
    return int(text)


def _kind(text: str) -> DayKind:
    return DayKind(_one_of({kind.value: kind for kind in DayKind})(text))


def parse_products(text: str, file: str = "products.csv") -> dict[str, Product]:
    """Parse the table of products; return them by root, in the order of the table. Raises `BadReference`."""
    products: dict[str, Product] = {}
    rows: dict[str, _Row] = {}
    for row in _rows(text, file, PRODUCT_COLUMNS, PRODUCT_OPTIONS):
        product = _product(row)
        if product.root in products:
            raise row.refuse(f"{product.root} is given twice", "root")
        products[product.root], rows[product.root] = product, row
    for root, product in products.items():
        _check_family(rows[root], product, products)
    return products


def _product(row: _Row) -> Product:
    months = row.maybe("months", _months) or ""
    if not months:
        for column in (column for column in _OF_MONTHS if row.cells[column]):
            raise row.refuse("must be empty for a product without months, which never expires", column)
    product = Product(
        root=row.read("root", _root if not months else _dated_root),
        name=row.read("name", str),
        exchange=row.read("exchange", _one_of(EXCHANGE_GROUPS)),
        sector=row.read("sector", _one_of(dict.fromkeys(GROUPS))),
        parent=row.maybe("parent", str),
        tick_e9=row.read("tick", _positive),
        multiplier_e9=row.read("multiplier", _positive),
        size_step_e9=row.maybe("size_step", _positive) or PRICE_SCALE,
        unit=row.read("unit", str),
        months=months,
        serial=row.maybe("serial", _months) or "",
        skipped=row.maybe("skipped", _months) or "",
        zone=row.read("zone", _zone),
        settle=row.read("settle", str) if months else row.cells["settle"],
        expiry_rule=row.read("expiry_rule", _one_of(EXPIRY_RULES)) if months else "",
        notice_rule=row.read("notice_rule", _one_of(NOTICE_RULES)) if months else "",
        roll_sessions=row.read("roll_sessions", _count) if months else 1,
        projectx=row.cells["projectx"],
        aliases=row.words("aliases"),
        source=row.read("source", str),
        checked_on=row.read("checked_on", _day),
        note=row.cells["note"],
    )
    if months and not set(product.skipped) < set(months):
        raise row.refuse("names a month that is not in months", "skipped")
    if product.tick_e9 * product.multiplier_e9 % PRICE_SCALE:
        raise row.refuse(
            "the tick value (tick size × multiplier) must be a whole multiple of 10⁻⁹ dollars", "tick"
        )
    return product


def _check_family(row: _Row, product: Product, products: Mapping[str, Product]) -> None:
    """Reject a product whose parent is missing or itself a micro, or whose names mean another product."""
    if product.parent is not None:
        parent = products.get(product.parent)
        if parent is None or parent.parent is not None:
            raise row.refuse(f"{product.parent!r} is no full-size product of the table", "parent")
        if (parent.zone, parent.sector) != (product.zone, product.sector):
            raise row.refuse(f"differs from the parent {parent.root} in zone or sector", "parent")
        if parent.is_dated is not product.is_dated:
            raise row.refuse(f"differs from the parent {parent.root}: only one of them has months", "parent")
    for column, names in (("root", (product.root,)), ("aliases", product.aliases)):
        for name in names:
            named = read_symbol(name)
            if named and named.month and (other := products.get(named.name)) and other.lists(named.month):
                raise row.refuse(f"{name!r} is a contract of {other.root}", column)
    for name in product.aliases:
        for other in products.values():
            if name == other.root or (other is not product and name in other.aliases):
                raise row.refuse(f"{name!r} names {other.root} too", "aliases")


def with_activity(
    products: Mapping[str, Product], text: str, file: str = "activity.csv"
) -> dict[str, Product]:
    """Return the products with the minimum activity that the table states for each, in the same order.

    Activity is the share of minutes in which the product trades. Raises `BadReference`, also if the table does not list
    a product.
    """
    found: dict[str, Product] = {}
    for row in _rows(text, file, ACTIVITY_COLUMNS):
        root = row.read("root", _one_of(products))
        if root in found:
            raise row.refuse(f"{root} is given twice", "root")
        regular, day, night = (row.read(column, _percent) for column in ("regular", "day", "night"))
        row.read("source", str)
        row.read("checked_on", _day)
        found[root] = replace(products[root], activity=(regular, day, night))
    for root in products:
        if root not in found:
            raise BadReference(file, 1, f"{root} has no row", "root")
    return {root: found[root] for root in products}


def parse_hours(
    text: str, products: Mapping[str, Product], file: str = "sessions.csv"
) -> tuple[HoursRow, ...]:
    """Parse the weekly hours, in the order of the table.

    Raises `BadReference`, also if two rows apply to the same product and day.
    """
    known = {product.root: product for product in products.values() if product.parent is None}
    read: list[HoursRow] = []
    for row in _rows(text, file, HOURS_COLUMNS):
        hours = _hours(row, known)
        for before in read:
            if _speak_of_one_day(before, hours):
                raise row.refuse(
                    f"overlaps another row of {' '.join(set(before.roots) & set(hours.roots))}", "valid_from"
                )
        read.append(hours)
    for root in known:
        if not any(root in hours.roots and not hours.variant for hours in read):
            raise BadReference(file, 1, f"{root} has no hours", "roots")
    return tuple(read)


def _hours(row: _Row, known: Mapping[str, Product]) -> HoursRow:
    roots = row.read("roots", str.split)
    for root in roots:
        row.read("roots", lambda _text, root=root: _one_of(known)(root))
    variant = row.cells["variant"]
    regular = row.read("rth", read_windows)
    globex = row.maybe("globex", read_windows)
    if globex is None and not variant:
        raise row.refuse("is empty, and only a variant's may be", "globex")
    if len(regular) != 1 or regular[0].begins:
        raise row.refuse("is not one window of the day itself", "rth")
    valid_from, valid_to = row.read("valid_from", _day), row.maybe("valid_to", _day)
    if valid_to is not None and valid_to < valid_from:
        raise row.refuse("is before valid_from", "valid_to")
    return HoursRow(
        tuple(roots), variant, row.read("days", read_days), valid_from, valid_to, globex, regular[0],
        row.read("source", str), row.read("checked_on", _day), row.cells["note"],
    )  # fmt: skip


def _speak_of_one_day(one: HoursRow, other: HoursRow) -> bool:
    return bool(
        one.variant == other.variant
        and set(one.roots) & set(other.roots)
        and set(one.days) & set(other.days)
        and one.valid_from <= (other.valid_to or date.max)
        and other.valid_from <= (one.valid_to or date.max)
    )


def parse_days(text: str, products: Mapping[str, Product], file: str = "holidays.csv") -> tuple[DayRow, ...]:
    """Parse holidays or overrides, in the order of the table.

    Raises `BadReference`, also if two rows name the same day of a group or root.
    """
    known = {name: None for p in products.values() if p.parent is None for name in (p.root, p.group)}
    read: list[DayRow] = []
    seen: set[tuple[str, date]] = set()
    for row in _rows(text, file, DAY_COLUMNS):
        day = _day_row(row, known)
        for name in day.names:
            if (name, day.day) in seen:
                raise row.refuse(f"{day.day} is given twice for {name}", "date")
            seen.add((name, day.day))
        read.append(day)
    return tuple(read)


def _day_row(row: _Row, known: Mapping[str, None]) -> DayRow:
    day = row.read("date", _day)
    if day.weekday() >= 5:
        raise row.refuse(f"{day} is a weekend", "date")
    names = row.read("applies_to", str.split)
    for name in names:
        row.read("applies_to", lambda _text, name=name: _one_of(known)(name))
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
        times["rth_closes"], row.read("source", str), row.read("checked_on", _day), row.cells["note"],
    )  # fmt: skip
