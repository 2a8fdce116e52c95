"""Periodic checks of all streams: stalled connections, markets and logs, ended sessions, clock drift."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from outcry.base.clock import Clock
from outcry.base.log_events import LogEvent, Report
from outcry.base.tasks import BackgroundTasks
from outcry.live.acquired_streams import AcquiredStreams
from outcry.live.live_feeds import LiveFeeds
from outcry.live.runner import Runner
from outcry.market.units import NANOS_PER_MS, NANOS_PER_SECOND

TICK_S = 0.25
#: Streams checked before other tasks may run.
_AT_ONCE = 50
DRIFT_S = 5.0
#: After a feed has been lost this long, sessions that ended are stored without it.
LOST_FOR_GOOD_S = 3600.0


class StreamWatch:
    """Checks every stream of this process, for example for stalled connections. Call `check` every `TICK_S`.

    tasks: runs the tasks that a check starts. speedup: divides all pauses, for tests.
    """

    def __init__(
        self, streams: AcquiredStreams, feeds: LiveFeeds, clock: Clock, tasks: BackgroundTasks, report: Report,
        speedup: float,
    ) -> None:  # fmt: skip
        self._streams, self._feeds, self._clock = streams, feeds, clock
        self._tasks, self._report, self._speedup = tasks, report, speedup
        self._drift_checked_s = 0.0

    async def check(self) -> None:
        """Check every stream once."""
        runners, now_s = self._streams.runners, asyncio.get_running_loop().time()
        check_drift = now_s - self._drift_checked_s >= DRIFT_S / self._speedup
        if check_drift:
            self._drift_checked_s = now_s
        for count, runner in enumerate(list(runners.values()), 1):
            if not count % _AT_ONCE:
                await asyncio.sleep(0)
            if runners.get(runner.name) is runner:  # otherwise released meanwhile
                self._check(runner, now_s)
                if check_drift and (drift_ns := runner.drifted()) is not None:
                    self._report(LogEvent.CLOCK_DRIFT, stream=runner.name, drift_ms=drift_ns // NANOS_PER_MS)

    def _check(self, runner: Runner, now_s: float) -> None:
        stream = runner.stream
        runner.update_availability(now_s)
        if (problem := runner.log_trouble()) is not None:
            event = LogEvent.LOG_STALLED if problem else LogEvent.LOG_RESUMED
            self._report(event, stream=runner.name, problem=problem)
        if stream.deadline_ns <= runner.market_ns and self._is_abandoned(runner, now_s):
            self._start(f"settle {runner.name}", runner.settle)
        elif stream.amended and not stream.history_loaded:
            self._start(f"look back {runner.name}", stream.load_history)
        elif self._is_over(runner):
            self._start(f"forget {runner.name}", partial(self._streams.forget, runner.key))

    def _start(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a task in the background, unless a task of the same name is running."""
        if name not in self._tasks:
            self._tasks.start(name, work())

    def _is_abandoned(self, runner: Runner, now_s: float) -> bool:
        """Return whether a stream has no feed, or one whose connection has been lost for an hour.

        Its completed sessions are then stored without waiting for the feed.
        """
        if runner.stream.own_clock:
            return False
        if runner.name in self._feeds.followed:
            return runner.lost_for_s(now_s) > LOST_FOR_GOOD_S
        waited_ns = self._clock.now_ns() - runner.since_ns  # after a start its feed may still be connecting
        return runner.health.heard_s > 0 or waited_ns > LOST_FOR_GOOD_S * NANOS_PER_SECOND

    def _is_over(self, runner: Runner) -> bool:
        """Return whether a stream was retired (removed from the registry) and all its sessions are stored."""
        stream = runner.stream
        shown = self._streams.registry.shows(runner.key) or runner.name in self._feeds.followed
        return not (shown or stream.own_clock or stream.days or stream.pending)
