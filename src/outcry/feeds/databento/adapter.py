"""Creates Databento feeds. The vendor's library is loaded when a feed is created."""

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
    """Creates Databento feeds from entered API keys. Implements `BrokerAdapter`."""

    broker: Broker = BROKER
    caps: FeedCaps = CAPS
    library: str = "databento"

    def feed(self, given: Mapping[str, str], context: AdapterContext) -> Feed:
        """Create a feed for an API key. Raises `InvalidCredential`, and `ImportError` if the library is missing."""
        key = checked_key(given.get("key", ""))
        from outcry.feeds.databento.feed import DatabentoFeed  # noqa: PLC0415 - the library is an extra

        return DatabentoFeed(key, context)


def checked_key(text: str) -> str:
    """Return an API key without surrounding blanks. Raises `InvalidCredential`."""
    key = text.strip()
    if not key:
        raise InvalidCredential("missing", "key")
    if not _KEY.fullmatch(key):
        raise InvalidCredential("rejected", "key")
    return key


ADAPTER = DatabentoAdapter()
