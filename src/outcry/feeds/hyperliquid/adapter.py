"""Describes Hyperliquid to the service and creates its feeds."""

from collections.abc import Mapping

from outcry.connections.broker_adapter import AdapterContext, InvalidCredential
from outcry.connections.model import Broker, BrokerField
from outcry.feeds.hyperliquid import terms
from outcry.feeds.hyperliquid.protocol import MAX_CANDLES
from outcry.market.instruments import Product
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_MS
from outcry.trades.feed import Backfill, Feed, FeedCaps, Resume

API = "https://api.hyperliquid.xyz"
#: The exchange and the end of the root of the products that the vendor has: root `BTC-PERP` is its coin `BTC`.
EXCHANGE, PERPETUAL = "HYPERLIQUID", "-PERP"
#: Entry with the version of the terms that the user accepted.
TERMS = "terms"

CAPS = FeedCaps(
    resolution_ns=NANOS_PER_MS,
    has_id=True,
    has_side=True,
    backfill=Backfill.BARS_1M,
    reach_ns=MAX_CANDLES * NANOS_PER_MINUTE,
    resume=Resume.BY_TIME,
    has_volume_counter=False,
)


def coin_of(product: Product) -> str | None:
    """Return Hyperliquid's name of a product; None if the product is not one of Hyperliquid's."""
    if product.exchange != EXCHANGE or not product.root.endswith(PERPETUAL):
        return None
    return product.root.removesuffix(PERPETUAL)


class HyperliquidAdapter:
    """Creates Hyperliquid feeds. Implements `BrokerAdapter`. Only products of `EXCHANGE` have feeds."""

    library = ""
    caps = CAPS

    def __init__(self) -> None:
        self.broker = Broker(
            id="hyperliquid",
            name="Hyperliquid",
            fields=(
                BrokerField(
                    TERMS,
                    "I accept the terms of use of",
                    options=(terms.VERSION,),
                    hint="Hyperliquid's terms are at app.hyperliquid.xyz/terms. They exclude persons in the United "
                    "States, Ontario and territories under sanctions. The data is for you alone.",
                ),
            ),
            hosted=True,
            exchange=EXCHANGE,
        )

    def feed(self, given: Mapping[str, str], context: AdapterContext) -> Feed:
        """Create a feed without contacting Hyperliquid, which needs no credentials.

        `context.endpoints` may replace the vendor's server: `api`, `http://host:port`. Raises `InvalidCredential`
        unless the user accepted the current version of the terms.
        """
        if given.get(TERMS, "") != terms.VERSION:
            raise InvalidCredential("rejected" if given.get(TERMS) else "missing", TERMS)
        from outcry.feeds.hyperliquid.feed import HyperliquidFeed  # noqa: PLC0415 - imports an HTTP client

        url = context.endpoints.get("api", API).rstrip("/")
        return HyperliquidFeed(url, coin_of, context, self.broker.id, self.caps)


ADAPTER = HyperliquidAdapter()
