"""The port for request limits: an exact sliding log, per key, whichever replica is asked.

Rule kept: in any 60 seconds no more pass than the limit, over all processes together, and as many do where they are
asked for; with what they share out of reach, a process lets its share of the limit pass, never more.
"""

from collections.abc import Awaitable, Mapping
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
    """Count requests by a monotonic clock of its own, so that setting the machine's clock changes no window. A refused
    request is not counted."""

    def take(self, subject: str, limit: int) -> Verdict | None:
        """Ask for one request of `subject` (a key, or `ip:…`): at most `limit` in any 60 seconds ending now. None where
        that cannot be told without asking others: then `ask`."""
        ...

    def ask(self, subject: str, limit: int) -> Awaitable[Verdict]:
        """The same, asking others if need be: all that is asked in one turn of the event loop goes together."""
        ...

    def recent(self, prefix: str) -> Mapping[str, int]:
        """How long ago (ns) each subject that begins so passed here last, of those that did in the window ending
        now."""
        ...

    def peek(self, subject: str, limit: int) -> Verdict:
        """What the window holds now, as far as known here, counting nothing: for the answers that are not counted."""
        ...


class PromptLimiter(Limiter, Protocol):
    """One that can always tell at once."""

    def take(self, subject: str, limit: int) -> Verdict:
        """See `Limiter`."""
        ...
