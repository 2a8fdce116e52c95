"""Which contracts Databento has, and what it calls them: the exchange's own key with a one-digit year, `ESZ6`.

Rule kept: a key names one contract only by date, so both ways are asked with a day; a contract that its key does not
name on that day is unknown, and never taken for its namesake of another decade.
"""

from datetime import date, timedelta

from outcry.core.instruments import Contract, Universe, UnknownName
from outcry.ports.feed import FeedRefused

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
        raise FeedRefused("unknown_contract", f"Databento's {DATASET} does not have {contract.key}")
    if contract_of(universe, contract.short_key, day) != contract:
        raise FeedRefused("unknown_contract", f"{contract.key} is not traded on {day}")
    return contract.short_key


def contract_of(universe: Universe, symbol: str, day: date) -> Contract | None:
    """The contract that a symbol of the vendor's names on a day; None for what is no future of ours."""
    root, month, year = symbol[:-2], symbol[-2:-1], symbol[-1:]
    product = universe.products.get(root)
    if product is None or product.exchange not in DATASETS or not year.isdecimal():
        return None
    since = day - KEPT
    for decade_year in range(since.year - 1, since.year + 11):
        if decade_year % 10 != int(year):
            continue
        try:
            contract = universe.contract(f"{root}{month}{decade_year}")
        except UnknownName:
            return None
        if universe.expiry(contract) >= since:
            return contract
    return None
