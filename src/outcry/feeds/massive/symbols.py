"""Massive's symbols: the exchange's own, with a one-digit year (`ESZ6`).

The year means the contract nearest to a given day that has not expired on it.
"""

from datetime import date

from outcry.market.instruments import Contract, Universe


def ticker_of(universe: Universe, contract: Contract, on: date) -> str | None:
    """Return Massive's symbol of a contract; None if that means another contract or there is none."""
    if contract.root not in universe.products:
        return None
    named = universe.next_to_end(contract.root, contract.month, contract.year % 10, on)
    return contract.short_key if named == contract else None
