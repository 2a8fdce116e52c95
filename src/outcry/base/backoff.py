"""Exponential backoff: growing pauses between attempts, after errors that may be temporary."""

import asyncio
import random

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
#: Far more than any use needs, and few enough that no float overflows.
_MOST_DOUBLINGS = 64


class Backoff:
    """Pauses between attempts that double each time, up to `longest_s`.

    Each pause is shortened at random by up to half, so that many clients do not retry at once. `speedup`: divides all
    pauses, for tests. first_s: the first pause, which may be changed between attempts.
    """

    def __init__(
        self, speedup: float = 1.0, first_s: float = FIRST_PAUSE_S, longest_s: float = LONGEST_PAUSE_S
    ) -> None:
        self.first_s = first_s
        self._speedup, self._longest_s = speedup, longest_s
        self._doublings = 0

    def next_s(self) -> float:
        """Return the next pause in seconds."""
        pause_s = min(self.first_s * 2.0**self._doublings, self._longest_s)
        self._doublings = min(self._doublings + 1, _MOST_DOUBLINGS)
        return pause_s * random.uniform(0.5, 1.0) / self._speedup  # noqa: S311 - spreads attempts; no secret

    async def sleep(self) -> None:
        """Sleep for the next pause."""
        await asyncio.sleep(self.next_s())

    def reset(self) -> None:
        """Start with the first pause again, after a success."""
        self._doublings = 0
