"""Live feed of ProjectX: one-second bars over HTTP, then trades from the hub.

The feed subscribes first and then chooses the cut, a whole second of the vendor's clock. Everything before the cut
comes as bars; those of the last seconds are requested once the seconds are over. Trades received meanwhile are
buffered, so that the stream has no gap. After an interruption, bars replace the rows of the missed seconds.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.projectx.firms import Firm
from outcry.feeds.projectx.hub import Hub
from outcry.feeds.projectx.rest import ProjectXRest
from outcry.feeds.projectx.symbols import find_listed, same_quote_unit
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

#: The vendor has a bar at the latest this long after its second; newer bars are requested later.
SETTLING_NS = 10 * NANOS_PER_SECOND
#: From the response with the vendor's time: until live trades are complete, and until the cut. Then from the cut
#: until its bars are requested.
COMPLETE_AFTER_NS, CUT_AFTER_NS, CUT_BARS_AFTER_NS = (
    NANOS_PER_SECOND,
    5 * NANOS_PER_SECOND,
    2 * NANOS_PER_SECOND,
)
#: Attempts to get missing bars, and the pause between two.
MAX_ATTEMPTS, RETRY_S = 6, 2.0
#: Bars per event.
BATCH_ROWS = 5_000


@dataclass(slots=True)
class BackfillSeam:
    """Progress of joining historical bars and live trades without a gap.

    Bars up to `edge_ns` have been sent. Trades are sent from `cut_ns` on. The seconds between follow as bars once they
    are over. From `whole_ns` on the subscription delivers every trade. `deferred`: the events that wait for those bars.
    """

    edge_ns: int
    whole_ns: int
    cut_ns: int
    deferred: list[Event] = field(default_factory=list[Event])
    newest_ns: int = 0
    #: Seconds before the cut with live trades; each must get a bar.
    traded_seconds: set[int] = field(default_factory=set[int])

    def defer(self, event: Trades) -> None:
        """Store trades at or after the cut, to send them after the bars.

        For earlier trades, store only the seconds in which they were made, because bars of these seconds follow.
        """
        rows = event.rows
        times = rows["ts_event"]
        before = (times >= self.whole_ns) & (times < self.cut_ns)
        self.traded_seconds.update((times[before] // NANOS_PER_SECOND * NANOS_PER_SECOND).tolist())
        self.newest_ns = max(self.newest_ns, int(times.max()))
        if (times >= self.cut_ns).any():
            self.deferred.append(Trades(rows[times >= self.cut_ns]))

    def covered_by(self, bars: Rows) -> bool:
        """Return whether there is a bar for every second in which a live trade was received."""
        return self.traded_seconds <= set(bars["ts_event"].tolist())


class ProjectXFeed:
    """Live feed of ProjectX with one user's key. Implements `Feed`."""

    run = ""

    def __init__(
        self, user: str, key: str, firm: Firm, context: AdapterContext, name: str, caps: FeedCaps
    ) -> None:
        self.name, self.caps, self._context, self._firm = name, caps, context, firm
        self._rest = ProjectXRest(user, key, firm.api, context.clock, context.speedup)
        self._link = SharedSession(self._sign_in, speedup=context.speedup)
        self._ids: dict[Contract, str] = {}

    async def contracts(self) -> list[Contract]:
        """Return the contracts to subscribe to now."""
        return list(self._context.select_contracts())

    async def close(self) -> None:
        """Close all connections."""
        await self._link.close()
        await self._rest.close()

    async def _sign_in(self) -> Hub:
        """Connect to the hub; renew a rejected token once."""
        for again in (True, False):
            token = await self._rest.tokens.token()
            hub = Hub(self._firm.hub, token, self._context.clock, self._context.speedup)
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
        """Return ProjectX's id of a contract. Raises `FeedRefused`."""
        if contract not in self._ids:
            for text in (contract.short_key, contract.root):
                listed = await self._rest.contracts(text)
                found = find_listed(self._context.universe, contract, listed)
                if found is None:
                    continue
                if not same_quote_unit(self._context.universe, contract, found):
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
        """Yield bars of the past, then live trades."""
        first_ns = since.since_ns - since.since_ns % NANOS_PER_SECOND
        recent_ns = self._rest.vendor_ns()
        # only for the `Date` header of the response
        await channel.beside(self._rest.bars(contract_id, recent_ns - SETTLING_NS, recent_ns))
        now_ns = self._rest.vendor_ns() // NANOS_PER_SECOND * NANOS_PER_SECOND
        first_ns, kept_ns = min(first_ns, now_ns), now_ns - self.caps.reach_ns
        if first_ns < kept_ns:
            yield Gap(since.since_ns, kept_ns, "not_kept")
            first_ns = kept_ns
        seam = BackfillSeam(
            max(first_ns, now_ns - SETTLING_NS), now_ns + COMPLETE_AFTER_NS, now_ns + CUT_AFTER_NS
        )
        rows = await channel.beside(self._rest.bars(contract_id, first_ns, seam.edge_ns))
        for at in range(0, len(rows), BATCH_ROWS):
            yield Bars(rows[at : at + BATCH_ROWS], Quality.BARS_1S, backfill=True)
        sent_until_ns = int(rows["ts_event"][-1]) + NANOS_PER_SECOND if len(rows) else first_ns
        self._link.worked()
        yield CaughtUp(seam.edge_ns, Quality.BARS_1S)
        async for event in self._close_seam(contract_id, seam, sent_until_ns, channel):
            yield event
        async for event in channel.events():
            if not isinstance(event, Trades):
                yield event
            elif len(rows := event.rows[event.rows["ts_event"] >= seam.cut_ns]):
                yield Trades(rows)

    async def _close_seam(
        self, contract_id: str, seam: BackfillSeam, sent_until_ns: int, channel: StreamChannel
    ) -> AsyncGenerator[Event, None]:
        """Send the bars between `edge_ns` and the cut once their seconds are over, then the deferred trades.

        If bars of traded seconds stay missing, the vendor withholds recent history from this account. Then a gap is
        reported from the last bar to the cut.
        """
        over_ns = seam.cut_ns + CUT_BARS_AFTER_NS
        events = channel.events()
        while max(self._rest.vendor_ns(), seam.newest_ns) < over_ns:
            event = await anext(events)
            if isinstance(event, Trades):
                seam.defer(event)
            elif isinstance(event, Heartbeat):
                yield Heartbeat(min(event.at_ns, seam.edge_ns))
            elif not isinstance(event, VolumeCounter):
                yield event
        await events.aclose()
        rows = await channel.beside(self._rest.bars(contract_id, seam.edge_ns, seam.cut_ns))
        for _ in range(MAX_ATTEMPTS):
            if seam.covered_by(rows):
                break
            await channel.beside(asyncio.sleep(RETRY_S / self._context.speedup))
            rows = await channel.beside(self._rest.bars(contract_id, seam.edge_ns, seam.cut_ns))
        else:
            rows = rows[:0]
            yield Gap(sent_until_ns, seam.cut_ns, "not_kept")
        if len(rows):
            yield Bars(rows, Quality.BARS_1S, backfill=True)
        for event in seam.deferred:
            yield event
