"""Limits history requests to the vendor's rate: 60 requests for trades in ten minutes, over all streams.

Requests that a stream needs to become live have priority over requests that only refine history. The vendor does not
limit one-minute bars, but all requests keep a minimum interval.
"""

import asyncio
from collections import deque

#: Requests for trades per window (s): the maximum, and the maximum up to which low-priority requests are sent.
WINDOW_S = 600.0
MAX_REQUESTS, MAX_BACKGROUND_REQUESTS = 60, 45
#: Between any two requests. The vendor refuses more than five for one contract in two seconds.
MIN_INTERVAL_S = 0.4


class HistoryRequestLimiter:
    """Delays history requests so that they stay within the vendor's rate.

    speedup: delays are divided by this factor.
    """

    def __init__(self, speedup: float = 1.0) -> None:
        self._window_s, self._apart_s = WINDOW_S / speedup, MIN_INTERVAL_S / speedup
        self._made: deque[float] = deque()
        self._next_s = 0.0

    async def bars(self) -> None:
        """Wait until a request for bars may be sent."""
        await self._wait(2**31)

    async def trades(self, *, urgent: bool) -> None:
        """Wait until a request for trades may be sent, and count the request."""
        await self._wait(MAX_REQUESTS if urgent else MAX_BACKGROUND_REQUESTS)
        self._made.append(asyncio.get_running_loop().time())

    async def _wait(self, most: int) -> None:
        loop = asyncio.get_running_loop()
        while (now_s := loop.time()) < (free_s := self._free_s(now_s, most)):
            await asyncio.sleep(free_s - now_s)
        self._next_s = now_s + self._apart_s

    def _free_s(self, now_s: float, most: int) -> float:
        """Return the earliest time (loop time) at which the vendor's rate window has fewer than `most` requests."""
        while self._made and now_s - self._made[0] >= self._window_s:
            self._made.popleft()
        if len(self._made) < most:
            return self._next_s
        return max(self._next_s, self._made[len(self._made) - most] + self._window_s)
