"""Distributes the events of a shared connection to its streams, and measures how late its trades arrive.

A heartbeat carries a time before which all trades have arrived. Because trades arrive late, this time lies in the past,
by about the longest recent delay.
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

#: Interval between two pings, and time limit for the pong.
PING_INTERVAL_S, PING_TIMEOUT_S = 2.0, 12.0
_LOOKS = 4
#: Bounds of a heartbeat's delay behind our clock.
MIN_LAG_NS, MAX_LAG_NS = NANOS_PER_SECOND, 10 * NANOS_PER_SECOND
_DELAYS_KEPT = 256

T = TypeVar("T")


class StreamChannel(Inbox[Event]):
    """The queue of events from a shared connection for one stream."""

    def __init__(self) -> None:
        super().__init__(BUFFER_LIMIT)
        self._over = asyncio.Event()

    def fail(self, problem: Exception) -> None:
        """End the channel with an error; only the first error counts."""
        super().fail(problem)
        self._over.set()

    def waiting(self) -> list[Trades]:
        """Return the queued trades that the stream has not read yet."""
        return [event for event in self._waiting if isinstance(event, Trades)]

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield every event, then raise the error that ended the channel."""
        while True:
            yield await self.take()

    async def beside(self, work: Awaitable[T]) -> T:
        """Wait for other work and return its result. If the channel ends meanwhile, raise its error at once."""
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
                task.exception()  # mark the exception as retrieved


class ChannelRegistry:
    """The open channels of a connection, by the vendor's symbol."""

    def __init__(self) -> None:
        self._channels: dict[str, list[StreamChannel]] = {}
        self.problem: FeedLost | None = None

    @contextmanager
    def channel(self, symbol: str) -> Generator[StreamChannel]:
        """Open a channel of a symbol for the duration of the context."""
        channel = StreamChannel()
        if self.problem is not None:
            channel.fail(self.problem)
        self._channels.setdefault(symbol, []).append(channel)
        try:
            yield channel
        finally:
            self._channels[symbol].remove(channel)

    def put(self, symbol: str, event: Event) -> None:
        """Send an event to every channel of a symbol."""
        for channel in self._channels.get(symbol, ()):
            channel.put(event)

    def beat(self, at_ns: int) -> None:
        """Send a heartbeat to every channel."""
        for channels in self._channels.values():
            for channel in channels:
                channel.put(Heartbeat(at_ns))

    def fail(self, problem: FeedLost, symbol: str | None = None) -> None:
        """End the channels of a symbol with an error. Without a symbol, end all channels and the connection."""
        if symbol is None:
            self.problem = self.problem or problem
        for name, channels in self._channels.items():
            if symbol in {None, name}:
                for channel in channels:
                    channel.fail(problem)


class DeliveryLag:
    """Measures the delay from a trade to its receipt, including the offset of the vendor's clock from ours."""

    def __init__(self) -> None:
        self._delays_ns: deque[int] = deque(maxlen=_DELAYS_KEPT)

    def record(self, received_ns: int, made_ns: int) -> None:
        """Record the delay of a trade (both ns UTC)."""
        self._delays_ns.append(received_ns - made_ns)

    def before(self, now_ns: int) -> int:
        """Return the time before which all trades have arrived by `now_ns` (ns UTC, the vendor's clock)."""
        late_ns = max(self._delays_ns, default=0)
        return now_ns - min(max(late_ns + MIN_LAG_NS // 2, MIN_LAG_NS), MAX_LAG_NS)


def silence_loggers(*names: str) -> logging.Logger:
    """Disable these loggers at every level, even if logging is configured later; return the last one."""
    found = [logging.getLogger(name) for name in names]
    for logger in found:
        logger.addFilter(lambda _record: False)
    return found[-1]


async def send_heartbeats(
    board: ChannelRegistry,
    lag: DeliveryLag,
    ping: Callable[[], Awaitable[Awaitable[object]]],
    clock: Clock,
    speedup: float,
    has_received: Callable[[], bool] = lambda: True,
) -> None:
    """Ping the vendor regularly and send a heartbeat to the streams after each pong.

    Returns when the connection ends. Without a pong the streams fail with `link_silent`; other errors are reported by
    the task that reads the connection. ping: sends a ping and returns an awaitable of its pong. has_received: whether
    the vendor's own heartbeats are on time.
    """
    while board.problem is None:
        asked_ns = clock.now_ns()
        try:
            answer = asyncio.ensure_future(await ping())
            for _ in range(_LOOKS):  # a blocked event loop must not count as a missing pong
                await asyncio.wait({answer}, timeout=PING_TIMEOUT_S / _LOOKS / speedup)
                if answer.done():
                    break
            silent = not answer.done() or not has_received()
            if answer.done():
                answer.result()
        except Exception:  # noqa: BLE001 - the connection is gone; its reader reports why
            return
        if silent:
            board.fail(FeedLost("link_silent", "no data or heartbeats for too long"))
            return
        board.beat(lag.before(asked_ns))
        await asyncio.sleep(PING_INTERVAL_S / speedup)
