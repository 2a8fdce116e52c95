"""Connection to ProjectX's market hub through a SignalR client, shared by all contracts.

Only this module uses the client library. The client connects once, because the feed decides when to reconnect. The URL
of the hub contains the token, as the vendor requires. Therefore nothing is logged, no error repeats the URL, and no
redirect or negotiation can lead to another host. Replies to pings and the hub's heartbeats show that the connection is
alive.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
from pysignalr.client import SignalRClient
from pysignalr.exceptions import AuthorizationError, HubError
from pysignalr.messages import CompletionMessage
from pysignalr.transport.abstract import ConnectionState
from pysignalr.transport.websocket import WebsocketTransport
from pysignalr.utils import get_connection_url, get_negotiate_url
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from outcry.base.clock import Clock
from outcry.base.http_client import system_resolution
from outcry.base.log_events import discard
from outcry.base.tasks import BackgroundTasks
from outcry.feeds.answer_limit import answer_limit_s
from outcry.feeds.projectx.protocol import parse_volume_counter, trade_rows
from outcry.feeds.redirects import redirect_refused, refusing_redirects
from outcry.feeds.response_body import read_body
from outcry.feeds.shared_session import CredentialsRejected
from outcry.feeds.stream_channel import (
    ChannelRegistry,
    DeliveryLag,
    StreamChannel,
    send_heartbeats,
    silence_loggers,
)
from outcry.feeds.websocket_handshake import DirectConnection
from outcry.trades.feed import FeedLost, FeedRefused, Trades

#: Time limits (s) to connect, for a response, and without data: the hub sends a heartbeat every 15 s.
CONNECT_TIMEOUT_S, ANSWER_TIMEOUT_S, SILENCE_LIMIT_S = 15.0, 15.0, 25.0

_SILENT_LOGGER = silence_loggers("pysignalr.client", "pysignalr.transport", "outcry.feeds.projectx.unheard")


class _Negotiation(msgspec.Struct):
    """Response to the SignalR negotiation request, with the hub's field names."""

    connectionId: str = ""  # noqa: N815


class _Transport(WebsocketTransport):
    """The SignalR client's transport, changed to connect once and to leave no task behind."""

    connection: ClientConnection | None = None
    received_s = 0.0

    async def run(self) -> None:
        """Connect, shake hands and read until the connection ends. Raises the error that ended the connection."""
        await self._set_state(ConnectionState.connecting)
        await self._negotiate()
        async with connect(
            self._url, additional_headers=self._headers, ping_interval=None, close_timeout=1,
            max_size=2**24, logger=_SILENT_LOGGER, create_connection=DirectConnection,
        ) as connection:  # fmt: skip
            await self._handshake(connection)
            self._ws = self.connection = connection
            self.received_s = asyncio.get_running_loop().time()
            async with BackgroundTasks(discard) as tasks:  # the reader reports the lost connection
                tasks.start("projectx keep-alive", self._keepalive(connection))
                await self._set_state(ConnectionState.connected)
                await self._process(connection)

    async def _negotiate(self) -> None:
        """Request the connection id. The client's own negotiation would follow redirects, even to another host."""
        session = aiohttp.ClientSession(
            connector=system_resolution(),
            timeout=aiohttp.ClientTimeout(total=CONNECT_TIMEOUT_S),
            trace_configs=refusing_redirects("ProjectX"),
        )
        async with session, session.post(get_negotiate_url(self._url), headers=self._headers) as response:
            if response.status == HTTPStatus.UNAUTHORIZED:
                raise AuthorizationError
            if response.status != HTTPStatus.OK:
                raise FeedLost("vendor_error", f"ProjectX returned HTTP {response.status}")
            answer = msgspec.json.decode(await read_body(response), type=_Negotiation)
            cookies = "; ".join(f"{each.key}={each.coded_value}" for each in response.cookies.values())
        if not answer.connectionId:
            raise redirect_refused("ProjectX")
        self._url = get_connection_url(self._url, answer.connectionId)
        if cookies:  # of a load balancer: the WebSocket must reach the same server
            self._headers["Cookie"] = cookies

    async def _on_raw_message(self, raw_message: str | bytes) -> None:
        self.received_s = asyncio.get_running_loop().time()
        await super()._on_raw_message(raw_message)


