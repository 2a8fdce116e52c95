"""Refuses HTTP redirects, so that credentials reach only the host they are meant for.

Every aiohttp client of a vendor is created with `refusing_redirects`, for its requests and WebSockets.
"""

import aiohttp

from outcry.trades.feed import FeedLost


def refusing_redirects(vendor: str) -> list[aiohttp.TraceConfig]:
    """Return the `trace_configs` of an aiohttp client that refuses redirects.

    A redirect raises `FeedLost("protocol")` before the client follows it. For WebSockets there is no other way to
    refuse redirects.
    """

    async def refuse(*_: object) -> None:
        raise redirect_refused(vendor)

    guard = aiohttp.TraceConfig()
    guard.on_request_redirect.append(refuse)
    return [guard]


def redirect_refused(vendor: str) -> FeedLost:
    """Return the error for a refused redirect. It omits the URL, which the vendor may not control."""
    return FeedLost("protocol", f"{vendor} redirected the request to another URL, which is not followed")
