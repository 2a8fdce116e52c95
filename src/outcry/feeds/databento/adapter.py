"""What Databento is and what it asks for. Its library is loaded when a feed is made."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from outcry.core.units import NANOS_PER_DAY
from outcry.ports.adapters import BadEntry, Kit
from outcry.ports.connections import Broker, BrokerField
from outcry.ports.feed import Backfill, Feed, FeedCaps, Resume

_KEY = re.compile(r"db-[0-9A-Za-z]{29}")

BROKER = Broker(
    id="databento",
    name="Databento",
    fields=(
        BrokerField(
            name="key",
            label="API key",
            secret=True,
            hint="32 characters beginning with db-, from the page API keys of the Databento portal. "
            "The account needs a live licence for CME Globex (GLBX.MDP3).",
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
    reach_ns=5 * NANOS_PER_DAY,  # a whole session before a long weekend; older history is for `outcry fetch`
    resume=Resume.BY_TIME,
    has_volume_counter=False,
    hosted_allowed=True,
)


@dataclass
class DatabentoAdapter:
    """Makes feeds of a key."""

    broker: Broker = BROKER
    caps: FeedCaps = CAPS
    library: str = "databento"

    def feed(self, given: Mapping[str, str], kit: Kit) -> Feed:
        """A feed by this key. Raises `BadEntry`, and `ImportError` where the library is missing."""
        key = checked_key(given.get("key", ""))
        from outcry.feeds.databento.feed import DatabentoFeed  # noqa: PLC0415 - only where it is used

        return DatabentoFeed(key, kit)


def checked_key(text: str) -> str:
    """A key as it is written, without blanks around it. Raises `BadEntry`."""
    key = text.strip()
    if not key:
        raise BadEntry("missing", "key")
    if not _KEY.fullmatch(key):
        raise BadEntry("rejected", "key")
    return key


ADAPTER = DatabentoAdapter()
