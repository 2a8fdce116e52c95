"""The fields of the web form that connects a Databento account, and the capabilities of its feed."""

from outcry.connections.model import Broker, BrokerField
from outcry.market.units import NANOS_PER_DAY
from outcry.trades.feed import Backfill, FeedCaps, Resume

BROKER = Broker(
    id="databento",
    name="Databento",
    fields=(
        BrokerField(
            name="key",
            label="API key",
            secret=True,
            hint="Copy it from API keys in the Databento portal. It starts with db- and has 32 characters. The account "
            "needs a live licence for CME Globex (GLBX.MDP3).",
        ),
    ),
    hosted=True,
    extra="databento",
)

CAPS = FeedCaps(
    resolution_ns=1,
    has_id=False,
    has_side=True,
    backfill=Backfill.TICKS,
    reach_ns=5
    * NANOS_PER_DAY,  # a full session before a long weekend; `outcry fetch` downloads older history
    resume=Resume.BY_TIME,
    has_volume_counter=False,
)
