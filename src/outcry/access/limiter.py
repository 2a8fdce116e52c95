"""Interface of request limiters: an exact sliding window per subject, across all processes.

A subject is what a limit applies to: an API key or a client address. No more than `limit` requests pass in any 60
seconds, over all processes together. While a process cannot reach the others, it allows only its share of the limit.
"""

from collections.abc import Awaitable, Mapping
from typing import NamedTuple, Protocol

WINDOW_NS = 60_000_000_000


class Verdict(NamedTuple):
    """Whether a request may pass, and the values of its rate limit headers. Times are in milliseconds from now.

    `remaining`: requests left in the window that ends now. `reset_ms`: time until the window is empty.
    `retry_after_ms`: time until a request would pass, 0 if it would pass now.

    It is a tuple, so that `counting.c` can build one.
    """

    allowed: bool
    remaining: int
    reset_ms: int
    retry_after_ms: int


class Limiter(Protocol):
    """Interface that counts requests and refuses those above a limit.

    It uses a monotonic clock, so that changing the machine's clock has no effect. Refused requests do not count.
    """

    def take(self, subject: str, limit: int, /) -> Verdict | None:
        """Count one request of a subject (`key:7` or `ip:…`) if it passes: at most `limit` may pass in any 60 seconds.

        Return None, without counting, if other processes must decide: then call `ask`.
        """
        ...

    def ask(self, subject: str, limit: int) -> Awaitable[Verdict]:
        """Count one request like `take`, asking other processes if needed.

        Requests of the same iteration of the event loop share one message to the other processes.
        """
        ...

    def recent(self, prefix: str) -> Mapping[str, int]:
        """Return the time (ns) since the last allowed request, by subject.

        Contains the subjects whose name starts with `prefix`, if this process has allowed one of their requests in the
        last 60 seconds.
        """
        ...

    def refusal(self, subject: str, limit: int) -> Verdict | None:
        """Return the refusal that `take` would give now; None if the request might pass. Nothing is counted."""
        ...

    def peek(self, subject: str, limit: int) -> Verdict:
        """Return how much of a limit is left, as far as this process knows, without counting a request."""
        ...


class PromptLimiter(Limiter, Protocol):
    """A limiter that decides every request at once, without other processes."""

    def take(self, subject: str, limit: int, /) -> Verdict:
        """Count one request of a subject (`key:7` or `ip:…`) if it passes: at most `limit` pass in any 60 seconds."""
        ...


async def count_request(limiter: Limiter, subject: str, limit: int) -> Verdict:
    """Count one request of a subject (`key:7` or `ip:…`), asking other processes if needed; return the verdict."""
    return limiter.take(subject, limit) or await limiter.ask(subject, limit)
