"""Live feed of ProjectX: one-second bars over HTTP, then trades from the hub.

`feeds.bar_seam` joins the two.
"""

from collections.abc import AsyncGenerator
from functools import partial

from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.bar_seam import BarHistory, join_bars_and_trades
from outcry.feeds.projectx.firms import Firm
from outcry.feeds.projectx.hub import Hub
from outcry.feeds.projectx.rest import ProjectXRest
from outcry.feeds.projectx.symbols import find_listed, same_quote_unit
from outcry.feeds.shared_session import CredentialsRejected, SharedSession
from outcry.feeds.stream_channel import StreamChannel
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import CaughtUp, Cursor, Event, FeedCaps, FeedRefused, Status
from outcry.trades.records import Quality

#: Length of the history that is requested first, to learn the vendor's time.
SETTLING_NS = 10 * NANOS_PER_SECOND


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
        try:
            await self._link.close()
        finally:  # also if the caller is cancelled meanwhile
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
        recent_ns = self._rest.vendor_ns()
        # only for the `Date` header of the response
        await channel.beside(self._rest.bars(contract_id, recent_ns - SETTLING_NS, recent_ns))
        history = BarHistory(
            Quality.BARS_1S, partial(self._rest.bars, contract_id), self._vendor_second, self.caps.reach_ns
        )
        async for event in join_bars_and_trades(history, since.since_ns, channel, self._context.speedup):
            if isinstance(event, CaughtUp):
                self._link.worked()
            yield event

    def _vendor_second(self) -> int:
        """Return the whole second that the vendor's clock shows (ns UTC), which is all that it reports."""
        return self._rest.vendor_ns() // NANOS_PER_SECOND * NANOS_PER_SECOND
