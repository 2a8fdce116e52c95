"""Creates Interactive Brokers feeds. `ib_async` is loaded when a feed is created."""

import re
from collections.abc import Mapping

from outcry.connections.broker_adapter import AdapterContext, InvalidCredential
from outcry.feeds.ibkr.broker import BROKER, CAPS
from outcry.trades.feed import Feed

_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_MOST_PORT, _MOST_CLIENT_ID = 2**16 - 1, 2**31 - 1


class IbkrAdapter:
    """Creates Interactive Brokers feeds through TWS or IB Gateway. Implements `BrokerAdapter`."""

    broker = BROKER
    caps = CAPS
    library = "ib_async"

    def feed(self, given: Mapping[str, str], context: AdapterContext) -> Feed:
        """Create a feed from the TWS or IB Gateway at the entered host and port. Raises `InvalidCredential`."""
        entries = {field.name: given.get(field.name, "").strip() or field.usual for field in BROKER.fields}
        if not _HOST.fullmatch(entries["host"]):
            raise InvalidCredential("rejected", "host")
        port = _number(entries["port"], _MOST_PORT, "port")
        client_id = _number(entries["client_id"], _MOST_CLIENT_ID, "client_id")

        from outcry.feeds.ibkr.feed import IbkrFeed  # noqa: PLC0415 - the library is an extra

        return IbkrFeed(entries["host"], port, client_id, context)


def _number(text: str, most: int, field: str) -> int:
    """Parse the text of a form field as an integer from 1 to `most`. Raises `InvalidCredential`."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise InvalidCredential("rejected", field)
    return int(text)


ADAPTER = IbkrAdapter()
