"""How each product of the simulated market is: its level, its range, how often it trades. A table of the package."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from outcry.market.instruments import Product
from outcry.market.units import e9_from_text


@dataclass(frozen=True, slots=True)
class Trait:
    """One product. level: the price it keeps returning to; range: of an ordinary regular session; both in ticks.

    per_hour: trades in an ordinary hour of regular trading. lots: the mean size of a trade.
    """

    level_ticks: int
    range_ticks: float
    per_hour: float
    lots: float


def load_traits(products: Mapping[str, Product]) -> dict[str, Trait]:
    """Read `traits.csv`: a row for every full-size product the market invents."""
    text = (files("outcry.feeds.simulator") / "traits.csv").read_text(encoding="utf-8")
    found: dict[str, Trait] = {}
    for row in csv.DictReader(text.splitlines()):
        tick_e9 = products[row["root"]].tick_e9
        found[row["root"]] = Trait(
            e9_from_text(row["price"]) // tick_e9, e9_from_text(row["range"]) / tick_e9,
            float(row["trades_per_hour"]), float(row["lots"]),
        )  # fmt: skip
    return found
