"""Parses and validates the tables of products and of their activity. `market.reference_hours` has the other tables.

A table is accepted as a whole, or rejected with an error that names the file, the row (1 is the header) and the column.
Every row has its source (`source`) and the date it was last checked (`checked_on`). This module parses text;
`trades.reference_tables` reads the files.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from outcry.market.expiry import EXPIRY_RULES, NOTICE_RULES
from outcry.market.instruments import MONTH_CODES, Product
from outcry.market.reference_rows import BadReference, Row, one_of, read_date, read_word, rows
from outcry.market.symbols import LONGEST_ROOT, read_symbol
from outcry.market.units import PRICE_SCALE, e9_from_text

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


def _positive(text: str) -> int:
    value = e9_from_text(text)
    if value <= 0:
        raise ValueError(f"{text!r} is not above zero")
    return value


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


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 9):
        raise ValueError(f"{text!r} is not a number from 1 to 9")
    return int(text)


def _percent(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 100):
        raise ValueError(f"{text!r} is not a number from 1 to 100")
    return int(text)


def parse_products(
    text: str, file: str = "products.csv", known: Mapping[str, Product] | None = None
) -> dict[str, Product]:
    """Parse a table of products; return all products by root.

    known: products of another table; a row replaces the product of the same root. The order is that of `known`, then
    that of the table. Raises `BadReference`.
    """
    found: dict[str, tuple[Product, Row]] = {}
    for row in rows(text, file, PRODUCT_COLUMNS, PRODUCT_OPTIONS):
        product = _product(row)
        if product.root in found:
            raise row.refuse(f"{product.root} is given twice", "root")
        found[product.root] = product, row
    products = dict(known or {}) | {root: product for root, (product, _) in found.items()}
    for product, row in found.values():
        _check_family(row, product, products)
        _check_names(row, product, products)
    others = [product for root, product in products.items() if root not in found]
    for product, row in found.values():
        _check_replaced(row, product, others)
    return products


def _product(row: Row) -> Product:
    months = row.maybe("months", _months) or ""
    if not months:
        for column in (column for column in _OF_MONTHS if row.cells[column]):
            raise row.refuse("must be empty for a product without months, which never expires", column)
    product = Product(
        root=row.read("root", _root if not months else _dated_root),
        name=row.read("name", str),
        exchange=row.read("exchange", read_word),
        sector=row.read("sector", read_word),
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
        expiry_rule=row.read("expiry_rule", one_of(EXPIRY_RULES)) if months else "",
        notice_rule=row.read("notice_rule", one_of(NOTICE_RULES)) if months else "",
        roll_sessions=row.read("roll_sessions", _count) if months else 1,
        projectx=row.cells["projectx"],
        aliases=row.words("aliases"),
        source=row.read("source", str),
        checked_on=row.read("checked_on", read_date),
        note=row.cells["note"],
        table=row.file,
    )
    if months and not set(product.skipped) < set(months):
        raise row.refuse("names a month that is not in months", "skipped")
    if product.tick_e9 * product.multiplier_e9 % PRICE_SCALE:
        raise row.refuse(
            "the tick value (tick size × multiplier) must be a whole multiple of 10⁻⁹ dollars", "tick"
        )
    return product


def _check_family(row: Row, product: Product, products: Mapping[str, Product]) -> None:
    """Reject a product that does not fit to its parent or its micros, or that shares a name with another product."""
    if product.sector in products:
        raise row.refuse(f"{product.sector} is a product; give its group of holidays another name", "sector")
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


def _check_replaced(row: Row, product: Product, others: Iterable[Product]) -> None:
    """Reject a product that does not fit to the products of another table, which stay as they are."""
    for other in others:
        if product.root in other.aliases:
            raise row.refuse(f"{product.root!r} is an alias of {other.root}", "root")
        if other.parent != product.root:
            continue
        if product.parent is not None:
            raise row.refuse(
                f"{product.root} has the micro {other.root}, so it cannot be a micro itself", "parent"
            )
        if (other.zone, other.sector, other.is_dated) != (product.zone, product.sector, product.is_dated):
            raise row.refuse(
                f"its micro {other.root} has another zone or sector, or only one of them has months; add a row for "
                f"{other.root}",
                "root",
            )


def _check_names(row: Row, product: Product, products: Mapping[str, Product]) -> None:
    """Reject a product whose aliases also name another product."""
    for name in product.aliases:
        for other in products.values():
            if name == other.root or (other is not product and name in other.aliases):
                raise row.refuse(f"{name!r} names {other.root} too", "aliases")


def with_activity(
    products: Mapping[str, Product], text: str, file: str = "activity.csv", *, complete: bool = True
) -> dict[str, Product]:
    """Return the products with the minimum activity that the table states for each, in the same order.

    Activity is the share of minutes in which the product trades. complete: whether the table must list every product;
    otherwise the activity of the others stays. Raises `BadReference`.
    """
    found: dict[str, Product] = {}
    for row in rows(text, file, ACTIVITY_COLUMNS):
        root = row.read("root", one_of(products))
        if root in found:
            raise row.refuse(f"{root} is given twice", "root")
        regular, day, night = (row.read(column, _percent) for column in ("regular", "day", "night"))
        row.read("source", str)
        row.read("checked_on", read_date)
        found[root] = replace(products[root], activity=(regular, day, night))
    for root in products:
        if complete and root not in found:
            raise BadReference(file, 1, f"{root} has no row", "root")
    return {root: found.get(root, product) for root, product in products.items()}
