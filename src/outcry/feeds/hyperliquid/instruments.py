"""The tables of Hyperliquid's products for the folder `instruments/` of a data folder.

Tick and size step come from the vendor, because the vendor's price step changes with the price.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from io import StringIO

from outcry.base.clock import Clock
from outcry.feeds.hyperliquid.adapter import API, EXCHANGE, PERPETUAL
from outcry.feeds.hyperliquid.info import InfoClient
from outcry.market.reference import PRODUCT_COLUMNS
from outcry.market.reference_hours import HOURS_COLUMNS
from outcry.market.units import NANOS_PER_HOUR, price_text
from outcry.trades.feed import FeedLost

#: Coins of the shipped tables, and their names.
COINS: Mapping[str, str] = {"BTC": "Bitcoin", "ETH": "Ether", "SOL": "Solana"}
#: A sector of its own, because the holidays of a sector apply to all its products, and this market has none.
_SECTOR = "perpetuals"
#: Trading has not stopped since the first day of the oldest coin.
_SINCE = "2023-01-01"


@dataclass(frozen=True, slots=True)
class Listed:
    """A coin as the vendor lists it. tick_e9: its price step at the current price (10⁻⁹ dollars)."""

    coin: str
    tick_e9: int
    size_step_e9: int


async def read_listed(clock: Clock, url: str = "") -> list[Listed]:
    """Read the current price and size steps of `COINS` from the vendor. Raises `FeedLost`."""
    client = InfoClient(f"{url or API}/info", clock, 1.0)
    try:
        assets, found = await client.assets(), list[Listed]()
        for coin in COINS:
            asset = assets.get(coin)
            if asset is None or asset.delisted:
                continue
            now_ns = client.vendor_ns()
            bars = await client.bars(coin, asset.size_step_e9, now_ns - NANOS_PER_HOUR, now_ns)
            if len(bars):
                tick_e9 = min(asset.price_step_e9(price) for price in bars["low"].tolist())
                found.append(Listed(coin, tick_e9, asset.size_step_e9))
    finally:
        await client.close()
    if not found:
        raise FeedLost("vendor_error", f"Hyperliquid lists none of {', '.join(COINS)}, or they do not trade")
    return found


def tables(listed: Sequence[Listed], on: date) -> dict[str, str]:
    """Return the tables of the listed coins, by file name. on: the date on which they were read."""
    source = {"source": "Hyperliquid API: meta, candleSnapshot", "checked_on": on.isoformat()}
    products = [
        {
            "root": coin.coin + PERPETUAL, "name": f"{COINS[coin.coin]} perpetual", "exchange": EXCHANGE,
            "sector": _SECTOR, "tick": price_text(coin.tick_e9), "multiplier": "1", "unit": "dollars", "zone": "UTC",
            "size_step": price_text(coin.size_step_e9),
            "note": "the vendor's price step changes with the price: set tick to the finest step that trades have",
        } | source
        for coin in listed
    ]  # fmt: skip
    hours = {
        "roots": " ".join(coin.coin + PERPETUAL for coin in listed), "days": "Mon-Sun", "valid_from": _SINCE,
        "globex": "00:00-24:00", "rth": "00:00-24:00", "note": "trades around the clock; a trade date is a day of UTC",
    }  # fmt: skip
    return {
        "products.csv": _table(f"{PRODUCT_COLUMNS},size_step", products),
        "sessions.csv": _table(HOURS_COLUMNS, [hours | source]),
    }


def _table(columns: str, rows: Sequence[Mapping[str, str]]) -> str:
    text = StringIO()
    writer = csv.DictWriter(text, columns.split(","), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
