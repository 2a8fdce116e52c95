"""History of a contract: bars of a minute first, so that it is there soon, then trades from the overnight under way on.

Rules kept: trades are stamped with whole seconds, and a page holds its last second whole, so the next page begins a
second later and none is sent twice or left out; a bar and a trade never tell of the same time.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from outcry.base.clock import Clock
from outcry.feeds.ibkr.contracts import IbContractDetails
from outcry.feeds.ibkr.request_limiter import HistoryRequestLimiter
from outcry.feeds.ibkr.tick_subscription import rows_of
from outcry.feeds.ibkr.tws import Bar, Tick
from outcry.feeds.ibkr.vendor_session import IbkrSession
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND
from outcry.trades.feed import OVERLAP_NS, Bars, Replaced, RowFlag, Trades
from outcry.trades.records import BAR, Quality, Rows

#: No more time than this is brought trade by trade before the answer is live.
TICKS_NS = 10 * NANOS_PER_MINUTE
#: Trades asked for in one request: the most there are.
PAGE = 1000
#: Days of bars asked for at once: few thousand bars may be.
_DURATION = "1 D"
_DAY_S = 86_400
#: Minutes running for which bars tell of trade and no trades are to be had: then there are none.
_MOST_EMPTY = 3


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """How the time from `since_ns` to a cut is brought: trades up to `bars_from_ns`, bars up to `bars_to_ns`, then
    trades. Edges of minutes; equal where there are no bars."""

    since_ns: int
    bars_from_ns: int
    bars_to_ns: int
    cut_ns: int

    @property
    def quality(self) -> Quality:
        """The worst of what is brought."""
        return Quality.BARS_1M if self.bars_from_ns < self.bars_to_ns else Quality.TICKS


def plan_history(since_ns: int, cut_ns: int) -> HistoryPlan:
    """How to bring a stretch of time. What lies just after `since_ns` may be known trade by trade, and no bar may tell
    of it again."""
    first_ns = -(-(since_ns + OVERLAP_NS) // NANOS_PER_MINUTE) * NANOS_PER_MINUTE
    last_ns = cut_ns // NANOS_PER_MINUTE * NANOS_PER_MINUTE
    if cut_ns - since_ns <= TICKS_NS or first_ns >= last_ns:
        first_ns = last_ns = cut_ns
    return HistoryPlan(since_ns, first_ns, last_ns, cut_ns)


class History:
    """Asks one session for a contract's history."""

    def __init__(
        self, session: IbkrSession, found: IbContractDetails, pace: HistoryRequestLimiter, clock: Clock
    ) -> None:
        self._session, self._found, self._pace, self._clock = session, found, pace, clock

    async def bring(self, plan: HistoryPlan) -> AsyncGenerator[Trades | Bars, None]:
        """All before the cut, in order of time."""
        async for page in self._trades(plan.since_ns, plan.bars_from_ns):
            yield page
        if plan.quality is not Quality.TICKS:
            rows = await self._bars(plan.bars_from_ns, plan.bars_to_ns)
            yield Bars(rows, Quality.BARS_1M, backfill=True)
            async for page in self._trades(plan.bars_to_ns, plan.cut_ns):
                yield page

    async def _trades(self, from_ns: int, to_ns: int) -> AsyncIterator[Trades]:
        at_s, end_s = -(-from_ns // NANOS_PER_SECOND), -(-to_ns // NANOS_PER_SECOND)
        while at_s < end_s:
            ticks, at_s = await self._page(at_s, end_s, urgent=True)
            if ticks:
                yield Trades(self._rows(ticks))

    async def _page(self, at_s: int, end_s: int, *, urgent: bool) -> tuple[list[Tick], int]:
        """Trades from a second on, those before `end_s`; and the second from which to go on, `end_s` for none."""
        await self._pace.trades(urgent=urgent)
        page = await self._session.ticks(self._found, _stamp(at_s), PAGE)
        ticks = sorted((tick for tick in page if at_s <= tick[0] < end_s), key=lambda tick: tick[0])
        beyond = any(tick[0] >= end_s for tick in page)
        return ticks, end_s if beyond or not ticks else ticks[-1][0] + 1

    def _rows(self, ticks: list[Tick]) -> Rows:
        return rows_of(ticks, self._clock.now_ns(), RowFlag.BACKFILL)

    async def _bars(self, from_ns: int, to_ns: int) -> Rows:
        """Bars that begin in a stretch of time. How far back a day reaches is the vendor's to say (over a weekend, it
        may be further than 24 hours), so it is asked again until the beginning is reached."""
        from_s, to_s = from_ns // NANOS_PER_SECOND, to_ns // NANOS_PER_SECOND
        found: dict[int, Bar] = {}
        end_s = to_s
        while end_s > from_s:
            await self._pace.bars()
            bars = await self._session.bars(self._found, _stamp(end_s), _DURATION)
            found.update((bar[0], bar) for bar in bars if from_s <= bar[0] < to_s and bar[5] > 0)
            end_s = min(
                [end_s - _DAY_S] if not bars else [bar[0] for bar in bars if bar[0] < end_s] or [from_s]
            )
        rows = np.zeros(len(found), BAR)
        for at, start_s in enumerate(sorted(found)):
            rows[at] = (start_s * NANOS_PER_SECOND, *found[start_s][1:])
        return rows

    async def refined(self, starts: list[int]) -> AsyncIterator[Replaced]:
        """Trades in the place of bars, oldest first, in pieces that end with a minute. starts: of the minutes (ns);
        those that were sent are taken from the list."""
        held: list[Tick] = []
        begin_ns, empty = 0, 0
        while starts and empty < _MOST_EMPTY:
            end_ns = starts[-1] + NANOS_PER_MINUTE
            if not held:
                begin_ns = starts[0]
            at_s = (held[-1][0] + 1) if held else begin_ns // NANOS_PER_SECOND
            ticks, on_s = await self._page(at_s, end_ns // NANOS_PER_SECOND, urgent=False)
            held += ticks
            whole_ns = on_s * NANOS_PER_SECOND // NANOS_PER_MINUTE * NANOS_PER_MINUTE
            if not ticks and not held:  # none for a bar that told of some
                starts.pop(0)
                empty += 1
                continue
            if not ticks:  # no more before a pause in trading
                whole_ns = (held[-1][0] * NANOS_PER_SECOND // NANOS_PER_MINUTE + 1) * NANOS_PER_MINUTE
            empty = 0
            if whole_ns > begin_ns:
                done = [tick for tick in held if tick[0] * NANOS_PER_SECOND < whole_ns]
                held = held[len(done) :]
                if done:
                    yield Replaced(begin_ns, whole_ns, self._rows(done))
                begin_ns = whole_ns
                starts[:] = [start for start in starts if start >= whole_ns]


def _stamp(at_s: int) -> str:
    """An instant as TWS reads it."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y%m%d %H:%M:%S UTC")
