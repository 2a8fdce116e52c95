"""How many may be under way at once, by what they have in common.

Rule kept: whoever waits, waits for so long and no longer; what is not used takes no memory.
"""

import asyncio
from collections.abc import Collection, Iterable


class NoTurn(Exception):
    """All turns were taken for as long as one may wait."""


class Turns:
    """Turns by key, `most` of each at once. Used on one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: dict[str, asyncio.Semaphore] = {}
        #: How many have a turn or wait for one.
        self._with: dict[str, int] = {}

    async def take(self, keys: Collection[str], patience_s: float) -> None:
        """Take a turn of each key, to be given back. Raises `NoTurn`, and then has taken none."""
        taken: list[str] = []
        wait = any(key in self._of and self._of[key].locked() for key in keys)
        try:
            async with asyncio.timeout(patience_s if wait else None):
                for key in sorted(keys):  # in one order for all, so that no two wait for each other
                    await self._take_one(key)
                    taken.append(key)
        except TimeoutError:
            self.give_back(taken)
            raise NoTurn from None
        except BaseException:
            self.give_back(taken)
            raise

    def give_back(self, keys: Iterable[str]) -> None:
        """Return what `take` took."""
        for key in keys:
            self._of[key].release()
            self._leave(key)

    async def _take_one(self, key: str) -> None:
        turn = self._of.get(key)
        if turn is None:
            turn = self._of[key] = asyncio.Semaphore(self._most)
        self._with[key] = self._with.get(key, 0) + 1
        try:
            await turn.acquire()
        except BaseException:
            self._leave(key)
            raise

    def _leave(self, key: str) -> None:
        self._with[key] -= 1
        if not self._with[key]:
            del self._with[key], self._of[key]
