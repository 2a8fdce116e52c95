"""The Massive feed: pages of history over HTTP, then live trades from the socket.

The subscription is confirmed before history is read, and history is read until it reaches the first live trade, so no
trade is lost. Trades that both sources sent are passed on once. Such trades are recognised by counting equal trades,
not by comparing clocks.
"""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.clock_skew import limit_clock_skew
from outcry.feeds.massive.duplicate_filter import DuplicateFilter
from outcry.feeds.massive.protocol import Page
from outcry.feeds.massive.symbols import ticker_of
from outcry.feeds.massive.transport import PAGE, REST, SOCKET, Rest, Socket
from outcry.feeds.shared_session import CredentialsRejected, SharedSession
from outcry.feeds.stream_channel import MIN_LAG_NS, StreamChannel
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_MS, NANOS_PER_SECOND
from outcry.trades.feed import (
    CaughtUp,
    Cursor,
    Event,
    FeedCaps,
    FeedLost,
    FeedRefused,
    Gap,
    Status,
    Trades,
)
from outcry.trades.records import Quality, Rows

#: Pause before history is requested again, and the maximum number of passes.
SETTLE_S, MAX_HISTORY_PASSES = 2.0, 10
#: Limit on the pages of one pass, many times ten days of the busiest future.
MAX_PAGES = 2_000


class MassiveFeed:
    """Live feed of Massive for one API key. Implements `Feed`.

    `context.endpoints` may replace the vendor's servers: `socket` and `rest`.
    """

    run = ""

    def __init__(self, key: str, context: AdapterContext, name: str, caps: FeedCaps) -> None:
        self.name, self.caps, self._context = name, caps, context
        self._key = key
        self._rest = Rest(key, context.endpoints.get("rest", REST), context.speedup)
        self._link = SharedSession(self._sign_in, speedup=context.speedup)

    async def contracts(self) -> list[Contract]:
        """Return the contracts to subscribe to now."""
        return list(self._context.select_contracts())

    async def close(self) -> None:
        """Close the connections."""
        await self._link.close()
        self._rest.close()

    async def open(self, contract: Contract, since: Cursor) -> AsyncGenerator[Event, None]:
        """Stream a contract. Raises `FeedLost`, `FeedRefused`."""
        ticker = self._ticker(contract)
        if ticker is None:
            raise FeedRefused("unknown_contract", f"Massive has no symbol for {contract.key}")
        socket = await self._link.session()
        with socket.board.channel(ticker) as channel:
            await socket.subscribed(ticker, channel)
            yield Status(subscribed=True, code="subscribed")
            duplicates = DuplicateFilter(_from_ns(since, self._context, self.caps))
            async for event in self._history(ticker, since, channel, duplicates):
                yield event
            while True:
                event = await channel.take()
                if not isinstance(event, Trades):
                    yield event
                elif len(rows := duplicates.new_rows(event.rows)):
                    yield Trades(rows)

    def _ticker(self, contract: Contract) -> str | None:
        today = datetime.fromtimestamp(self._context.clock.now_ns() // NANOS_PER_SECOND, UTC).date()
        return ticker_of(self._context.universe, contract, today)

    async def _sign_in(self) -> Socket:
        tickers = {self._ticker(contract) for contract in self._context.select_contracts()} - {None}
        url = self._context.endpoints.get("socket", SOCKET)
        socket = Socket(
            self._key, sorted(t for t in tickers if t), url, self._context.clock, self._context.speedup
        )
        await socket.signed_in()
        return socket

    async def _history(
        self, ticker: str, since: Cursor, channel: StreamChannel, duplicates: DuplicateFilter
    ) -> AsyncGenerator[Event, None]:
        """Yield history since the cursor until it reaches the live trades."""
        if since.since_ns < duplicates.tail_ns:
            yield Gap(since.since_ns, duplicates.tail_ns, "not_kept")
        asked_ns = self._context.clock.now_ns()
        for asked in range(MAX_HISTORY_PASSES):
            asked_ns, before = self._context.clock.now_ns(), duplicates.counts()
            async for page in self._pages(ticker, duplicates.tail_ns, channel):
                fresh = duplicates.new_rows(page, before)
                duplicates.record(fresh, channel.waiting())
                if len(fresh):
                    yield Trades(fresh)
            if asked and duplicates.gap_end_ns(channel.waiting()) is None:
                break
            await channel.beside(asyncio.sleep(SETTLE_S / self._context.speedup))
        short_ns = duplicates.gap_end_ns(channel.waiting())
        if short_ns is not None:
            yield Gap(duplicates.newest_ns or duplicates.tail_ns, short_ns, "not_kept")
        self._link.worked()
        at_ns = duplicates.newest_ns or asked_ns - MIN_LAG_NS
        yield CaughtUp(limit_clock_skew(at_ns, self._context.clock), Quality.TICKS)

    async def _pages(self, ticker: str, since_ns: int, channel: StreamChannel) -> AsyncGenerator[Rows, None]:
        """Yield pages of trades at or after `since_ns`, oldest first. Raises `FeedLost` if the pages do not advance."""
        asked: dict[str, str] | None = {
            "timestamp.gte": str(since_ns), "limit": str(PAGE), "sort": "timestamp.asc",
        }  # fmt: skip
        seen: set[frozenset[tuple[str, str]]] = set()
        newest_ns = -1
        while asked is not None:
            seen.add(frozenset(asked.items()))
            page = await channel.beside(self._page(ticker, asked))
            asked, before_ns = page.following, newest_ns
            newest_ns = max(newest_ns, int(page.rows["ts_event"].max(initial=-1)))
            if asked is not None and (
                frozenset(asked.items()) in seen
                or len(seen) >= MAX_PAGES
                or (len(page.rows) and newest_ns <= before_ns)
            ):
                raise FeedLost("protocol", "Massive returned too many pages of history")
            yield page.rows[page.rows["ts_event"] >= since_ns]

    async def _page(self, ticker: str, asked: dict[str, str]) -> Page:
        try:
            return await self._rest.page(ticker, asked, self._context.clock.now_ns())
        except CredentialsRejected as problem:
            raise self._link.rejected(problem) from None


def _from_ns(since: Cursor, context: AdapterContext, caps: FeedCaps) -> int:
    """Return where history begins (ns UTC, a whole millisecond).

    It begins at the cursor, or later if the vendor does not have history from so far back.
    """
    first_ns = max(since.since_ns, context.clock.now_ns() - caps.reach_ns)
    return first_ns - first_ns % NANOS_PER_MS
