"""Live feed of Hyperliquid: one-minute bars over HTTP, then trades from the WebSocket (`feeds.bar_seam`)."""

from collections.abc import AsyncGenerator, Callable
from functools import partial

import aiohttp

from outcry.base.http_client import system_resolution
from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.bar_seam import BarHistory, join_bars_and_trades
from outcry.feeds.hyperliquid.info import InfoClient
from outcry.feeds.hyperliquid.protocol import Asset
from outcry.feeds.hyperliquid.socket import HyperliquidSocket, connect
from outcry.feeds.hyperliquid.steps import check_listed, check_prices, finer_prices
from outcry.feeds.redirects import refusing_redirects
from outcry.feeds.shared_session import SharedSession
from outcry.market.instruments import Contract, Product
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_SECOND
from outcry.trades.feed import CaughtUp, Cursor, Event, FeedCaps, FeedRefused, Status, Trades
from outcry.trades.records import Quality

#: Returns the vendor's name (coin) of a product; None if the vendor does not have the product.
CoinOf = Callable[[Product], str | None]


class HyperliquidFeed:
    """Live feed of Hyperliquid. Implements `Feed`. url: base URL of the API, `https://host`."""

    run = ""

    def __init__(self, url: str, coin_of: CoinOf, context: AdapterContext, name: str, caps: FeedCaps) -> None:
        self.name, self.caps, self._context, self._coin_of = name, caps, context, coin_of
        self._url = url.replace("http", "ws", 1) + "/ws"
        self._info = InfoClient(f"{url}/info", context.clock, context.speedup)
        self._link = SharedSession(self._connect, speedup=context.speedup)
        self._http: aiohttp.ClientSession | None = None
        #: Size steps (10⁻⁹ coins) of the coins that streams were opened for.
        self._steps_e9: dict[str, int] = {}
        #: The vendor's coins, as of the last connection.
        self._assets: dict[str, Asset] = {}

    async def contracts(self) -> list[Contract]:
        """Return the contracts to subscribe to now."""
        return list(self._context.select_contracts())

    async def close(self) -> None:
        """Close all connections."""
        try:
            await self._link.close()
        finally:  # also if the caller is cancelled meanwhile
            await self._info.close()
            if self._http is not None:
                await self._http.close()

    async def open(self, contract: Contract, since: Cursor) -> AsyncGenerator[Event, None]:
        """Stream a contract. Raises `FeedLost`, `FeedRefused`."""
        product = self._context.universe.products[contract.root]
        coin = self._coin_of(product)
        if coin is None:
            raise FeedRefused("unknown_contract", f"Hyperliquid does not have {contract.key}")
        self._steps_e9[coin] = product.size_step_e9
        socket = await self._link.session()
        await self._check(product, coin)
        with socket.board.channel(coin) as channel:
            await socket.subscribed(coin, channel)
            yield Status(subscribed=True, code="subscribed")
            history = BarHistory(
                Quality.BARS_1M, partial(self._info.bars, coin, product.size_step_e9), self._info.vendor_ns,
                self.caps.reach_ns, settling_ns=2 * NANOS_PER_SECOND, counts_volume=True,
            )  # fmt: skip
            async for event in join_bars_and_trades(history, since.since_ns, channel, self._context.speedup):
                if isinstance(event, CaughtUp):
                    self._link.worked()
                elif isinstance(event, Trades) and (event.rows["price"] % product.tick_e9).any():
                    raise finer_prices(product, coin)
                yield event

    async def _check(self, product: Product, coin: str) -> None:
        """Check that the product's tick and size step fit the vendor's. Raises `FeedRefused`, `FeedLost`.

        A coarser tick or step would make trades invalid. The vendor's price step changes with the price, so the check
        reads the prices of the last hour.
        """
        check_listed(product, coin, self._assets.get(coin))
        now_ns = self._info.vendor_ns()
        recent = await self._info.bars(coin, product.size_step_e9, now_ns - NANOS_PER_HOUR, now_ns)
        check_prices(product, coin, recent)

    async def _connect(self) -> HyperliquidSocket:
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=system_resolution(), trace_configs=refusing_redirects("Hyperliquid")
            )
        self._assets = await self._info.assets()
        return await connect(
            self._http, self._url, self._steps_e9.__getitem__, self._context.clock, self._context.speedup
        )
