"""Tradovate's contract symbols, such as `ESZ6`: the exchange's ticker, month code and last digit of the year.

One digit repeats every decade, so a symbol means the contract that expires next. A contract ten years later therefore
has no symbol yet.
"""

from datetime import date

from outcry.market.instruments import Contract, Universe

#: Exchanges whose futures Tradovate carries; its tickers are theirs.
EXCHANGES = frozenset({"CME", "CBOT", "NYMEX", "COMEX"})


def vendor_symbol(universe: Universe, contract: Contract, on: date) -> str | None:
    """Return Tradovate's symbol of a contract on a day; None if it has none."""
    product = universe.products.get(contract.root)
    if product is None or product.exchange not in EXCHANGES or not product.lists(contract.month):
        return None
    if not contract.is_dated:
        return None
    named = universe.next_to_end(contract.root, contract.month, contract.year % 10, on)
    return contract.short_key if named == contract else None
