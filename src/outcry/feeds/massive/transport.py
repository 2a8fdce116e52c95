"""Massive's client library: one WebSocket for all contracts, and pages of history over HTTP.

No other module uses the library. Its logging is off, because at debug level `websockets` would log the key. Redirects
are refused, and the feed decides when to reconnect, not the library. Pings show whether the connection works, because
the vendor sends nothing without trades. `tests/feeds/test_vendor_libraries.py` lists our assumptions about the
library.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec
from massive import RESTClient, WebSocketClient
from massive.exceptions import AuthError, BadResponse
from massive.websocket.models.common import Market
from urllib3.exceptions import HTTPError, MaxRetryError, ResponseError
from websockets.exceptions import ConnectionClosed
from websockets.frames import DATA_OPCODES, Frame
from websockets.protocol import Event

from outcry.base.clock import Clock
from outcry.base.tasks import BackgroundTasks
from outcry.feeds.answer_limit import answer_limit_s
from outcry.feeds.massive.protocol import (
    WELL,
    Answer,
    Message,
    Page,
    complaint,
    history_rows,
    live_rows,
    next_page,
    read_answer,
    read_frame,
)
from outcry.feeds.redirects import redirect_refused
from outcry.feeds.response_body import MAX_BODY_BYTES, body_too_large
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

SOCKET, REST = "wss://socket.massive.com", "https://api.massive.com"
#: Time limits for connecting with login, and for a reply.
SIGN_IN_S, ANSWER_S = 15.0, 15.0
#: Longest time until the library sends a new subscription; it checks once a second.
_NOTICED_S = 2.0
#: Errors that may concern a single subscription.
_OF_ONE = frozenset({"not_entitled", "unknown_contract", "vendor_error"})
#: Concurrent history requests of one feed.
_THREADS = 2
#: Trades per page of history, the vendor's maximum.
PAGE = 49_999
_OK = 200

_SILENT_LOGGER = silence_loggers("WebSocketClient", "RESTClient", "outcry.feeds.massive.unheard")


class _Connection(DirectConnection):
    """A connection that passes each message to `on_message` as soon as it is received, and closes if that fails.

    The library creates a task and a timer for each message it reads, which costs more than the message itself.
    Therefore only the messages of the login, up to `is_signed_in`, are passed to the library too.
    """

    def __init__(
        self, *given: Any, on_message: Callable[[bytes], None], is_signed_in: Callable[[], bool], **named: Any
    ) -> None:
        super().__init__(*given, **named)
        self._on_message, self._is_signed_in = on_message, is_signed_in
        self._parts: list[bytes] = []

    def process_event(self, event: Event) -> None:
        """Handle a frame, or the response to the handshake."""
        if not isinstance(event, Frame) or event.opcode not in DATA_OPCODES:
            super().process_event(event)
            return
        if not self._is_signed_in():
            super().process_event(event)
        self._parts.append(bytes(event.data))
        if event.fin:
            message = b"".join(self._parts)
            self._parts.clear()
            try:
                self._on_message(message)
            except FeedLost:
                self.transport.abort()


class Socket:
    """One WebSocket connection to Massive, signed in once `signed_in` returns. Implements `VendorSession`.

    tickers: subscribed to at login; others are subscribed to when requested.
    """

    def __init__(self, key: str, tickers: list[str], url: str, clock: Clock, speedup: float) -> None:
        scheme, _, host = url.partition("://")
        self._clock, self._speedup = clock, speedup
        self.board, self._lag = ChannelRegistry(), DeliveryLag()
        self._signed_in = asyncio.Event()
        self._rejected: CredentialsRejected | None = None
        self._confirmed = {ticker: asyncio.Event() for ticker in tickers}
        self._refused: dict[str, FeedRefused] = {}
        self._client = WebSocketClient(
            key,
            feed=host,
            market=Market.Futures,
            raw=True,
            subscriptions=[f"T.{ticker}" for ticker in tickers],
            max_reconnects=0,
            secure=scheme == "wss",
            custom_json=self,
        )
        self._tasks = BackgroundTasks()
        self._running = self._tasks.start("massive reader", self._run())

    # -- the library's JSON module, with which it reads the greeting and the login reply itself

    @staticmethod
    def loads(text: str | bytes) -> Any:
        """Decode a message for the library."""
        return msgspec.json.decode(text)

    @staticmethod
    def dumps(value: object) -> str:
        """Encode a message that the library sends."""
        return msgspec.json.encode(value).decode()

    # -- lifecycle

    @property
    def open(self) -> bool:
        """Return whether the connection is usable."""
        return self.board.problem is None

    async def signed_in(self) -> None:
        """Wait for the login reply. Raises `CredentialsRejected`, `FeedLost`, `FeedRefused`, `TimeoutError`."""
        answered = asyncio.ensure_future(self._signed_in.wait())
        try:
            async with asyncio.timeout(answer_limit_s(SIGN_IN_S, self._speedup)):
                await asyncio.wait({answered, self._running}, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await self.close()
            raise
        finally:
            answered.cancel()
        problem = self._rejected or self.board.problem
        if problem is not None:
            await self.close()
            raise problem
        self._tasks.start("massive heartbeats", self._beat())

    async def subscribed(self, ticker: str, channel: StreamChannel) -> None:
        """Wait until a subscription is confirmed. The subscription lasts as long as the connection.

        Raises the error if the vendor refuses the subscription, even if it refused before this call.
        """
        if ticker in self._refused:
            raise self._refused[ticker]
        if ticker not in self._confirmed:
            self._confirmed[ticker] = asyncio.Event()
            self._client.subscribe(f"T.{ticker}")
        try:
            async with asyncio.timeout(_NOTICED_S + answer_limit_s(ANSWER_S, self._speedup)):
                await channel.beside(self._confirmed[ticker].wait())
        except TimeoutError:
            raise FeedLost("vendor_error", "Massive did not confirm a subscription") from None

    async def close(self) -> None:
        """Close the connection."""
        self.board.fail(FeedLost("closed"))
        if self._client.websocket is not None:
            await self._client.close()
            await asyncio.wait({self._running}, timeout=1)
        await self._tasks.stop()
        await asyncio.sleep(0)  # the library's reconnect loop needs one more step to end

    async def _run(self) -> None:
        """Connect, sign in and read until the connection ends; then end the streams with its error."""
        problem = FeedLost("disconnected", "Massive closed the connection")
        try:
            await self._client.connect(
                _ignore, logger=_SILENT_LOGGER, ping_interval=None, max_size=2**24, compression=None,
                create_connection=partial(
                    _Connection, on_message=self._on_message, is_signed_in=self._signed_in.is_set
                ),
            )  # fmt: skip
        except AuthError:
            problem = FeedLost("login_refused")  # the status had more details
        except FeedLost as found:  # of a redirect
            problem = found
        except (ConnectionClosed, OSError) as found:
            problem = FeedLost("disconnected", f"the connection to Massive failed: {type(found).__name__}")
        except Exception as found:  # noqa: BLE001 - a supervisor: the streams must end with any error
            problem = FeedLost("protocol", f"protocol error in the Massive client: {type(found).__name__}")
        self.board.fail(problem)

    def _on_message(self, text: bytes) -> None:
        try:
            self._handle_message(text)
        except FeedLost as problem:
            self.board.fail(problem)
            raise

    def _handle_message(self, text: bytes) -> None:
        """Handle a received message: trades of many tickers, or statuses. Raises `FeedLost`."""
        received_ns = self._clock.now_ns()
        trades: defaultdict[str, list[Message]] = defaultdict(list)
        for message in read_frame(text):
            if message.ev == "status":
                self._on_status(message.status, message.message)
            elif message.ev == "T":
                trades[message.sym].append(message)
        for ticker, found in trades.items():
            rows = live_rows(found, received_ns)
            if len(rows):
                self._lag.record(received_ns, min(rows["ts_event"].tolist()))
                self.board.put(ticker, Trades(rows))

    def _on_status(self, status: str, text: str) -> None:
        """Handle a status message, which concerns one subscription, all unconfirmed ones, or the connection."""
        named = [ticker for ticker in self._confirmed if f"T.{ticker}" in text.replace(",", " ").split()]
        if status == "auth_success":
            self._signed_in.set()
        elif status in WELL:
            for ticker in named:
                self._confirmed[ticker].set()
        else:
            problem = complaint(status, text)
            if isinstance(problem, CredentialsRejected):
                self._rejected = problem
                problem = FeedLost(problem.code, str(problem))
            waiting = [ticker for ticker, confirmed in self._confirmed.items() if not confirmed.is_set()]
            concerned = named or waiting if self._signed_in.is_set() and problem.code in _OF_ONE else []
            for ticker in concerned:
                self._end(ticker, problem)
            if not concerned:
                self.board.fail(problem)

    def _end(self, ticker: str, problem: FeedLost) -> None:
        """End the streams of a ticker with an error.

        A refusal stays valid as long as the connection. After any other error, an unconfirmed subscription is removed
        from the library's `subs`, so that the library subscribes again for the next reader.
        """
        if isinstance(problem, FeedRefused):
            self._refused[ticker] = problem
        elif not self._confirmed[ticker].is_set():
            del self._confirmed[ticker]
            self._client.subs.discard(f"T.{ticker}")
        self.board.fail(problem, ticker)

    async def _beat(self) -> None:
        socket = self._client.websocket
        if socket is not None:
            await send_heartbeats(self.board, self._lag, socket.ping, self._clock, self._speedup)


async def _ignore(_: Any) -> None:
    """Ignore a message that the library read; `_Connection` has passed it on already."""


class _Bounded(RESTClient):
    """The library's REST client with a size limit. `_get` returns the decompressed body, up to the limit."""

    def _get(  # pyright: ignore[reportIncompatibleMethodOverride] - other parameters are unused here
        self, path: str, params: dict[str, str] | None = None, **_: Any
    ) -> bytes:
        answer = self.client.request(
            "GET",
            self.BASE + path,
            fields=params,
            headers=self.headers,
            preload_content=False,
            redirect=False,
        )
        try:
            body = answer.read(MAX_BODY_BYTES + 1, decode_content=True)
        finally:
            answer.close()
        if answer.get_redirect_location():
            raise redirect_refused("Massive")
        if len(body) > MAX_BODY_BYTES:
            raise body_too_large(MAX_BODY_BYTES)
        if answer.status != _OK:
            raise BadResponse(body.decode("utf-8", "replace"))
        return body


