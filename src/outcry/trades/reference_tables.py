"""Loads the reference tables: those of the package, and over them the operator's own tables in the data folder.

Tables are read once at start. A fault rejects the whole table with `BadReference`, which names file, row and column.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

from outcry.market.calendar import Calendar
from outcry.market.hours import DayRow, HoursRow
from outcry.market.instruments import Product, Universe
from outcry.market.reference import parse_products, with_activity
from outcry.market.reference_hours import DAY_COLUMNS, HOURS_COLUMNS, parse_days, parse_hours
from outcry.market.reference_rows import BadReference
from outcry.trades.own_tables import (
    ACTIVITY,
    HOLIDAYS,
    INSTRUMENTS_FOLDER,
    PRODUCTS,
    SESSIONS,
    TABLES,
    OwnTables,
    read_own_tables,
)

__all__ = ["INSTRUMENTS_FOLDER", "BadReference", "Reference", "UnknownVariant", "load_reference"]

_OVERRIDES = "overrides.csv"


class UnknownVariant(BadReference):
    """The settings name a set of regular hours (variant) that no row of `sessions.csv` has."""

    def __init__(self, root: str, variant: str, known: tuple[str, ...]) -> None:
        super().__init__("session_variants", 1, f"{root} has no variant {variant!r}")
        what = f"it has {', '.join(known)}" if known else "it has none"
        self.args = (f"session_variants: {root} has no regular hours named {variant!r}; {what}",)


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference data: all known products and their calendar. own: the operator's tables from which it was read."""

    universe: Universe
    calendar: Calendar
    own: OwnTables = field(default_factory=lambda: OwnTables({}))


@dataclass(frozen=True, slots=True)
class _Tables:
    """Parsed tables that fit together."""

    products: Mapping[str, Product]
    hours: tuple[HoursRow, ...]
    days: tuple[DayRow, ...]


def load_reference(
    folder: Path | None = None,
    *,
    variants: dict[str, str] | None = None,
    drafts: Mapping[str, str] | None = None,
) -> Reference:
    """Read the packaged tables, and over them those of a data folder, if it has any.

    The folder may have `products.csv`, `sessions.csv`, `holidays.csv` and `activity.csv` in `instruments/`. A product
    replaces the packaged one of the same root, and its rows of hours replace all packaged ones of that root. Rows of
    `holidays.csv`, and after them those of `overrides.csv` in the folder itself, take precedence over earlier ones of
    the same day.

    variants: maps a root to its default set of regular hours, such as `{"ES": "cash"}`. drafts: texts to use in place
    of tables in `instruments/`, by file name, to check tables before they are written. Raises `BadReference` for an
    invalid table.
    """
    tables, own = _packaged(), OwnTables({})
    if folder is not None:
        own = OwnTables(dict(read_own_tables(folder).texts) | dict(drafts or {}))
        tables = _with_own(tables, folder / INSTRUMENTS_FOLDER, own.texts)
        tables = _with_overrides(tables, folder / _OVERRIDES)
    for root, variant in (variants or {}).items():
        known = tuple(row.variant for row in tables.hours if root in row.roots and row.variant)
        if variant not in {"", *known}:
            raise UnknownVariant(root, variant, known)
    calendar = Calendar(tables.products, tables.hours, tables.days, variants)
    return Reference(Universe(tables.products, calendar.hours.is_business_day), calendar, own)


def _packaged() -> _Tables:
    packaged = files("outcry.market") / "data"

    def text(name: str) -> str:
        return (packaged / name).read_text(encoding="utf-8")

    products = with_activity(parse_products(text(PRODUCTS)), text(ACTIVITY))
    hours = parse_hours(text(SESSIONS), products)
    holidays = parse_days(text(HOLIDAYS), products, hours)
    overrides = parse_days(text(_OVERRIDES), products, hours, _OVERRIDES, planned=False)
    return _Tables(products, hours, (*holidays, *overrides))


def _with_own(base: _Tables, folder: Path, texts: Mapping[str, str]) -> _Tables:
    """Return tables with the operator's over them. texts: the operator's tables by file name."""
    if not texts:
        return base
    places = {name: str(folder / name) for name in TABLES}
    products, hours, days = base.products, base.hours, base.days
    if PRODUCTS in texts:
        read = parse_products(texts[PRODUCTS], places[PRODUCTS], products)
        products = {
            root: replace(product, activity=products[root].activity) if root in products else product
            for root, product in read.items()
        }
    if ACTIVITY in texts:
        products = with_activity(products, texts[ACTIVITY], places[ACTIVITY], complete=False)
    hours = parse_hours(texts.get(SESSIONS, HOURS_COLUMNS), products, places[SESSIONS], hours)
    _check_zones(products, hours, base.products, places[SESSIONS])
    days += parse_days(texts.get(HOLIDAYS, DAY_COLUMNS), products, hours, places[HOLIDAYS])
    tables = _Tables(products, hours, days)
    marked = {
        root: replace(p, own_tables=tuple(_own_tables(p, tables, places))) for root, p in products.items()
    }
    return replace(tables, products=marked)


def _check_zones(
    products: Mapping[str, Product], hours: Iterable[HoursRow], replaced: Mapping[str, Product], file: str
) -> None:
    """Reject a product with a new time zone that keeps its packaged hours."""
    packaged = {root for row in hours if row.table != file for root in row.roots}
    for root in packaged & products.keys():
        if products[root].zone != replaced[root].zone:
            raise BadReference(
                file,
                1,
                f"{root} has no hours for its new time zone {products[root].zone}: add a row",
                "roots",
            )


def _own_tables(product: Product, tables: _Tables, places: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of the operator's tables that have rows for a product or its group."""
    base = product.parent or product.root
    if product.table == places[PRODUCTS]:
        yield PRODUCTS
    if any(row.table == places[SESSIONS] and base in row.roots for row in tables.hours):
        yield SESSIONS
    names = {base, product.group}
    if any(row.table == places[HOLIDAYS] and names & set(row.names) for row in tables.days):
        yield HOLIDAYS


def _with_overrides(base: _Tables, path: Path) -> _Tables:
    """Return tables with the operator's dated exceptions."""
    if not path.is_file():
        return base
    days = parse_days(_text(path), base.products, base.hours, str(path), planned=False)
    return replace(base, days=(*base.days, *days))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise BadReference(str(path), 1, "the file is not UTF-8 text") from problem
