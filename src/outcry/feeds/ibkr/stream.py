"""The stream of one contract: history up to a cut, then live trades. Later, trades replace the bars of history.

The cut is the time at which live trades take over from history. The stream subscribes before it requests history. The
cut is a whole second, at least one second after the subscription by TWS's clock, which follows the vendor's servers.
Bars are loaded first, so that the stream is live soon.
"""

import asyncio
from collections.abc import AsyncGenerator

from outcry.base.tasks import BackgroundTasks, is_set_within
from outcry.feeds.ibkr.contracts import IbContractDetails, trade_date_start_ns
from outcry.feeds.ibkr.history import History, plan_history
from outcry.feeds.ibkr.tick_subscription import TickSubscription
from outcry.feeds.ibkr.vendor_session import LAG_NS, IbkrSession
from outcry.feeds.seam import join_history_and_live
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import Bars, CaughtUp, Event, FeedLost, Status, Trades

#: A subscription not refused within this time is accepted. TWS confirms it only by the first trade.
SETTLE_S = 1.0
#: Pause after a history request that exceeded the rate limit.
REST_S = 60.0
#: Interval between two requests for TWS's time while waiting for the cut (s).
_LOOK_S = 1.0
#: Time from the subscription to the cut.
_CUT_NS = 2 * NANOS_PER_SECOND


class Stream:
    """The event stream of one contract over one connection to TWS.

    owed: minutes (ns UTC) for which only bars were received and trades are still to come; updated in place.
    """

    def __init__(
        self,
        session: IbkrSession,
        found: IbContractDetails,
        history: History,
        owed: list[int],
        speedup: float,
    ) -> None:
        self._session, self._found, self._history = session, found, history
        self._owed, self._speedup = owed, speedup
        self._tws_time_ns = 0
        self._since_ns = 0
        self._plan = plan_history(0, 0)

    async def events(self, since_ns: int, answered_ns: int) -> AsyncGenerator[Event, None]:
        """Subscribe and yield events from `since_ns` on; later, trades replace the bars since `answered_ns` (ns UTC).

        If `answered_ns` is 0, trades replace bars from the beginning of the vendor's trade date. Raises
        `NoSubscriptionFree` and the errors of `Feed.open`.
        """
        self._since_ns = since_ns
        channel = self._session.subscribe(self._found)
        refining = BackgroundTasks()
        try:
            async for event in join_history_and_live(
                self._before, self._live(channel), lambda: self._tws_time_ns + _CUT_NS
            ):
                if not isinstance(event, CaughtUp):
                    yield event
                    continue
                yield CaughtUp(event.at_ns, self._plan.quality)
                began = answered_ns or trade_date_start_ns(self._found, event.at_ns)
                self._owed[:] = [start for start in self._owed if start >= began]
                refining.start("tws refining", self._refine(channel))
        finally:
            await refining.stop()
            self._session.unsubscribe(channel)

    async def _live(self, channel: TickSubscription) -> AsyncGenerator[Event, None]:
        await self._settled(channel)
        self._tws_time_ns = await self._session.now_ns()
        yield Status(subscribed=True, code="subscribed")
        while True:
            yield await channel.take()

    async def _settled(self, channel: TickSubscription) -> None:
        """Wait until TWS has had time to refuse the subscription. Raises the error of a refusal."""
        if await is_set_within(channel.began, SETTLE_S / self._speedup):
            channel.check()

    async def _before(self, cut_ns: int) -> AsyncGenerator[Trades | Bars, None]:
        """Yield history before the cut, after waiting until the cut has passed and earlier trades have arrived."""
        self._plan = plan_history(self._since_ns, cut_ns)
        while await self._session.now_ns() < cut_ns + LAG_NS:
            await asyncio.sleep(_LOOK_S / self._speedup)
        async for page in self._history.pages(self._plan):
            yield page
            if isinstance(page, Bars):
                self._owed[:] = sorted({*self._owed, *page.rows["ts_event"].tolist()})

    async def _refine(self, channel: TickSubscription) -> None:
        """Replace bars by trades until all are replaced or no more trades are available.

        After an error the bars stay.
        """
        while self._owed:
            try:
                async for batch in self._history.refined(self._owed):
                    await channel.offer(batch)
                self._owed.clear()
            except FeedLost as problem:
                if problem.code != "rate_limited":
                    return
                await asyncio.sleep(REST_S / self._speedup)
