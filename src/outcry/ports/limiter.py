"""The port for request limits: an exact sliding log, per key, whichever replica is asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

WINDOW_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request may pass, and what to tell its sender. Milliseconds from now.

    remaining: requests left in the window ending now; reset_ms: until the window is empty again;
    retry_after_ms: until the next request would pass, 0 where one would.
    """

    allowed: bool
    remaining: int
    reset_ms: int
    retry_after_ms: int


class Limiter(Protocol):
    """Counts requests. A refused request is not counted."""

    def take(self, subject: str, limit: int, now_ns: int) -> Verdict:
        """Ask for one request of `subject` (a key, or `ip:…`): at most `limit` in any 60 seconds ending now."""
        ...

    def recent(self, prefix: str, now_ns: int) -> Mapping[str, int]:
        """How long ago (ns) each subject that begins so passed last, of those that did in the window ending now."""
        ...

    def peek(self, subject: str, limit: int, now_ns: int) -> Verdict:
        """What the window holds now, counting nothing: for the answers that are not counted."""
        ...
