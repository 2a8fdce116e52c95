"""The tastytrade feed: one login and one dxLink connection for all contracts.

The first stream signs in for all. The vendor's symbol of a future is requested once. A contract the vendor does not
have ends only its own stream.
"""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing

from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.shared_session import CredentialsRejected, SharedSession
from outcry.feeds.tastytrade.dxlink import DxLinkConnection, Timeouts, connect
from outcry.feeds.tastytrade.rest import Credentials, TastytradeRest
from outcry.feeds.tastytrade.series import MAX_SENT_IDS
from outcry.feeds.tastytrade.stream import HistorySupport, TastytradeStream
from outcry.feeds.tastytrade.symbols import Future, read_future, rest_symbol
from outcry.market.instruments import Contract
from outcry.trades.feed import Cursor, Event, FeedCaps, FeedRefused

NAME = "tastytrade"


class TastytradeFeed:
    """Live feed of tastytrade for one login. Implements `Feed`."""

    name = NAME
    run = ""

    def __init__(self, credentials: Credentials, caps: FeedCaps, context: AdapterContext) -> None:
        self.caps, self._context = caps, context
        self._timeouts = Timeouts(context.speedup)
        self._rest = TastytradeRest(credentials, context.endpoints, context.clock, context.speedup)
        self._link: SharedSession[DxLinkConnection] = SharedSession(self._sign_in, speedup=context.speedup)
        self._futures: dict[Contract, Future] = {}
        self._sent_ids: dict[Contract, deque[int]] = {}
        self._history_support = HistorySupport()

    async def contracts(self) -> list[Contract]:
        """Return the contracts to subscribe to now."""
        return list(self._context.select_contracts())

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """Stream a contract. Raises `FeedLost` and `FeedRefused`."""
        connection = await self._link.session()
        future = await self._future(contract)
        channel = await connection.channel()
        try:
            sent = self._sent_ids.setdefault(contract, deque(maxlen=MAX_SENT_IDS))
            stream = TastytradeStream(
                channel,
                connection,
                future,
                self._context.clock,
                sent,
                self._history_support,
                since,
                self.caps.reach_ns,
            )
            async with aclosing(stream.events()) as events:
                async for event in events:
                    self._link.worked()
                    yield event
        finally:
            await connection.close_channel(channel)

    async def close(self) -> None:
        """Close all connections."""
        await self._link.close()
        await self._rest.close()

    async def _sign_in(self) -> DxLinkConnection:
        return await connect(self._rest.http, await self._rest.quote_token(), self._timeouts)

    async def _future(self, contract: Contract) -> Future:
        """Return the vendor's symbol and price scale of a contract. Raises `FeedRefused`."""
        known = self._futures.get(contract)
        if known is None:
            product = self._context.universe.products.get(contract.root)
            try:
                answer = await self._rest.future(rest_symbol(contract)) if product else None
            except CredentialsRejected as problem:
                raise self._link.rejected(problem) from None
            known = read_future(answer, contract, product) if answer and product else None
            if known is None:
                raise FeedRefused("unknown_contract", f"tastytrade does not stream {contract.key}")
            self._futures[contract] = known
        return known
