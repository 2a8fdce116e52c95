"""Interface of request limiters: an exact sliding window per subject, across all replicas.

No more than `limit` requests pass in any 60 seconds, over all processes together. While a process cannot reach the
others, it allows only its share of the limit.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Protocol

WINDOW_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request may pass, and the values of its rate limit headers. Times are in milliseconds from now.

    `remaining`: requests left in the window that ends now. `reset_ms`: until the window is empty. `retry_after_ms`:
    until the next request would pass, 0 if it would pass now.
    """

    allowed: bool
    remaining: int
    reset_ms: int
    retry_after_ms: int


class Limiter(Protocol):
    """Counts requests by a monotonic clock, so that changing the machine's clock has no effect.

    Refused requests do not count.
    """

    def take(self, subject: str, limit: int) -> Verdict | None:
        """Request one pass for a subject (a key, or `ip:…`): at most `limit` in any 60 seconds that end now.

        Return None if the decision needs other processes: then call `ask`.
        """
        ...

    def ask(self, subject: str, limit: int) -> Awaitable[Verdict]:
        """Request one pass like `take`, consulting other processes if needed.

        Requests of one event loop turn are sent together.
        """
        ...

    def recent(self, prefix: str) -> Mapping[str, int]:
        """Return how long ago (ns) each subject with this prefix last passed here, within the window that ends now."""
        ...

    def peek(self, subject: str, limit: int) -> Verdict:
        """Return the state of the window as known here, without counting a request."""
        ...


class PromptLimiter(Limiter, Protocol):
    """A limiter that always decides at once."""

    def take(self, subject: str, limit: int) -> Verdict:
        """See `Limiter`."""
        ...
