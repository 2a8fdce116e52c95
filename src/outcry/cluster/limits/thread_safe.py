"""Let other threads, which may block, use a limiter that belongs to an event loop."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from outcry.access.limiter import Limiter, Verdict
from outcry.database.errors import StoreBusy

T = TypeVar("T")
_PATIENCE_S = 5.0


class ThreadSafeLimiter:
    """Implements `PromptLimiter` for threads other than that of `loop`, to which `limiter` belongs.

    Every method except `ask` blocks, and raises `StoreBusy` if the loop does not respond within five seconds.
    """

    def __init__(self, limiter: Limiter, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._limiter, self._loop = limiter, loop

    def take(self, subject: str, limit: int) -> Verdict:
        """Count one request of a subject (API key or client address) and wait for the verdict."""
        return self._there(self.ask(subject, limit))

    async def ask(self, subject: str, limit: int) -> Verdict:
        """Count one request of a subject (API key or client address) and await the verdict. Call it on the loop."""
        return self._limiter.take(subject, limit) or await self._limiter.ask(subject, limit)

    def recent(self, prefix: str) -> Mapping[str, int]:
        """Return the time (ns) since the last allowed request, by subject.

        Contains the subjects whose name starts with `prefix`, if this process has allowed one of their requests in the
        last 60 seconds.
        """

        async def there() -> Mapping[str, int]:
            return self._limiter.recent(prefix)

        return self._there(there())

    def refusal(self, subject: str, limit: int) -> Verdict | None:
        """Return the refusal that `take` would give now; None if the request might pass. Nothing is counted."""

        async def there() -> Verdict | None:
            return self._limiter.refusal(subject, limit)

        return self._there(there())

    def peek(self, subject: str, limit: int) -> Verdict:
        """Return how much of a limit is left, as far as this process knows, without counting a request."""

        async def there() -> Verdict:
            return self._limiter.peek(subject, limit)

        return self._there(there())

    def _there(self, work: Coroutine[Any, Any, T]) -> T:
        verdict = asyncio.run_coroutine_threadsafe(work, self._loop())
        try:
            return verdict.result(_PATIENCE_S)
        except TimeoutError:
            verdict.cancel()
            raise StoreBusy("the shared limiter did not respond in time") from None
