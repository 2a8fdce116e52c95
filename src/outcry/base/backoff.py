"""Exponential backoff between attempts that may succeed the next time."""

import asyncio
import random

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0


class Backoff:
    """Pauses between attempts that double each time, up to `longest_s`.

    Each is shortened at random by up to half, so that many clients do not retry at once. `speedup`: divides all pauses,
    for tests.
    """

    def __init__(
        self, speedup: float = 1.0, first_s: float = FIRST_PAUSE_S, longest_s: float = LONGEST_PAUSE_S
    ) -> None:
        self._speedup, self._first_s, self._longest_s = speedup, first_s, longest_s
        self.reset()

    def next_s(self) -> float:
        """Return the next pause in seconds."""
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, self._longest_s)
        return pause_s * random.uniform(0.5, 1.0) / self._speedup  # noqa: S311 - spreads attempts; no secret

    async def sleep(self) -> None:
        """Sleep for the next pause."""
        await asyncio.sleep(self.next_s())

    def reset(self) -> None:
        """Start with the first pause again, after a success."""
        self._pause_s = min(self._first_s, self._longest_s)
