"""Massive through its own client library: one WebSocket for all contracts, and pages of history over HTTP.

Rules kept: no other module knows the library. Nothing that passes is logged: at its finest level the library beneath it
would write the key. No redirect is followed. The library does not connect again by itself: that is the feed's to
decide. That the link lives is known by answers to pings, for the vendor sends nothing while nothing is traded.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from massive import RESTClient, WebSocketClient
from massive.exceptions import AuthError, BadResponse
from massive.websocket.models.common import Market
from urllib3.exceptions import HTTPError, MaxRetryError, ResponseError
from websockets.exceptions import ConnectionClosed

from outcry.base.clock import Clock
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
#: Time to connect and sign in, and for an answer.
SIGN_IN_S, ANSWER_S = 15.0, 15.0
#: The library looks for new subscriptions once a second.
_NOTICED_S = 2.0
#: Complaints that may be about one subscription alone.
_OF_ONE = frozenset({"not_entitled", "unknown_contract", "vendor_error"})
#: Requests for history of one connection at a time.
_THREADS = 2
#: Trades a page of history, the most there may be.
PAGE = 49_999
_OK = 200

_UNHEARD = silence_loggers("WebSocketClient", "RESTClient", "outcry.feeds.massive.unheard")


class Socket:
    """One connection, signed in once `signed_in` returns. `tickers` are subscribed to with it, others when asked."""

    def __init__(self, key: str, tickers: list[str], url: str, clock: Clock, rush: float) -> None:
        scheme, _, host = url.partition("://")
        self._clock, self._rush = clock, rush
        self.board, self._lag = ChannelRegistry(), DeliveryLag()
        self._signed_in = asyncio.Event()
        self._rejected: CredentialsRejected | None = None
        self._stands = {ticker: asyncio.Event() for ticker in tickers}
        self._unfit: dict[str, FeedRefused] = {}
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
        self._running = asyncio.create_task(self._run())
        self._beating: asyncio.Task[None] | None = None

    # -- what the library takes for its JSON module: it reads the greeting and the answer to the login by itself

    def loads(self, text: str | bytes) -> Any:
        """Read what the library reads itself, and see the statuses in it."""
        self._take(text)
        return msgspec.json.decode(text)

    @staticmethod
    def dumps(value: object) -> str:
        """Write what the library sends."""
        return msgspec.json.encode(value).decode()

    # -- life

    @property
    def open(self) -> bool:
        """Whether it can still be used."""
        return self.board.problem is None

    async def signed_in(self) -> None:
        """Wait for the answer to the login. Raises `Rejected`, `FeedLost`, `FeedRefused`, `TimeoutError`."""
        answered = asyncio.create_task(self._signed_in.wait())
        try:
            async with asyncio.timeout(SIGN_IN_S / self._rush):
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
        self._beating = asyncio.create_task(self._beat())

    async def subscribed(self, ticker: str, channel: StreamChannel) -> None:
        """Wait until a subscription stands; it does so for as long as the connection does. One that was refused before
        anybody waited for it is refused then."""
        if ticker in self._unfit:
            raise self._unfit[ticker]
        if ticker not in self._stands:
            self._stands[ticker] = asyncio.Event()
            self._client.subscribe(f"T.{ticker}")
        try:
            async with asyncio.timeout(_NOTICED_S + ANSWER_S / self._rush):
                await channel.beside(self._stands[ticker].wait())
        except TimeoutError:
            raise FeedLost("vendor_error", "Massive did not confirm a subscription") from None

    async def close(self) -> None:
        """Hang up."""
        self.board.fail(FeedLost("closed"))
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait({self._beating})
        if self._client.websocket is not None:
            await self._client.close()
            await asyncio.wait({self._running}, timeout=1)
        self._running.cancel()
        await asyncio.wait({self._running})
        await asyncio.sleep(0)  # the library's loop over connections ends in a step of its own

    async def _run(self) -> None:
        """Connect, sign in and read until the connection ends; the streams then end as it did."""
        problem = FeedLost("disconnected", "Massive closed the connection")
        try:
            await self._client.connect(
                self._heard, logger=_UNHEARD, ping_interval=None, max_size=2**24,
                create_connection=DirectConnection,
            )  # fmt: skip
        except AuthError:
            problem = FeedLost("login_refused")  # the status has said it, and more
        except FeedLost as found:
            problem = found
        except (ConnectionClosed, OSError) as found:
            problem = FeedLost("disconnected", f"the connection to Massive failed: {type(found).__name__}")
        except Exception as found:  # noqa: BLE001 - a supervisor: whatever it is, the streams must hear of it
            problem = FeedLost("protocol", f"protocol error in the Massive client: {type(found).__name__}")
        self.board.fail(problem)

    async def _heard(self, text: Any) -> None:
        self._take(text)

    def _take(self, text: str | bytes) -> None:
        """Read a frame: many trades of many tickers, or statuses."""
        received_ns = self._clock.now_ns()
        trades: defaultdict[str, list[Message]] = defaultdict(list)
        for message in read_frame(text):
            if message.ev == "status":
                self._told(message.status, message.message)
            elif message.ev == "T":
                trades[message.sym].append(message)
        for ticker, found in trades.items():
            rows = live_rows(found, received_ns)
            if len(rows):
                self._lag.record(received_ns, int(rows["ts_event"].min()))
                self.board.put(ticker, Trades(rows))

    def _told(self, status: str, text: str) -> None:
        """Take a status to whom it concerns: a subscription, all that still wait for one, or everybody."""
        named = [ticker for ticker in self._stands if f"T.{ticker}" in text.replace(",", " ").split()]
        if status == "auth_success":
            self._signed_in.set()
        elif status in WELL:
            for ticker in named:
                self._stands[ticker].set()
        else:
            problem = complaint(status, text)
            if isinstance(problem, CredentialsRejected):
                self._rejected = problem
                problem = FeedLost(problem.code, str(problem))
            waiting = [ticker for ticker, stands in self._stands.items() if not stands.is_set()]
            concerned = named or waiting if self._signed_in.is_set() and problem.code in _OF_ONE else []
            for ticker in concerned:
                self._end(ticker, problem)
            if not concerned:
                self.board.fail(problem)

    def _end(self, ticker: str, problem: FeedLost) -> None:
        """End a ticker's streams. A refusal holds for as long as the connection does; after any other fault whoever
        comes next subscribes anew, which the library does only for what it believes not to be subscribed."""
        if isinstance(problem, FeedRefused):
            self._unfit[ticker] = problem
        elif not self._stands[ticker].is_set():
            del self._stands[ticker]
            self._client.subs.discard(f"T.{ticker}")
        self.board.fail(problem, ticker)

    async def _beat(self) -> None:
        socket = self._client.websocket
        if socket is not None:
            await send_heartbeats(self.board, self._lag, socket.ping, self._clock, self._rush)


class _Bounded(RESTClient):
    """The library's client, which would unpack a body however large it becomes. Answers are the body alone."""

    def _get(  # pyright: ignore[reportIncompatibleMethodOverride] - the rest is for what is not asked for here
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
    """History over HTTP, on threads of its own: a vendor that does not answer holds up nobody else's work. `base`:
    `https://host`."""

    def __init__(self, key: str, base: str, rush: float) -> None:
        limit_s = max(1.0, ANSWER_S / rush)
        self._client = _Bounded(key, connect_timeout=limit_s, read_timeout=limit_s, retries=0, base=base)
        self._threads = ThreadPoolExecutor(_THREADS, "outcry-massive")

    async def page(self, ticker: str, asked: Mapping[str, str], received_ns: int) -> Page:
        """A page of trades. Raises `Rejected`, `FeedLost`, `FeedRefused`."""
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
        """Let go of its connections and threads; one that waits for an answer ends with its time limit."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.client.clear()
        self._client.vx.client.clear()
