"""Limit on how often a user makes this service sign in at a vendor.

A vendor that receives too many sign-ins blocks this service's IP address, and thereby all users of the service. All
attempts of a user at one vendor therefore share one limit.
"""

from collections import deque
from threading import Lock

from outcry.market.units import NANOS_PER_HOUR

#: Times per hour that a user may create, renew or resume a connection to one vendor.
MAX_PER_HOUR = 8


class SignInAttempts:
    """Number of sign-in attempts of each user at each broker within the last hour. Thread-safe."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str], deque[int]] = {}
        self._lock = Lock()

    def take(self, user_id: int, broker: str, now_ns: int) -> bool:
        """Count a sign-in attempt and return True, or return False if the limit is reached."""
        with self._lock:
            made = self._made.setdefault((user_id, broker), deque())
            while made and made[0] <= now_ns - NANOS_PER_HOUR:
                made.popleft()
            if len(made) >= MAX_PER_HOUR:
                return False
            made.append(now_ns)
            return True
