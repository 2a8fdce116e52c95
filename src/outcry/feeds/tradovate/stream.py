"""Ticks of one contract from a session: history in order, then live ticks.

The live subscription starts before history is read and buffers new ticks. A tick that is in both is recognised by its
id and sent once.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import numpy as np

from outcry.feeds.clock_skew import MAX_CLOCK_SKEW_NS
from outcry.feeds.inbox import Inbox
from outcry.feeds.seam import BUFFER_LIMIT
from outcry.feeds.tradovate.history import LOOKBACK_NS, covers_start, fetch_windows, sorted_unique
from outcry.feeds.tradovate.tick_subscription import HISTORY_END, TickSubscription
from outcry.feeds.tradovate.vendor_session import TradovateSession
from outcry.market.units import NANOS_PER_MS, NANOS_PER_SECOND
from outcry.trades.feed import (
    LIVE_TRADE,
    CaughtUp,
    Event,
    FeedLost,
    FeedRefused,
    Heartbeat,
    Status,
    Trades,
    VolumeCounter,
)
from outcry.trades.records import Quality, Rows

#: Time limit between two packets of history while the connection is alive.
PACKET_TIMEOUT_S = 30.0
#: A live tick this much later than the last history tick cannot be a duplicate of one.
_SEAM_NS = 10 * NANOS_PER_SECOND


class TradovateStream:
    """The event stream of one contract over a session with Tradovate.

    `turn`: awaited before each request, to space requests; raises `FeedLost` during a pause.
    """

    def __init__(
        self,
        session: TradovateSession,
        name: str,
        number: int,
        turn: Callable[[], Awaitable[None]],
        speedup: float,
    ) -> None:
        self._session, self._name, self._number = session, name, number
        self._turn, self._speedup = turn, speedup

    async def events(self, from_ns: int) -> AsyncGenerator[Event, None]:
        """Yield the events of `Feed.open` from `from_ns` on."""
        chart = TickSubscription(Inbox(BUFFER_LIMIT))
        try:
            await self._subscribe(chart, from_ns - LOOKBACK_NS)
            yield Status(subscribed=True, code="subscribed")
            await self._session.quote(chart, self._name, self._number)
            newest = await self._history(chart)
            if not covers_start(newest, from_ns):
                # the page may have ended within a millisecond
                edge_ns = int(newest["ts_event"].min()) + NANOS_PER_MS
                async with aclosing(fetch_windows(self._page, from_ns, edge_ns)) as older:
                    async for rows in older:
                        yield Trades(rows)
                newest = newest[newest["ts_event"] >= edge_ns]
            rows = newest[newest["ts_event"] >= from_ns]
            if len(rows):
                yield Trades(rows)
            latest_ns = int(rows["ts_event"].max()) if len(rows) else from_ns
            now_ns = self._session.heartbeat_clock.at_ns
            yield CaughtUp(max(now_ns, min(latest_ns, now_ns + MAX_CLOCK_SKEW_NS)), Quality.TICKS)
            async for event in self._live(chart, set(newest["id"].tolist()), latest_ns + _SEAM_NS):
                yield event
        finally:
            await self._session.unsubscribe(chart, self._name)

    async def _live(
        self, chart: TickSubscription, known: set[int], until_ns: int
    ) -> AsyncGenerator[Event, None]:
        """Yield live events without the ticks that were in the history."""
        while True:
            item = await chart.inbox.take()
            if isinstance(item, Trades):
                rows = item.rows
                if known:
                    rows = rows[[number not in known for number in rows["id"].tolist()]]
                    if len(rows) and int(rows["ts_event"].min()) > until_ns:
                        known = set()
                if len(rows):
                    yield Trades(rows)
            elif isinstance(item, Heartbeat | VolumeCounter):
                yield item

    async def _page(self, first_ns: int, last_ns: int) -> Rows:
        """Return the newest ticks between two times (ns UTC)."""
        chart = TickSubscription(Inbox(BUFFER_LIMIT))
        try:
            await self._subscribe(chart, first_ns, last_ns)
            return await self._history(chart)
        finally:
            await self._session.unsubscribe(chart, self._name)

    async def _subscribe(self, chart: TickSubscription, first_ns: int, last_ns: int | None = None) -> None:
        await self._turn()
        if (await self._session.subscribe(chart, self._name, first_ns, last_ns)).withheld:
            # the contract has an id, so it is not unknown but withheld
            text = f"Tradovate offers this user no real-time data of {self._name} through its API"
            raise FeedRefused("not_entitled", text)

    async def _history(self, chart: TickSubscription) -> Rows:
        """Return all ticks up to the end of history, sorted."""
        pieces: list[Rows] = [np.zeros(0, LIVE_TRADE)]
        try:
            while True:
                # not `wait_for`, which may lose a cancellation before Python 3.12
                async with asyncio.timeout(PACKET_TIMEOUT_S / self._speedup):
                    item = await chart.inbox.take()
                if item is HISTORY_END:
                    break
                if isinstance(item, Trades):
                    pieces.append(item.rows)
        except TimeoutError:
            raise FeedLost("vendor_error", "Tradovate did not finish sending history") from None
        return sorted_unique(np.concatenate(pieces))
