"""Finds a contract's id at Interactive Brokers (conId) by symbol, exchange and delivery month.

Found contracts are compared by delivery month and point value, never by a one-digit year. If none or several match, the
contract is reported as unknown.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from outcry.market.instruments import Contract, Product, Universe
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_SECOND
from outcry.trades.feed import FeedRefused

#: Products with a symbol other than the exchange's.
_OTHER_NAMES = {
    "6A": "AUD",
    "6B": "GBP",
    "6C": "CAD",
    "6E": "EUR",
    "6J": "JPY",
    "6S": "CHF",
    "BTC": "BRR",
    "ETH": "ETHUSDRR",
    "SIL": "SI",
    "MNG": "MHNG",
}
#: Exchanges that Interactive Brokers names as we do.
_EXCHANGES = frozenset({"CME", "CBOT", "NYMEX", "COMEX"})


@dataclass(frozen=True, slots=True)
class ContractQuery:
    """A search for contracts at Interactive Brokers. `month`: `YYYYMM`; empty: all months."""

    symbol: str
    exchange: str
    month: str


@dataclass(frozen=True, slots=True)
class IbContractDetails:
    """A contract as Interactive Brokers describes it.

    month: the delivery month, `YYYYMM`. point: US dollars per unit of the quoted price. hours: trading hours from the
    current trade date on, `YYYYMMDD:HHMM-YYYYMMDD:HHMM;…` in time zone `zone`.
    """

    con_id: int
    symbol: str
    exchange: str
    trading_class: str
    month: str
    point: Decimal
    hours: str
    zone: str


def contract_query(contract: Contract, universe: Universe) -> ContractQuery:
    """Return the search for a contract at Interactive Brokers.

    Raises `FeedRefused` for a product whose symbol at Interactive Brokers is not known.
    """
    product = universe.products.get(contract.root)
    if product is None or product.exchange not in _EXCHANGES or not contract.is_dated:
        raise unknown_contract(contract)
    symbol = _OTHER_NAMES.get(product.root, product.root)
    return ContractQuery(symbol, product.exchange, f"{contract.year}{contract.month:02}")


def select_contract(
    contract: Contract, universe: Universe, found: Iterable[IbContractDetails]
) -> IbContractDetails | None:
    """Return the search result that is the requested contract; None if no result matches.

    Products may share a symbol (silver and its micro contract), so the point value decides. Raises `FeedRefused` if
    several match.
    """
    product = universe.products[contract.root]
    month = f"{contract.year}{contract.month:02}"
    fit = [one for one in found if one.month == month and _worth(one, product)]
    fit = [one for one in fit if one.trading_class == product.root] or fit
    if len({one.con_id for one in fit}) > 1:
        raise unknown_contract(contract)
    return fit[0] if fit else None


def trade_date_start_ns(found: IbContractDetails, at_ns: int) -> int:
    """Return when the trade date that contains `at_ns` began (ns UTC).

    If the contract's hours are unreadable, return one day before `at_ns`.
    """
    day_ago_ns = at_ns - NANOS_PER_DAY
    try:
        zone = ZoneInfo(found.zone)
        starts = [_instant_ns(part.partition("-")[0], zone) for part in found.hours.split(";") if "-" in part]
    except (ValueError, ZoneInfoNotFoundError):
        return day_ago_ns
    return min((start for start in starts if day_ago_ns <= start <= at_ns), default=day_ago_ns)


def unknown_contract(contract: Contract) -> FeedRefused:
    """Return the error for a contract that Interactive Brokers does not have."""
    return FeedRefused("unknown_contract", f"Interactive Brokers has no contract {contract.key}")


def _worth(found: IbContractDetails, product: Product) -> bool:
    return found.point * 1_000_000_000 == product.multiplier_e9


def _instant_ns(text: str, zone: ZoneInfo) -> int:
    at = datetime.strptime(text, "%Y%m%d:%H%M").replace(tzinfo=zone).astimezone(UTC)
    return int(at.timestamp()) * NANOS_PER_SECOND
