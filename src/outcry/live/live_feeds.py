"""The feeds of the engine: receives each contract of each feed into the contract's stream."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from outcry.base.backoff import Backoff
from outcry.base.log_events import LogEvent, Report
from outcry.base.tasks import CANCEL_AGAIN_S, BackgroundTasks, end
from outcry.database.errors import StoreBusy
from outcry.live.acquired_streams import AcquiredStreams
from outcry.live.feed_supervisor import FeedSupervisor, follow_until_ended
from outcry.live.followed_runner import FollowedRunner
from outcry.live.model import LogTakenOver, StreamKey
from outcry.live.runner import Runner
from outcry.market.instruments import Contract
from outcry.trades.feed import Feed


class LiveFeeds:
    """Runs the feeds that deliver the engine's streams, on the engine's event loop.

    taken_over: called with the key of a stream that another process has acquired. speedup: divides all pauses, for
    tests.
    """

    def __init__(
        self,
        streams: AcquiredStreams,
        taken_over: Callable[[StreamKey], object],
        report: Report,
        speedup: float,
    ) -> None:
        self._streams, self._taken_over = streams, taken_over
        self._report, self._speedup = report, speedup
        self._supervisor = FeedSupervisor(self._follow, report, speedup)
        self.contracts_of = self._supervisor.contracts_of
        self._tasks = BackgroundTasks(report)
        #: Running tasks by the name of their feed or, for a single contract, of its stream.
        self._running: dict[str, asyncio.Task[None]] = {}
        #: Names of the streams that a feed follows.
        self.followed: set[str] = set()

    @property
    def names(self) -> set[str]:
        """Names of the running feeds, and of streams whose contract was attached on its own (`attach_contract`)."""
        return set(self._running)

    def attach(self, owner: int, feed: Feed) -> asyncio.Task[None]:
        """Receive every contract of a feed in a background task, until the feed ends or is attached again.

        Contracts that the feed lists later, after a roll, are included.
        """
        for runner in self._streams.runners.of(owner, feed.name):
            runner.asked()
        name = f"{owner}/{feed.name}#{id(feed)}"
        return self._attach(name, lambda: self._supervisor.follow(owner, feed.name, feed))

    def attach_contract(self, owner: int, feed: Feed, contract: Contract) -> asyncio.Task[None]:
        """Receive one contract in a background task, from a feed that delivers only requested contracts."""
        key = StreamKey(owner, feed.name, contract)
        return self._attach(key.text, lambda: self._follow(key, feed))

    async def end(self, names: Iterable[str]) -> None:
        """End the reception of contracts that `attach_contract` started. names: names of their streams."""
        await end([self._running.pop(name) for name in names if name in self._running], CANCEL_AGAIN_S)

    async def stop(self) -> None:
        """End all feeds."""
        await self._tasks.stop()

    def _attach(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        known = self._running.pop(name, None)

        async def after() -> None:
            if known is not None:
                await end([known])
            await run()

        task = self._running[name] = self._tasks.start(name, after())
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._running.get(task.get_name()) is task:
            del self._running[task.get_name()]

    async def _follow(self, key: StreamKey, feed: Feed) -> None:
        """Receive one contract until its feed ends or refuses, or another process acquires the stream."""
        try:
            runner = await self._acquire(key, feed)
            self.followed.add(key.text)
            await follow_until_ended(
                FollowedRunner(runner, feed, self._reacquire, self._report), self._speedup
            )
        except LogTakenOver:
            current = self._streams.runners.get(key.text)
            # An open stream means that this process has acquired it again already.
            if current is None or current.stream.closed:
                self._taken_over(key)
        finally:
            self.followed.discard(key.text)

    async def _acquire(self, key: StreamKey, feed: Feed) -> Runner:
        """Return the runner of a stream, that is, the object that runs it.

        Retries as long as the stream's log cannot be read or written.
        """
        backoff = Backoff(self._speedup)
        while True:
            try:
                return await self._streams.acquire_for(key, feed)
            except (StoreBusy, OSError) as problem:
                self._report(LogEvent.STREAM_NOT_ACQUIRED, stream=key.text, problem=str(problem))
            await backoff.sleep()

    async def _reacquire(self, key: StreamKey, feed: Feed) -> Runner:
        self._streams.drop(key)
        return await self._acquire(key, feed)
