"""What a tier allows: requests in any 60 seconds, streams at a time, and nothing else.

Rule kept: a tier changes limits, never what data a key may see (that is `licences`).
"""

from typing import Final, Literal

Tier = Literal["free", "pro", "admin"]
ApiTier = Literal["anonymous", "free", "pro", "admin"]

ANONYMOUS: Final = "anonymous"
WINDOW_SECONDS: Final = 60
_REQUESTS: dict[ApiTier, int] = {"anonymous": 30, "free": 30, "pro": 120, "admin": 600}


def requests_allowed(tier: ApiTier) -> int:
    """Requests a key of this tier may make in any 60 seconds; without a key, a client address."""
    return _REQUESTS[tier]


_STREAMS: dict[Tier, int] = {"free": 2, "pro": 10, "admin": 50}


def streams_allowed(tier: Tier) -> int:
    """Event streams a key of this tier may have open at the same time."""
    return _STREAMS[tier]
