"""One dxLink connection: the handshake, beats, and a channel of its own for each contract.

Rules kept: silence for longer than beats allow ends the connection, for a half-open socket says nothing else; a token
is in the message that carries it and nowhere else. (dxLink WebSocket specification 1.0.2; RFC 6455 §5.5.2, pings.)
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

import aiohttp
import msgspec

from outcry import __version__
from outcry.feeds.shared_session import CredentialsRejected
from outcry.feeds.tastytrade.channel import Channel, Message, told_error
from outcry.feeds.tastytrade.rest import Streamer
from outcry.trades.feed import FeedLost

#: What we promise, and ask for: a message at least so often, in seconds.
KEEPALIVE_TIMEOUT_S = 60
#: A ping each so often: the vendor's own beat is too slow to tell a link that lives.
PING_S = 2.0
#: Silence for so long beyond the beat ends the connection.
SILENCE_S = 10.0
_KEEPALIVE_S = 25.0
_CONNECT_S = 15.0
_CLOSE_S = 1.0
_LONGEST_MESSAGE = 64 * 1024 * 1024
_decoder = msgspec.json.Decoder(type=dict[str, Any], float_hook=Decimal)


@dataclass(frozen=True, slots=True)
class Pace:
    """Time limits of a connection, in seconds."""

    rush: float = 1.0

    def s(self, usual_s: float) -> float:
        """So long, at this pace."""
        return usual_s / self.rush


class Connection:
    """A signed-in connection; `VendorSession`."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse, pace: Pace) -> None:
        self._ws, self.pace = ws, pace
        self._channels: dict[int, Channel] = {}
        self._next = 1
        self._failure: FeedLost | None = None
        self._beat_s = float(KEEPALIVE_TIMEOUT_S)
        self._heard_s = self._sent_s = asyncio.get_running_loop().time()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def open(self) -> bool:
        """Whether it can still be used."""
        return self._failure is None

    @property
    def lives(self) -> bool:
        """Whether something was heard just now."""
        silent_s = asyncio.get_running_loop().time() - self._heard_s
        return self.open and silent_s <= 2 * self.pace.s(PING_S)

    def promised(self, beat_s: object) -> None:
        """The vendor says how often it will be heard of, in seconds."""
        if isinstance(beat_s, int) and 0 < beat_s < KEEPALIVE_TIMEOUT_S:
            self._beat_s = float(beat_s)

    def begin(self) -> None:
        """Read and beat from now on; the handshake is over."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._read()), loop.create_task(self._beat())]

    async def channel(self) -> Channel:
        """A new channel, ready for subscriptions. Raises `FeedLost`."""
        number, self._next = self._next, self._next + 2  # a client's are odd
        channel = self._channels[number] = Channel(number, self.send)
        if self._failure is not None:
            channel.end(self._failure)
        try:
            await channel.begin(self.pace.s(_CONNECT_S))
        except BaseException:
            await self.forget(channel)
            raise
        return channel

    async def forget(self, channel: Channel) -> None:
        """A channel's reader has gone; what still comes on it is not looked at."""
        if self._channels.pop(channel.number, None) is not None and self.open:
            with suppress(FeedLost):  # gone with its connection
                await self.send({"type": "CHANNEL_CANCEL", "channel": channel.number})

    async def send(self, message: Message) -> None:
        """Send a message. Raises `FeedLost`."""
        if self._failure is not None:
            raise FeedLost(self._failure.code, str(self._failure))
        self._sent_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self.pace.s(SILENCE_S)):
                await self._ws.send_str(msgspec.json.encode(message).decode())
        except (TimeoutError, aiohttp.ClientError, OSError):
            self._fail(FeedLost("disconnected", "dxLink accepts no more messages"))
            raise FeedLost("disconnected", "dxLink accepts no more messages") from None

    async def receive(self) -> Message | None:
        """The next message; None for a frame that is none. Raises `FeedLost` once the connection is gone."""
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
        self._heard_s = asyncio.get_running_loop().time()
        if frame.type is aiohttp.WSMsgType.PONG:
            self._beat_s = PING_S  # from now on these are its beats
        elif frame.type is aiohttp.WSMsgType.PING:
            await self._ws.pong(cast("bytes", frame.data))
        elif frame.type is aiohttp.WSMsgType.TEXT:
            return _read_message(cast("str", frame.data))
        return None

    async def close(self) -> None:
        """Hang up; may be called again."""
        self._fail(FeedLost("closed", "the connection was closed"))
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._ws.close()

    # -- at work

    async def _read(self) -> None:
        try:
            while True:
                message = await self.receive()
                if message is not None:
                    self._take_in(message)
        except FeedLost as problem:
            self._fail(problem)

    def _take_in(self, message: Message) -> None:
        number, kind = message.get("channel"), message.get("type")
        if isinstance(number, int) and number > 0:
            channel = self._channels.get(number)
            if channel is not None:
                channel.take_in(message)
        elif kind == "ERROR":
            raise told_error(message, whole=True)
        elif kind == "AUTH_STATE" and message.get("state") != "AUTHORIZED":
            raise FeedLost("login_expired", "the quote token has expired")

    async def _beat(self) -> None:
        """Ping, keep alive, and notice silence."""
        loop = asyncio.get_running_loop()
        while self.open:
            await asyncio.sleep(self.pace.s(PING_S))
            if loop.time() - self._heard_s > self.pace.s(self._beat_s + SILENCE_S):
                self._fail(FeedLost("link_silent", "no message from dxLink for too long"))
                return
            try:
                async with asyncio.timeout(self.pace.s(PING_S)):
                    await self._ws.ping()
                    if loop.time() - self._sent_s > self.pace.s(_KEEPALIVE_S):
                        await self.send({"type": "KEEPALIVE", "channel": 0})
            except TimeoutError:
                pass  # nobody reads: silence will tell
            except (FeedLost, aiohttp.ClientError, OSError):
                self._fail(FeedLost("disconnected", "dxLink accepts no more messages"))

    def _fail(self, problem: FeedLost) -> None:
        self._failure = self._failure or problem
        for channel in self._channels.values():
            channel.end(self._failure)


async def connect(http: aiohttp.ClientSession, streamer: Streamer, pace: Pace) -> Connection:
    """Connect and sign in. Raises `Rejected`, `FeedLost`."""
    try:
        async with asyncio.timeout(pace.s(_CONNECT_S)):
            ws = await http.ws_connect(
                streamer.url,
                autoping=False,
                max_msg_size=_LONGEST_MESSAGE,
                timeout=aiohttp.ClientWSTimeout(ws_close=pace.s(_CLOSE_S)),  # pyright: ignore[reportCallIssue] - made by attrs
            )
            connection = Connection(ws, pace)
            try:
                await _sign_in(connection, streamer.token)
            except BaseException:
                await connection.close()
                raise
    except TimeoutError:
        raise FeedLost("unreachable", "dxLink did not answer in time") from None
    except (aiohttp.ClientError, OSError) as problem:
        raise FeedLost("unreachable", f"cannot reach dxLink: {type(problem).__name__}") from None
    connection.begin()
    return connection


async def _sign_in(connection: Connection, token: str) -> None:
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
                connection.promised((message or {}).get("keepaliveTimeout"))
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
                raise told_error(message or {}, whole=True)
            case _:
                pass


def _read_message(text: str) -> Message:
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, ValueError):
        raise FeedLost("protocol", "dxLink sent an unreadable message") from None
