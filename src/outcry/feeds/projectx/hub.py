"""ProjectX's market hub through a SignalR client: one connection for all contracts.

Rules kept: no other module knows the client. It connects once; to connect again is the feed's to decide. The hub's
address holds the token, as the vendor wants it, so nothing that passes is logged, no error repeats it, and neither a
redirect nor a negotiation leads to another host. That the link lives is known by answers to pings and by the hub's own
beats.
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
from outcry.feeds.projectx.protocol import counted, trade_rows
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

#: Time to connect, and for an answer; the hub beats every 15 s, and may be silent for ten more.
CONNECT_S, ANSWER_S, SILENT_S = 15.0, 15.0, 25.0

_UNHEARD = silence_loggers("pysignalr.client", "pysignalr.transport", "outcry.feeds.projectx.unheard")


class _Negotiated(msgspec.Struct):
    """Answer to a negotiation, in the hub's own names."""

    connectionId: str = ""  # noqa: N815


class _Transport(WebsocketTransport):
    """The client's transport, made to connect once and to leave nothing behind."""

    connection: ClientConnection | None = None
    heard_s = 0.0

    async def run(self) -> None:
        """Connect, greet, and read until the connection ends; raises how it did."""
        await self._set_state(ConnectionState.connecting)
        await self._negotiate()
        async with connect(
            self._url, additional_headers=self._headers, ping_interval=None, close_timeout=1,
            max_size=2**24, logger=_UNHEARD, create_connection=DirectConnection,
        ) as connection:  # fmt: skip
            await self._handshake(connection)
            self._ws = self.connection = connection
            self.heard_s = asyncio.get_running_loop().time()
            keeping = asyncio.create_task(self._keepalive(connection))
            try:
                await self._set_state(ConnectionState.connected)
                await self._process(connection)
            finally:
                keeping.cancel()
                await asyncio.wait({keeping})
                if not keeping.cancelled():
                    keeping.exception()  # the connection is gone, which the reader says

    async def _negotiate(self) -> None:
        """Ask for the number of the connection. The client's own negotiation follows redirects, and to another hub."""
        session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=CONNECT_S), trace_configs=refusing_redirects("ProjectX")
        )
        async with session, session.post(get_negotiate_url(self._url), headers=self._headers) as response:
            if response.status == HTTPStatus.UNAUTHORIZED:
                raise AuthorizationError
            if response.status != HTTPStatus.OK:
                raise FeedLost("vendor_error", f"ProjectX returned HTTP {response.status}")
            answer = msgspec.json.decode(await read_body(response), type=_Negotiated)
            cookies = "; ".join(f"{each.key}={each.coded_value}" for each in response.cookies.values())
        if not answer.connectionId:
            raise redirect_refused("ProjectX")
        self._url = get_connection_url(self._url, answer.connectionId)
        if cookies:  # of a load balancer: the WebSocket has to reach the same server
            self._headers["Cookie"] = cookies

    async def _on_raw_message(self, raw_message: str | bytes) -> None:
        self.heard_s = asyncio.get_running_loop().time()
        await super()._on_raw_message(raw_message)