class _Client(SignalRClient):
    """The SignalR client of the library, with `_Transport` as its transport."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url)
        self.transport = self._transport = _Transport(
            url=url,
            protocol=self._protocol,
            callback=self._on_message,
            headers={"Authorization": f"Bearer {token}"},
        )


class Hub:
    """One connection to the hub, usable once `connected` has returned. Implements `VendorSession`."""

    def __init__(self, base: str, token: str, clock: Clock, speedup: float) -> None:
        self._clock, self._speedup = clock, speedup
        self.board, self._lag = ChannelRegistry(), DeliveryLag()
        self._confirmed: dict[str, asyncio.Event] = {}
        self._ready = asyncio.Event()
        self._refused = False
        self._client = _Client(f"{base}/hubs/market?{urlencode({'access_token': token})}", token)
        self._client.on("GatewayTrade", self._on_trade)
        self._client.on("GatewayQuote", self._on_quote)
        self._client.on("GatewayLogout", self._on_logout)
        self._client.on_open(self._on_open)
        self._client.on_error(_nothing)  # each subscription handles its own error
        self._tasks = BackgroundTasks()
        self._run_task = self._tasks.start("projectx hub", self._run())

    @property
    def open(self) -> bool:
        """Return whether the connection can still be used."""
        return self.board.problem is None

    async def connected(self) -> None:
        """Wait until the connection is open.

        Raises `CredentialsRejected` for a rejected token, `FeedLost` and `TimeoutError`.
        """
        ready = asyncio.ensure_future(self._ready.wait())
        try:
            async with asyncio.timeout(answer_limit_s(CONNECT_TIMEOUT_S, self._speedup)):
                await asyncio.wait({ready, self._run_task}, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await self.close()
            raise
        finally:
            ready.cancel()
        if self._refused:
            raise CredentialsRejected("login_expired", "ProjectX rejected its own token")
        if self.board.problem is not None:
            await self.close()
            raise self.board.problem
        self._tasks.start("projectx heartbeats", self._send_heartbeats())

    async def subscribed(self, contract_id: str, channel: StreamChannel) -> None:
        """Subscribe to a contract and wait for the confirmation; the subscription lasts as long as the connection."""
        try:
            async with asyncio.timeout(answer_limit_s(ANSWER_TIMEOUT_S, self._speedup)):
                if contract_id not in self._confirmed:
                    confirmed = self._confirmed[contract_id] = asyncio.Event()
                    await self._invoke("SubscribeContractTrades", contract_id, confirmed.set)
                    await self._invoke("SubscribeContractQuotes", contract_id, lambda: None)
                await channel.beside(self._confirmed[contract_id].wait())
        except TimeoutError:
            raise FeedLost("vendor_error", "ProjectX did not confirm a subscription") from None
        except (WebSocketException, RuntimeError):
            raise self.board.problem or FeedLost(
                "disconnected", "the connection to ProjectX was lost"
            ) from None

    async def _invoke(self, method: str, contract_id: str, done: Callable[[], None]) -> None:
        async def answered(message: Any) -> None:
            if isinstance(message, CompletionMessage) and message.error:
                self._confirmed.pop(contract_id, None)
                self.board.fail(_subscription_error(message.error), contract_id)
            else:
                done()

        arguments: list[Any] = [contract_id]
        await self._client.send(method, arguments, answered)

    async def close(self) -> None:
        """Close the connection."""
        self.board.fail(FeedLost("closed"))
        await self._tasks.stop()

    # -- messages

    async def _run(self) -> None:
        problem = FeedLost("disconnected", "ProjectX closed the connection")
        try:
            await self._client.run()
        except AuthorizationError:
            self._refused = True
            problem = FeedLost("login_expired", "ProjectX rejected its own token")
        except FeedLost as found:
            problem = found
        except (WebSocketException, HubError, aiohttp.ClientError, OSError) as found:
            code = "disconnected" if self._ready.is_set() else "unreachable"
            problem = FeedLost(code, f"the connection to the hub failed: {type(found).__name__}")
        except Exception as found:  # noqa: BLE001 - a supervisor: the streams must learn of any error
            problem = FeedLost("protocol", f"protocol error in the hub client: {type(found).__name__}")
        self.board.fail(problem)

    async def _on_open(self) -> None:
        self._ready.set()

    async def _on_trade(self, arguments: Any) -> None:
        received_ns = self._clock.now_ns()
        rows = trade_rows(arguments[1], received_ns)
        if len(rows):
            self._lag.record(received_ns, int(rows["ts_event"].min()))
            self.board.put(arguments[0], Trades(rows))

    async def _on_quote(self, arguments: Any) -> None:
        count = parse_volume_counter(arguments[1])
        if count is not None:
            self.board.put(arguments[0], count)

    async def _on_logout(self, _arguments: Any) -> None:
        self.board.fail(FeedLost("disconnected", "ProjectX signed the user out"))

    async def _send_heartbeats(self) -> None:
        transport, loop = self._client.transport, asyncio.get_running_loop()
        silence_limit_s = answer_limit_s(SILENCE_LIMIT_S, self._speedup)

        def has_received() -> bool:
            return loop.time() - transport.received_s < silence_limit_s

        if transport.connection is not None:
            ping = transport.connection.ping
            await send_heartbeats(self.board, self._lag, ping, self._clock, self._speedup, has_received)


def _subscription_error(text: str) -> FeedLost:
    """Return the error for a refused subscription, derived from the hub's free text."""
    said = text.lower()
    if any(word in said for word in ("not found", "unknown", "invalid contract")):
        return FeedRefused("unknown_contract", text)
    if any(word in said for word in ("permission", "subscription", "entitle", "unauthorized", "not allowed")):
        return FeedRefused("not_entitled", text)
    return FeedLost("vendor_error", text)


async def _nothing(_message: CompletionMessage) -> None:
    return None
