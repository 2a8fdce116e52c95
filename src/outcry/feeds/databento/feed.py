"""Databento as a feed: history where it is older than the gateway replays, then the replay, then what happens now.

Rules kept: one connection brings all contracts that begin together; after it broke, the next one keeps places for all
that were on it, so that their readers find them whenever they come back. Only a contract that is opened later, or
anew by itself, takes a connection of its own, until the next time that all begin.
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

#: How far back the gateway is asked to replay; it keeps 24 hours.
REPLAY_NS = (23 * 60 + 30) * NANOS_PER_MINUTE
#: It may keep less, after a weekend: half as much is asked for each time it says so, down to this.
LEAST_REPLAY_NS = 10 * NANOS_PER_MINUTE
#: A place is kept from so long before the newest trade handed out: the reader may begin a little before what it has.
EXPECTED_NS = NANOS_PER_MINUTE


class DatabentoFeed:
    """Trades by one key."""

    name = BROKER.id
    caps = CAPS
    run = ""

    def __init__(self, key: str, context: AdapterContext) -> None:
        self._key, self._context = key, context
        self._link: SharedSession[DatabentoSession] = SharedSession(self._sign_in, rush=context.rush)
        self._history = History(key, context.endpoints.get("historical", ""), context.rush)
        self._late: list[DatabentoSession] = []
        self._late_lock = asyncio.Lock()
        #: Where each contract ever opened has come to (ns UTC).
        self._reached: dict[Contract, int] = {}
        #: How many are about to join who have older history to bring first.
        self._fetching = 0
        self._crowded = False
        self._replay_ns = REPLAY_NS

    async def contracts(self) -> list[Contract]:
        """What the connection is to bring now."""
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
                await self._link.session()  # the key is right: else each contract would be refused by itself
                async with aclosing(self._older(symbol, begin_ns, cut_ns)) as pages:
                    async for event in pages:
                        yield event
            session, line = await self._joined(contract, symbol, max(begin_ns, cut_ns))
        finally:
            self._fetching -= begins_old
        try:
            async with aclosing(line.events()) as events:
                async for event in events:
                    if isinstance(event, Trades):
                        self._reached[contract] = int(event.rows["ts_event"].max())
                    yield event
        finally:
            await session.leave(line)

    async def _older(self, symbol: str, begin_ns: int, cut_ns: int) -> AsyncGenerator[Event, None]:
        """What the gateway does not replay any more, as far as the account has it."""
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
        """A line of a contract: on the connection of all, or on a later one."""
        self._reached[contract] = since_ns
        session = await self._link.session()
        line = session.join(contract, symbol, since_ns)
        if line is not None:
            return session, line
        async with self._late_lock:
            self._late = [known for known in self._late if known.open]
            for late in self._late:
                if (line := late.join(contract, symbol, since_ns)) is not None:
                    return late, line
            late = await self._another()
            self._late.append(late)
            line = late.join(contract, symbol, since_ns)
        if line is None:
            raise FeedLost("disconnected", "the gateway closed the connection")
        return late, line

    async def _sign_in(self) -> DatabentoSession:
        place = self._context.endpoints.get("gateway", "")
        try:
            gateway = await connect_gateway(self._key, place, self._context.rush)
        except FeedLost as problem:
            raise self.crowded(str(problem)) if problem.code == TOO_MANY_SESSIONS else problem from None
        return DatabentoSession(gateway, self._context, self)

    async def _another(self) -> DatabentoSession:
        """A connection beside the first, whose key is known to be right."""
        try:
            return await self._sign_in()
        except CredentialsRejected as problem:
            raise self._link.rejected(problem) from None
        except (OSError, TimeoutError) as problem:
            raise FeedLost("unreachable", type(problem).__name__) from None

    async def close(self) -> None:
        """Hang up; open streams end with `FeedLost("closed")`."""
        await self._link.close()
        for session in self._late:
            await session.close()

    # -- what sessions ask

    @property
    def settled(self) -> bool:
        """Whether nobody is fetching older history, to join then."""
        return not self._fetching

    def starting(self, session: DatabentoSession) -> None:
        """The connection of all starts: keep places on it for those whose connection broke and who are not back."""
        if session in self._late:
            return
        elsewhere = {contract for late in self._late if late.open for contract in late.lines}
        now_ns = self._context.clock.now_ns()
        for contract in self._context.select_contracts():
            if contract in self._reached and contract not in elsewhere:
                begin_ns = max(self._reached[contract] - EXPECTED_NS, now_ns - self._replay_ns)
                with suppress(FeedRefused):  # it has ended meanwhile
                    session.expect(contract, self._symbol(contract), begin_ns)

    def worked(self) -> None:
        """A session has caught up: the key is right, and what was short before need not be now."""
        self._link.worked()
        self._crowded, self._replay_ns = False, REPLAY_NS

    def crowded(self, text: str) -> FeedLost:
        """The account has as many connections as it may. Those of ours that broke are counted for a while, so once is
        no reason to give up."""
        if self._crowded:
            return FeedRefused(TOO_MANY_SESSIONS, text)
        self._crowded = True
        return FeedLost("rate_limited", text)

    def aged_out(self) -> None:
        """The gateway keeps less than we thought: the next session asks it for less, and history brings the rest."""
        self._replay_ns = max(self._replay_ns // 2, LEAST_REPLAY_NS)

    def _symbol(self, contract: Contract) -> str:
        day = datetime.fromtimestamp(self._context.clock.now_ns() // NANOS_PER_SECOND, UTC).date()
        return symbol_of(self._context.universe, contract, day)
