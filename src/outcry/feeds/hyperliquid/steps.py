"""Checks that a product's tick and size step fit the vendor's, because otherwise most rows would be set aside."""

from outcry.feeds.hyperliquid.protocol import Asset
from outcry.market.instruments import Product
from outcry.trades.feed import FeedRefused
from outcry.trades.records import Rows


def check_listed(product: Product, coin: str, asset: Asset | None) -> None:
    """Check that the vendor lists a coin, in sizes that are multiples of the size step. Raises `FeedRefused`."""
    if asset is None or asset.delisted:
        raise FeedRefused("unknown_contract", f"Hyperliquid does not list {coin}")
    if asset.size_step_e9 % product.size_step_e9:
        raise FeedRefused(
            "wrong_step",
            f"Hyperliquid trades {coin} in sizes with {asset.size_decimals} decimals, finer than the size step of "
            f"{product.root}. Change size_step of {product.root} in instruments/products.csv",
        )


def check_prices(product: Product, coin: str, bars: Rows) -> None:
    """Check that the prices of bars are multiples of the tick. Raises `FeedRefused`."""
    if any((bars[name] % product.tick_e9).any() for name in ("open", "high", "low", "close")):
        raise finer_prices(product, coin)


def finer_prices(product: Product, coin: str) -> FeedRefused:
    """Return the error for prices between two ticks, all of which would be left out of the levels."""
    return FeedRefused(
        "wrong_step",
        f"Hyperliquid's prices of {coin} have finer steps than the tick of {product.root}. Change tick of "
        f"{product.root} in instruments/products.csv",
    )
