"""How often history may be asked for: sixty times in ten minutes, by all streams together.

Rule kept: what a stream needs to answer live goes first; what only makes history finer leaves room for it.
"""

import asyncio
from collections import deque

#: Requests in a window of this many seconds: at most, and those that are not urgent.
WINDOW_S = 600.0
MOST, MOST_UNHURRIED = 60, 45
#: Between two requests. More than five of one contract in two seconds are refused.
APART_S = 0.4


class Pace:
    """Lets requests through. rush: waiting is this many times shorter."""

    def __init__(self, rush: float = 1.0) -> None:
        self._window_s, self._apart_s = WINDOW_S / rush, APART_S / rush
        self._made: deque[float] = deque()

    async def turn(self, *, urgent: bool) -> None:
        """Wait until a request may be made, and count it."""
        loop = asyncio.get_running_loop()
        while (wait_s := self._wait_s(loop.time(), MOST if urgent else MOST_UNHURRIED)) > 0:
            await asyncio.sleep(wait_s)
        self._made.append(loop.time())

    def _wait_s(self, now_s: float, most: int) -> float:
        while self._made and now_s - self._made[0] >= self._window_s:
            self._made.popleft()
        if not self._made:
            return 0.0
        wait_s = self._made[-1] + self._apart_s - now_s
        if len(self._made) >= most:
            wait_s = max(wait_s, self._made[len(self._made) - most] + self._window_s - now_s)
        return wait_s
