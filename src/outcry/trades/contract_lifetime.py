"""When a contract can trade: what lies outside has the wrong label, or the wrong time.

Rule kept: files and pushed feeds are judged alike.
"""

from datetime import UTC, date, datetime, time, timedelta

from outcry.market.instruments import Contract, Universe
from outcry.market.units import NANOS_PER_SECOND
from outcry.market.windows import ONE_DAY

LONGEST_LISTED = timedelta(days=13 * 365)  # crude oil is listed for the running year and ten more
EXPIRY_SLACK = timedelta(days=7)


def lifetime_days(universe: Universe, contract: Contract) -> tuple[date, date]:
    """The first and the last day (UTC), both included, that a trade of the contract can be of."""
    end = universe.expiry(contract)
    return end - LONGEST_LISTED, end + EXPIRY_SLACK


def lifetime_ns(universe: Universe, contract: Contract) -> tuple[int, int]:
    """The same as a half-open window (ns UTC)."""
    first, last = lifetime_days(universe, contract)
    return day_ns(first), day_ns(last + ONE_DAY)


def day_ns(day: date) -> int:
    """The start of a day in UTC, in ns."""
    return int(datetime.combine(day, time(), UTC).timestamp()) * NANOS_PER_SECOND
