"""The Databento feed: history older than the gateway replays, then the gateway's replay, then live trades.

One connection serves all contracts that start together. After a connection breaks, the next one subscribes to all
contracts of the broken one, so that each reader finds its trades when it reconnects. A contract opened later on its own
takes a further connection, until all contracts start together again.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from datetime import UTC, datetime

from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.databento.broker import BROKER, CAPS
from outcry.feeds.databento.contract_queue import ContractQueue
from outcry.feeds.databento.gateway import TOO_MANY_SESSIONS, connect_gateway
from outcry.feeds.databento.history import History, HistoryUnavailable
from outcry.feeds.databento.rows import live_rows
from outcry.feeds.databento.symbols import symbol_of
from outcry.feeds.databento.vendor_session import DatabentoSession
from outcry.feeds.shared_session import CredentialsRejected, SharedSession
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND
from outcry.trades.feed import Cursor, Event, FeedLost, FeedRefused, Gap, RowFlag, Trades

#: Length of the replay requested from the gateway, which keeps 24 hours.
REPLAY_NS = (23 * 60 + 30) * NANOS_PER_MINUTE
#: Shortest replay requested. After a weekend the gateway may retain less; each such refusal halves the length.
LEAST_REPLAY_NS = 10 * NANOS_PER_MINUTE
#: A returning reader may start this long before the newest trade it received.
EXPECTED_NS = NANOS_PER_MINUTE


class DatabentoFeed:
    """Live feed of Databento for one API key. Implements `Feed`."""

    name = BROKER.id
    caps = CAPS
    run = ""

    def __init__(self, key: str, context: AdapterContext) -> None:
        self._key, self._context = key, context
        self._link: SharedSession[DatabentoSession] = SharedSession(self._sign_in, speedup=context.speedup)
        self._history = History(key, context.endpoints.get("historical", ""), context.speedup)
        self._late: list[DatabentoSession] = []
        self._late_lock = asyncio.Lock()
        #: Newest trade passed on for each contract ever opened (ns UTC).
        self._reached: dict[Contract, int] = {}
        #: Contracts that download older history before they join a session.
        self._fetching = 0
        self._had_too_many = False
        self._replay_ns = REPLAY_NS

    async def contracts(self) -> list[Contract]:
        """Return the contracts to subscribe to now."""
        return list(self._context.select_contracts())

    async def open(self, contract: Contract, since: Cursor) -> AsyncGenerator[Event, None]:
        """Stream a contract from a cursor. Raises `FeedLost`, `FeedRefused`."""
        now_ns = self._context.clock.now_ns()
        symbol = self._symbol(contract)
        begin_ns = max(since.since_ns, now_ns - CAPS.reach_ns)
        if since.since_ns < begin_ns:
            yield Gap(since.since_ns, begin_ns, "not_kept")
        cut_ns = now_ns - self._replay_ns
        begins_old = begin_ns < cut_ns
        self._fetching += begins_old
        try:
            if begins_old:
                await self._link.session()  # verify the key once, not for each contract
                async with aclosing(self._history_before_replay(symbol, begin_ns, cut_ns)) as pages:
                    async for event in pages:
                        yield event
            session, queue = await self._joined(contract, symbol, max(begin_ns, cut_ns))
        finally:
            self._fetching -= begins_old
        try:
            async with aclosing(queue.events()) as events:
                async for event in events:
                    if isinstance(event, Trades):
                        self._reached[contract] = int(event.rows["ts_event"].max())
                    yield event
        finally:
            await session.leave(queue)

    async def _history_before_replay(
        self, symbol: str, begin_ns: int, cut_ns: int
    ) -> AsyncGenerator[Event, None]:
        """Yield trades older than those the gateway replays, as far back as the account has access."""
        whole_ns = begin_ns
        try:
            async with aclosing(self._history.pages(symbol, begin_ns, cut_ns)) as pages:
                async for records, reached_ns in pages:
                    whole_ns = reached_ns
                    rows = live_rows(records, self._context.clock.now_ns(), int(RowFlag.BACKFILL))
                    if len(rows):
                        yield Trades(rows)
        except HistoryUnavailable:
            yield Gap(whole_ns, cut_ns, "not_kept")
        except CredentialsRejected as problem:
            raise self._link.rejected(problem) from None

    # -- connections

    async def _joined(
        self, contract: Contract, symbol: str, since_ns: int
    ) -> tuple[DatabentoSession, ContractQueue]:
        """Return the session with the gateway that serves a contract, and the contract's queue in this session.

        The session is the shared one, or a further one if the shared one can no longer add the contract.
        """
        self._reached[contract] = since_ns
        session = await self._link.session()
        queue = session.join(contract, symbol, since_ns)
        if queue is not None:
            return session, queue
        async with self._late_lock:
            self._late = [known for known in self._late if known.open]
            for late in self._late:
                if (queue := late.join(contract, symbol, since_ns)) is not None:
                    return late, queue
            late = await self._open_another()
            self._late.append(late)
            queue = late.join(contract, symbol, since_ns)
        if queue is None:
            raise FeedLost("disconnected", "the gateway closed the connection")
        return late, queue

    async def _sign_in(self) -> DatabentoSession:
        place = self._context.endpoints.get("gateway", "")
        try:
            gateway = await connect_gateway(self._key, place, self._context.speedup)
        except FeedLost as problem:
            raise (
                self.too_many_connections(str(problem)) if problem.code == TOO_MANY_SESSIONS else problem
            ) from None
        return DatabentoSession(gateway, self._context, self)

    async def _open_another(self) -> DatabentoSession:
        """Open a further connection with the verified key."""
        try:
            return await self._sign_in()
        except CredentialsRejected as problem:
            raise self._link.rejected(problem) from None
        except (OSError, TimeoutError) as problem:
            raise FeedLost("unreachable", type(problem).__name__) from None

    async def close(self) -> None:
        """Close the connections; open streams end with `FeedLost("closed")`."""
        await self._link.close()
        for session in self._late:
            await session.close()

    # -- implements `SessionOwner`

    @property
    def settled(self) -> bool:
        """Return whether all contracts have downloaded their older history, so that a gateway session can start."""
        return not self._fetching

    def starting(self, session: DatabentoSession) -> None:
        """Add the contracts whose readers have not reconnected yet to a session that is about to start."""
        if session in self._late:
            return
        elsewhere = {contract for late in self._late if late.open for contract in late.queues}
        now_ns = self._context.clock.now_ns()
        for contract in self._context.select_contracts():
            if contract in self._reached and contract not in elsewhere:
                begin_ns = max(self._reached[contract] - EXPECTED_NS, now_ns - self._replay_ns)
                with suppress(FeedRefused):  # the contract has expired meanwhile
                    session.expect(contract, self._symbol(contract), begin_ns)

    def worked(self) -> None:
        """Reset the counts of failures, because the replay of a session has caught up with live trades."""
        self._link.worked()
        self._had_too_many, self._replay_ns = False, REPLAY_NS

    def too_many_connections(self, text: str) -> FeedLost:
        """Return the error for too many connections of the account.

        The first such error is temporary, because the vendor still counts broken connections for a while.
        """
        if self._had_too_many:
            return FeedRefused(TOO_MANY_SESSIONS, text)
        self._had_too_many = True
        return FeedLost("rate_limited", text)

    def replay_too_long(self) -> None:
        """Request a shorter replay next time. The earlier trades then come from history."""
        self._replay_ns = max(self._replay_ns // 2, LEAST_REPLAY_NS)

    def _symbol(self, contract: Contract) -> str:
        day = datetime.fromtimestamp(self._context.clock.now_ns() // NANOS_PER_SECOND, UTC).date()
        return symbol_of(self._context.universe, contract, day)
