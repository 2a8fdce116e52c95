"""One dxLink connection: handshake, heartbeats, and one channel per contract.

A connection without data for longer than the heartbeats allow is closed, because a half-open socket reports nothing.
The token is sent in the sign-in message and appears nowhere else, for example in errors (dxLink WebSocket specification
1.0.2; RFC 6455 §5.5.2, pings).
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

import aiohttp
import msgspec

from outcry import __version__
from outcry.base.tasks import BackgroundTasks
from outcry.feeds.answer_limit import answer_limit_s
from outcry.feeds.shared_session import CredentialsRejected
from outcry.feeds.tastytrade.channel import FeedChannel, Message, error_of
from outcry.feeds.tastytrade.rest import QuoteToken
from outcry.trades.feed import FeedLost

#: Keep-alive interval that we announce and request, in seconds.
KEEPALIVE_TIMEOUT_S = 60
#: Ping interval; the vendor's own heartbeat is too slow to show that the connection is alive.
PING_INTERVAL_S = 2.0
#: The connection ends after this time without data beyond the heartbeat interval (s).
SILENCE_LIMIT_S = 10.0
_KEEPALIVE_INTERVAL_S = 25.0
_CONNECT_TIMEOUT_S = 15.0
_CLOSE_TIMEOUT_S = 1.0
_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
_decoder = msgspec.json.Decoder(type=dict[str, Any], float_hook=Decimal)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits of a connection, in seconds. They are divided by `speedup`."""

    speedup: float = 1.0

    def s(self, usual_s: float) -> float:
        """Return a time limit divided by `speedup`."""
        return usual_s / self.speedup

    def answer_s(self, usual_s: float) -> float:
        """Return how long to wait for an answer of the vendor."""
        return answer_limit_s(usual_s, self.speedup)


class DxLinkConnection:
    """A signed-in dxLink connection. Implements `VendorSession`."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse, timeouts: Timeouts) -> None:
        self._ws, self.timeouts = ws, timeouts
        self._channels: dict[int, FeedChannel] = {}
        self._next = 1
        self._failure: FeedLost | None = None
        self._heartbeat_s = float(KEEPALIVE_TIMEOUT_S)
        self._received_s = self._sent_s = asyncio.get_running_loop().time()
        self._tasks = BackgroundTasks()

    @property
    def open(self) -> bool:
        """Return whether the connection can still be used."""
        return self._failure is None

    @property
    def alive(self) -> bool:
        """Return whether a message was received recently."""
        silent_s = asyncio.get_running_loop().time() - self._received_s
        return self.open and silent_s <= 2 * self.timeouts.s(PING_INTERVAL_S)

    def set_heartbeat(self, beat_s: object) -> None:
        """Set the vendor's announced heartbeat interval, in seconds; ignore an invalid one."""
        if isinstance(beat_s, int) and 0 < beat_s < KEEPALIVE_TIMEOUT_S:
            self._heartbeat_s = float(beat_s)

    def start(self) -> None:
        """Start reading and sending heartbeats; call it after the handshake."""
        self._tasks.start("dxlink reader", self._read())
        self._tasks.start("dxlink heartbeats", self._send_heartbeats())

    async def channel(self) -> FeedChannel:
        """Open a new channel, ready for subscriptions. Raises `FeedLost`."""
        number, self._next = self._next, self._next + 2  # clients use odd channel numbers
        channel = self._channels[number] = FeedChannel(number, self.send)
        if self._failure is not None:
            channel.end(self._failure)
        try:
            await channel.start(self.timeouts.answer_s(_CONNECT_TIMEOUT_S))
        except BaseException:
            await self.close_channel(channel)
            raise
        return channel

    async def close_channel(self, channel: FeedChannel) -> None:
        """Close a channel; later messages for it are ignored."""
        if self._channels.pop(channel.number, None) is not None and self.open:
            with suppress(FeedLost):  # the channel ended with its connection
                await self.send({"type": "CHANNEL_CANCEL", "channel": channel.number})

    async def send(self, message: Message) -> None:
        """Send a message. Raises `FeedLost`."""
        if self._failure is not None:
            raise FeedLost(self._failure.code, str(self._failure))
        self._sent_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self.timeouts.s(SILENCE_LIMIT_S)):
                await self._ws.send_str(msgspec.json.encode(message).decode())
        except (TimeoutError, aiohttp.ClientError, OSError):
            self._fail(FeedLost("disconnected", "dxLink accepts no more messages"))
            raise FeedLost("disconnected", "dxLink accepts no more messages") from None

    async def receive(self) -> Message | None:
        """Return the next message; None for a frame without one. Raises `FeedLost` once the connection is lost."""
        try:
            frame = await self._ws.receive()
        except (aiohttp.ClientError, OSError) as problem:
            raise FeedLost(
                "disconnected", f"the connection to dxLink failed: {type(problem).__name__}"
            ) from None
        if frame.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED):
            raise FeedLost("disconnected", "dxLink closed the connection")
        if frame.type is aiohttp.WSMsgType.ERROR:
            raise FeedLost("disconnected", "dxLink closed the connection in the middle of a message")
        self._received_s = asyncio.get_running_loop().time()
        if frame.type is aiohttp.WSMsgType.PONG:
            self._heartbeat_s = PING_INTERVAL_S  # from now on pongs are the heartbeats
        elif frame.type is aiohttp.WSMsgType.PING:
            await self._ws.pong(cast("bytes", frame.data))
        elif frame.type is aiohttp.WSMsgType.TEXT:
            return _read_message(cast("str", frame.data))
        return None

    async def close(self) -> None:
        """Close the connection; may be called again."""
        self._fail(FeedLost("closed", "the connection was closed"))
        await self._tasks.stop()
        await self._ws.close()

    # -- reading and heartbeats

    async def _read(self) -> None:
        try:
            while True:
                message = await self.receive()
                if message is not None:
                    self._dispatch(message)
        except FeedLost as problem:
            self._fail(problem)

    def _dispatch(self, message: Message) -> None:
        number, kind = message.get("channel"), message.get("type")
        if isinstance(number, int) and number > 0:
            channel = self._channels.get(number)
            if channel is not None:
                channel.receive(message)
        elif kind == "ERROR":
            raise error_of(message, whole=True)
        elif kind == "AUTH_STATE" and message.get("state") != "AUTHORIZED":
            raise FeedLost("login_expired", "the quote token has expired")

    async def _send_heartbeats(self) -> None:
        """Send pings and keep-alive messages, and end the connection after too long a time without data."""
        loop = asyncio.get_running_loop()
        while self.open:
            await asyncio.sleep(self.timeouts.s(PING_INTERVAL_S))
            if loop.time() - self._received_s > self.timeouts.s(self._heartbeat_s + SILENCE_LIMIT_S):
                self._fail(FeedLost("link_silent", "no message from dxLink for too long"))
                return
            try:
                async with asyncio.timeout(self.timeouts.s(PING_INTERVAL_S)):
                    await self._ws.ping()
                    if loop.time() - self._sent_s > self.timeouts.s(_KEEPALIVE_INTERVAL_S):
                        await self.send({"type": "KEEPALIVE", "channel": 0})
            except TimeoutError:
                pass  # the peer does not read; the time limit will detect it
            except (FeedLost, aiohttp.ClientError, OSError):
                self._fail(FeedLost("disconnected", "dxLink accepts no more messages"))

    def _fail(self, problem: FeedLost) -> None:
        self._failure = self._failure or problem
        for channel in self._channels.values():
            channel.end(self._failure)


