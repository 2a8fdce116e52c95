"""Price level, range and activity of each simulated product: ours from `traits.csv`, others from tick and step."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from outcry.market.instruments import Product
from outcry.market.units import PRICE_SCALE, e9_from_text

#: Of a product that is not in `traits.csv`. Like the numbers there, these are no observations.
_LEVEL_TICKS, _RANGE_TICKS, _PER_HOUR, _LOTS = 20_000, 160.0, 900.0, 4.0
#: Mean size of a trade in units, if the product is traded in fractions of them.
_FRACTION = 0.5


@dataclass(frozen=True, slots=True)
class ProductTraits:
    """Price level, range and activity of one simulated product.

    `level_ticks`: the level to which the price returns over the weeks. `range_ticks`: the usual range of a regular
    session. `per_hour`: the usual number of trades in an hour of regular trading. `lots`: the mean size of a trade, in
    size steps.
    """

    level_ticks: int
    range_ticks: float
    per_hour: float
    lots: float


def load_traits(products: Mapping[str, Product]) -> dict[str, ProductTraits]:
    """Return the traits of each simulated product.

    They are the products of `traits.csv`, in its order, then all other full-size products of the operator's own tables.
    """
    text = (files("outcry.feeds.simulator") / "traits.csv").read_text(encoding="utf-8")
    found: dict[str, ProductTraits] = {}
    for row in csv.DictReader(text.splitlines()):
        tick_e9 = products[row["root"]].tick_e9
        found[row["root"]] = ProductTraits(
            e9_from_text(row["price"]) // tick_e9, e9_from_text(row["range"]) / tick_e9,
            float(row["trades_per_hour"]), float(row["lots"]),
        )  # fmt: skip
    for root, product in products.items():
        if root not in found and product.own_tables and product.parent is None:
            found[root] = _traits_of(product)
    return found


def _traits_of(product: Product) -> ProductTraits:
    fractions = product.size_step_e9 < PRICE_SCALE
    steps = (_FRACTION if fractions else _LOTS) * PRICE_SCALE / product.size_step_e9
    return ProductTraits(_LEVEL_TICKS, _RANGE_TICKS, _PER_HOUR, max(1.0, steps))
