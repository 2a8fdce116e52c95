"""A signed-in market data WebSocket: passes responses to their requests and packets to their subscriptions.

Both sides send a heartbeat every 2.5 seconds; ten more seconds without a frame end the session. A packet may arrive
before the response from which its subscription is known; it is then buffered. When the socket ends, everything that
waits for it fails with the reason.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp

from outcry.base.clock import Clock
from outcry.base.tasks import BackgroundTasks
from outcry.feeds.answer_limit import answer_limit_s
from outcry.feeds.inbox import copy_error
from outcry.feeds.number_parsing import parse_lots
from outcry.feeds.tradovate import protocol
from outcry.feeds.tradovate.heartbeat_clock import HeartbeatClock
from outcry.feeds.tradovate.tick_subscription import HISTORY_END, TickSubscription
from outcry.trades.feed import FeedLost, FeedRefused, RowFlag, Trades, VolumeCounter

HEARTBEAT_S = 2.5
#: Time without any frame after which the connection counts as lost.
SILENCE_LIMIT_S = HEARTBEAT_S + 10.0
#: A missing response within this time on a live connection is an error of the vendor.
ANSWER_TIMEOUT_S = 15.0
#: Time limit for the vendor's closing handshake.
CLOSE_TIMEOUT_S = 1.0
MAX_FRAME_BYTES = 1 << 24
#: Maximum number of stored packets whose subscription is not known yet.
_MAX_UNCLAIMED = 1000
#: Interval at which the token's age is checked.
_RENEW_CHECK_S = 10.0

#: Error codes of a refused login.
_LOGIN = frozenset({"login_refused", "login_expired"})
_CONNECTION_LOST = "disconnected", "the connection to Tradovate was lost"
_QUOTA = frozenset({"ConnectionQuotaReached", "IPQuotaReached"})


@dataclass(eq=False, slots=True)
class _PendingRequest:
    """A request without a response yet. `chart` is its subscription, identified once the response arrives."""

    answer: "asyncio.Future[protocol.Message]"
    chart: TickSubscription | None = None


class TradovateSession:
    """Signed-in WebSocket of one token. Implements `VendorSession`.

    token: the token with which the session was created. keep: renews the login; raises `FeedRefused` if it cannot.
    """

    def __init__(
        self,
        socket: aiohttp.ClientWebSocketResponse,
        token: str,
        clock: Clock,
        speedup: float,
        keep: Callable[[], Awaitable[None]],
    ) -> None:
        self._socket, self._clock, self._speedup, self._keep = socket, clock, speedup, keep
        self.token = token
        self._pending: dict[int, _PendingRequest] = {}
        self._charts: dict[int, TickSubscription] = {}
        self._quoted: dict[int, TickSubscription] = {}
        self._unclaimed: list[protocol.Packet] = []
        self._number = 0
        self._lost: FeedLost | None = None
        self.heartbeat_clock = HeartbeatClock(clock, speedup)
        self._received_s = asyncio.get_running_loop().time()
        self._opened = asyncio.get_running_loop().create_future()
        self._tasks = BackgroundTasks()
        self._tasks.start("tradovate reader", self._read())
        self._tasks.start("tradovate heartbeats", self._send_heartbeats())
        self._tasks.start("tradovate token", self._renew())

    # -- lifecycle

    @property
    def open(self) -> bool:
        """Return whether the session can still be used."""
        return self._lost is None

    async def begin(self, token: str) -> None:
        """Wait for the vendor's greeting and sign in. Raises `CredentialsRejected` and `FeedLost`."""
        try:
            async with asyncio.timeout(answer_limit_s(ANSWER_TIMEOUT_S, self._speedup)):
                await asyncio.shield(self._opened)
        except TimeoutError:
            raise FeedLost(
                "vendor_error", "Tradovate opened a socket but did not start the session"
            ) from None
        answer = await self._answer("authorize", token)
        if answer.s != 200:
            raise protocol.refusal(answer.s)

    async def close(self) -> None:
        """Close the socket and end all tasks."""
        self._lose(FeedLost("closed"))
        await self._tasks.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S / self._speedup):
                await self._socket.close()

    def _lose(self, problem: FeedLost) -> None:
        """End the session because of an error, and raise the error in everything that waits for the session."""
        if self._lost is not None:
            return
        self._lost = problem
        if not self._opened.done():
            self._opened.set_exception(copy_error(problem))
            self._opened.exception()  # mark the exception as retrieved, because no task may be waiting
        for asked in self._pending.values():
            if not asked.answer.done():
                asked.answer.set_exception(copy_error(problem))
        for chart in {*self._charts.values(), *self._quoted.values()}:
            chart.inbox.fail(problem)

    # -- requests

    async def subscribe(
        self, chart: TickSubscription, name: str, from_ns: int, to_ns: int | None = None
    ) -> protocol.Answer:
        """Request ticks; from now on they arrive in the subscription's inbox.

        The response reports whether the contract is withheld. Raises `FeedLost`, `FeedRefused` and
        `CredentialsRejected`.
        """
        found = await self._charted(chart, protocol.chart_request(name, from_ns, to_ns))
        if found.p_ticket and not found.p_captcha:  # a penalty: wait, then show the ticket
            await asyncio.sleep(found.p_time / self._speedup)
            found = await self._charted(
                chart, protocol.chart_request(name, from_ns, to_ns) | {"p-ticket": found.p_ticket}
            )
        if found.p_captcha:
            raise FeedRefused(
                "not_allowed", "Tradovate requires a human check. Open a chart on its website once"
            )
        if found.p_ticket:
            raise FeedLost("rate_limited", f"Tradovate requires a pause of {found.p_time:g} s")
        if not found.withheld and found.errorText:
            raise FeedLost("vendor_error", f"Tradovate refused a subscription: {found.errorText[:200]}")
        if not found.withheld and not found.numbers:
            raise FeedLost("protocol", "Tradovate confirmed a subscription without an id")
        return found

    async def _charted(self, chart: TickSubscription, body: object) -> protocol.Answer:
        answer = await self._answer("md/getChart", body, chart)
        if answer.s != 200:
            raise protocol.refusal(answer.s)
        return protocol.parse(answer.d, protocol.Answer)

    async def quote(self, chart: TickSubscription, name: str, number: int) -> None:
        """Also subscribe to quotes of the contract, for its volume counter; some contracts have none."""
        self._quoted[number] = chart
        chart.number = number
        await self._answer("md/subscribeQuote", {"symbol": name})

    async def unsubscribe(self, chart: TickSubscription, name: str) -> None:
        """End a subscription to ticks."""
        for number in chart.numbers:
            self._charts.pop(number, None)
        if self._lost is not None:
            return
        if chart.number is not None and self._quoted.pop(chart.number, None) is not None:
            await self._send_unanswered("md/unsubscribeQuote", {"symbol": name})
        for number in sorted(chart.numbers):
            await self._send_unanswered("md/cancelChart", {"subscriptionId": number})

    async def _answer(
        self, endpoint: str, body: object, chart: TickSubscription | None = None
    ) -> protocol.Message:
        number = self._next()
        asked = self._pending[number] = _PendingRequest(asyncio.get_running_loop().create_future(), chart)
        try:
            await self._send(protocol.request(endpoint, number, body))
            async with asyncio.timeout(answer_limit_s(ANSWER_TIMEOUT_S, self._speedup)):
                return await asked.answer
        except TimeoutError:
            raise FeedLost("vendor_error", f"Tradovate did not answer {endpoint}") from None
        finally:
            del self._pending[number]
            if asked.answer.done() and not asked.answer.cancelled():
                asked.answer.exception()  # mark the exception as retrieved, because no task may be waiting
            if not any(asked.chart for asked in self._pending.values()):
                self._unclaimed.clear()

    async def _send_unanswered(self, endpoint: str, body: object) -> None:
        """Send a request whose response is ignored."""
        with contextlib.suppress(FeedLost):
            await self._send(protocol.request(endpoint, self._next(), body))

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _send(self, text: str) -> None:
        if self._lost is not None:
            raise copy_error(self._lost)
        try:
            await self._socket.send_str(text)
        except (aiohttp.ClientError, OSError, RuntimeError):
            self._lose(FeedLost(*_CONNECTION_LOST))
            raise FeedLost(*_CONNECTION_LOST) from None

    # -- messages

    async def _read(self) -> None:
        problem = FeedLost("disconnected", "Tradovate closed the connection")
        try:
            async for message in self._socket:
                self._received_s = asyncio.get_running_loop().time()
                if message.type is not aiohttp.WSMsgType.TEXT:
                    break
                self._frame(message.data)
                self._publish_heartbeat(idle=message.data == protocol.SERVER_HEARTBEAT)
        except FeedLost as fault:
            problem = fault
        except (aiohttp.ClientError, OSError):
            problem = FeedLost(*_CONNECTION_LOST)
        finally:
            self._lose(problem)

    def _frame(self, frame: str) -> None:
        match frame[:1]:
            case "o":
                if not self._opened.done():
                    self._opened.set_result(None)
            case "a":
                for message in protocol.parse_messages(frame):
                    self._message(message)
            case "c":
                raise FeedLost("disconnected", "Tradovate closed the connection")
            case _:
                pass  # `h`: heartbeat

    def _message(self, message: protocol.Message) -> None:
        if isinstance(message.i, int) and (asked := self._pending.get(message.i)) is not None:
            self._answered(asked, message)
        elif message.e == "chart":
            for packet in protocol.parse(message.d, protocol.Charts).charts:
                self._packet(packet)
        elif message.e == "md":
            for quote in protocol.parse(message.d, protocol.Quotes).quotes:
                self._quote(quote)
        elif message.e == "shutdown":
            if protocol.parse(message.d, protocol.Shutdown).reasonCode in _QUOTA:
                raise FeedRefused(
                    "too_many_sessions", "Tradovate ended this session because the user opened another one"
                )
            raise FeedLost("disconnected", "Tradovate is shut down for maintenance")

    def _answered(self, asked: _PendingRequest, message: protocol.Message) -> None:
        if asked.chart is not None and message.s == 200:
            asked.chart.numbers = protocol.parse(message.d, protocol.Answer).numbers
            self._charts.update(dict.fromkeys(asked.chart.numbers, asked.chart))
            early, self._unclaimed = self._unclaimed, []
            for packet in early:
                self._packet(packet)
        if not asked.answer.done():
            asked.answer.set_result(message)

    def _packet(self, packet: protocol.Packet) -> None:
        chart = self._charts.get(packet.id)
        if chart is None:
            if any(asked.chart for asked in self._pending.values()) and len(self._unclaimed) < _MAX_UNCLAIMED:
                self._unclaimed.append(packet)
            return None
        if packet.tks:
            try:
                rows = protocol.parse_rows(
                    packet, self._clock.now_ns(), RowFlag.BACKFILL if chart.history else 0
                )
            except FeedLost as problem:  # the error ends this contract's stream only
                return chart.inbox.fail(problem)
            if not chart.history:
                self.heartbeat_clock.observe(int(rows["ts_event"].max()))
            chart.inbox.put(Trades(rows))
        if packet.eoh and chart.history:
            chart.history = False
            chart.inbox.put(HISTORY_END)
        return None

    def _quote(self, quote: protocol.Quote) -> None:
        chart, total = self._quoted.get(quote.contractId), quote.entries.TotalTradeVolume
        if chart is None or quote.timestamp is None or total is None or total.size is None or chart.history:
            return
        try:
            chart.inbox.put(VolumeCounter(protocol.to_ns(quote.timestamp), parse_lots(total.size)))
        except ValueError:
            chart.inbox.fail(FeedLost("protocol", "Tradovate reported an invalid volume"))

    # -- heartbeats

    def _publish_heartbeat(self, *, idle: bool) -> None:
        """Send a due heartbeat to every stream that has already received its history."""
        if (beat := self.heartbeat_clock.due_heartbeat(idle=idle)) is not None:
            for chart in set(self._charts.values()):
                if not chart.history:
                    chart.inbox.put(beat)

    async def _send_heartbeats(self) -> None:
        """Send heartbeats, and end the session after too long a time without a frame."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(FeedLost):
            while loop.time() - self._received_s <= SILENCE_LIMIT_S / self._speedup:
                await self._send(protocol.CLIENT_HEARTBEAT)
                await asyncio.sleep(HEARTBEAT_S / self._speedup)
        self._lose(FeedLost("link_silent", "no data or heartbeats from Tradovate"))

    async def _renew(self) -> None:
        """Renew the token in time, because the vendor ends a session whose token has expired."""
        while self._lost is None:
            await asyncio.sleep(_RENEW_CHECK_S / self._speedup)
            try:
                await self._keep()
            except FeedRefused as problem:
                self._lose(problem)
            except FeedLost as problem:
                if problem.code in _LOGIN:
                    return  # a failed renewal must not end a session that still works
                # otherwise a fifth of the token's lifetime remains for another attempt
