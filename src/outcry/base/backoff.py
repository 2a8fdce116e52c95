"""Between two attempts at what may work the next time."""

import asyncio
import random

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0


class Pauses:
    """How long to wait before each next attempt: twice as long as before, and by chance up to a half less, so that many
    do not come back at once. rush: so many times shorter."""

    def __init__(
        self, rush: float = 1.0, first_s: float = FIRST_PAUSE_S, longest_s: float = LONGEST_PAUSE_S
    ) -> None:
        self._rush, self._first_s, self._longest_s = rush, first_s, longest_s
        self.begin()

    def next_s(self) -> float:
        """The next of them, in seconds."""
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, self._longest_s)
        return pause_s * random.uniform(0.5, 1.0) / self._rush  # noqa: S311 - spreads attempts; no secret

    async def rest(self) -> None:
        """Wait that long."""
        await asyncio.sleep(self.next_s())

    def begin(self) -> None:
        """Something worked: the next is the first again."""
        self._pause_s = min(self._first_s, self._longest_s)
