"""The reference tables as files: ours in the package, and the operator's own dated overrides beside his data.

Rule kept: the tables are read once, at start, and refused whole (`BadReference`, naming file, row and column)
rather than used in part.
"""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from outcry.core.calendar import Calendar
from outcry.core.instruments import Universe
from outcry.core.reference import BadReference, parse_days, parse_hours, parse_products

__all__ = ["BadReference", "Reference", "load_reference"]


@dataclass(frozen=True, slots=True)
class Reference:
    """What is traded and when."""

    universe: Universe
    calendar: Calendar


def load_reference(folder: Path | None = None, *, variants: dict[str, str] | None = None) -> Reference:
    """Read the packaged tables, and `overrides.csv` of `folder` if it is there; its rows go before ours.

    variants: root → variant of its regular hours, such as `{"ES": "cash"}`. Raise `BadReference` for a bad
    table.
    """
    packaged = files("outcry.core") / "data"

    def ours(name: str) -> str:
        return (packaged / name).read_text(encoding="utf-8")

    products = parse_products(ours("products.csv"))
    hours = parse_hours(ours("sessions.csv"), products)
    days = [
        *parse_days(ours("holidays.csv"), products),
        *parse_days(ours("overrides.csv"), products, "overrides.csv"),
    ]
    own = folder / "overrides.csv" if folder else None
    if own is not None and own.is_file():
        days += parse_days(_text(own), products, str(own))
    calendar = Calendar(products, hours, days, variants)
    return Reference(Universe(products, calendar.is_business_day), calendar)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise BadReference(str(path), 1, "the file is not UTF-8 text") from problem
