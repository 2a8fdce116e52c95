"""Adapter of tastytrade: the fields of its connection form and the capabilities of its feed.

Importing this module does not load the client.
"""

from collections.abc import Mapping

from outcry.connections.broker_adapter import AdapterContext, InvalidCredential
from outcry.connections.model import Broker, BrokerField
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_MS
from outcry.trades.feed import Backfill, Feed, FeedCaps, Resume

PRODUCTION, SANDBOX = "production", "sandbox"

#: One-minute candles reach further back, but no caller needs more.
_REACH_NS = 30 * NANOS_PER_DAY


class TastytradeAdapter:
    """Creates tastytrade feeds. Implements `BrokerAdapter`.

    `context.endpoints` may name other servers: `api` replaces the REST server, and `dxlink` is one more market data URL
    to trust.
    """

    library = ""
    broker = Broker(
        id="tastytrade",
        name="tastytrade",
        fields=(
            BrokerField(
                "client_secret",
                "Client secret",
                secret=True,
                hint="Create an OAuth application at my.tastytrade.com under Manage, My Profile, API, OAuth "
                "Applications. The scope `read` is enough.",
            ),
            BrokerField(
                "refresh_token",
                "Refresh token",
                secret=True,
                hint="Create a personal grant for that application under Manage, Create Grant. The token does not "
                "expire.",
            ),
            BrokerField(
                "environment",
                "Environment",
                options=(PRODUCTION, SANDBOX),
                usual=PRODUCTION,
                hint="The sandbox has separate credentials and no real-time data.",
            ),
        ),
        hosted=True,
    )
    #: Guaranteed capabilities. If the server has a history of sales, backfill is ticks.
    caps = FeedCaps(
        resolution_ns=NANOS_PER_MS,
        has_id=True,
        has_side=True,
        backfill=Backfill.BARS_1M,
        reach_ns=_REACH_NS,
        resume=Resume.BY_TIME,
        has_volume_counter=False,
    )

    def feed(self, given: Mapping[str, str], context: AdapterContext) -> Feed:
        """Create a feed without connecting yet. Raises `InvalidCredential`."""
        from outcry.feeds.tastytrade.feed import TastytradeFeed  # noqa: PLC0415 - loaded when a feed is made
        from outcry.feeds.tastytrade.rest import Credentials  # noqa: PLC0415

        entries = {name: given.get(name, "").strip() for name in ("client_secret", "refresh_token")}
        for name, text in entries.items():
            if not text:
                raise InvalidCredential("missing", name)
            if len(text) > 4096 or not text.isascii() or not text.isprintable() or " " in text:
                raise InvalidCredential("rejected", name)
        environment = given.get("environment") or PRODUCTION
        if environment not in (PRODUCTION, SANDBOX):
            raise InvalidCredential("rejected", "environment")
        sandbox = environment == SANDBOX
        return TastytradeFeed(Credentials(**entries, sandbox=sandbox), self.caps, context)


ADAPTER = TastytradeAdapter()
