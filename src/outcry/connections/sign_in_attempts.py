"""How often a person has a vendor try to sign in.

Rule kept: vendors lock out an address that insists, and with it everybody this service connects from there; so what a
person presses, page after page and connection after connection, is counted together.
"""

from collections import deque
from threading import Lock

from outcry.market.units import NANOS_PER_HOUR

#: Times an hour that a person may begin, renew or resume a connection to one vendor.
MAX_PER_HOUR = 8


class SignInAttempts:
    """Counted by user and broker, in any hour. Safe to use from any thread."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str], deque[int]] = {}
        self._lock = Lock()

    def take(self, user_id: int, broker: str, now_ns: int) -> bool:
        """Count one; False where there were too many, and it is not counted."""
        with self._lock:
            made = self._made.setdefault((user_id, broker), deque())
            while made and made[0] <= now_ns - NANOS_PER_HOUR:
                made.popleft()
            if len(made) >= MAX_PER_HOUR:
                return False
            made.append(now_ns)
            return True
