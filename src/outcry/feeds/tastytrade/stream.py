"""One contract's stream: its past by whatever the server keeps, then what is traded now.

Rules kept: candles are asked for first, and by their counts as many sales as are not too many, with their past; where
the server has it, history is trades, and one subscription gives both. It is believed as far back as candles do not tell
of older trades. Where there is none, history is one-minute candles, of minutes that are over. What was traded since the
last of them and before sales came is a gap, which the candles of those minutes fill when they are over in turn: they
tell of all of their time, also where trades of it are known.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

from outcry.base.clock import Clock
from outcry.feeds.clock_skew import limit_clock_skew
from outcry.feeds.stream_channel import DeliveryLag
from outcry.feeds.tastytrade.channel import Channel
from outcry.feeds.tastytrade.dxlink import Connection
from outcry.feeds.tastytrade.events import CANDLE, SALE
from outcry.feeds.tastytrade.series import MOST_ASKED, MOST_SENT, Candles, Sales
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

#: How long to wait, in seconds, for a past of sales to begin, where it is not known that the server keeps one, and
#: where it is; and for anything at all of what was asked for.
DOUBT_S, TRUST_S, PATIENCE_S = 3.0, 30.0, 45.0
#: How long all of it may take.
LONGEST_S = 900.0
BEAT_S = 2.0
#: Rows of history sent at a time.
PIECE = 20_000
#: How far the vendor's clock may be ahead of ours, and how long a candle may change after its end.
_AHEAD_NS, _SETTLE_NS = 5 * NANOS_PER_SECOND, 5 * NANOS_PER_SECOND
#: Bars are told from so much before what is asked for: those owed when the link broke; known ones are recognised.
_AGAIN_NS = 3 * NANOS_PER_MINUTE


@dataclass(slots=True)
class Grant:
    """Whether the server keeps a past of sales, as far as it has shown."""

    seen: bool = False


class Stream:
    """Reads one channel, from a cursor on."""

    def __init__(
        self,
        channel: Channel,
        connection: Connection,
        future: Future,
        clock: Clock,
        sent: deque[int],
        grant: Grant,
        since: Cursor,
        reach_ns: int,
    ) -> None:
        self._channel, self._connection, self._clock = channel, connection, clock
        self._symbol, self._sent_ids, self._grant = future.symbol, sent, grant
        self._pace = connection.pace
        now_ns = clock.now_ns()
        self._since_ns = max(since.since_ns, now_ns - reach_ns)
        self._lost_ns = since.since_ns if since.since_ns < self._since_ns else None
        self._first_minute_ns = _edge_before(self._since_ns) - _AGAIN_NS
        candles = {"type": CANDLE, "symbol": future.symbol + "{=1m}"}
        self._candle_series = {**candles, **_from(self._first_minute_ns)}
        self._ticks_ns = self._since_ns
        self._sales = Sales(future.scale, clock, sent, self._since_ns)
        self._candles = Candles(future.scale)
        #: The minutes whose bars are still to be sent.
        self._owed: tuple[int, int] | None = None
        self._lag = DeliveryLag()
        self._beaten_s = 0.0
        self._stands = False

    async def events(self) -> AsyncGenerator[Event]:
        """History, then what is traded now, without end. Raises `FeedLost`."""
        async with aclosing(self._gather()) as gathering:
            async for event in gathering:
                yield event
        if self._lost_ns is not None:
            yield Gap(self._lost_ns, self._since_ns, "not_kept")
        for event in self._past():
            yield event
        async with aclosing(self._live()) as living:
            async for event in living:
                yield event

    # -- the past

    async def _gather(self) -> AsyncGenerator[Event]:
        """Take in the candles, then the sales of as long as there are not too many; until both are whole, or it is
        known that there is no past of sales."""
        await self._channel.add([self._candle_series])
        async with aclosing(self._until(lambda _: self._candles.whole)) as waiting:
            async for event in waiting:
                yield event
        self._ticks_ns = max(self._since_ns, self._candles.reached_by(MOST_ASKED))
        await self._channel.add([{"type": SALE, "symbol": self._symbol, **_from(self._ticks_ns)}])
        async with aclosing(self._until(self._decided)) as waiting:
            async for event in waiting:
                yield event

    async def _until(self, met: Callable[[float], bool]) -> AsyncGenerator[Event]:
        """Take in until something is so, by the seconds waited; meanwhile say that the subscription stands. Raises
        `FeedLost` where nothing comes."""
        loop = asyncio.get_running_loop()
        began_s = heard_s = loop.time()
        while not met(loop.time() - began_s):
            if await self._take():
                heard_s = loop.time()
                if not self._stands:
                    self._stands = True
                    yield Status(subscribed=True, code="subscribed")
            if self._beat_due():
                yield Status(subscribed=True, code="subscribed")
            if loop.time() - heard_s > self._pace.s(PATIENCE_S):
                raise FeedLost("vendor_error", "dxLink sent no history")
            if loop.time() - began_s > self._pace.s(LONGEST_S):
                raise FeedLost("protocol", "dxLink did not finish sending history")

    def _decided(self, waited_s: float) -> bool:
        """Whether the past of sales is whole, or none came in time."""
        doubt_s = self._pace.s(TRUST_S if self._grant.seen else DOUBT_S)
        return self._sales.whole or (not self._sales.begun and waited_s > doubt_s)

    def _past(self) -> Iterator[Event]:
        """The past, by the series that tells it."""
        if not self._sales.whole:
            return self._by_bars()
        rows, over_ns = self._sales.past(), _edge_before(self._clock.now_ns() - _SETTLE_NS)
        oldest_ns = int(rows["ts_event"][0]) if len(rows) else over_ns
        lacks = len(self._candles.between(_edge_after(self._ticks_ns), _edge_before(oldest_ns))) > 0
        from_ns = oldest_ns if lacks or self._sales.short else self._ticks_ns
        if from_ns > self._since_ns and (not len(rows) or _edge_after(from_ns) > over_ns):
            return self._by_bars()  # it has nothing of a time that is over and was traded in
        return self._by_trades(rows, from_ns)

    def _by_trades(self, rows: Rows, from_ns: int) -> Iterator[Event]:
        """The past as trades from an instant on, after bars where what is asked for reaches further back."""
        older = from_ns > self._since_ns
        if older:
            edge_ns = _edge_after(from_ns)
            rows = rows[rows["ts_event"] >= edge_ns]
            yield from self._bars_between(self._first_minute_ns, edge_ns)
        for at in range(0, len(rows), PIECE):
            yield self._sent(rows[at : at + PIECE])
        yield from self._sales.amends
        newest_ns = limit_clock_skew(int(rows["ts_event"][-1]) if len(rows) else 0, self._clock)
        yield CaughtUp(max(newest_ns, self._caught_ns()), Quality.BARS_1M if older else Quality.TICKS)

    def _by_bars(self) -> Iterator[Event]:
        """The past as bars of the minutes that are over; the rest, until sales come, is a gap until those are too."""
        now_ns = self._clock.now_ns()
        over_ns = max(_edge_before(now_ns - _SETTLE_NS), self._first_minute_ns)
        newest_ns = limit_clock_skew(self._candles.newest_ns, self._clock)
        whole_ns = _edge_after(max(now_ns, newest_ns) + _AHEAD_NS)
        yield from self._bars_between(self._first_minute_ns, over_ns)
        yield Gap(over_ns, now_ns, "reconnect")
        self._owed = (over_ns, whole_ns)
        yield CaughtUp(self._caught_ns(), Quality.BARS_1M)

    def _bars_between(self, from_ns: int, to_ns: int) -> Iterator[Event]:
        oldest_ns = self._candles.oldest_ns
        if self._candles.short and oldest_ns is not None and from_ns < oldest_ns:
            yield Gap(from_ns, min(oldest_ns, to_ns), "not_kept")
        rows = self._candles.between(from_ns, to_ns)
        if len(rows):
            yield Bars(rows, Quality.BARS_1M, backfill=True)

    def _filled(self) -> Iterator[Event]:
        """The bars that are owed, once their minutes are over. Then bars have told all since the first of them."""
        if self._owed is None or self._clock.now_ns() < self._owed[1] + _SETTLE_NS:
            return
        yield from self._bars_between(*self._owed)
        yield Repaired(self._first_minute_ns, self._owed[1])
        self._owed = None

    def _caught_ns(self) -> int:
        """Up to when the past has been told: at least what was known of it."""
        now_ns = self._clock.now_ns()
        return max(self._lag.before(now_ns), min(self._since_ns + OVERLAP_NS, now_ns))

    # -- now

    async def _live(self) -> AsyncGenerator[Event]:
        candles = True
        while True:
            rows, amends = self._sales.live()
            if len(rows):
                self._lag.record(int(rows["ts_recv"][-1]), int(rows["ts_event"].min()))
                yield self._sent(rows)
            for amend in amends:
                yield amend
            for event in self._filled():
                yield event
            if candles and self._owed is None:
                await self._channel.remove([self._candle_series])
                candles = False
            if self._beat_due():
                yield Heartbeat(self._lag.before(self._clock.now_ns()))
            await self._take()

    def _sent(self, rows: Rows) -> Trades:
        self._sent_ids.extend(rows["id"][-MOST_SENT:].tolist())
        return Trades(rows)

    async def _take(self) -> bool:
        """Take in what has come, waiting for it no longer than a beat; whether there was anything."""
        taken = await self._channel.take(self._pace.s(BEAT_S) / 4)
        try:
            for kind, event in taken:
                if kind == SALE:
                    self._sales.take_in(event)
                elif kind == CANDLE:
                    self._candles.take_in(event)
        finally:
            self._grant.seen = self._grant.seen or self._sales.begun
        return bool(taken)

    def _beat_due(self) -> bool:
        """Whether it is time to say that the link lives, and it does."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._beaten_s < self._pace.s(BEAT_S) or not self._connection.lives:
            return False
        self._beaten_s = now_s
        return True


def _from(at_ns: int) -> dict[str, int]:
    return {"fromTime": at_ns // NANOS_PER_MS}


def _edge_before(at_ns: int) -> int:
    return at_ns - at_ns % NANOS_PER_MINUTE


def _edge_after(at_ns: int) -> int:
    return _edge_before(at_ns + NANOS_PER_MINUTE - 1)
