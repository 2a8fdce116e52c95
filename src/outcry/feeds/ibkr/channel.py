"""What one subscription brought and its reader has not taken yet.

Rules kept: what waits is bounded, and too much of it ends this stream and no other; what came before an error is read
before the error.
"""

import asyncio
from collections import deque

import numpy as np

from outcry.core.units import NANOS_PER_SECOND
from outcry.feeds.ibkr.tws import Tick
from outcry.ports.feed import LIVE_TRADE, Event, FeedLost, Heartbeat, Replaced, RowFlag, Status, Trades
from outcry.ports.records import Rows

#: Rows that may wait for their reader.
MOST_ROWS = 200_000
#: What is not urgent waits until fewer rows than this do.
_FEW_ROWS = 20_000


class NoLineFree(Exception):
    """All subscriptions to single trades that the account has are in use."""


def rows_of(ticks: list[Tick], received_ns: int, flags: RowFlag) -> Rows:
    """Trades as `LIVE_TRADE`; which side was the aggressor is not told."""
    rows = np.zeros(len(ticks), LIVE_TRADE)
    if ticks:
        times, prices, sizes = zip(*ticks, strict=True)
        rows["ts_event"] = np.array(times, np.int64) * NANOS_PER_SECOND
        rows["price"], rows["size"] = prices, sizes
    rows["ts_recv"], rows["side"], rows["flags"] = received_ns, b"N", int(flags)
    return rows


class Channel:
    """A subscription's queue, filled by the session and read by one stream."""

    def __init__(self, request: int) -> None:
        self.request = request
        #: Whether anything at all came for it.
        self.began = asyncio.Event()
        #: Whether it may be that trades are made and do not come.
        self.doubted = False
        self._ticks: list[Tick] = []
        self._events: deque[Event] = deque()
        self._weight = 0
        self._moved = asyncio.Event()
        self._over: Exception | None = None

    def add(self, tick: Tick) -> None:
        """A trade came; it can be taken once `flush` is called."""
        self._ticks.append(tick)

    def flush(self, received_ns: int) -> None:
        """Hand on the trades that came together."""
        if self._ticks:
            rows = rows_of(self._ticks, received_ns, RowFlag(0))
            self._ticks = []
            self.put(Trades(rows))

    def put(self, event: Event) -> None:
        """Queue an event. A beat takes the place of one that waits, and says no more of the time to come."""
        if self._over is not None:
            return
        if isinstance(event, Heartbeat) and self._events and isinstance(self._events[-1], Heartbeat):
            self._events[-1] = event
            return
        self._events.append(event)
        self._weight += _weight(event)
        if self._weight > MOST_ROWS:
            self.end(FeedLost("seam_overflow", f"more than {MOST_ROWS:,} trades waited to be read"))
        if not isinstance(event, Heartbeat):
            self.began.set()
        self._moved.set()

    def doubt(self, why: Status) -> None:
        """Trades may not come any more, and why."""
        self.doubted = True
        self.put(why)

    async def offer(self, event: Event) -> None:
        """Queue something that is not urgent, when little waits."""
        while self._weight > _FEW_ROWS and self._over is None:
            self._moved.clear()
            await self._moved.wait()
        self.put(event)

    def end(self, problem: Exception) -> None:
        """Nothing more comes, and why; the first reason stands."""
        if self._over is None:
            self._over = problem
        self.began.set()
        self._moved.set()

    async def take(self) -> Event:
        """The next event, waiting for it. Raises why there is none."""
        while not self._events:
            if self._over is not None:
                raise self._over
            self._moved.clear()
            await self._moved.wait()
        event = self._events.popleft()
        self._weight -= _weight(event)
        self._moved.set()
        return event

    def check(self) -> None:
        """Raise why nothing more comes, if that is so and nothing waits."""
        if self._over is not None and not self._events:
            raise self._over


def _weight(event: Event) -> int:
    return len(event.rows) if isinstance(event, Trades | Replaced) else 1
