"""The feed: one sign-in and one dxLink connection for all contracts of a tastytrade login.

Rules kept: whoever asks first signs in, for all; what a future is called is asked once; a contract that the vendor does
not have ends its own stream and no other.
"""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing

from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.shared_session import CredentialsRejected, SharedSession
from outcry.feeds.tastytrade.dxlink import Connection, Pace, connect
from outcry.feeds.tastytrade.rest import Entries, Rest
from outcry.feeds.tastytrade.series import MOST_SENT
from outcry.feeds.tastytrade.stream import Grant, Stream
from outcry.feeds.tastytrade.symbols import Future, read_future, rest_symbol
from outcry.market.instruments import Contract
from outcry.trades.feed import Cursor, Event, FeedCaps, FeedRefused

NAME = "tastytrade"


class TastytradeFeed:
    """`Feed`."""

    name = NAME
    run = ""

    def __init__(self, entries: Entries, caps: FeedCaps, context: AdapterContext) -> None:
        self.caps, self._context = caps, context
        self._pace = Pace(context.rush)
        self._rest = Rest(entries, context.endpoints, context.clock, context.rush)
        self._link: SharedSession[Connection] = SharedSession(self._sign_in, rush=context.rush)
        self._futures: dict[Contract, Future] = {}
        self._sent: dict[Contract, deque[int]] = {}
        self._grant = Grant()

    async def contracts(self) -> list[Contract]:
        """Those wanted now."""
        return list(self._context.select_contracts())

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """Stream a contract. Raises `FeedLost` and `FeedRefused`."""
        connection = await self._link.session()
        future = await self._future(contract)
        channel = await connection.channel()
        try:
            sent = self._sent.setdefault(contract, deque(maxlen=MOST_SENT))
            stream = Stream(
                channel, connection, future, self._context.clock, sent, self._grant, since, self.caps.reach_ns
            )
            async with aclosing(stream.events()) as events:
                async for event in events:
                    self._link.worked()
                    yield event
        finally:
            await connection.forget(channel)

    async def close(self) -> None:
        """Hang up and let go of everything."""
        await self._link.close()
        await self._rest.close()

    async def _sign_in(self) -> Connection:
        return await connect(self._rest.http, await self._rest.streamer(), self._pace)

    async def _future(self, contract: Contract) -> Future:
        """What the vendor calls a contract."""
        known = self._futures.get(contract)
        if known is None:
            product = self._context.universe.products.get(contract.root)
            try:
                told = await self._rest.future(rest_symbol(contract)) if product else None
            except CredentialsRejected as problem:
                raise self._link.rejected(problem) from None
            known = read_future(told, contract, product) if told and product else None
            if known is None:
                raise FeedRefused("unknown_contract", f"tastytrade does not stream {contract.key}")
            self._futures[contract] = known
        return known
