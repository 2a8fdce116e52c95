"""What one subscription brought and its reader has not taken yet.

Rules kept: those of `feeds.inbox`; what is not urgent waits until little else does.
"""

import asyncio

import numpy as np

from outcry.feeds.ibkr.tws import Tick
from outcry.feeds.inbox import Inbox
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import LIVE_TRADE, Event, FeedLost, Heartbeat, RowFlag, Status, Trades
from outcry.trades.records import Rows

#: Rows that may wait for their reader.
MAX_ROWS = 200_000
#: What is not urgent waits until fewer rows than this do.
_FEW_ROWS = 20_000


class NoSubscriptionFree(Exception):
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


class TickSubscription(Inbox[Event]):
    """A subscription's queue, filled by the session and read by one stream."""

    def __init__(self, request: int) -> None:
        super().__init__()
        self.request = request
        #: Whether anything at all came for it.
        self.began = asyncio.Event()
        #: Whether it may be that trades are made and do not come.
        self.doubted = False
        self._ticks: list[Tick] = []
        self._taken = asyncio.Event()

    def add(self, tick: Tick) -> None:
        """A trade came; it can be taken once `flush` is called."""
        self._ticks.append(tick)

    def flush(self, received_ns: int) -> None:
        """Hand on the trades that came together."""
        if self._ticks:
            rows = rows_of(self._ticks, received_ns, RowFlag(0))
            self._ticks = []
            self.put(Trades(rows))

    def put(self, item: Event) -> None:
        """See `Inbox`. What waits when there is too much of it can still be read."""
        super().put(item)
        if self.weight > MAX_ROWS:
            self.fail(
                FeedLost("seam_overflow", f"more than {MAX_ROWS:,} trades were waiting to be processed")
            )
        if not isinstance(item, Heartbeat):
            self.began.set()

    def doubt(self, why: Status) -> None:
        """Trades may not come any more, and why."""
        self.doubted = True
        self.put(why)

    async def offer(self, event: Event) -> None:
        """Queue something that is not urgent, when little waits."""
        while self.weight > _FEW_ROWS and self.problem is None:
            self._taken.clear()
            await self._taken.wait()
        self.put(event)

    def fail(self, problem: Exception) -> None:
        """See `Inbox`."""
        super().fail(problem)
        self.began.set()
        self._taken.set()

    async def take(self) -> Event:
        """See `Inbox`."""
        event = await super().take()
        self._taken.set()
        return event
