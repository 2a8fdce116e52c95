"""One connection to TWS, shared by all the streams of a feed: questions and their answers, subscriptions, the clock.

Rules kept: TWS beats by being asked for its time, so a link that is silent is found out; while the link behind TWS is
broken nobody is told that it lives, and when it stands again every stream begins anew from where it was, for what was
traded meanwhile is not sent by itself.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from outcry.base.clock import Clock
from outcry.feeds.clock_skew import limit_clock_skew
from outcry.feeds.ibkr import error_codes
from outcry.feeds.ibkr.contracts import ContractQuery, IbContractDetails
from outcry.feeds.ibkr.tick_subscription import NoSubscriptionFree, TickSubscription
from outcry.feeds.ibkr.tws import Tick, Tws
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import FeedLost, FeedRefused, Heartbeat, Status

#: TWS is asked for its time this often.
BEAT_S = 2.0
#: Nothing heard for so long is a broken link.
SILENCE_S = BEAT_S + 10.0
#: How long TWS may take to greet, and to answer a question.
GREETING_S, ANSWER_S = 15.0, 60.0
#: Times are cut to the second, and trades take their way: this long after an instant nothing before it comes.
LAG_NS = 2 * NANOS_PER_SECOND


@dataclass(slots=True)
class _Asked:
    """A question on its way: what came of the answer so far."""

    done: asyncio.Future[list[Any]]
    parts: list[Any] = field(default_factory=list[Any])


class IbkrSession:
    """A `Listener` of `Tws`. Questions raise `FeedLost` and `FeedRefused`."""

    def __init__(self, clock: Clock, rush: float) -> None:
        self._clock, self._rush = clock, rush
        self._tws = Tws(self)
        self._asked: dict[int, _Asked] = {}
        self._channels: dict[int, TickSubscription] = {}
        self._lost: FeedLost | None = None
        self._refusal: FeedRefused | None = None
        #: What is out of reach of TWS: servers of market data by name, or `_ALL`.
        self._broken: set[str] = set()
        self._told_ns = 0
        #: The question what time it is that is on its way, shared by all who want to know.
        self._time: asyncio.Future[int] | None = None
        self._heard_s = 0.0
        self._watch: asyncio.Task[None] | None = None

    # -- beginning and end

    async def begin(self, host: str, port: int, client_id: int) -> None:
        """Connect. Raises `FeedLost`, also where TWS hangs up instead of greeting: it does so while it restarts, and
        locks nobody out. `FeedRefused` for a client ID in use, and `OSError`."""
        try:
            await self._tws.connect(host, port, client_id, GREETING_S / self._rush)
        except ConnectionAbortedError as problem:
            await self._tws.close()
            raise self._refusal or FeedLost("disconnected", "TWS closed the connection at once") from problem
        except BaseException:
            await self._tws.close()
            raise
        self._heard_s = asyncio.get_running_loop().time()
        self._watch = asyncio.create_task(self._beat())

    @property
    def open(self) -> bool:
        """Whether it can still be used."""
        return self._lost is None

    async def close(self) -> None:
        """Hang up."""
        self._fail(FeedLost("closed", "the feed was closed"))
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait({self._watch})
        await self._tws.close()

    async def _beat(self) -> None:
        """Ask for the time again and again, and find out when nothing is heard any more."""
        loop = asyncio.get_running_loop()
        while self._lost is None:
            if loop.time() - self._heard_s > SILENCE_S / self._rush:
                self._fail(FeedLost("link_silent", "no message from TWS for too long"))
                return
            try:
                self._tws.ask_time()
            except ConnectionError:
                self.hung_up()
                return
            await asyncio.sleep(BEAT_S / self._rush)

    def _fail(self, problem: FeedLost) -> None:
        """The connection is of no more use."""
        if self._lost is None:
            self._lost = problem
        self._end_streams(problem)
        self._tell_time()

    def _end_streams(self, problem: FeedLost) -> None:
        for asked in self._asked.values():
            if not asked.done.done():
                asked.done.set_exception(problem)
        for channel in self._channels.values():
            channel.fail(problem)

    # -- questions

    async def contracts(self, query: ContractQuery) -> list[IbContractDetails]:
        """Contracts that fit; none where there is none. Raises `FeedRefused` for `unknown_contract` itself."""
        return await self._answer(lambda: self._tws.ask_contracts(query))

    async def bars(self, found: IbContractDetails, until: str, duration: str) -> list[Any]:
        """Bars of a minute (`tws.Bar`) that end at or before an instant."""
        return await self._answer(lambda: self._tws.ask_bars(found, until, duration))

    async def ticks(self, found: IbContractDetails, since: str, most: int) -> list[Tick]:
        """The first trades at or after an instant: `most`, and the rest of the last one's second."""
        return await self._answer(lambda: self._tws.ask_ticks(found, since, most))

    async def _answer(self, ask: Callable[[], int]) -> list[Any]:
        request = self._send(ask)
        asked = self._asked[request] = _Asked(asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(ANSWER_S / self._rush):
                return await asked.done
        except TimeoutError as problem:
            raise FeedLost("vendor_error", "TWS did not answer a request") from problem
        finally:
            del self._asked[request]
            if asked.done.done() and not asked.done.cancelled():
                asked.done.exception()  # nobody waits for it any more

    def _send(self, ask: Callable[[], int]) -> int:
        if self._lost is not None:
            raise self._lost
        try:
            return ask()
        except ConnectionError as problem:
            raise FeedLost("disconnected", "TWS closed the connection") from problem

    async def now_ns(self) -> int:
        """What time it is by TWS, asked for now: a whole second."""
        if self._time is None:
            self._send(self._tws.ask_time)
            self._time = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(SILENCE_S / self._rush):
                await asyncio.shield(self._time)
        except TimeoutError as problem:
            raise FeedLost("link_silent", "TWS did not report its time") from problem
        if self._lost is not None:
            raise self._lost
        return self._told_ns

    def _tell_time(self) -> None:
        asked, self._time = self._time, None
        if asked is not None and not asked.done():
            asked.set_result(self._told_ns)

    # -- subscriptions

    def subscribe(self, found: IbContractDetails) -> TickSubscription:
        """Ask for every trade from now on."""
        request = self._send(lambda: self._tws.subscribe(found))
        channel = self._channels[request] = TickSubscription(request)
        if _ALL in self._broken:
            channel.doubt(_BROKEN)
        return channel

    def unsubscribe(self, channel: TickSubscription) -> None:
        """Ask for no more."""
        del self._channels[channel.request]
        if self._lost is None:
            self._tws.unsubscribe(channel.request)

    # -- what TWS says

    def arrived(self) -> None:
        """Bytes came."""
        self._heard_s = asyncio.get_running_loop().time()

    def processed(self) -> None:
        """Trades that came together go on together."""
        received_ns = self._clock.now_ns()
        for channel in self._channels.values():
            channel.flush(received_ns)

    def traded(self, request: int, tick: Tick) -> None:
        """A trade was made."""
        channel = self._channels.get(request)
        if channel is None:
            return
        if channel.doubted and _ALL not in self._broken:  # another server has taken over
            channel.fail(_missed())
        channel.add(tick)

    def timed(self, at_s: int) -> None:
        """TWS says what time it is: its beat."""
        self._told_ns = limit_clock_skew(at_s * NANOS_PER_SECOND, self._clock)
        self._tell_time()
        received_ns = self._clock.now_ns()
        for channel in self._channels.values():
            channel.flush(received_ns)  # they came before it
            if not channel.doubted:
                channel.put(Heartbeat(self._told_ns - LAG_NS))

    def answered(self, request: int, parts: Sequence[Any], *, done: bool) -> None:
        """Part of an answer came."""
        asked = self._asked.get(request)
        if asked is not None and not asked.done.done():
            asked.parts.extend(parts)
            if done:
                asked.done.set_result(asked.parts)

    def noted(self, request: int, code: int, text: str) -> None:
        """A numbered message came."""
        channel, asked = self._channels.get(request), self._asked.get(request)
        if channel is None and asked is None:
            self._noted_of_all(code, text)
            return
        if channel is not None and code in error_codes.NO_SUBSCRIPTION_FREE:
            channel.fail(NoSubscriptionFree())
            return
        fault = error_codes.read_error(code, text)
        if isinstance(fault, FeedLost):
            if channel is not None:
                channel.fail(fault)
            elif asked is not None and not asked.done.done():
                asked.done.set_exception(fault)
        elif fault is error_codes.ReplyKind.NOTHING_THERE and asked is not None and not asked.done.done():
            asked.done.set_result(asked.parts)

    def _noted_of_all(self, code: int, text: str) -> None:
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
            channel.doubt(_BROKEN)

    def _restore(self, what: str) -> None:
        """Every stream begins anew, for what was missed."""
        self._broken.discard(what)
        self._end_streams(_missed())

    def unreadable(self) -> None:
        """What came cannot be read."""
        self._fail(FeedLost("protocol", "TWS sent unreadable data"))

    def hung_up(self) -> None:
        """The connection is gone."""
        self._fail(FeedLost("disconnected", "TWS closed the connection"))


#: Everything: the connection of TWS itself.
_ALL = ""
_BROKEN = Status(
    subscribed=False, code="unsubscribed", text="TWS lost its own connection and is reconnecting"
)


def _missed() -> FeedLost:
    return FeedLost("disconnected", "TWS was disconnected for a while")