class Rest:
    """Loads history over HTTP on its own threads, so that a slow vendor delays nothing else. base: `https://host`."""

    def __init__(self, key: str, base: str, speedup: float) -> None:
        limit_s = answer_limit_s(ANSWER_S, speedup)
        self._client = _Bounded(key, connect_timeout=limit_s, read_timeout=limit_s, retries=0, base=base)
        self._threads = ThreadPoolExecutor(_THREADS, "outcry-massive")

    async def page(self, ticker: str, asked: Mapping[str, str], received_ns: int) -> Page:
        """Return a page of trades. Raises `CredentialsRejected`, `FeedLost`, `FeedRefused`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._page, ticker, asked, received_ns)

    def _page(self, ticker: str, asked: Mapping[str, str], received_ns: int) -> Page:
        answer = self._answer(ticker, asked)
        return Page(history_rows(answer.results, received_ns), next_page(answer))

    def _answer(self, ticker: str, asked: Mapping[str, str]) -> Answer:
        try:
            answer: Any = self._client.list_futures_trades(ticker, params=dict(asked), raw=True)
            return read_answer(answer)
        except BadResponse as problem:
            refused = read_answer(str(problem))
            raise complaint(refused.status, refused.error or refused.message) from None
        except MaxRetryError as problem:
            if isinstance(problem.reason, ResponseError):
                busy = "429" in str(problem.reason)
                raise FeedLost("rate_limited" if busy else "vendor_error", str(problem.reason)) from None
            raise FeedLost(
                "unreachable", f"the request for history failed: {type(problem.reason).__name__}"
            ) from None
        except HTTPError as problem:
            raise FeedLost(
                "unreachable", f"the request for history failed: {type(problem).__name__}"
            ) from None

    def close(self) -> None:
        """Release connections and threads; a pending request ends at its time limit."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.client.clear()
        self._client.vx.client.clear()
