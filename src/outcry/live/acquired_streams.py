"""The streams that this process owns.

They are recovered from their logs, added to the registry, and removed when another process takes over.
"""

import asyncio

from outcry.live.model import StreamKey
from outcry.live.recovery import Recovery
from outcry.live.registry import Registry
from outcry.live.runner import Runner
from outcry.live.runners import Runners
from outcry.trades.feed import Feed


class AcquiredStreams:
    """Adds streams that this process acquires to `runners` and the registry, and removes streams that it loses.

    A runner is the object that runs one stream. Not thread-safe: use it on one event loop.
    """

    def __init__(self, runners: Runners, registry: Registry, recovery: Recovery) -> None:
        self.runners, self.registry, self.recovery = runners, registry, recovery

    async def acquire(self, key: StreamKey) -> Runner:
        """Recover a stream from its log, add it to the registry and return its runner.

        Raises `LogDamaged`, `LogTakenOver`.
        """
        return self._add(await self.recovery.runner(key))

    async def acquire_for(self, key: StreamKey, feed: Feed) -> Runner:
        """Return the runner of a stream for a feed; recover the stream from its log first if necessary.

        If the feed plays a recording from its start again (a new run), the stream starts empty.
        """
        runner = self.runners.get(key.text)
        if runner is None:
            runner = self._add(await self.recovery.runner_or_empty(key, feed))
        if runner.stream.position and runner.stream.own_clock and runner.stream.run != feed.run:
            await self.forget(key)
            await self.recovery.forget_alerts(key)
            runner = await self.acquire(key)
        runner.begin(feed)
        runner.barred_ns = await self.recovery.barred_minutes(runner)
        self.registry.put(runner.channel)  # the stream may have been retired
        return runner

    def _add(self, runner: Runner) -> Runner:
        self.runners.put(runner)
        self.registry.put(runner.channel)
        runner.update_availability(asyncio.get_running_loop().time())
        return runner

    def drop(self, key: StreamKey) -> None:
        """Remove a stream from this process. Its log stays on disk."""
        runner = self.runners.pop(key.text)
        if runner is not None:
            runner.stream.close()
        self.registry.drop(key)

    async def forget(self, key: StreamKey) -> None:
        """Remove a stream from this process and delete its log.

        If a feed delivers the contract again, its stream starts empty.
        """
        self.drop(key)
        await self.recovery.forget(key)
