"""Limits of each tier: requests in any 60 seconds, and concurrent streams.

A tier never changes which data a key may see; the module `licences` decides that.
"""

from collections.abc import Mapping
from typing import Final, Literal

Tier = Literal["free", "pro", "admin"]
ApiTier = Literal["anonymous", "free", "pro", "admin"]

ANONYMOUS: Final = "anonymous"
WINDOW_SECONDS: Final = 60
#: Requests that a key of each tier, or a client address without a key, may make in any 60 seconds.
REQUESTS_ALLOWED: Mapping[ApiTier, int] = {"anonymous": 30, "free": 30, "pro": 120, "admin": 600}
#: Event streams that a key of each tier may have open at once.
STREAMS_ALLOWED: Mapping[Tier, int] = {"free": 2, "pro": 10, "admin": 50}
