"""Databento's symbols: the exchange's own, with a one-digit year (`ESZ6`).

A symbol is unique only on a given day, so every lookup takes a day. If the symbol means another contract on that day,
the requested contract is reported as unknown. So contracts ten years apart are never confused.
"""

from datetime import date, timedelta

from outcry.market.instruments import Contract, Universe
from outcry.trades.feed import FeedRefused

#: Dataset of each exchange's futures.
DATASETS = {"CME": "GLBX.MDP3", "CBOT": "GLBX.MDP3", "NYMEX": "GLBX.MDP3", "COMEX": "GLBX.MDP3"}
#: The one dataset of all exchanges above.
DATASET = "GLBX.MDP3"
#: A contract keeps its symbol this long after its last trading day.
KEPT = timedelta(days=10)


def symbol_of(universe: Universe, contract: Contract, day: date) -> str:
    """Return Databento's symbol of a contract on a day. Raises `FeedRefused` if there is none."""
    product = universe.products.get(contract.root)
    known = product is not None and product.exchange in DATASETS and product.lists(contract.month)
    if not known or not contract.is_dated:
        raise FeedRefused("unknown_contract", f"Databento's {DATASET} has no contract {contract.key}")
    named = universe.next_to_end(contract.root, contract.month, contract.year % 10, day - KEPT)
    if named != contract:
        raise FeedRefused("unknown_contract", f"{contract.key} does not trade on {day}")
    return contract.short_key
