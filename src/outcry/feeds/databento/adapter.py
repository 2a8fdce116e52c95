"""The adapter: feeds of a key. The vendor's library is loaded when one is made."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from outcry.connections.broker_adapter import AdapterContext, InvalidCredential
from outcry.connections.model import Broker
from outcry.feeds.databento.broker import BROKER, CAPS
from outcry.trades.feed import Feed, FeedCaps

_KEY = re.compile(r"db-[0-9A-Za-z]{29}")


@dataclass
class DatabentoAdapter:
    """Makes feeds of a key."""

    broker: Broker = BROKER
    caps: FeedCaps = CAPS
    library: str = "databento"

    def feed(self, given: Mapping[str, str], context: AdapterContext) -> Feed:
        """A feed by this key. Raises `BadEntry`, and `ImportError` where the library is missing."""
        key = checked_key(given.get("key", ""))
        from outcry.feeds.databento.feed import DatabentoFeed  # noqa: PLC0415 - only where it is used

        return DatabentoFeed(key, context)


def checked_key(text: str) -> str:
    """A key as it is written, without blanks around it. Raises `BadEntry`."""
    key = text.strip()
    if not key:
        raise InvalidCredential("missing", "key")
    if not _KEY.fullmatch(key):
        raise InvalidCredential("rejected", "key")
    return key


ADAPTER = DatabentoAdapter()
