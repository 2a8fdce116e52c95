"""How Massive names contracts: the exchange's key with a one-digit year, `ESZ6`.

Rule kept: a one-digit year is the nearest contract that has not ended on the day asked for.
"""

from datetime import date

from outcry.market.instruments import Contract, Universe


def ticker_of(universe: Universe, contract: Contract, on: date) -> str | None:
    """The vendor's name of a contract; None where it would mean another on that day, or is none of the universe."""
    if contract.root not in universe.products:
        return None
    named = universe.next_to_end(contract.root, contract.month, contract.year % 10, on)
    return contract.short_key if named == contract else None
