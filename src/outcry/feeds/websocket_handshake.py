"""Opens WebSockets of the library `websockets` without following redirects.

By default the library follows up to ten redirects, to any host. Only adapters whose vendor library runs on `websockets`
import this module.
"""

from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus

from outcry.feeds.redirects import redirect_refused


class DirectConnection(ClientConnection):
    """A connection whose handshake raises `FeedLost("protocol")` for a redirect.

    Pass the class to the library as `create_connection`. The library follows a redirect only if the handshake raises
    the library's own error.
    """

    async def handshake(self, *given: Any, **named: Any) -> None:
        """Perform the opening handshake."""
        try:
            await super().handshake(*given, **named)
        except InvalidStatus as refused:
            if 300 <= refused.response.status_code < 400:
                raise redirect_refused("the vendor") from None
            raise
