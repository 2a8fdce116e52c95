"""What Interactive Brokers is to a person who connects it: what to enter, and what its feed can do.

Rules kept: nothing of `ib_async` is loaded here; the host is the person's own machine, so this is never connected from
a service for many (`hosted`).
"""

import re
from collections.abc import Mapping

from outcry.core.units import NANOS_PER_DAY, NANOS_PER_SECOND
from outcry.ports.adapters import BadEntry, Kit
from outcry.ports.connections import Broker, BrokerField
from outcry.ports.feed import Backfill, Feed, FeedCaps, Resume

#: Where TWS and IB Gateway listen unless told otherwise, live before paper.
PORTS = ("4001", "4002", "7496", "7497")
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_MOST_CLIENT_ID = 2**31 - 1

CAPS = FeedCaps(
    resolution_ns=NANOS_PER_SECOND,
    has_id=False,
    has_side=False,
    backfill=Backfill.BARS_1M,
    reach_ns=14 * NANOS_PER_DAY,
    resume=Resume.BY_TIME,
    has_volume_counter=False,
    hosted_allowed=False,
    lag_ns=NANOS_PER_SECOND,  # times are cut to the whole second
)

BROKER = Broker(
    id="ibkr",
    name="Interactive Brokers",
    fields=(
        BrokerField(
            "host",
            "Host",
            usual="127.0.0.1",
            hint="Where TWS or IB Gateway runs, seen from where this connection is made.",
        ),
        BrokerField(
            "port",
            "Port",
            usual="4001",
            hint="The socket port in its API settings. IB Gateway: 4001, paper trading 4002. TWS: 7496, paper 7497.",
        ),
        BrokerField(
            "client_id",
            "Client ID",
            usual="41",
            hint="Any number from 1 that no other program at the same TWS or Gateway uses.",
        ),
    ),
    hosted=False,
    extra="ibkr",
)


class IbkrAdapter:
    """Interactive Brokers, by TWS or IB Gateway."""

    broker = BROKER
    caps = CAPS
    library = "ib_async"

    def feed(self, given: Mapping[str, str], kit: Kit) -> Feed:
        """A feed from the TWS or Gateway at `host` and `port`."""
        entries = {field.name: given.get(field.name, "").strip() or field.usual for field in BROKER.fields}
        if not _HOST.fullmatch(entries["host"]):
            raise BadEntry("rejected", "host")
        port = _number(entries["port"], 2**16 - 1, "port")
        client_id = _number(entries["client_id"], _MOST_CLIENT_ID, "client_id")

        from outcry.feeds.ibkr.feed import IbkrFeed  # noqa: PLC0415 - the library is an extra

        return IbkrFeed(entries["host"], port, client_id, kit)


def _number(text: str, most: int, field: str) -> int:
    """A whole number from 1 on. Raises `BadEntry`."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise BadEntry("rejected", field)
    return int(text)


ADAPTER = IbkrAdapter()
