"""How Massive names contracts: the exchange's key with a one-digit year, `ESZ6`.

Rule kept: a one-digit year is the nearest contract that has not ended on the day asked for.
"""

import re
from datetime import date

from outcry.core.instruments import DECADE, MONTH_CODES, Contract, Universe

_TICKER = re.compile(rf"([A-Z0-9]{{2,4}}?)([{MONTH_CODES}])([0-9])")


def ticker_of(universe: Universe, contract: Contract, on: date) -> str | None:
    """The vendor's name of a contract; None where it would mean another on that day, or is none of the universe."""
    if contract.root not in universe.products:
        return None
    return contract.short_key if contract_of(universe, contract.short_key, on) == contract else None


def contract_of(universe: Universe, ticker: str, on: date) -> Contract | None:
    """The contract a name means on a day; None for one of none of our products."""
    found = _TICKER.fullmatch(ticker)
    if found is None or found[1] not in universe.products:
        return None
    month = MONTH_CODES.index(found[2]) + 1
    years = (year for year in range(on.year - 1, on.year + DECADE + 1) if year % 10 == int(found[3]))
    contracts = (Contract(found[1], year, month) for year in years)
    return next((contract for contract in contracts if universe.expiry(contract) >= on), None)
