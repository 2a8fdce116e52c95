"""One connection to TWS, shared by all streams of a feed: requests and replies, subscriptions and the clock.

TWS sends no heartbeats, so the session requests TWS's time regularly; a missing reply reveals a lost connection. While
the connection behind TWS is broken, no heartbeats are passed on. When that connection is restored, every stream
restarts at its last event, because TWS does not send the trades made meanwhile.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from outcry.base.clock import Clock
from outcry.base.tasks import BackgroundTasks
from outcry.feeds.answer_limit import answer_limit_s
from outcry.feeds.clock_skew import limit_clock_skew
from outcry.feeds.ibkr import error_codes
from outcry.feeds.ibkr.contracts import ContractQuery, IbContractDetails
from outcry.feeds.ibkr.tick_subscription import NoSubscriptionFree, TickSubscription
from outcry.feeds.ibkr.tws import Tick, Tws
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import FeedLost, FeedRefused, Heartbeat, Status

#: Interval between two requests for TWS's time.
BEAT_S = 2.0
#: Time without data after which the connection counts as broken.
SILENCE_S = BEAT_S + 10.0
#: Time limits for TWS's greeting, and for a reply.
GREETING_S, ANSWER_S = 15.0, 60.0
#: All trades have arrived this long after they were made: times are truncated to the second, and transfer takes time.
LAG_NS = 2 * NANOS_PER_SECOND


@dataclass(slots=True)
class _Request:
    """A pending request, with the parts of its reply received so far."""

    done: asyncio.Future[list[Any]]
    parts: list[Any] = field(default_factory=list[Any])


class IbkrSession:
    """One connection to TWS. Implements `VendorSession` and `Listener`.

    Requests raise `FeedLost` and `FeedRefused`.
    """

    def __init__(self, clock: Clock, speedup: float) -> None:
        self._clock, self._speedup = clock, speedup
        self._tws = Tws(self)
        self._requests: dict[int, _Request] = {}
        self._channels: dict[int, TickSubscription] = {}
        self._lost: FeedLost | None = None
        self._refusal: FeedRefused | None = None
        #: Market data servers unavailable to TWS, by name, or `_ALL`.
        self._broken: set[str] = set()
        self._tws_time_ns = 0
        #: The pending request for the time, shared by all callers.
        self._time: asyncio.Future[int] | None = None
        self._received_at_s = 0.0
        self._tasks = BackgroundTasks()

    # -- connection

    async def begin(self, host: str, port: int, client_id: int) -> None:
        """Connect. Raises `FeedLost`, `OSError`, and `FeedRefused` if the client ID is in use.

        While TWS restarts, it closes the connection without a greeting. This raises `FeedLost`, so the feed connects
        again.
        """
        try:
            await self._tws.connect(host, port, client_id, answer_limit_s(GREETING_S, self._speedup))
        except ConnectionAbortedError as problem:
            await self._tws.close()
            raise self._refusal or FeedLost("disconnected", "TWS closed the connection at once") from problem
        except BaseException:
            await self._tws.close()
            raise
        self._received_at_s = asyncio.get_running_loop().time()
        self._tasks.start("tws heartbeats", self._beat())

    @property
    def open(self) -> bool:
        """Return whether the session is usable."""
        return self._lost is None

    async def close(self) -> None:
        """Close the connection."""
        self._fail(FeedLost("closed", "the feed was closed"))
        await self._tasks.stop()
        await self._tws.close()

    async def _beat(self) -> None:
        """Request TWS's time regularly, and end the session if TWS does not reply."""
        loop = asyncio.get_running_loop()
        while self._lost is None:
            if loop.time() - self._received_at_s > SILENCE_S / self._speedup:
                self._fail(FeedLost("link_silent", "no message from TWS for too long"))
                return
            try:
                self._tws.ask_time()
            except ConnectionError:
                self.on_disconnected()
                return
            await asyncio.sleep(BEAT_S / self._speedup)

    def _fail(self, problem: FeedLost) -> None:
        """End the session with an error, which its requests and streams receive."""
        if self._lost is None:
            self._lost = problem
        self._end_streams(problem)
        self._report_time()

    def _end_streams(self, problem: FeedLost) -> None:
        for pending in self._requests.values():
            if not pending.done.done():
                pending.done.set_exception(problem)
        for channel in self._channels.values():
            channel.fail(problem)

    # -- requests

    async def contracts(self, query: ContractQuery) -> list[IbContractDetails]:
        """Return the contracts that match a query. Raises `FeedRefused` (`unknown_contract`) if there are none."""
        return await self._answer(lambda: self._tws.ask_contracts(query))

    async def bars(self, found: IbContractDetails, until: str, duration: str) -> list[Any]:
        """Return one-minute bars (`tws.Bar`) that end at or before a time."""
        return await self._answer(lambda: self._tws.ask_bars(found, until, duration))

    async def ticks(self, found: IbContractDetails, since: str, most: int) -> list[Tick]:
        """Return the first `most` trades at or after a time, and any others in the same second as the last one."""
        return await self._answer(lambda: self._tws.ask_ticks(found, since, most))

    async def _answer(self, ask: Callable[[], int]) -> list[Any]:
        request = self._send(ask)
        pending = self._requests[request] = _Request(asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(answer_limit_s(ANSWER_S, self._speedup)):
                return await pending.done
        except TimeoutError as problem:
            raise FeedLost("vendor_error", "TWS did not answer a request") from problem
        finally:
            del self._requests[request]
            if pending.done.done() and not pending.done.cancelled():
                pending.done.exception()  # mark the exception as retrieved

    def _send(self, ask: Callable[[], int]) -> int:
        if self._lost is not None:
            raise self._lost
        try:
            return ask()
        except ConnectionError as problem:
            raise FeedLost("disconnected", "TWS closed the connection") from problem

    async def now_ns(self) -> int:
        """Request TWS's time and return it (ns UTC, a whole second)."""
        if self._time is None:
            self._send(self._tws.ask_time)
            self._time = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(SILENCE_S / self._speedup):
                await asyncio.shield(self._time)
        except TimeoutError as problem:
            raise FeedLost("link_silent", "TWS did not report its time") from problem
        if self._lost is not None:
            raise self._lost
        return self._tws_time_ns

    def _report_time(self) -> None:
        pending, self._time = self._time, None
        if pending is not None and not pending.done():
            pending.set_result(self._tws_time_ns)

    # -- subscriptions

    def subscribe(self, found: IbContractDetails) -> TickSubscription:
        """Subscribe to every trade of a contract from now on."""
        request = self._send(lambda: self._tws.subscribe(found))
        channel = self._channels[request] = TickSubscription(request)
        if _ALL in self._broken:
            channel.mark_doubtful(_BROKEN)
        return channel

    def unsubscribe(self, channel: TickSubscription) -> None:
        """Cancel a subscription."""
        del self._channels[channel.request]
        if self._lost is None:
            self._tws.unsubscribe(channel.request)

    # -- implements `Listener`

    def on_bytes(self) -> None:
        """Record when bytes were last received."""
        self._received_at_s = asyncio.get_running_loop().time()

    def on_batch_end(self) -> None:
        """Send the trades that TWS delivered together to their streams, as one batch for each stream."""
        received_ns = self._clock.now_ns()
        for channel in self._channels.values():
            channel.flush(received_ns)

    def on_trade(self, request: int, tick: Tick) -> None:
        """Queue a live trade for its stream."""
        channel = self._channels.get(request)
        if channel is None:
            return
        if channel.doubtful and _ALL not in self._broken:  # another server has taken over
            channel.fail(_missed())
        channel.add(tick)

    def on_time(self, at_s: int) -> None:
        """Handle TWS's time: send a heartbeat to the streams."""
        self._tws_time_ns = limit_clock_skew(at_s * NANOS_PER_SECOND, self._clock)
        self._report_time()
        received_ns = self._clock.now_ns()
        for channel in self._channels.values():
            channel.flush(received_ns)  # these trades precede the heartbeat
            if not channel.doubtful:
                channel.put(Heartbeat(self._tws_time_ns - LAG_NS))

    def on_reply(self, request: int, parts: Sequence[Any], *, done: bool) -> None:
        """Collect part of a reply; complete the request with its last part."""
        pending = self._requests.get(request)
        if pending is not None and not pending.done.done():
            pending.parts.extend(parts)
            if done:
                pending.done.set_result(pending.parts)

    def on_message(self, request: int, code: int, text: str) -> None:
        """Handle a message: the error of a request, a change of a connection, or a notice."""
        channel, pending = self._channels.get(request), self._requests.get(request)
        if channel is None and pending is None:
            self._on_connection_message(code, text)
            return
        if channel is not None and code in error_codes.NO_SUBSCRIPTION_FREE:
            channel.fail(NoSubscriptionFree())
            return
        fault = error_codes.read_error(code, text)
        if isinstance(fault, FeedLost):
            if channel is not None:
                channel.fail(fault)
            elif pending is not None and not pending.done.done():
                pending.done.set_exception(fault)
        elif fault is error_codes.ReplyKind.NO_DATA and pending is not None and not pending.done.done():
            pending.done.set_result(pending.parts)

    def _on_connection_message(self, code: int, text: str) -> None:
        farm = error_codes.farm_of(text)
        if code == error_codes.FARM_BROKEN and error_codes.has_futures(farm):
            self._break(farm)
        elif code in error_codes.BROKEN:
            self._break(_ALL)
        elif code == error_codes.FARM_WELL and farm in self._broken:
            self._restore(farm)
        elif code in error_codes.RESTORED:
            self._restore(_ALL)
        elif code == error_codes.CLIENT_ID_TAKEN:
            self._refusal = FeedRefused("wrong_entry", "another program uses this client ID at the same TWS")
        elif (problem := error_codes.connection_error(code)) is not None:
            self._fail(problem)

    def _break(self, what: str) -> None:
        self._broken.add(what)
        for channel in self._channels.values():
            channel.mark_doubtful(_BROKEN)

    def _restore(self, what: str) -> None:
        """Restart every stream after a restored connection, to load the trades missed meanwhile."""
        self._broken.discard(what)
        self._end_streams(_missed())

    def on_unreadable(self) -> None:
        """End the session, because a message from TWS cannot be decoded."""
        self._fail(FeedLost("protocol", "TWS sent unreadable data"))

    def on_disconnected(self) -> None:
        """End the session, because TWS closed the connection."""
        self._fail(FeedLost("disconnected", "TWS closed the connection"))


#: Name for all servers: TWS's own connection.
_ALL = ""
_BROKEN = Status(
    subscribed=False, code="unsubscribed", text="TWS lost its own connection and is reconnecting"
)


def _missed() -> FeedLost:
    return FeedLost("disconnected", "TWS was disconnected for a while")
