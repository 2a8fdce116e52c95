"""The dates on which a contract can trade. A row outside them has a wrong contract or a wrong time.

The checks of imported files and of pushed feeds both use these dates.
"""

from datetime import UTC, date, datetime, time, timedelta

from outcry.market.instruments import Contract, Universe
from outcry.market.units import NANOS_PER_SECOND
from outcry.market.windows import ONE_DAY

#: Window of an undated contract. No recording is older, and later times are refused everywhere.
UNDATED = (date(1980, 1, 1), date(2199, 12, 30))
LONGEST_LISTED = timedelta(days=13 * 365)  # crude oil is listed for the current year and ten more
EXPIRY_SLACK = timedelta(days=7)


def lifetime_days(universe: Universe, contract: Contract) -> tuple[date, date]:
    """Return the first and last day (UTC, both included) on which the contract can trade."""
    if not contract.is_dated:
        return UNDATED
    end = universe.expiry(contract)
    return end - LONGEST_LISTED, end + EXPIRY_SLACK


def lifetime_ns(universe: Universe, contract: Contract) -> tuple[int, int]:
    """Return the dates of `lifetime_days` as a half-open window in ns UTC."""
    first, last = lifetime_days(universe, contract)
    return day_ns(first), day_ns(last + ONE_DAY)


def day_ns(day: date) -> int:
    """Return the start of a UTC day in ns."""
    return int(datetime.combine(day, time(), UTC).timestamp()) * NANOS_PER_SECOND
