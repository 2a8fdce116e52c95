"""Adapter of Tradovate: the fields of its connection form and the capabilities of its feed.

Importing this module does not load the client.
"""

from collections.abc import Mapping

from outcry.connections.broker_adapter import AdapterContext, InvalidCredential
from outcry.connections.model import Broker, BrokerField
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_MS
from outcry.trades.feed import Backfill, Feed, FeedCaps, Resume

#: How far back ticks are requested. The vendor does not document how long it retains them.
REACH_NS = 7 * NANOS_PER_DAY
ENVIRONMENTS = ("live", "demo")

FIELDS = (
    BrokerField("user", "User name"),
    BrokerField(
        "password",
        "Password",
        secret=True,
        hint="Your dedicated API password if you have set one, otherwise your account password",
    ),
    BrokerField("cid", "API key ID (cid)", hint="A number from API Access in Tradovate's settings"),
    BrokerField(
        "secret", "API secret", secret=True, hint="Tradovate shows it once, when you create the API key"
    ),
    BrokerField(
        "app", "API key name", usual="Outcry", optional=True, hint="The name you gave the key at Tradovate"
    ),
    BrokerField("environment", "Environment", options=ENVIRONMENTS, usual="live"),
)


class TradovateAdapter:
    """Creates Tradovate feeds. Implements `BrokerAdapter`."""

    broker = Broker("tradovate", "Tradovate", FIELDS, hosted=True)
    caps = FeedCaps(
        resolution_ns=NANOS_PER_MS, has_id=True, has_side=True, backfill=Backfill.TICKS, reach_ns=REACH_NS,
        resume=Resume.BY_TIME, has_volume_counter=True,
    )  # fmt: skip
    library = ""

    def feed(self, given: Mapping[str, str], context: AdapterContext) -> Feed:
        """Create a feed without connecting yet. Raises `InvalidCredential`."""
        from outcry.feeds.tradovate.feed import TradovateFeed  # noqa: PLC0415 - loaded when one is made
        from outcry.feeds.tradovate.login import Entries  # noqa: PLC0415

        entries = {field.name: given.get(field.name, "").strip() or field.usual for field in FIELDS}
        for name, text in entries.items():
            if not text:
                raise InvalidCredential("missing", name)
        entries["password"] = given["password"]  # surrounding blanks may be part of a password
        if not (entries["cid"].isascii() and entries["cid"].isdecimal()):
            raise InvalidCredential("rejected", "cid")
        if entries["environment"] not in ENVIRONMENTS:
            raise InvalidCredential("rejected", "environment")
        return TradovateFeed(Entries(**entries), self.caps, context)


ADAPTER = TradovateAdapter()
