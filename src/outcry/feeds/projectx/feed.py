"""The feed of ProjectX: bars of a second over HTTP, then the hub's trades.

Rules kept: the subscription stands before the cut is chosen, a whole second of the vendor's clock. What was traded
before it comes as bars, the last seconds of them once they are over; trades that came meanwhile wait, so that what is
told is at no moment with a hole. After an interruption bars tell of the seconds missed, in place of what is known of
them.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.projectx.firms import Firm
from outcry.feeds.projectx.hub import Hub
from outcry.feeds.projectx.rest import Rest
from outcry.feeds.projectx.symbols import chosen, quoted_alike
from outcry.feeds.shared_session import CredentialsRejected, SharedSession
from outcry.feeds.stream_channel import StreamChannel
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import (
    Bars,
    CaughtUp,
    Cursor,
    Event,
    FeedCaps,
    FeedRefused,
    Gap,
    Heartbeat,
    Status,
    Trades,
    VolumeCounter,
)
from outcry.trades.records import Quality, Rows

#: The vendor has a bar by then, at the latest; what is nearer to the present is asked for later.
SETTLED_NS = 10 * NANOS_PER_SECOND
#: From the answer that tells the vendor's time until all that is traded is seen live, and until the cut; and from the
#: cut until its bars are asked for.
WHOLE_NS, CUT_NS, OVER_NS = NANOS_PER_SECOND, 5 * NANOS_PER_SECOND, 2 * NANOS_PER_SECOND
#: How often bars are asked for again that are not there yet, and after how long.
MOST_ASKED, AGAIN_S = 6, 2.0
#: Bars handed over at a time.
PIECE = 5_000


@dataclass(slots=True)
class Seam:
    """Between bars and trades: bars up to `edge_ns` have been told, trades are told from `cut_ns` on, and the seconds
    between as soon as they are over. From `whole_ns` on the subscription has everything. `held`: what waits."""

    edge_ns: int
    whole_ns: int
    cut_ns: int
    held: list[Event] = field(default_factory=list[Event])
    newest_ns: int = 0
    #: Seconds before the cut in which something was traded: of each there must be a bar.
    seen: set[int] = field(default_factory=set[int])

    def take(self, event: Trades) -> None:
        """Keep trades for later; those before the cut come as bars."""
        rows = event.rows
        times = rows["ts_event"]
        before = (times >= self.whole_ns) & (times < self.cut_ns)
        self.seen.update((times[before] // NANOS_PER_SECOND * NANOS_PER_SECOND).tolist())
        self.newest_ns = max(self.newest_ns, int(times.max()))
        if (times >= self.cut_ns).any():
            self.held.append(Trades(rows[times >= self.cut_ns]))

    def met_by(self, bars: Rows) -> bool:
        """Whether there is a bar of every second in which something was seen live."""
        return self.seen <= set(bars["ts_event"].tolist())


class ProjectXFeed:
    """ProjectX with one user's key."""

    run = ""

    def __init__(
        self, user: str, key: str, firm: Firm, context: AdapterContext, name: str, caps: FeedCaps
    ) -> None:
        self.name, self.caps, self._context, self._firm = name, caps, context, firm
        self._rest = Rest(user, key, firm.api, context.clock, context.rush)
        self._link = SharedSession(self._sign_in, rush=context.rush)
        self._ids: dict[Contract, str] = {}

    async def contracts(self) -> list[Contract]:
        """Those that are wanted."""
        return list(self._context.select_contracts())

    async def close(self) -> None:
        """Hang up."""
        await self._link.close()
        await self._rest.close()

    async def _sign_in(self) -> Hub:
        """Connect to the hub; a token that it does not take is renewed once."""
        for again in (True, False):
            token = await self._rest.tokens.token()
            hub = Hub(self._firm.hub, token, self._context.clock, self._context.rush)
            try:
                await hub.connected()
            except CredentialsRejected:
                self._rest.tokens.refused(token)
                if not again:
                    raise
            else:
                return hub
        raise AssertionError("the second attempt returns or raises")

    async def open(self, contract: Contract, since: Cursor) -> AsyncGenerator[Event, None]:
        """Stream a contract. Raises `FeedLost`, `FeedRefused`."""
        hub = await self._link.session()
        try:
            contract_id = await self._id(contract)
            with hub.board.channel(contract_id) as channel:
                await hub.subscribed(contract_id, channel)
                yield Status(subscribed=True, code="subscribed")
                async for event in self._stream(contract_id, since, channel):
                    yield event
        except CredentialsRejected as problem:
            raise self._link.rejected(problem) from None

    async def _id(self, contract: Contract) -> str:
        """The vendor's name of a contract. Raises `FeedRefused`."""
        if contract not in self._ids:
            for text in (contract.short_key, contract.root):
                listed = await self._rest.contracts(text)
                found = chosen(self._context.universe, contract, listed)
                if found is None:
                    continue
                if not quoted_alike(self._context.universe, contract, found):
                    raise FeedRefused(
                        "unknown_contract", f"ProjectX quotes {contract.root} in a different unit"
                    )
                self._ids[contract] = found.id
                break
            else:
                raise FeedRefused("unknown_contract", f"ProjectX does not list {contract.key}")
        return self._ids[contract]

    async def _stream(
        self, contract_id: str, since: Cursor, channel: StreamChannel
    ) -> AsyncGenerator[Event, None]:
        """Bars, then trades."""
        first_ns = since.since_ns - since.since_ns % NANOS_PER_SECOND
        recent_ns = self._rest.vendor_ns()
        await channel.beside(self._rest.bars(contract_id, recent_ns - SETTLED_NS, recent_ns))  # for the date
        now_ns = self._rest.vendor_ns() // NANOS_PER_SECOND * NANOS_PER_SECOND
        first_ns, kept_ns = min(first_ns, now_ns), now_ns - self.caps.reach_ns
        if first_ns < kept_ns:
            yield Gap(since.since_ns, kept_ns, "not_kept")
            first_ns = kept_ns
        seam = Seam(max(first_ns, now_ns - SETTLED_NS), now_ns + WHOLE_NS, now_ns + CUT_NS)
        rows = await channel.beside(self._rest.bars(contract_id, first_ns, seam.edge_ns))
        for at in range(0, len(rows), PIECE):
            yield Bars(rows[at : at + PIECE], Quality.BARS_1S, backfill=True)
        told_ns = int(rows["ts_event"][-1]) + NANOS_PER_SECOND if len(rows) else first_ns
        self._link.worked()
        yield CaughtUp(seam.edge_ns, Quality.BARS_1S)
        async for event in self._closed(contract_id, seam, told_ns, channel):
            yield event
        async for event in channel.events():
            if not isinstance(event, Trades):
                yield event
            elif len(rows := event.rows[event.rows["ts_event"] >= seam.cut_ns]):
                yield Trades(rows)

    async def _closed(
        self, contract_id: str, seam: Seam, told_ns: int, channel: StreamChannel
    ) -> AsyncGenerator[Event, None]:
        """Close the seam as soon as its seconds are over. Bars that lack what was seen live are late, or kept back for
        some time, as of some accounts they are: then what is missing begins where they end."""
        over_ns = seam.cut_ns + OVER_NS
        events = channel.events()
        while max(self._rest.vendor_ns(), seam.newest_ns) < over_ns:
            event = await anext(events)
            if isinstance(event, Trades):
                seam.take(event)
            elif isinstance(event, Heartbeat):
                yield Heartbeat(min(event.at_ns, seam.edge_ns))
            elif not isinstance(event, VolumeCounter):
                yield event
        await events.aclose()
        rows = await channel.beside(self._rest.bars(contract_id, seam.edge_ns, seam.cut_ns))
        for _ in range(MOST_ASKED):
            if seam.met_by(rows):
                break
            await channel.beside(asyncio.sleep(AGAIN_S / self._context.rush))
            rows = await channel.beside(self._rest.bars(contract_id, seam.edge_ns, seam.cut_ns))
        else:
            rows = rows[:0]
            yield Gap(told_ns, seam.cut_ns, "not_kept")
        if len(rows):
            yield Bars(rows, Quality.BARS_1S, backfill=True)
        for event in seam.held:
            yield event
