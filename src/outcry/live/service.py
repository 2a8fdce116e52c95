"""The live part of the service: the engine, the operator's feeds, pushed feeds and users' connections."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from outcry.base.log_events import LogEvent, Report
from outcry.live.engine import Engine
from outcry.market.instruments import Contract
from outcry.trades.feed import Feed

#: Called when a contract is pushed for the first time: owner, feed, contract.
OnPush = Callable[[int, Feed, Contract], object]


class Pushes(Protocol):
    """Interface to the feeds that other programs push to this process."""

    def subscribe(self, listener: OnPush) -> None:
        """Call `listener` for each contract that starts to be pushed."""
        ...

    def close(self) -> None:
        """Accept no more pushes."""
        ...


class Runs(Protocol):
    """Interface of a component that runs its own feeds on the engine, such as the users' broker connections."""

    async def start(self) -> None:
        """Start in the background."""
        ...

    async def stop(self) -> None:
        """Stop the feeds."""
        ...


class LiveService:
    """Starts and stops all live components on the running event loop.

    feeds: the operator's own feeds, with their owner. connections: the users' broker connections.
    """

    def __init__(
        self,
        engine: Engine,
        feeds: Sequence[tuple[int, Feed]],
        pushes: Pushes | None,
        connections: Runs | None = None,
    ) -> None:
        self.engine = engine
        self._feeds, self._pushes, self._connections = feeds, pushes, connections
        self._starting: asyncio.Task[None] | None = None

    async def start(self, report: Report) -> None:
        """Start in the background, so that requests are answered while the logs are still being read."""
        self.engine.report = report
        self._starting = asyncio.get_running_loop().create_task(self._start())
        self._starting.add_done_callback(self._started)

    def _started(self, starting: asyncio.Task[None]) -> None:
        if not starting.cancelled() and starting.exception() is not None:
            self.engine.report(LogEvent.LIVE_START_FAILED, problem=repr(starting.exception()))

    @property
    def failed(self) -> bool:
        """Whether the live components could not start."""
        starting = self._starting
        return (
            starting is not None
            and starting.done()
            and not starting.cancelled()
            and starting.exception() is not None
        )

    async def _start(self) -> None:
        await self.engine.start()
        for owner, feed in self._feeds:
            self.engine.attach(owner, feed)
        if self._pushes is not None:
            self._pushes.subscribe(self.engine.attach_contract)
        if self._connections is not None:
            await self._connections.start()

    def counted(self) -> dict[str, int]:
        """Return the number of rows accepted from all feeds, and of rows rejected, by reason of rejection."""
        return self.engine.counted()

    async def stop(self) -> None:
        """Stop the feeds and then the streams, and save their state."""
        if self._pushes is not None:
            self._pushes.close()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
            self._starting = None
        if self._connections is not None:
            await self._connections.stop()
        await self.engine.stop()
