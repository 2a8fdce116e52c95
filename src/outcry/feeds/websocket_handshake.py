"""The opening of a WebSocket of the library `websockets`, which would follow up to ten redirects to any host.

Rule kept: only modules whose vendor's client runs on that library import this one.
"""

from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus

from outcry.feeds.redirects import redirect_refused


class DirectConnection(ClientConnection):
    """A connection whose handshake ends with `FeedLost("protocol")` at a redirect. Pass the class as
    `create_connection`: the library follows only what it gets as its own error."""

    async def handshake(self, *given: Any, **named: Any) -> None:
        """Perform the opening handshake."""
        try:
            await super().handshake(*given, **named)
        except InvalidStatus as refused:
            if 300 <= refused.response.status_code < 400:
                raise redirect_refused("the vendor") from None
            raise
