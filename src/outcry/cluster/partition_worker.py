"""Run the live streams of the partitions that this process of a cluster owns.

A partition is a fixed share of all live streams. After this process has acquired a partition, it restores the streams
from the log and then answers requests about them. If another process takes over one of the streams, this process stops
using the whole partition. It starts to use the partition again if NATS still assigns it to this process.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from outcry.base.log_events import LogEvent
from outcry.base.tasks import BackgroundTasks
from outcry.cluster.state_publisher import StatePublisher
from outcry.live.engine import Engine
from outcry.live.model import StreamKey
from outcry.live.partitions import Partitions, partition_of_stream
from outcry.live.trade_log import TradeLog

_SETTLED_S = 1.0
#: Serves a partition's calls until the block ends.
Serve = Callable[[int], AbstractAsyncContextManager[None]]


class PartitionWorker:
    """Restore, serve and release the live streams of the partitions that this process owns, on one event loop.

    engine: computes the streams. log: lists the streams of a partition. publisher: publishes the states of these
    streams. serve: answers other processes' requests about a partition.
    """

    def __init__(
        self, engine: Engine, log: TradeLog, partitions: Partitions, publisher: StatePublisher, serve: Serve
    ) -> None:
        self._engine, self._log, self._partitions = engine, log, partitions
        self._publisher, self._serve = publisher, serve
        self._served: dict[int, AsyncExitStack] = {}
        self._turns: dict[int, asyncio.Lock] = {}
        self._renewals = BackgroundTasks(engine.report)
        self._report_timer: asyncio.TimerHandle | None = None
        engine.on_taken_over = self._taken_over

    async def run(self) -> None:
        """Run the streams of owned partitions until cancelled; then release the partitions and stop the engine."""
        await self._engine.start(list)
        try:
            await self._partitions.run(self._gained, self._lost)
        finally:
            await self._renewals.stop()
            if self._report_timer is not None:
                self._report_timer.cancel()
            await self._engine.stop()

    @property
    def served(self) -> Collection[int]:
        """Partitions whose streams this process now runs and answers requests about."""
        return self._served.keys()

    async def _gained(self, partition: int) -> None:
        async with self._turn(partition):
            await self._begin(partition)

    async def _lost(self, partition: int) -> None:
        async with self._turn(partition):
            await self._end(partition)

    async def _begin(self, partition: int) -> None:
        await self._publisher.take_up(partition)  # it must see the streams enter the registry
        names = await self._engine.patiently(lambda: self._log.keys([partition]))
        await self._engine.acquire(names)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._serve(partition))
            self._served[partition] = stack.pop_all()
        self._report_soon()

    async def _end(self, partition: int) -> None:
        try:
            if (served := self._served.pop(partition, None)) is not None:
                await served.aclose()
        finally:  # after an error too: another process owns the partition
            self._publisher.let_go(partition)  # or it would publish that these streams are gone
            await self._engine.release(self._streams(partition))
            self._report_soon()

    def _report_soon(self) -> None:
        """Log the number of served partitions once the number has not changed for a second."""
        if self._report_timer is not None:
            self._report_timer.cancel()
        self._report_timer = asyncio.get_running_loop().call_later(_SETTLED_S, self._report)

    def _report(self) -> None:
        self._engine.report(
            LogEvent.PARTITIONS_SERVED, partitions=len(self._served), streams=len(self._engine.stream_names)
        )

    def _streams(self, partition: int) -> Sequence[str]:
        return [name for name in self._engine.stream_names if partition_of_stream(name) == partition]

    def _taken_over(self, key: StreamKey) -> None:
        """Stop using a partition and restore it again, because another process has taken over one of its streams.

        Usually this process has lost the partition and is about to be notified.
        """
        partition = partition_of_stream(key.text)
        if (name := f"renew partition {partition}") not in self._renewals:
            self._renewals.start(name, self._renew(partition))

    async def _renew(self, partition: int) -> None:
        async with self._turn(partition):
            if partition in self._served:
                await self._end(partition)
                await self._begin(partition)

    def _turn(self, partition: int) -> asyncio.Lock:
        return self._turns.setdefault(partition, asyncio.Lock())
