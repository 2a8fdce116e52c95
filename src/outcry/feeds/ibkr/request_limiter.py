"""How often history may be asked for: trades sixty times in ten minutes, by all streams together.

Rules kept: what a stream needs to answer live goes first; what only makes history finer leaves room for it. Bars of a
minute are not counted by the vendor, but nothing is asked for hastily.
"""

import asyncio
from collections import deque

#: Requests for trades in a window of this many seconds: at most, and those that are not urgent.
WINDOW_S = 600.0
MAX_REQUESTS, MAX_BACKGROUND_REQUESTS = 60, 45
#: Between any two requests. More than five of one contract in two seconds are refused.
MIN_INTERVAL_S = 0.4


class HistoryRequestLimiter:
    """Lets requests through. rush: waiting is this many times shorter."""

    def __init__(self, rush: float = 1.0) -> None:
        self._window_s, self._apart_s = WINDOW_S / rush, MIN_INTERVAL_S / rush
        self._made: deque[float] = deque()
        self._next_s = 0.0

    async def bars(self) -> None:
        """Wait until bars may be asked for."""
        await self._wait(2**31)

    async def trades(self, *, urgent: bool) -> None:
        """Wait until trades may be asked for, and count it."""
        await self._wait(MAX_REQUESTS if urgent else MAX_BACKGROUND_REQUESTS)
        self._made.append(asyncio.get_running_loop().time())

    async def _wait(self, most: int) -> None:
        loop = asyncio.get_running_loop()
        while (now_s := loop.time()) < (free_s := self._free_s(now_s, most)):
            await asyncio.sleep(free_s - now_s)
        self._next_s = now_s + self._apart_s

    def _free_s(self, now_s: float, most: int) -> float:
        """When a request may be made, as it looks now: the window must hold fewer than `most`."""
        while self._made and now_s - self._made[0] >= self._window_s:
            self._made.popleft()
        if len(self._made) < most:
            return self._next_s
        return max(self._next_s, self._made[len(self._made) - most] + self._window_s)
