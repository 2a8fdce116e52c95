"""Limits of each tier: requests in any 60 seconds, and concurrent streams.

A tier never changes what data a key may see; `licences` decides that.
"""

from typing import Final, Literal

Tier = Literal["free", "pro", "admin"]
ApiTier = Literal["anonymous", "free", "pro", "admin"]

ANONYMOUS: Final = "anonymous"
WINDOW_SECONDS: Final = 60
_REQUESTS: dict[ApiTier, int] = {"anonymous": 30, "free": 30, "pro": 120, "admin": 600}


def requests_allowed(tier: ApiTier) -> int:
    """Return the requests that a key of this tier, or a client address without a key, may make in any 60 seconds."""
    return _REQUESTS[tier]


_STREAMS: dict[Tier, int] = {"free": 2, "pro": 10, "admin": 50}


def streams_allowed(tier: Tier) -> int:
    """Return the number of event streams that a key of this tier may have open at once."""
    return _STREAMS[tier]
