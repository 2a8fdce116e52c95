"""What can be said of Massive without its library, and how a feed of it is made."""

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
    """Massive, by its own client library."""

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
        """A feed of Massive; nothing is asked of it yet. Places: `socket` (`ws://host:port`), `rest` (`http://…`)."""
        key = given.get("key", "").strip()
        if not key:
            raise InvalidCredential("missing", "key")
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise InvalidCredential("rejected", "key")
        from outcry.feeds.massive.feed import MassiveFeed  # noqa: PLC0415 - the library may not be there

        return MassiveFeed(key, context, self.broker.id, self.caps)


ADAPTER = MassiveAdapter()
