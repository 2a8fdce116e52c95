"""What one stream gets of a connection that several share, and how late that connection's trades come.

Rule kept: a heartbeat lags as the vendor's trades do, so that none comes after it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from outcry.base.clock import Clock
from outcry.feeds.inbox import Inbox, copy_error
from outcry.feeds.seam import BUFFER_LIMIT
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import Event, FeedLost, Heartbeat, Trades

#: Between two pings, and without an answer to one.
PING_INTERVAL_S, PING_TIMEOUT_S = 2.0, 12.0
_LOOKS = 4
#: A heartbeat stays this far behind the present at least, and at most whatever a late trade may have shown.
MIN_LAG_NS, MAX_LAG_NS = NANOS_PER_SECOND, 10 * NANOS_PER_SECOND
_DELAYS_KEPT = 256

T = TypeVar("T")


class StreamChannel(Inbox[Event]):
    """One stream's events, in order."""

    def __init__(self) -> None:
        super().__init__(BUFFER_LIMIT)
        self._over = asyncio.Event()

    def fail(self, problem: Exception) -> None:
        """See `Inbox`."""
        super().fail(problem)
        self._over.set()

    def waiting(self) -> list[Trades]:
        """Trades that nobody has taken yet."""
        return [event for event in self._waiting if isinstance(event, Trades)]

    async def events(self) -> AsyncGenerator[Event, None]:
        """Everything put, then what the channel failed with."""
        while True:
            yield await self.take()

    async def beside(self, work: Awaitable[T]) -> T:
        """Wait for something else; raises at once what the channel fails with."""
        task = asyncio.ensure_future(work)
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait({task, over}, return_when=asyncio.FIRST_COMPLETED)
            if self.problem is not None:
                raise copy_error(self.problem)
            return await task
        finally:
            over.cancel()
            task.cancel()
            await asyncio.wait({task, over})
            if not task.cancelled():
                task.exception()  # it was raised above, or nobody waits for it any more


class ChannelRegistry:
    """The channels of a connection, by the vendor's symbol."""

    def __init__(self) -> None:
        self._channels: dict[str, list[StreamChannel]] = {}
        self.problem: FeedLost | None = None

    @contextmanager
    def channel(self, symbol: str) -> Generator[StreamChannel]:
        """A channel of this symbol for as long as it is needed."""
        channel = StreamChannel()
        if self.problem is not None:
            channel.fail(self.problem)
        self._channels.setdefault(symbol, []).append(channel)
        try:
            yield channel
        finally:
            self._channels[symbol].remove(channel)

    def put(self, symbol: str, event: Event) -> None:
        """Hand an event to whoever reads this symbol."""
        for channel in self._channels.get(symbol, ()):
            channel.put(event)

    def beat(self, at_ns: int) -> None:
        """Tell every reader that the link lives."""
        for channels in self._channels.values():
            for channel in channels:
                channel.put(Heartbeat(at_ns))

    def fail(self, problem: FeedLost, symbol: str | None = None) -> None:
        """End the streams of a symbol, or all of them and the connection."""
        if symbol is None:
            self.problem = self.problem or problem
        for name, channels in self._channels.items():
            if symbol in {None, name}:
                for channel in channels:
                    channel.fail(problem)


class DeliveryLag:
    """How long after they were made a connection's trades come, by our clock: clocks that differ are part of it."""

    def __init__(self) -> None:
        self._delays_ns: deque[int] = deque(maxlen=_DELAYS_KEPT)

    def took(self, received_ns: int, made_ns: int) -> None:
        """A trade came."""
        self._delays_ns.append(received_ns - made_ns)

    def before(self, now_ns: int) -> int:
        """The time of trades of which none is still to come (ns UTC, the vendor's clock)."""
        late_ns = max(self._delays_ns, default=0)
        return now_ns - min(max(late_ns + MIN_LAG_NS // 2, MIN_LAG_NS), MAX_LAG_NS)


def silence_loggers(*names: str) -> logging.Logger:
    """Loggers that say nothing, at whatever level and whoever sets logging up later; the last of them."""
    found = [logging.getLogger(name) for name in names]
    for logger in found:
        logger.addFilter(lambda _record: False)
    return found[-1]


async def send_heartbeats(
    board: ChannelRegistry,
    lag: DeliveryLag,
    ping: Callable[[], Awaitable[Awaitable[object]]],
    clock: Clock,
    rush: float,
    heard: Callable[[], bool] = lambda: True,
) -> None:
    """Ask whether the other side is there, now and then, and tell the streams that it was when asked. Ends when it is
    not: the streams fail with `link_silent`, or with what the reader of the connection finds.

    ping: sends a ping and gives what waits for its answer. heard: whether anything else that must come has come.
    """
    while board.problem is None:
        asked_ns = clock.now_ns()
        try:
            answer = asyncio.ensure_future(await ping())
            for _ in range(_LOOKS):  # a moment in which nothing of ours could run is no silence of theirs
                await asyncio.wait({answer}, timeout=PING_TIMEOUT_S / _LOOKS / rush)
                if answer.done():
                    break
            silent = not answer.done() or not heard()
            if answer.done():
                answer.result()
        except Exception:  # noqa: BLE001 - the connection is gone, in whatever words; its reader tells
            return
        if silent:
            board.fail(FeedLost("link_silent", "no data or heartbeats for too long"))
            return
        board.beat(lag.before(asked_ns))
        await asyncio.sleep(PING_INTERVAL_S / rush)
