"""Massive's symbols: the exchange's own, with a one-digit year (`ESZ6`).

On a given day, a symbol means the next contract to expire that has this digit.
"""

from datetime import date

from outcry.market.instruments import Contract, Universe


def ticker_of(universe: Universe, contract: Contract, on: date) -> str | None:
    """Return Massive's symbol of a contract on a day.

    Returns None if there is no symbol, or if the symbol means another contract on that day.
    """
    if contract.root not in universe.products or not contract.is_dated:
        return None
    named = universe.next_to_end(contract.root, contract.month, contract.year % 10, on)
    return contract.short_key if named == contract else None
