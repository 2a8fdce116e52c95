"""The fields of the web form that connects Interactive Brokers, and the capabilities of its feed.

The host is the user's own machine, so a server shared by several users never connects to it (`hosted` is false).
"""

from outcry.connections.model import Broker, BrokerField
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_SECOND
from outcry.trades.feed import Backfill, FeedCaps, Resume

CAPS = FeedCaps(
    resolution_ns=NANOS_PER_SECOND,
    has_id=False,
    has_side=False,
    backfill=Backfill.BARS_1M,
    reach_ns=14 * NANOS_PER_DAY,
    resume=Resume.BY_TIME,
    has_volume_counter=False,
    lag_ns=NANOS_PER_SECOND,  # times are truncated to the second
)

BROKER = Broker(
    id="ibkr",
    name="Interactive Brokers",
    fields=(
        BrokerField(
            "host",
            "Host",
            usual="127.0.0.1",
            hint="Host name or IP address of the machine that runs TWS or IB Gateway. 127.0.0.1: this machine.",
        ),
        BrokerField(
            "port",
            "Port",
            usual="4001",
            hint="Socket port from the API settings. IB Gateway: 4001, paper trading 4002. TWS: 7496, paper trading "
            "7497.",
        ),
        BrokerField(
            "client_id",
            "Client ID",
            usual="41",
            hint="A whole number from 1. Each program connected to the same TWS or Gateway needs its own.",
        ),
    ),
    hosted=False,
    extra="ibkr",
)
