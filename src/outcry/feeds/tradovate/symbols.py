"""Contracts by Tradovate's names: `ESZ6`, the exchange's ticker, the month's letter and one digit of the year.

Rule kept: one digit is ambiguous by decade, so a name is of the contract that ends next on the day it is read; a
contract whose name would be read as another's has none.
"""

from datetime import date

from outcry.market.instruments import Contract, Universe

#: Exchanges whose futures Tradovate carries; its tickers are theirs.
EXCHANGES = frozenset({"CME", "CBOT", "NYMEX", "COMEX"})


def vendor_symbol(universe: Universe, contract: Contract, on: date) -> str | None:
    """Tradovate's name of a contract on a day; None where it has none."""
    product = universe.products.get(contract.root)
    if product is None or product.exchange not in EXCHANGES or not product.lists(contract.month):
        return None
    named = universe.next_to_end(contract.root, contract.month, contract.year % 10, on)
    return contract.short_key if named == contract else None
