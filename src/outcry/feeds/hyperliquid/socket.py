"""A WebSocket to Hyperliquid: subscriptions to the trades of coins, and pings.

The vendor closes a connection that sends nothing for 60 seconds. Our pings are more frequent, because they also show
whether the connection works. After a subscription the vendor first sends the newest trades again. A trade whose id was
received before is dropped.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable

import aiohttp
import msgspec

from outcry.base.clock import Clock
from outcry.base.tasks import BackgroundTasks
from outcry.feeds.answer_limit import answer_limit_s
from outcry.feeds.hyperliquid.protocol import Confirmation, Message, Trade, decode, trade_rows
from outcry.feeds.stream_channel import ChannelRegistry, DeliveryLag, StreamChannel, send_heartbeats
from outcry.trades.feed import FeedLost, FeedRefused, Trades

#: Time limits for connecting and for the confirmation of a subscription.
CONNECT_TIMEOUT_S, ANSWER_TIMEOUT_S = 15.0, 15.0
CLOSE_TIMEOUT_S = 1.0
MAX_FRAME_BYTES = 1 << 24
#: The only message that is not JSON: the vendor's greeting, as its own library (0.24.0) expects it.
GREETING = "Websocket connection established."
#: Ids of trades stored per coin, to recognise trades that the vendor repeats.
_IDS_KEPT = 5_000


class _RecentIds:
    """The newest ids of a coin's trades, in order of arrival."""

    def __init__(self) -> None:
        self._ids: dict[int, None] = {}

    def is_new(self, number: int) -> bool:
        """Return whether an id was not received before, and remember it."""
        if number in self._ids:
            return False
        self._ids[number] = None
        if len(self._ids) > _IDS_KEPT:
            del self._ids[next(iter(self._ids))]
        return True


class HyperliquidSocket:
    """One WebSocket, shared by all coins. Implements `VendorSession`.

    step_of: returns the size step (10⁻⁹ coins) of a coin that was subscribed to.
    """

    def __init__(
        self,
        socket: aiohttp.ClientWebSocketResponse,
        step_of: Callable[[str], int],
        clock: Clock,
        speedup: float,
    ) -> None:
        self._socket, self._step_of, self._clock, self._speedup = socket, step_of, clock, speedup
        self.board, self._lag = ChannelRegistry(), DeliveryLag()
        self._confirmed: dict[str, asyncio.Event] = {}
        self._ids: defaultdict[str, _RecentIds] = defaultdict(_RecentIds)
        #: The pong that the last ping waits for.
        self._pong: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks = BackgroundTasks()
        self._tasks.start("hyperliquid reader", self._read())
        self._tasks.start(
            "hyperliquid heartbeats", send_heartbeats(self.board, self._lag, self._ping, clock, speedup)
        )

    @property
    def open(self) -> bool:
        """Return whether the connection is usable."""
        return self.board.problem is None

    async def subscribed(self, coin: str, channel: StreamChannel) -> None:
        """Subscribe to the trades of a coin for as long as the connection lasts; return once it is confirmed.

        Raises `FeedLost`, and `FeedRefused` if the vendor does not have the coin.
        """
        if coin not in self._confirmed:
            self._confirmed[coin] = asyncio.Event()
            await self._send({"method": "subscribe", "subscription": {"type": "trades", "coin": coin}})
        try:
            async with asyncio.timeout(answer_limit_s(ANSWER_TIMEOUT_S, self._speedup)):
                await channel.beside(self._confirmed[coin].wait())
        except TimeoutError:
            raise FeedLost("vendor_error", "Hyperliquid did not confirm a subscription") from None

    async def close(self) -> None:
        """Close the connection."""
        self.board.fail(FeedLost("closed"))
        await self._tasks.stop()
        await self._socket.close()

    async def _send(self, message: object) -> None:
        try:
            await self._socket.send_str(msgspec.json.encode(message).decode())
        except (aiohttp.ClientError, OSError):
            raise FeedLost("disconnected", "the connection to Hyperliquid was lost") from None

    async def _ping(self) -> asyncio.Future[None]:
        self._pong = asyncio.get_running_loop().create_future()
        await self._send({"method": "ping"})
        return self._pong

    async def _read(self) -> None:
        """Read messages until the connection ends; then end the streams with the reason."""
        problem = FeedLost("disconnected", "Hyperliquid closed the connection")
        try:
            async for frame in self._socket:
                if frame.type is aiohttp.WSMsgType.TEXT:
                    self._on_message(frame.data)
                elif frame.type is aiohttp.WSMsgType.ERROR:
                    break
        except FeedLost as found:
            problem = found
        except (aiohttp.ClientError, OSError) as found:
            problem = FeedLost(
                "disconnected", f"the connection to Hyperliquid failed: {type(found).__name__}"
            )
        finally:
            self.board.fail(problem)

    def _on_message(self, text: str) -> None:
        """Handle a message. Raises `FeedLost`."""
        if text == GREETING:
            return
        message = decode(text, Message, "message")
        match message.channel:
            case "trades":
                self._on_trades(decode(message.data, list[Trade], "trade"))
            case "pong":
                if not self._pong.done():
                    self._pong.set_result(None)
            case "subscriptionResponse":
                confirmation = decode(message.data, Confirmation, "subscription response")
                if confirmation.method == "subscribe" and confirmation.subscription.coin in self._confirmed:
                    self._confirmed[confirmation.subscription.coin].set()
            case "error":
                self._on_error(decode(message.data, str, "error"))
            case _:
                pass  # the vendor may add channels

    def _on_trades(self, trades: list[Trade]) -> None:
        received_ns = self._clock.now_ns()
        fresh: defaultdict[str, list[Trade]] = defaultdict(list)
        for trade in trades:
            if trade.coin in self._confirmed and self._ids[trade.coin].is_new(trade.tid):
                fresh[trade.coin].append(trade)
        for coin, found in fresh.items():
            rows = trade_rows(found, self._step_of(coin), received_ns)
            self._lag.record(received_ns, int(rows["ts_event"].max()))
            self.board.put(coin, Trades(rows))

    def _on_error(self, text: str) -> None:
        """End the streams of an unconfirmed coin that an error names. Other errors change nothing that we use."""
        for coin, confirmed in self._confirmed.items():
            if not confirmed.is_set() and f'"{coin}"' in text.replace("\\", ""):
                problem = FeedRefused("unknown_contract", f"Hyperliquid does not provide trades of {coin}")
                self.board.fail(problem, coin)


async def connect(
    http: aiohttp.ClientSession, url: str, step_of: Callable[[str], int], clock: Clock, speedup: float
) -> HyperliquidSocket:
    """Open a WebSocket. Raises `FeedLost`."""
    try:
        async with asyncio.timeout(answer_limit_s(CONNECT_TIMEOUT_S, speedup)):
            socket = await http.ws_connect(
                url,
                max_msg_size=MAX_FRAME_BYTES,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_TIMEOUT_S / speedup),  # pyright: ignore[reportCallIssue] - made by attrs
            )
    except (aiohttp.ClientError, OSError, TimeoutError) as problem:
        raise FeedLost("unreachable", f"cannot reach Hyperliquid: {type(problem).__name__}") from None
    return HyperliquidSocket(socket, step_of, clock, speedup)
