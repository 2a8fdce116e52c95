"""How Interactive Brokers names what is traded: by its own symbol, exchange and month, and then by a number (conId).

Rules kept: a contract is told by its month and by what a point is worth, never by a one-digit year; one that fits
twice, or not at all, is unknown, and not guessed at.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from outcry.market.instruments import Contract, Product, Universe
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_SECOND
from outcry.trades.feed import FeedRefused

#: Products that go by another symbol there than at the exchange.
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
#: Where it says other than the exchange itself on which a product is traded: of our products, nowhere.
_EXCHANGES = frozenset({"CME", "CBOT", "NYMEX", "COMEX"})


@dataclass(frozen=True, slots=True)
class ContractQuery:
    """What is asked for. `month`: `YYYYMM`; empty: all months."""

    symbol: str
    exchange: str
    month: str


@dataclass(frozen=True, slots=True)
class IbContractDetails:
    """A contract as Interactive Brokers tells of it. month: `YYYYMM`, of delivery. point: dollars for one unit of the
    price as quoted. hours: when it trades, `YYYYMMDD:HHMM-YYYYMMDD:HHMM;…` in `zone`, from the running trade date on.
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
    """What to ask for. Raises `FeedRefused` for a product that we know no name of there."""
    product = universe.products.get(contract.root)
    if product is None or product.exchange not in _EXCHANGES:
        raise unknown_contract(contract)
    symbol = _OTHER_NAMES.get(product.root, product.root)
    return ContractQuery(symbol, product.exchange, f"{contract.year}{contract.month:02}")


def select_contract(
    contract: Contract, universe: Universe, found: Iterable[IbContractDetails]
) -> IbContractDetails | None:
    """The one of those found that is the contract; None where none is. Several products may share a symbol (silver and
    its micro), so what a point is worth decides. Raises `FeedRefused` where several still fit."""
    product = universe.products[contract.root]
    month = f"{contract.year}{contract.month:02}"
    fit = [one for one in found if one.month == month and _worth(one, product)]
    fit = [one for one in fit if one.trading_class == product.root] or fit
    if len({one.con_id for one in fit}) > 1:
        raise unknown_contract(contract)
    return fit[0] if fit else None


def trade_date_start_ns(found: IbContractDetails, at_ns: int) -> int:
    """When the trade date running at an instant began, by the hours told; a day before where these cannot be read."""
    day_ago_ns = at_ns - NANOS_PER_DAY
    try:
        zone = ZoneInfo(found.zone)
        starts = [_instant_ns(part.partition("-")[0], zone) for part in found.hours.split(";") if "-" in part]
    except (ValueError, ZoneInfoNotFoundError):
        return day_ago_ns
    return min((start for start in starts if day_ago_ns <= start <= at_ns), default=day_ago_ns)


def unknown_contract(contract: Contract) -> FeedRefused:
    """Interactive Brokers has no such contract."""
    return FeedRefused("unknown_contract", f"Interactive Brokers has no contract {contract.key}")


def _worth(found: IbContractDetails, product: Product) -> bool:
    return found.point * 1_000_000_000 == product.multiplier_e9


def _instant_ns(text: str, zone: ZoneInfo) -> int:
    at = datetime.strptime(text, "%Y%m%d:%H%M").replace(tzinfo=zone).astimezone(UTC)
    return int(at.timestamp()) * NANOS_PER_SECOND
