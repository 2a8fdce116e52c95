"""The queue of one tick-by-tick subscription.

It works like `feeds.inbox`, but low-priority events are queued only while few rows wait.
"""

import asyncio

import numpy as np

from outcry.feeds.ibkr.tws import Tick
from outcry.feeds.inbox import Inbox
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import LIVE_TRADE, Event, FeedLost, Heartbeat, RowFlag, Status, Trades
from outcry.trades.records import Rows

#: Limit on rows that wait for their reader.
MAX_ROWS = 200_000
#: Low-priority events wait until fewer rows than this are queued.
_FEW_ROWS = 20_000


class NoSubscriptionFree(Exception):
    """All tick-by-tick subscriptions of the account are in use."""


def rows_of(ticks: list[Tick], received_ns: int, flags: RowFlag) -> Rows:
    """Convert ticks to `LIVE_TRADE` rows, without the aggressor side, which the vendor does not send."""
    rows = np.zeros(len(ticks), LIVE_TRADE)
    if ticks:
        times, prices, sizes = zip(*ticks, strict=True)
        rows["ts_event"] = np.array(times, np.int64) * NANOS_PER_SECOND
        rows["price"], rows["size"] = prices, sizes
    rows["ts_recv"], rows["side"], rows["flags"] = received_ns, b"N", int(flags)
    return rows


class TickSubscription(Inbox[Event]):
    """Queue of events of one tick-by-tick subscription, filled by the session with TWS and read by one stream."""

    def __init__(self, request: int) -> None:
        super().__init__()
        self.request = request
        #: Set once anything was received.
        self.began = asyncio.Event()
        #: Whether trades may be missing since the last interruption.
        self.doubtful = False
        self._ticks: list[Tick] = []
        self._taken = asyncio.Event()

    def add(self, tick: Tick) -> None:
        """Add a trade. The reader receives it after `flush`."""
        self._ticks.append(tick)

    def flush(self, received_ns: int) -> None:
        """Queue the added trades as one batch."""
        if self._ticks:
            rows = rows_of(self._ticks, received_ns, RowFlag(0))
            self._ticks = []
            self.put(Trades(rows))

    def put(self, item: Event) -> None:
        """Queue an event. Above the limit the subscription ends, but events already queued stay readable."""
        super().put(item)
        if self.weight > MAX_ROWS:
            self.fail(
                FeedLost("seam_overflow", f"more than {MAX_ROWS:,} trades were waiting to be processed")
            )
        if not isinstance(item, Heartbeat):
            self.began.set()

    def mark_doubtful(self, why: Status) -> None:
        """Queue a status that reports that trades may be missing. why: this status, with the reason."""
        self.doubtful = True
        self.put(why)

    async def offer(self, event: Event) -> None:
        """Queue a low-priority event after waiting until few rows are queued."""
        while self.weight > _FEW_ROWS and self.problem is None:
            self._taken.clear()
            await self._taken.wait()
        self.put(event)

    def fail(self, problem: Exception) -> None:
        """End the queue with an error; only the first error counts."""
        super().fail(problem)
        self.began.set()
        self._taken.set()

    async def take(self) -> Event:
        """Wait for the oldest event. Raises the error that ended the queue once no event waits."""
        event = await super().take()
        self._taken.set()
        return event
