"""Replay speed of a recording: unlimited, a multiple of real time, or step by step.

All streams of a feed share one pacer, so that contracts stay in step. Closed hours and gaps between files are skipped.
"""

import asyncio
import heapq
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import accumulate
from typing import Protocol

from outcry.base.clock import Clock
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND
from outcry.market.windows import Segment

#: Heartbeats per second of real time in a replay faster than this factor, but at least one per replayed minute.
#: Otherwise there is one per replayed second, and in a replay slower than real time one per second of real time.
_BEATS_PER_SECOND = 10
#: Longest sleep of a waiting stream (s), because the feed may be closed or the clock set meanwhile.
_SLICE_S = 0.25
_NEVER = 2**63 - 1


class Timeline:
    """The stretches of time that are replayed: half-open windows (ns UTC), in order and disjoint."""

    def __init__(self, stretches: tuple[Segment, ...]) -> None:
        self.stretches = stretches
        self._starts = [start for start, _ in stretches]
        self._before = [0, *accumulate(end - start for start, end in stretches)]

    def played(self, at_ns: int) -> int:
        """Return how much replayed time lies before `at_ns` (ns)."""
        index = bisect_right(self._starts, at_ns) - 1
        if index < 0:
            return at_ns - self._starts[0]  # a cursor before everything: negative
        start, end = self.stretches[index]
        return self._before[index] + min(at_ns, end) - start

    def at(self, played_ns: int) -> int:
        """Return the latest time (ns UTC) before which the timeline has `played_ns` of replayed time."""
        index = min(max(bisect_right(self._before, played_ns) - 1, 0), len(self._starts) - 1)
        return self._starts[index] + played_ns - self._before[index]

    def beats(self, after_ns: int, until_ns: int, step_ns: int) -> Iterator[int]:
        """Yield the times of heartbeats after `after_ns` up to `until_ns` inclusive (ns UTC).

        Within the replayed stretches, heartbeats are at the multiples of `step_ns`. There is also one at the begin and
        the end of each stretch, and one at `until_ns`.
        """
        last = after_ns
        for start, end in self.stretches:
            if end <= last or last >= until_ns:
                continue
            if start >= until_ns:
                break
            if start > last:
                yield start
            first = (max(start, last) // step_ns + 1) * step_ns
            last = min(end, until_ns)
            yield from range(first, last, step_ns)
            yield last
        if last < until_ns:
            yield until_ns


class Pacer(Protocol):
    """Controls when replayed time advances. `step_ns`: replayed time between two heartbeats."""

    step_ns: int

    def begin(self, timeline: Timeline, at_ns: int) -> None:
        """Start replayed time at `at_ns`; called once, before the feed's first stream."""
        ...

    def stream(self) -> AbstractContextManager[None]:
        """Register a stream for the duration of the context."""
        ...

    async def reach(self, at_ns: int) -> int:
        """Wait until replayed time reaches `at_ns`; return the replayed time then, at least `at_ns`."""
        ...

    def stop(self) -> None:
        """Let every waiting stream continue at once, to end the replay."""
        ...


def pacer_for_speed(speed: float | None, clock: Clock) -> Pacer:
    """Return the pacer of a speed: 1 for real time, 10 for ten times as fast, None for unlimited."""
    return FreePacer() if speed is None else WallClockPacer(clock, speed)


class FreePacer:
    """Unlimited speed with streams in step: the stream that is furthest behind continues next.

    No contract finishes a day before another starts it, so the front contract does not depend on scheduling.
    """

    step_ns = NANOS_PER_MINUTE

    def __init__(self) -> None:
        self._streams = self._asked = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._stopped = False

    def begin(self, timeline: Timeline, at_ns: int) -> None:
        """Start replayed time at `at_ns` (ns UTC)."""

    @contextmanager
    def stream(self) -> Generator[None]:
        """Register a stream for the duration of the context."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1
            self._let_go()

    async def reach(self, at_ns: int) -> int:
        """Wait until this stream is the furthest behind; return the largest time, because speed is unlimited."""
        await asyncio.sleep(0)
        self._asked += 1
        mine = at_ns, self._asked, asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, mine)
        self._let_go()
        try:
            await mine[2]
        finally:
            if mine in self._waiting:  # cancelled
                self._waiting.remove(mine)
                heapq.heapify(self._waiting)
        return _NEVER

    def stop(self) -> None:
        """Let every waiting stream continue at once, to end the replay."""
        self._stopped = True
        self._let_go()

    def _let_go(self) -> None:
        """Let the stream that is furthest behind continue, once every stream waits."""
        while self._waiting and (self._stopped or len(self._waiting) >= self._streams):
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(None)


class WallClockPacer:
    """Replay at a multiple of real time. If the clock is set back, replayed time continues without a jump."""

    def __init__(
        self, clock: Clock, speed: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        if not 0 < speed < _NEVER:
            raise ValueError(f"invalid speed {speed}")
        self._clock, self._speed, self._sleep = clock, speed, sleep
        second = speed * NANOS_PER_SECOND  # of real time, in replayed time
        step = min(max(second / _BEATS_PER_SECOND, min(second, NANOS_PER_SECOND)), NANOS_PER_MINUTE)
        self.step_ns = max(1, round(step))
        self._timeline: Timeline | None = None
        self._zero = self._elapsed = self._seen = 0
        self._stopped = False

    def begin(self, timeline: Timeline, at_ns: int) -> None:
        """Start replayed time at `at_ns` (ns UTC)."""
        self._timeline, self._zero = timeline, timeline.played(at_ns)
        self._elapsed, self._seen = 0, self._clock.now_ns()

    def stream(self) -> AbstractContextManager[None]:
        """Do nothing: streams need not be registered."""
        return nullcontext()

    async def reach(self, at_ns: int) -> int:
        """Wait until replayed time reaches `at_ns`; return the replayed time then."""
        await self._sleep(0)
        if self._timeline is None:
            raise RuntimeError("replayed time has not begun")
        due = self._timeline.played(at_ns)
        while (played := self._played()) < due and not self._stopped:
            left_s = (due - played) / self._speed / NANOS_PER_SECOND
            await self._sleep(min(left_s, _SLICE_S))
        return max(at_ns, self._timeline.at(played))

    def stop(self) -> None:
        """Let every waiting stream continue at once, to end the replay."""
        self._stopped = True

    def _played(self) -> int:
        now = self._clock.now_ns()
        self._elapsed += max(0, now - self._seen)
        self._seen = now
        return self._zero + round(self._elapsed * self._speed)


class StepPacer:
    """Replay step by step, for tests: the feed advances to a given time and then waits."""

    def __init__(self, step_ns: int = NANOS_PER_SECOND) -> None:
        self.step_ns = step_ns
        self._until = -_NEVER
        self._streams = 0
        self._held: list[int] = []
        self._changed = asyncio.Event()
        self._stopped = False

    def begin(self, timeline: Timeline, at_ns: int) -> None:
        """Do nothing: `advance` alone controls replayed time."""

    @contextmanager
    def stream(self) -> Generator[None]:
        """Register a stream for the duration of the context."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1
            self._poke()

    async def reach(self, at_ns: int) -> int:
        """Wait until `advance` allows the time `at_ns`; return the latest time allowed."""
        self._held.append(at_ns)
        self._poke()
        try:
            while at_ns >= self._until and not self._stopped:
                await self._changed.wait()
        finally:
            self._held.remove(at_ns)
        return max(at_ns, self._until - 1)

    async def advance(self, until_ns: int) -> None:
        """Replay everything before a time (ns UTC); return once every stream being read waits again."""
        self._until = max(self._until, until_ns)
        self._poke()
        while len(self._held) < self._streams or any(held < self._until for held in self._held):
            await self._changed.wait()

    def stop(self) -> None:
        """Let every waiting stream continue at once, to end the replay."""
        self._stopped = True
        self._poke()

    def _poke(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
