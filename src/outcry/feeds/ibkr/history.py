"""History of a contract: one-minute bars first, because they load fast, then trades that replace the bars.

Trade times are whole seconds, and a page of trades contains all trades of its last second. The next page therefore
starts one second later, so no trade is duplicated or lost. Bars and trades never cover the same time.
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

#: Longest stretch loaded as trades before the stream is live.
TICKS_NS = 10 * NANOS_PER_MINUTE
#: Trades per request, the vendor's maximum.
PAGE = 1000
#: Length of bars per request; the vendor limits their number to a few thousand.
_DURATION = "1 D"
_DAY_S = 86_400
#: After this many bars in a row without trades in history, the vendor has none.
_MOST_EMPTY = 3


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """How to load history: trades, then bars, then trades again.

    History reaches from `since_ns` to the cut, the time at which live trades take over (ns UTC). Bars cover
    `bars_from_ns` to `bars_to_ns`, at full minutes; these are equal if there are no bars.
    """

    since_ns: int
    bars_from_ns: int
    bars_to_ns: int
    cut_ns: int

    @property
    def quality(self) -> Quality:
        """Return the lowest data quality in the plan: bars if it has any, else trades."""
        return Quality.BARS_1M if self.bars_from_ns < self.bars_to_ns else Quality.TICKS


def plan_history(since_ns: int, cut_ns: int) -> HistoryPlan:
    """Return how to load history from `since_ns` to the cut.

    Bars start some seconds after `since_ns`. For these first seconds trades are loaded, because the reader may have
    some of them already.
    """
    first_ns = -(-(since_ns + OVERLAP_NS) // NANOS_PER_MINUTE) * NANOS_PER_MINUTE
    last_ns = cut_ns // NANOS_PER_MINUTE * NANOS_PER_MINUTE
    if cut_ns - since_ns <= TICKS_NS or first_ns >= last_ns:
        first_ns = last_ns = cut_ns
    return HistoryPlan(since_ns, first_ns, last_ns, cut_ns)


class History:
    """Loads the history of one contract over one connection to TWS."""

    def __init__(
        self, session: IbkrSession, found: IbContractDetails, limiter: HistoryRequestLimiter, clock: Clock
    ) -> None:
        self._session, self._found, self._limiter, self._clock = session, found, limiter, clock

    async def pages(self, plan: HistoryPlan) -> AsyncGenerator[Trades | Bars, None]:
        """Yield all history before the cut, in order of time.

        The cut is the time at which live trades take over from history.
        """
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
        """Return the trades from `at_s` to before `end_s`, as far as one page goes.

        Also return the second at which the next page starts (`end_s` at the end).
        """
        await self._limiter.trades(urgent=urgent)
        page = await self._session.ticks(self._found, _stamp(at_s), PAGE)
        ticks = sorted((tick for tick in page if at_s <= tick[0] < end_s), key=lambda tick: tick[0])
        beyond = any(tick[0] >= end_s for tick in page)
        return ticks, end_s if beyond or not ticks else ticks[-1][0] + 1

    def _rows(self, ticks: list[Tick]) -> Rows:
        return rows_of(ticks, self._clock.now_ns(), RowFlag.BACKFILL)

    async def _bars(self, from_ns: int, to_ns: int) -> Rows:
        """Return one-minute bars that begin from `from_ns` to before `to_ns` (ns UTC).

        A request for one day of bars may reach back more than 24 hours, for example over a weekend. So requests are
        repeated until `from_ns` is reached.
        """
        from_s, to_s = from_ns // NANOS_PER_SECOND, to_ns // NANOS_PER_SECOND
        found: dict[int, Bar] = {}
        end_s = to_s
        while end_s > from_s:
            await self._limiter.bars()
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
        """Yield trades that replace bars, oldest first, in batches of full minutes.

        starts: begin of each minute to replace (ns UTC); replaced minutes are removed from the list.
        """
        buffered: list[Tick] = []
        begin_ns, empty = 0, 0
        while starts and empty < _MOST_EMPTY:
            end_ns = starts[-1] + NANOS_PER_MINUTE
            if not buffered:
                begin_ns = starts[0]
            at_s = (buffered[-1][0] + 1) if buffered else begin_ns // NANOS_PER_SECOND
            ticks, on_s = await self._page(at_s, end_ns // NANOS_PER_SECOND, urgent=False)
            buffered += ticks
            whole_ns = on_s * NANOS_PER_SECOND // NANOS_PER_MINUTE * NANOS_PER_MINUTE
            if not ticks and not buffered:  # no trades, although the bar has volume
                starts.pop(0)
                empty += 1
                continue
            if not ticks:  # a pause in trading follows
                whole_ns = (buffered[-1][0] * NANOS_PER_SECOND // NANOS_PER_MINUTE + 1) * NANOS_PER_MINUTE
            empty = 0
            if whole_ns > begin_ns:
                done = [tick for tick in buffered if tick[0] * NANOS_PER_SECOND < whole_ns]
                buffered = buffered[len(done) :]
                if done:
                    yield Replaced(begin_ns, whole_ns, self._rows(done))
                begin_ns = whole_ns
                starts[:] = [start for start in starts if start >= whole_ns]


def _stamp(at_s: int) -> str:
    """Format a time (s UTC) as requests to TWS need it."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y%m%d %H:%M:%S UTC")
