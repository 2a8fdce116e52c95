"""Stream of one contract: its history, as detailed as the server has it, then live trades.

The stream requests candles (one-minute bars) first. From their counts it derives how far back it can request sales (the
vendor's list of trades). If the server has these past sales, the stream sends them as trades; for earlier minutes it
sends candles.

If the server has no past sales, the stream sends one-minute bars of completed minutes. It reports the time since the
last of these bars as a gap. Candles fill the gap once their minutes are over, even if some of the trades are known.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

from outcry.base.clock import Clock
from outcry.feeds.clock_skew import limit_clock_skew
from outcry.feeds.stream_channel import DeliveryLag
from outcry.feeds.tastytrade.channel import FeedChannel
from outcry.feeds.tastytrade.dxlink import DxLinkConnection
from outcry.feeds.tastytrade.events import CANDLE, SALE
from outcry.feeds.tastytrade.series import MAX_SALES, MAX_SENT_IDS, CandleSeries, SaleSeries
from outcry.feeds.tastytrade.symbols import Future
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_MS, NANOS_PER_SECOND
from outcry.trades.feed import (
    OVERLAP_NS,
    Bars,
    CaughtUp,
    Cursor,
    Event,
    FeedLost,
    Gap,
    Heartbeat,
    Repaired,
    Status,
    Trades,
)
from outcry.trades.records import Quality, Rows

#: Time limits (s) for the history of sales to start, if the server is not known to have one and if it is. The last one
#: is the limit for any response.
UNKNOWN_HISTORY_S, KNOWN_HISTORY_S, RESPONSE_TIMEOUT_S = 3.0, 30.0, 45.0
#: Time limit of the whole history, in seconds.
HISTORY_TIMEOUT_S = 900.0
HEARTBEAT_S = 2.0
#: Rows of history sent at a time.
BATCH_ROWS = 20_000
#: Maximum lead of the vendor's clock over ours, and how long a candle may change after its end.
_AHEAD_NS, _SETTLING_NS = 5 * NANOS_PER_SECOND, 5 * NANOS_PER_SECOND
#: Send bars from this long before the cursor again: some were owed when the connection broke; duplicates are dropped.
_REPEATED_NS = 3 * NANOS_PER_MINUTE


@dataclass(slots=True)
class HistorySupport:
    """Whether the server was observed to send past sales (time and sales), not only live ones."""

    seen: bool = False


class TastytradeStream:
    """The event stream of one contract from a cursor on, read from the contract's dxLink channel."""

    def __init__(
        self,
        channel: FeedChannel,
        connection: DxLinkConnection,
        future: Future,
        clock: Clock,
        sent: deque[int],
        grant: HistorySupport,
        since: Cursor,
        reach_ns: int,
    ) -> None:
        self._channel, self._connection, self._clock = channel, connection, clock
        self._symbol, self._sent_ids, self._history_support = future.symbol, sent, grant
        self._timeouts = connection.timeouts
        now_ns = clock.now_ns()
        self._since_ns = max(since.since_ns, now_ns - reach_ns)
        self._missing_from_ns = since.since_ns if since.since_ns < self._since_ns else None
        self._first_minute_ns = _minute_floor(self._since_ns) - _REPEATED_NS
        candles = {"type": CANDLE, "symbol": future.symbol + "{=1m}"}
        self._candle_series = {**candles, **_from(self._first_minute_ns)}
        self._ticks_ns = self._since_ns
        self._sales = SaleSeries(future.scale, clock, sent, self._since_ns)
        self._candles = CandleSeries(future.scale)
        #: Span of minutes whose bars are still owed.
        self._owed_minutes: tuple[int, int] | None = None
        self._lag = DeliveryLag()
        self._heartbeat_s = 0.0
        self._confirmed = False

    async def events(self) -> AsyncGenerator[Event]:
        """Yield the history, then live trades without end. Raises `FeedLost`."""
        async with aclosing(self._gather()) as gathering:
            async for event in gathering:
                yield event
        if self._missing_from_ns is not None:
            yield Gap(self._missing_from_ns, self._since_ns, "not_kept")
        for event in self._past():
            yield event
        async with aclosing(self._live()) as events:
            async for event in events:
                yield event

    # -- history

    async def _gather(self) -> AsyncGenerator[Event]:
        """Collect the candles, then the sales, until both are complete or the server evidently has no past sales."""
        await self._channel.add([self._candle_series])
        async with aclosing(self._until(lambda _: self._candles.whole)) as waiting:
            async for event in waiting:
                yield event
        self._ticks_ns = max(self._since_ns, self._candles.reached_by(MAX_SALES))
        await self._channel.add([{"type": SALE, "symbol": self._symbol, **_from(self._ticks_ns)}])
        async with aclosing(self._until(self._decided)) as waiting:
            async for event in waiting:
                yield event

    async def _until(self, met: Callable[[float], bool]) -> AsyncGenerator[Event]:
        """Collect events until `met` returns true; it is called with the seconds waited.

        Meanwhile report the status of the subscription. Raises `FeedLost` if nothing arrives.
        """
        loop = asyncio.get_running_loop()
        began_s = received_at_s = loop.time()
        while not met(loop.time() - began_s):
            if await self._take():
                received_at_s = loop.time()
                if not self._confirmed:
                    self._confirmed = True
                    yield Status(subscribed=True, code="subscribed")
            if self._heartbeat_due():
                yield Status(subscribed=True, code="subscribed")
            if loop.time() - received_at_s > self._timeouts.s(RESPONSE_TIMEOUT_S):
                raise FeedLost("vendor_error", "dxLink sent no history")
            if loop.time() - began_s > self._timeouts.s(HISTORY_TIMEOUT_S):
                raise FeedLost("protocol", "dxLink did not finish sending history")

    def _decided(self, waited_s: float) -> bool:
        """Return whether the stream knows if the server has past sales.

        It knows when the past sales are complete, or when none started to arrive in time.
        """
        doubt_s = self._timeouts.s(KNOWN_HISTORY_S if self._history_support.seen else UNKNOWN_HISTORY_S)
        return self._sales.whole or (not self._sales.begun and waited_s > doubt_s)

    def _past(self) -> Iterator[Event]:
        """Yield the history as trades if the server has a history of sales, else as bars."""
        if not self._sales.whole:
            return self._by_bars()
        rows, over_ns = self._sales.past(), _minute_floor(self._clock.now_ns() - _SETTLING_NS)
        oldest_ns = int(rows["ts_event"][0]) if len(rows) else over_ns
        lacks = len(self._candles.between(_minute_ceil(self._ticks_ns), _minute_floor(oldest_ns))) > 0
        from_ns = oldest_ns if lacks or self._sales.short else self._ticks_ns
        if from_ns > self._since_ns and (not len(rows) or _minute_ceil(from_ns) > over_ns):
            return self._by_bars()  # the sales do not cover any completed minute
        return self._by_trades(rows, from_ns)

    def _by_trades(self, rows: Rows, from_ns: int) -> Iterator[Event]:
        """Yield the history as trades from `from_ns` on, after bars for any earlier time requested."""
        older = from_ns > self._since_ns
        if older:
            edge_ns = _minute_ceil(from_ns)
            rows = rows[rows["ts_event"] >= edge_ns]
            yield from self._bars_between(self._first_minute_ns, edge_ns)
        for at in range(0, len(rows), BATCH_ROWS):
            yield self._trades(rows[at : at + BATCH_ROWS])
        yield from self._sales.amends
        newest_ns = limit_clock_skew(int(rows["ts_event"][-1]) if len(rows) else 0, self._clock)
        yield CaughtUp(max(newest_ns, self._complete_until_ns()), Quality.BARS_1M if older else Quality.TICKS)

    def _by_bars(self) -> Iterator[Event]:
        """Yield the history as bars of completed minutes, then a gap until live sales arrive."""
        now_ns = self._clock.now_ns()
        over_ns = max(_minute_floor(now_ns - _SETTLING_NS), self._first_minute_ns)
        newest_ns = limit_clock_skew(self._candles.newest_ns, self._clock)
        whole_ns = _minute_ceil(max(now_ns, newest_ns) + _AHEAD_NS)
        yield from self._bars_between(self._first_minute_ns, over_ns)
        yield Gap(over_ns, now_ns, "reconnect")
        self._owed_minutes = (over_ns, whole_ns)
        yield CaughtUp(self._complete_until_ns(), Quality.BARS_1M)

    def _bars_between(self, from_ns: int, to_ns: int) -> Iterator[Event]:
        oldest_ns = self._candles.oldest_ns
        if self._candles.short and oldest_ns is not None and from_ns < oldest_ns:
            yield Gap(from_ns, min(oldest_ns, to_ns), "not_kept")
        rows = self._candles.between(from_ns, to_ns)
        if len(rows):
            yield Bars(rows, Quality.BARS_1M, backfill=True)

    def _fill_owed_minutes(self) -> Iterator[Event]:
        """Yield the bars that fill the gap after history once their minutes are over, and report the gap as filled."""
        if self._owed_minutes is None or self._clock.now_ns() < self._owed_minutes[1] + _SETTLING_NS:
            return
        yield from self._bars_between(*self._owed_minutes)
        yield Repaired(self._first_minute_ns, self._owed_minutes[1])
        self._owed_minutes = None

    def _complete_until_ns(self) -> int:
        """Return the time (ns UTC) up to which the history is complete."""
        now_ns = self._clock.now_ns()
        return max(self._lag.before(now_ns), min(self._since_ns + OVERLAP_NS, now_ns))

    # -- live

    async def _live(self) -> AsyncGenerator[Event]:
        candles = True
        while True:
            rows, amends = self._sales.live()
            if len(rows):
                self._lag.record(int(rows["ts_recv"][-1]), int(rows["ts_event"].min()))
                yield self._trades(rows)
            for amend in amends:
                yield amend
            for event in self._fill_owed_minutes():
                yield event
            if candles and self._owed_minutes is None:
                await self._channel.remove([self._candle_series])
                candles = False
            if self._heartbeat_due():
                yield Heartbeat(self._lag.before(self._clock.now_ns()))
            await self._take()

    def _trades(self, rows: Rows) -> Trades:
        self._sent_ids.extend(rows["id"][-MAX_SENT_IDS:].tolist())
        return Trades(rows)

    async def _take(self) -> bool:
        """Process the received events; return whether there were any.

        If there are none, wait for events for a fraction of a heartbeat.
        """
        taken = await self._channel.take(self._timeouts.s(HEARTBEAT_S) / 4)
        try:
            for kind, event in taken:
                if kind == SALE:
                    self._sales.receive(event)
                elif kind == CANDLE:
                    self._candles.receive(event)
        finally:
            self._history_support.seen = self._history_support.seen or self._sales.begun
        return bool(taken)

    def _heartbeat_due(self) -> bool:
        """Return whether a heartbeat is due and the connection is alive."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._heartbeat_s < self._timeouts.s(HEARTBEAT_S) or not self._connection.alive:
            return False
        self._heartbeat_s = now_s
        return True


def _from(at_ns: int) -> dict[str, int]:
    return {"fromTime": at_ns // NANOS_PER_MS}


def _minute_floor(at_ns: int) -> int:
    return at_ns - at_ns % NANOS_PER_MINUTE


def _minute_ceil(at_ns: int) -> int:
    return _minute_floor(at_ns + NANOS_PER_MINUTE - 1)
