"""The feed of one TWS or IB Gateway, with all contracts on one connection.

If the account has no free tick-by-tick subscription, the stream reports this and retries: a subscription becomes free
when another contract is closed.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.ibkr.broker import CAPS
from outcry.feeds.ibkr.contracts import (
    ContractQuery,
    IbContractDetails,
    contract_query,
    select_contract,
    unknown_contract,
)
from outcry.feeds.ibkr.history import History
from outcry.feeds.ibkr.request_limiter import HistoryRequestLimiter
from outcry.feeds.ibkr.stream import Stream
from outcry.feeds.ibkr.tick_subscription import NoSubscriptionFree
from outcry.feeds.ibkr.vendor_session import IbkrSession
from outcry.feeds.shared_session import SharedSession
from outcry.market.instruments import Contract
from outcry.trades.feed import (
    Bars,
    CaughtUp,
    Cursor,
    Event,
    FeedLost,
    FeedRefused,
    Gap,
    Status,
    Trades,
)

#: Shortest interval between two subscriptions of a contract.
RESUBSCRIBE_INTERVAL_S = 15.0
#: Pause before a contract without a free subscription is retried.
SUBSCRIPTION_RETRY_S = 60.0


class IbkrFeed:
    """Live feed of one TWS or IB Gateway. Implements `Feed`."""

    name = "ibkr"
    caps = CAPS
    run = ""

    def __init__(self, host: str, port: int, client_id: int, context: AdapterContext) -> None:
        self._place, self._context = (host, port, client_id), context
        self._link = SharedSession(self._sign_in, speedup=context.speedup)
        self._limiter = HistoryRequestLimiter(context.speedup)
        self._greeted = False
        self._subscribed_s: dict[int, float] = {}
        #: Minutes (ns UTC) for which only bars have been received; retained when a stream ends.
        self._owed: dict[Contract, list[int]] = {}

    async def contracts(self) -> list[Contract]:
        """Return the contracts to subscribe to now."""
        return list(self._context.select_contracts())

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()

    async def _sign_in(self) -> IbkrSession:
        session = IbkrSession(self._context.clock, self._context.speedup)
        try:
            await session.begin(*self._place)
        except FeedRefused as problem:
            # Our previous connection, whose end TWS has not detected yet.
            if self._greeted and problem.code == "wrong_entry":
                raise FeedLost("disconnected", "TWS still has the previous connection open") from problem
            raise
        self._greeted = True
        return session

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """Stream a contract. While no subscription is free, report this and retry."""
        owed = self._owed[contract] = sorted({*self._owed.get(contract, ()), *since.barred_ns})
        begin_ns = max(since.since_ns, self._context.clock.now_ns() - CAPS.reach_ns)
        if since.since_ns < begin_ns:
            yield Gap(since.since_ns, begin_ns, "not_kept")
        while True:
            session = await self._link.session()
            found = await self._resolve(session, contract)
            self._link.worked()
            await self._space_out(found)
            history = History(session, found, self._limiter, self._context.clock)
            stream = Stream(session, found, history, owed, self._context.speedup)
            begun = False
            try:
                async with aclosing(stream.events(begin_ns, since.answered_ns)) as events:
                    async for event in events:
                        begun = begun or isinstance(event, Trades | Bars | CaughtUp)
                        yield event
            except NoSubscriptionFree as problem:
                if begun:
                    raise FeedLost("rate_limited", "no tick-by-tick subscription is free") from problem
            yield _NO_LINE
            await asyncio.sleep(SUBSCRIPTION_RETRY_S / self._context.speedup)

    async def _resolve(self, session: IbkrSession, contract: Contract) -> IbContractDetails:
        """Return the contract's details at Interactive Brokers. Raises `FeedRefused`."""
        query = contract_query(contract, self._context.universe)
        for asked in (
            query,
            ContractQuery(query.symbol, query.exchange, ""),
        ):  # TWS may read the month as a last trading day
            try:
                found = select_contract(contract, self._context.universe, await session.contracts(asked))
            except FeedRefused as problem:
                if problem.code != "unknown_contract" or not asked.month:
                    raise
                continue
            if found is not None:
                return found
        raise unknown_contract(contract)

    async def _space_out(self, found: IbContractDetails) -> None:
        """Wait for the vendor's minimum interval before subscribing to the same contract again."""
        loop = asyncio.get_running_loop()
        apart_s = RESUBSCRIBE_INTERVAL_S / self._context.speedup
        again_s = self._subscribed_s.get(found.con_id, loop.time() - apart_s) + apart_s
        await asyncio.sleep(max(0.0, again_s - loop.time()))
        self._subscribed_s[found.con_id] = loop.time()


_NO_LINE = Status(
    subscribed=False,
    code="not_entitled",
    text="all tick-by-tick subscriptions of the account are in use",
)