class _Client(SignalRClient):
    """The client, on that transport."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url)
        self.transport = self._transport = _Transport(
            url=url,
            protocol=self._protocol,
            callback=self._on_message,
            headers={"Authorization": f"Bearer {token}"},
        )


class Hub:
    """One connection, open once `connected` returns."""

    def __init__(self, base: str, token: str, clock: Clock, rush: float) -> None:
        self._clock, self._rush = clock, rush
        self.board, self._lag = ChannelRegistry(), DeliveryLag()
        self._stands: dict[str, asyncio.Event] = {}
        self._ready = asyncio.Event()
        self._refused = False
        self._client = _Client(f"{base}/hubs/market?{urlencode({'access_token': token})}", token)
        self._client.on("GatewayTrade", self._traded)
        self._client.on("GatewayQuote", self._quoted)
        self._client.on("GatewayLogout", self._logged_out)
        self._client.on_open(self._opened)
        self._client.on_error(_nothing)  # each subscription hears of its own
        self._running = asyncio.create_task(self._run())
        self._beating: asyncio.Task[None] | None = None

    @property
    def open(self) -> bool:
        """Whether it can still be used."""
        return self.board.problem is None

    async def connected(self) -> None:
        """Wait until it is. Raises `Rejected` for a token that is not taken, `FeedLost`, `TimeoutError`."""
        ready = asyncio.create_task(self._ready.wait())
        try:
            async with asyncio.timeout(CONNECT_S / self._rush):
                await asyncio.wait({ready, self._running}, return_when=asyncio.FIRST_COMPLETED)
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
        self._beating = asyncio.create_task(self._beat())

    async def subscribed(self, contract_id: str, channel: StreamChannel) -> None:
        """Wait until a subscription stands; it does so for as long as the connection does."""
        try:
            async with asyncio.timeout(max(1.0, ANSWER_S / self._rush)):
                if contract_id not in self._stands:
                    stands = self._stands[contract_id] = asyncio.Event()
                    await self._invoke("SubscribeContractTrades", contract_id, stands.set)
                    await self._invoke("SubscribeContractQuotes", contract_id, lambda: None)
                await channel.beside(self._stands[contract_id].wait())
        except TimeoutError:
            raise FeedLost("vendor_error", "ProjectX did not confirm a subscription") from None
        except (WebSocketException, RuntimeError):
            raise self.board.problem or FeedLost(
                "disconnected", "the connection to ProjectX was lost"
            ) from None

    async def _invoke(self, method: str, contract_id: str, done: Callable[[], None]) -> None:
        async def answered(message: Any) -> None:  # what the client hands to whoever has invoked
            if isinstance(message, CompletionMessage) and message.error:
                self._stands.pop(contract_id, None)
                self.board.fail(_complaint(message.error), contract_id)
            else:
                done()

        arguments: list[Any] = [contract_id]
        await self._client.send(method, arguments, answered)

    async def close(self) -> None:
        """Hang up."""
        self.board.fail(FeedLost("closed"))
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait({self._beating})
        self._running.cancel()
        await asyncio.wait({self._running})

    # -- what comes

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
        except Exception as found:  # noqa: BLE001 - a supervisor: whatever it is, the streams must hear of it
            problem = FeedLost("protocol", f"protocol error in the hub client: {type(found).__name__}")
        self.board.fail(problem)

    async def _opened(self) -> None:
        self._ready.set()

    async def _traded(self, arguments: Any) -> None:
        received_ns = self._clock.now_ns()
        rows = trade_rows(arguments[1], received_ns)
        if len(rows):
            self._lag.record(received_ns, int(rows["ts_event"].min()))
            self.board.put(arguments[0], Trades(rows))

    async def _quoted(self, arguments: Any) -> None:
        count = counted(arguments[1])
        if count is not None:
            self.board.put(arguments[0], count)

    async def _logged_out(self, _arguments: Any) -> None:
        self.board.fail(FeedLost("disconnected", "ProjectX signed the user out"))

    async def _beat(self) -> None:
        transport, loop = self._client.transport, asyncio.get_running_loop()

        def heard() -> bool:
            return loop.time() - transport.heard_s < SILENT_S / self._rush

        if transport.connection is not None:
            ping = transport.connection.ping
            await send_heartbeats(self.board, self._lag, ping, self._clock, self._rush, heard)


def _complaint(text: str) -> FeedLost:
    """What a subscription that is refused means. The text is the hub's and in no fixed words."""
    said = text.lower()
    if any(word in said for word in ("not found", "unknown", "invalid contract")):
        return FeedRefused("unknown_contract", text)
    if any(word in said for word in ("permission", "subscription", "entitle", "unauthorized", "not allowed")):
        return FeedRefused("not_entitled", text)
    return FeedLost("vendor_error", text)


async def _nothing(_message: CompletionMessage) -> None:
    return None
