"""Price level, range and activity of each simulated product, from `traits.csv`."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from outcry.market.instruments import Product
from outcry.market.units import e9_from_text


@dataclass(frozen=True, slots=True)
class ProductTraits:
    """Price level, range and activity of one simulated product.

    `level_ticks`: the level to which the price returns over the weeks. `range_ticks`: the usual range of a regular
    session. `per_hour`: the usual number of trades in an hour of regular trading. `lots`: the mean size of a trade.
    """

    level_ticks: int
    range_ticks: float
    per_hour: float
    lots: float


def load_traits(products: Mapping[str, Product]) -> dict[str, ProductTraits]:
    """Read `traits.csv`, one row for each simulated product."""
    text = (files("outcry.feeds.simulator") / "traits.csv").read_text(encoding="utf-8")
    found: dict[str, ProductTraits] = {}
    for row in csv.DictReader(text.splitlines()):
        tick_e9 = products[row["root"]].tick_e9
        found[row["root"]] = ProductTraits(
            e9_from_text(row["price"]) // tick_e9, e9_from_text(row["range"]) / tick_e9,
            float(row["trades_per_hour"]), float(row["lots"]),
        )  # fmt: skip
    return found
