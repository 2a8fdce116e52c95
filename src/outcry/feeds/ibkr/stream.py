"""One stream of one contract: history up to a cut, then what comes, and trades in the place of bars while it does.

Rules kept: trades are asked for before history, and the cut between the two is a whole second at least one after the
subscription, by the clock of TWS, which keeps that of the vendor's servers; bars come first, so that the answer is live
soon.
"""

import asyncio
from collections.abc import AsyncGenerator

from outcry.feeds.ibkr.contracts import IbContractDetails, trade_date_start_ns
from outcry.feeds.ibkr.history import History, plan_history
from outcry.feeds.ibkr.tick_subscription import TickSubscription
from outcry.feeds.ibkr.vendor_session import LAG_NS, IbkrSession
from outcry.feeds.seam import join_history_and_live
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import Bars, CaughtUp, Event, FeedLost, Status, Trades

#: A subscription is refused soon or stands: TWS does not say so, but by the first trade.
SETTLE_S = 1.0
#: After which history is asked for again that was asked for too fast.
REST_S = 60.0
#: TWS is asked this often whether the cut has come.
_LOOK_S = 1.0
#: The cut lies this long after the subscription stood.
_CUT_NS = 2 * NANOS_PER_SECOND


class Stream:
    """A stream on one session. owed: minutes that only bars have told of, kept for as long as there are any."""

    def __init__(
        self, session: IbkrSession, found: IbContractDetails, history: History, owed: list[int], rush: float
    ) -> None:
        self._session, self._found, self._history = session, found, history
        self._owed, self._rush = owed, rush
        self._told_ns = 0
        self._since_ns = 0
        self._plan = plan_history(0, 0)

    async def events(self, since_ns: int, answered_ns: int) -> AsyncGenerator[Event, None]:
        """Subscribe, and send all from an instant on; trades in the place of bars from `answered_ns` on (0: from the
        beginning of the vendor's trade date). Raises `NoLineFree` beside what the port says."""
        self._since_ns = since_ns
        channel = self._session.subscribe(self._found)
        refining: asyncio.Task[None] | None = None
        try:
            async for event in join_history_and_live(
                self._before, self._live(channel), lambda: self._told_ns + _CUT_NS
            ):
                if not isinstance(event, CaughtUp):
                    yield event
                    continue
                yield CaughtUp(event.at_ns, self._plan.quality)
                began = answered_ns or trade_date_start_ns(self._found, event.at_ns)
                self._owed[:] = [start for start in self._owed if start >= began]
                refining = asyncio.create_task(self._refine(channel))
        finally:
            if refining is not None:
                refining.cancel()
                await asyncio.wait({refining})
            self._session.unsubscribe(channel)

    async def _live(self, channel: TickSubscription) -> AsyncGenerator[Event, None]:
        await self._settled(channel)
        self._told_ns = await self._session.now_ns()
        yield Status(subscribed=True, code="subscribed")
        while True:
            yield await channel.take()

    async def _settled(self, channel: TickSubscription) -> None:
        """Wait until a subscription stands, as far as can be known. Raises what it was refused with."""
        try:
            async with asyncio.timeout(SETTLE_S / self._rush):
                await channel.began.wait()
        except TimeoutError:
            return
        channel.check()

    async def _before(self, cut_ns: int) -> AsyncGenerator[Trades | Bars, None]:
        """History, once the cut is past and what was traded before it has arrived."""
        self._plan = plan_history(self._since_ns, cut_ns)
        while await self._session.now_ns() < cut_ns + LAG_NS:
            await asyncio.sleep(_LOOK_S / self._rush)
        async for page in self._history.bring(self._plan):
            yield page
            if isinstance(page, Bars):
                self._owed[:] = sorted({*self._owed, *page.rows["ts_event"].tolist()})

    async def _refine(self, channel: TickSubscription) -> None:
        """Send trades for bars, until all are sent or none are to be had. What goes wrong here takes nothing away: the
        bars stay."""
        while self._owed:
            try:
                async for piece in self._history.refined(self._owed):
                    await channel.offer(piece)
                self._owed.clear()
            except FeedLost as problem:
                if problem.code != "rate_limited":
                    return
                await asyncio.sleep(REST_S / self._rush)
