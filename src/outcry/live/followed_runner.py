"""Connects a stream of the engine with the feed that delivers it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from outcry.base.log_events import LogEvent, Report
from outcry.live.model import StreamKey
from outcry.live.runner import Runner
from outcry.trades.feed import Feed, FeedLost, FeedRefused, LoginRefused


class FollowedRunner:
    """A stream of the engine that receives from a feed. Implements `FollowedStream`.

    reacquire: recovers the stream from its log, after an error.
    """

    def __init__(
        self,
        runner: Runner,
        feed: Feed,
        reacquire: Callable[[StreamKey, Feed], Coroutine[Any, Any, Runner]],
        report: Report,
    ) -> None:
        self._runner, self._feed, self._reacquire, self._report = runner, feed, reacquire, report

    async def follow(self) -> bool:
        """Receive events from one connection until it closes; return whether the feed has ended for good."""
        await self._runner.follow(self._feed)
        return self._runner.ended

    def refused(self, problem: FeedRefused) -> None:
        """Record that the feed refuses the contract until the user acts."""
        now_s = asyncio.get_running_loop().time()
        self._runner.refused(problem.code, now_s, login=isinstance(problem, LoginRefused))
        self._report(
            LogEvent.FEED_REJECTED, stream=self._runner.name, code=problem.code, problem=str(problem)
        )

    def lost(self, problem: FeedLost) -> None:
        """Record that the connection is lost."""
        self._runner.lost_code = problem.code
        self._report(LogEvent.FEED_LOST, stream=self._runner.name, code=problem.code, problem=str(problem))

    def closed(self) -> None:
        """Do nothing, because the stream's runner has recorded already that the feed closed the stream."""

    def not_stored(self, problem: OSError) -> None:
        """Report that events cannot be logged."""
        self._report(LogEvent.LOG_STALLED, stream=self._runner.name, problem=str(problem))

    async def failed(self, problem: Exception) -> None:
        """Report an unexpected error. If the stream no longer matches its log, recover it from the log."""
        self._report(LogEvent.STREAM_FAILED, stream=self._runner.name, problem=repr(problem))
        if self._runner.stream.inconsistent:
            self._runner = await self._reacquire(self._runner.key, self._feed)
