"""Contracts by Tradovate's names: `ESZ6`, the exchange's ticker, the month's letter and one digit of the year.

Rule kept: one digit is ambiguous by decade, so a name is of the contract that ends next on the day it is read; a
contract whose name would be read as another's has none.
"""

from datetime import date

from outcry.core.instruments import MONTH_CODES, Contract, Universe

#: Exchanges whose futures Tradovate carries; its tickers are theirs.
EXCHANGES = frozenset({"CME", "CBOT", "NYMEX", "COMEX"})
DECADE = 10


def name_of(universe: Universe, contract: Contract, on: date) -> str | None:
    """Tradovate's name of a contract on a day; None where it has none."""
    product = universe.products.get(contract.root)
    if product is None or product.exchange not in EXCHANGES or not product.lists(contract.month):
        return None
    name = contract.short_key
    return name if contract_of(universe, name, on) == contract else None


def contract_of(universe: Universe, name: str, on: date) -> Contract | None:
    """The contract of a name as Tradovate has it on a day: the next to end of those the digit may mean."""
    root, code, digit = name[:-2], name[-2:-1], name[-1:]
    product = universe.products.get(root)
    if product is None or not code or code not in MONTH_CODES or not (digit.isascii() and digit.isdecimal()):
        return None
    month = MONTH_CODES.index(code) + 1
    if product.exchange not in EXCHANGES or not product.lists(month):
        return None
    for year in range(on.year - 1, on.year + DECADE + 1):
        found = Contract(root, year, month)
        if year % DECADE == int(digit) and universe.expiry(found) >= on:
            return found
    return None
