"""Interface of request limiters: an exact sliding window per subject, across all processes.

A subject is what a limit applies to: an API key or a client address. No more than `limit` requests pass in any 60
seconds, over all processes together. While a process cannot reach the others, it allows only its share of the limit.
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
    """Interface that counts requests and refuses those above a limit.

    It uses a monotonic clock, so that changing the machine's clock has no effect. Refused requests do not count.
    """

    def take(self, subject: str, limit: int) -> Verdict | None:
        """Count one request of a subject (a key, or `ip:…`): at most `limit` pass in any 60 seconds that end now.

        Return None if the decision needs other processes: then call `ask`.
        """
        ...

    def ask(self, subject: str, limit: int) -> Awaitable[Verdict]:
        """Count one request like `take`, asking other processes if needed.

        Requests that arrive in the same iteration of the event loop are sent together.
        """
        ...

    def recent(self, prefix: str) -> Mapping[str, int]:
        """Return how long ago (ns) each subject with this prefix last had a request allowed here, within the window."""
        ...

    def refusal(self, subject: str, limit: int) -> Verdict | None:
        """Return the verdict of a request that `take` would refuse now; None if it might pass. Nothing is counted."""
        ...

    def peek(self, subject: str, limit: int) -> Verdict:
        """Return how much of a subject's limit is left, as known here, without counting a request."""
        ...


class PromptLimiter(Limiter, Protocol):
    """A limiter that decides every request at once, without other processes."""

    def take(self, subject: str, limit: int) -> Verdict:
        """Count one request of a subject: at most `limit` pass in any 60 seconds that end now."""
        ...


async def count_request(limiter: Limiter, subject: str, limit: int) -> Verdict:
    """Count one request of a subject, asking other processes if needed; return the verdict."""
    return limiter.take(subject, limit) or await limiter.ask(subject, limit)
