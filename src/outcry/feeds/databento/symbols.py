"""Which contracts Databento has, and what it calls them: the exchange's own key with a one-digit year, `ESZ6`.

Rule kept: a key names one contract only by date, so it is asked for with a day; a contract that its key does not name
on that day is unknown, and never taken for its namesake of another decade.
"""

from datetime import date, timedelta

from outcry.market.instruments import Contract, Universe
from outcry.trades.feed import FeedRefused

#: The dataset that has an exchange's futures.
DATASETS = {"CME": "GLBX.MDP3", "CBOT": "GLBX.MDP3", "NYMEX": "GLBX.MDP3", "COMEX": "GLBX.MDP3"}
#: All the exchanges above are one venue.
DATASET = "GLBX.MDP3"
#: A contract keeps its key for so long after its last trading day.
KEPT = timedelta(days=10)


def symbol_of(universe: Universe, contract: Contract, day: date) -> str:
    """The vendor's symbol of a contract on a day. Raises `FeedRefused` where it has none."""
    product = universe.products.get(contract.root)
    if product is None or product.exchange not in DATASETS or not product.lists(contract.month):
        raise FeedRefused("unknown_contract", f"Databento's {DATASET} has no contract {contract.key}")
    named = universe.next_to_end(contract.root, contract.month, contract.year % 10, day - KEPT)
    if named != contract:
        raise FeedRefused("unknown_contract", f"{contract.key} does not trade on {day}")
    return contract.short_key
