"""No redirect is followed: what a person entered for a vendor goes to the host it was meant for and to no other.

Rule kept: every client of a vendor over aiohttp is made with `refusing_redirects`, for its requests and its WebSockets.
"""

import aiohttp

from outcry.trades.feed import FeedLost


def refusing_redirects(vendor: str) -> list[aiohttp.TraceConfig]:
    """Return `trace_configs` of a session in which a redirect raises `FeedLost("protocol")` before it is followed. A
    WebSocket has no other way to refuse one."""

    async def refuse(*_: object) -> None:
        raise redirect_refused(vendor)

    guard = aiohttp.TraceConfig()
    guard.on_request_redirect.append(refuse)
    return [guard]


def redirect_refused(vendor: str) -> FeedLost:
    """Return the error for a redirect. It does not repeat the address, which is not the vendor's own."""
    return FeedLost("protocol", f"{vendor} redirected the request to another URL, which is not followed")
