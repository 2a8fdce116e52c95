"""How many may be under way at once, by what they have in common.

Rule kept: whoever waits, waits for so long and no longer; what is not used takes no memory.
"""

import asyncio
from collections.abc import Collection


class NoTurn(Exception):
    """All turns were taken for as long as one may wait."""


class Turns:
    """Turns by key, `most` of each at once. Used on one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: dict[str, int] = {}
        #: Who waits for a turn of a key, first come first; one may wait for several.
        self._waiting: dict[str, dict[asyncio.Future[str], None]] = {}

    def take_now(self, key: str) -> bool:
        """Take a turn of a key, to be given back; whether there was one."""
        taken = self._taken.get(key, 0)
        if taken == self._most:
            return False
        self._taken[key] = taken + 1
        return True

    async def take(self, keys: Collection[str], patience_s: float) -> str:
        """Take one turn, of the key that has one first; return which. Raises `NoTurn`."""
        for key in keys:
            if self.take_now(key):
                return key
        turn: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        for key in keys:
            self._waiting.setdefault(key, {})[turn] = None
        try:
            async with asyncio.timeout(patience_s):
                return await turn
        except BaseException as problem:
            if turn.done() and not turn.cancelled():  # it came, but too late
                self.give_back(turn.result())
            if isinstance(problem, TimeoutError):
                raise NoTurn from None
            raise
        finally:
            for key in keys:
                self._leave(key, turn)

    def give_back(self, key: str) -> None:
        """Return what was taken, to who has waited longest."""
        for turn in self._waiting.get(key, ()):
            if not turn.done():
                turn.set_result(key)
                return
        self._taken[key] -= 1
        if not self._taken[key]:
            del self._taken[key]

    def _leave(self, key: str, turn: asyncio.Future[str]) -> None:
        waiting = self._waiting.get(key, {})
        waiting.pop(turn, None)
        if not waiting:
            self._waiting.pop(key, None)
