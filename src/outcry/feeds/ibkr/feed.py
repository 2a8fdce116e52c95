"""The feed of one TWS or IB Gateway: a stream for each contract, all on one connection.

Rules kept: trades are asked for before history, and the cut between the two is a whole second at least one after the
subscription; bars come first, so that the answer is live soon, and trades take their place while it is.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing

from outcry.core.instruments import Contract
from outcry.core.units import NANOS_PER_SECOND
from outcry.feeds.ibkr.adapter import CAPS
from outcry.feeds.ibkr.channel import Channel, NoLineFree
from outcry.feeds.ibkr.contracts import Found, Query, began_ns, chosen, query_of, unknown
from outcry.feeds.ibkr.history import History, planned
from outcry.feeds.ibkr.pace import Pace
from outcry.feeds.ibkr.session import LAG_NS, Session
from outcry.feeds.link import Link
from outcry.feeds.seam import joined
from outcry.ports.adapters import Kit
from outcry.ports.feed import Bars, CaughtUp, Cursor, Event, FeedLost, FeedRefused, Gap, Status, Trades

#: A subscription is refused soon or stands: TWS does not say so, but by the first trade.
SETTLE_S = 1.0
#: A contract may be subscribed to once in so long.
SUBSCRIBE_APART_S = 15.0
#: How long until a contract for which no line was free is tried again, and after which history is asked for again that
#: was asked for too fast.
REST_S = 60.0
#: TWS is asked this often whether the cut has come.
_LOOK_S = 1.0


class IbkrFeed:
    """Interactive Brokers' `Feed`."""

    name = "ibkr"
    caps = CAPS
    run = ""

    def __init__(self, host: str, port: int, client_id: int, kit: Kit) -> None:
        self._place, self._kit = (host, port, client_id), kit
        self._link = Link(self._sign_in, rush=kit.rush)
        self._pace = Pace(kit.rush)
        self._subscribed_s: dict[int, float] = {}
        #: Minutes of the session under way that only bars have told of yet.
        self._owed: dict[Contract, list[int]] = {}

    async def contracts(self) -> list[Contract]:
        """Those that are wanted now."""
        return list(self._kit.wanted())

    async def close(self) -> None:
        """Hang up."""
        await self._link.close()

    async def _sign_in(self) -> Session:
        session = Session(self._kit.clock, self._kit.rush)
        await session.begin(*self._place)
        return session

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """Stream a contract. While the account has no line free for it, that is said, and it is tried again."""
        self._owe(contract, since.barred_ns)
        kept_ns = self._kit.clock.now_ns() - CAPS.reach_ns
        if since.since_ns < kept_ns:
            yield Gap(since.since_ns, kept_ns, "not_kept")
            since = Cursor(kept_ns)
        while True:
            session = await self._link.session()
            found = await self._resolve(session, contract)
            self._link.worked()
            begun = False
            try:
                async with aclosing(self._stream(session, found, contract, since)) as events:
                    async for event in events:
                        begun = begun or isinstance(event, Trades | Bars | CaughtUp)
                        yield event
            except NoLineFree as problem:
                if begun:
                    raise FeedLost("rate_limited", "no subscription to single trades is free") from problem
            yield Status(
                subscribed=False,
                code="not_entitled",
                text="all subscriptions to single trades that the account has are in use",
            )
            await asyncio.sleep(REST_S / self._kit.rush)

    async def _resolve(self, session: Session, contract: Contract) -> Found:
        """The contract as Interactive Brokers has it. Raises `FeedRefused`."""
        query = query_of(contract, self._kit.universe)
        for asked in (
            query,
            Query(query.symbol, query.exchange, ""),
        ):  # a month may be taken for another's last day
            try:
                found = chosen(contract, self._kit.universe, await session.contracts(asked))
            except FeedRefused as problem:
                if problem.code != "unknown_contract" or not asked.month:
                    raise
                continue
            if found is not None:
                return found
        raise unknown(contract)

    async def _stream(
        self, session: Session, found: Found, contract: Contract, since: Cursor
    ) -> AsyncGenerator[Event, None]:
        """History, then what comes, on one session."""
        await self._space_out(found)
        channel = session.subscribe(found)
        history = History(session, found, self._pace, self._kit.clock)
        plan = planned(since.since_ns, since.since_ns)
        told_ns = 0
        refining: asyncio.Task[None] | None = None

        async def live() -> AsyncGenerator[Event, None]:
            nonlocal told_ns
            await self._settled(channel)
            told_ns = await session.now_ns()
            yield Status(subscribed=True, code="subscribed")
            while True:
                yield await channel.take()

        async def before(cut_ns: int) -> AsyncGenerator[Trades | Bars, None]:
            nonlocal plan
            plan = planned(since.since_ns, cut_ns)
            while await session.now_ns() < cut_ns + LAG_NS:
                await asyncio.sleep(_LOOK_S / self._kit.rush)
            async for page in history.bring(plan):
                yield page
                if isinstance(page, Bars):
                    self._owe(contract, page.rows["ts_event"].tolist())

        try:
            async for event in joined(before, live(), lambda: told_ns + 2 * NANOS_PER_SECOND):
                if not isinstance(event, CaughtUp):
                    yield event
                    continue
                yield CaughtUp(event.at_ns, plan.quality)
                owed = self._owed[contract]
                began = began_ns(found, event.at_ns)
                owed[:] = [start for start in owed if start >= began]
                refining = asyncio.create_task(self._refine(channel, history, owed))
        finally:
            if refining is not None:
                refining.cancel()
                await asyncio.wait({refining})
            session.unsubscribe(channel)

    async def _space_out(self, found: Found) -> None:
        """Wait until the contract may be subscribed to again."""
        loop = asyncio.get_running_loop()
        again_s = (
            self._subscribed_s.get(found.con_id, -SUBSCRIBE_APART_S) + SUBSCRIBE_APART_S / self._kit.rush
        )
        await asyncio.sleep(max(0.0, again_s - loop.time()))
        self._subscribed_s[found.con_id] = loop.time()

    async def _settled(self, channel: Channel) -> None:
        """Wait until a subscription stands, as far as can be known. Raises what it was refused with."""
        try:
            async with asyncio.timeout(SETTLE_S / self._kit.rush):
                await channel.began.wait()
        except TimeoutError:
            return
        channel.check()

    def _owe(self, contract: Contract, starts: Iterable[int]) -> None:
        """Keep in mind minutes that only bars told of, until trades take their place."""
        self._owed[contract] = sorted({*self._owed.get(contract, ()), *starts})

    async def _refine(self, channel: Channel, history: History, owed: list[int]) -> None:
        """Send trades for bars, until all are sent or none are to be had. What goes wrong here takes nothing away: the
        bars stay."""
        while owed:
            try:
                async for piece in history.refined(owed):
                    await channel.offer(piece)
                owed.clear()
            except FeedLost as problem:
                if problem.code != "rate_limited":
                    return
                await asyncio.sleep(REST_S / self._kit.rush)