async def connect(
    http: aiohttp.ClientSession, quote_token: QuoteToken, timeouts: Timeouts
) -> DxLinkConnection:
    """Connect and sign in. Raises `CredentialsRejected`, `FeedLost`."""
    try:
        async with asyncio.timeout(timeouts.answer_s(_CONNECT_TIMEOUT_S)):
            ws = await http.ws_connect(
                quote_token.url,
                autoping=False,
                max_msg_size=_MAX_MESSAGE_BYTES,
                timeout=aiohttp.ClientWSTimeout(ws_close=timeouts.s(_CLOSE_TIMEOUT_S)),  # pyright: ignore[reportCallIssue] - made by attrs
            )
            connection = DxLinkConnection(ws, timeouts)
            try:
                await _sign_in(connection, quote_token.token)
            except BaseException:
                await connection.close()
                raise
    except TimeoutError:
        raise FeedLost("unreachable", "dxLink did not answer in time") from None
    except (aiohttp.ClientError, OSError) as problem:
        raise FeedLost("unreachable", f"cannot reach dxLink: {type(problem).__name__}") from None
    connection.start()
    return connection


async def _sign_in(connection: DxLinkConnection, token: str) -> None:
    await connection.send(
        {
            "type": "SETUP",
            "channel": 0,
            "version": f"0.1-outcry/{__version__}",
            "keepaliveTimeout": KEEPALIVE_TIMEOUT_S,
            "acceptKeepaliveTimeout": KEEPALIVE_TIMEOUT_S,
        }
    )
    asked = False
    while True:
        message = await connection.receive()
        match (message or {}).get("type"):
            case "SETUP":
                connection.set_heartbeat((message or {}).get("keepaliveTimeout"))
            case "AUTH_STATE" if (message or {}).get("state") == "AUTHORIZED":
                return
            case "AUTH_STATE" if asked:
                raise CredentialsRejected("login_refused", "dxLink rejected the quote token")
            case "AUTH_STATE":
                asked = True
                await connection.send({"type": "AUTH", "channel": 0, "token": token})
            case "ERROR" if (message or {}).get("error") == "UNAUTHORIZED":
                raise CredentialsRejected("login_refused", "dxLink rejected the quote token")
            case "ERROR":
                raise error_of(message or {}, whole=True)
            case _:
                pass


def _read_message(text: str) -> Message:
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, ValueError):
        raise FeedLost("protocol", "dxLink sent an unreadable message") from None
