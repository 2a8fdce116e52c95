"""Describes the vendor Massive to the service and creates its feeds. Creating a feed loads the vendor's library."""

from collections.abc import Mapping

from outcry.connections.broker_adapter import AdapterContext, InvalidCredential
from outcry.connections.model import Broker, BrokerField
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_MS
from outcry.trades.feed import Backfill, Feed, FeedCaps, Resume

CAPS = FeedCaps(
    resolution_ns=NANOS_PER_MS,
    has_id=False,
    has_side=False,
    backfill=Backfill.TICKS,
    reach_ns=10 * NANOS_PER_DAY,
    resume=Resume.BY_TIME,
    has_volume_counter=False,
)


class MassiveAdapter:
    """Creates Massive feeds through its client library. Implements `BrokerAdapter`."""

    library = "massive"
    caps = CAPS

    def __init__(self) -> None:
        self.broker = Broker(
            id="massive",
            name="Massive (formerly Polygon.io)",
            fields=(
                BrokerField(
                    "key",
                    "API key",
                    secret=True,
                    hint="Copy it from your Massive dashboard. Your plan must include real-time futures.",
                ),
            ),
            hosted=True,
            extra="massive",
        )

    def feed(self, given: Mapping[str, str], context: AdapterContext) -> Feed:
        """Create a feed without contacting Massive.

        `context.endpoints` may replace the vendor's servers: `socket` (`ws://host:port`) and `rest` (`http://…`).
        """
        key = given.get("key", "").strip()
        if not key:
            raise InvalidCredential("missing", "key")
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise InvalidCredential("rejected", "key")
        from outcry.feeds.massive.feed import MassiveFeed  # noqa: PLC0415 - the library is an extra

        return MassiveFeed(key, context, self.broker.id, self.caps)


ADAPTER = MassiveAdapter()
