"""Loads the reference tables: those of the package, and the operator's dated exceptions in the data folder.

Tables are read once at start. A fault rejects the whole table with `BadReference`, which names file, row and column.
"""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from outcry.market.calendar import Calendar
from outcry.market.instruments import Universe
from outcry.market.reference import parse_products, with_activity
from outcry.market.reference_hours import parse_days, parse_hours
from outcry.market.reference_rows import BadReference

__all__ = ["BadReference", "Reference", "UnknownVariant", "load_reference"]


class UnknownVariant(BadReference):
    """The settings name a set of regular hours (variant) that no row of `sessions.csv` has."""

    def __init__(self, root: str, variant: str, known: tuple[str, ...]) -> None:
        super().__init__("session_variants", 1, f"{root} has no variant {variant!r}")
        what = f"it has {', '.join(known)}" if known else "it has none"
        self.args = (f"session_variants: {root} has no regular hours named {variant!r}; {what}",)


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference data: all known products and their calendar."""

    universe: Universe
    calendar: Calendar


def load_reference(folder: Path | None = None, *, variants: dict[str, str] | None = None) -> Reference:
    """Read the packaged tables, and `overrides.csv` of `folder` if it exists; its rows take precedence.

    variants: maps a root to its default set of regular hours, such as `{"ES": "cash"}`. Raises `BadReference` for an
    invalid table.
    """
    packaged = files("outcry.market") / "data"

    def ours(name: str) -> str:
        return (packaged / name).read_text(encoding="utf-8")

    products = with_activity(parse_products(ours("products.csv")), ours("activity.csv"))
    hours = parse_hours(ours("sessions.csv"), products)
    days = [
        *parse_days(ours("holidays.csv"), products, hours),
        *parse_days(ours("overrides.csv"), products, hours, "overrides.csv", planned=False),
    ]
    own = folder / "overrides.csv" if folder else None
    if own is not None and own.is_file():
        days += parse_days(_text(own), products, hours, str(own), planned=False)
    for root, variant in (variants or {}).items():
        known = tuple(row.variant for row in hours if root in row.roots and row.variant)
        if variant not in {"", *known}:
            raise UnknownVariant(root, variant, known)
    calendar = Calendar(products, hours, days, variants)
    return Reference(Universe(products, calendar.hours.is_business_day), calendar)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise BadReference(str(path), 1, "the file is not UTF-8 text") from problem
