"""How fast a recording is replayed: as fast as it is taken, as it happened or many times faster, or step by step.

Rules kept: one pace serves all streams of a feed, so that contracts stay side by side; time in which nothing can
happen (a weekend, days between two files) is not waited for.
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

#: A beat every replayed second, or every second of ours in a slower replay; of one more than ten times as fast ten a
#: second of ours, but at least one a minute of its own.
_BEATS_PER_SECOND = 10
#: A stream that waits looks up this often, for the feed may have been closed, or the clock set.
_SLICE_S = 0.25
_NEVER = 2**63 - 1


class Timeline:
    """The stretches of time that are replayed: half-open windows (ns UTC), in order and apart."""

    def __init__(self, stretches: tuple[Segment, ...]) -> None:
        self.stretches = stretches
        self._starts = [start for start, _ in stretches]
        self._before = [0, *accumulate(end - start for start, end in stretches)]

    def played(self, at_ns: int) -> int:
        """How much of the stretches lies before an instant, in ns."""
        index = bisect_right(self._starts, at_ns) - 1
        if index < 0:
            return at_ns - self._starts[0]  # a cursor before everything: negative
        start, end = self.stretches[index]
        return self._before[index] + min(at_ns, end) - start

    def at(self, played_ns: int) -> int:
        """The instant (ns UTC) before which so much of the stretches lies, the latest where there are several."""
        index = min(max(bisect_right(self._before, played_ns) - 1, 0), len(self._starts) - 1)
        return self._starts[index] + played_ns - self._before[index]

    def beats(self, after_ns: int, until_ns: int, step_ns: int) -> Iterator[int]:
        """Instants later than one and not later than another: every multiple of the step within the stretches, where
        each begins and ends, and `until_ns`."""
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
    """When replayed time may go on. `step_ns`: how much of it passes from one sign of life to the next."""

    step_ns: int

    def begin(self, timeline: Timeline, at_ns: int) -> None:
        """Replayed time begins at an instant; called once, before the first stream of the feed."""
        ...

    def stream(self) -> AbstractContextManager[None]:
        """One more stream, as long as it runs."""
        ...

    async def reach(self, at_ns: int) -> int:
        """Wait until it is `at_ns` in replayed time; return what time it is then, not earlier than that."""
        ...

    def stop(self) -> None:
        """Let every stream that waits go on at once."""
        ...


def pacer_for_speed(speed: float | None, clock: Clock) -> Pacer:
    """The pace of a speed: 1 as it happened, 10 ten times as fast, None as fast as it is taken."""
    return FreePacer() if speed is None else WallClockPacer(clock, speed)


class FreePacer:
    """As fast as it is taken, streams side by side: the one that is furthest behind goes on next.

    So no contract has a day over before another has begun it, and which is front does not depend on luck.
    """

    step_ns = NANOS_PER_MINUTE

    def __init__(self) -> None:
        self._streams = self._asked = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._stopped = False

    def begin(self, timeline: Timeline, at_ns: int) -> None:
        """See `Pace`."""

    @contextmanager
    def stream(self) -> Generator[None]:
        """See `Pace`."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1
            self._let_go()

    async def reach(self, at_ns: int) -> int:
        """See `Pace`: it is later than everything, but others have their turn."""
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
        """See `Pace`."""
        self._stopped = True
        self._let_go()

    def _let_go(self) -> None:
        """Let the one that is furthest behind go on, once every stream has asked for more."""
        while self._waiting and (self._stopped or len(self._waiting) >= self._streams):
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(None)


class WallClockPacer:
    """At a multiple of the speed at which it happened.

    A clock that is set back stops nothing: what passed until then has passed, and time goes on from there.
    """

    def __init__(
        self, clock: Clock, speed: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        if not 0 < speed < _NEVER:
            raise ValueError(f"invalid speed {speed}")
        self._clock, self._speed, self._sleep = clock, speed, sleep
        second = speed * NANOS_PER_SECOND  # of ours, in replayed time
        step = min(max(second / _BEATS_PER_SECOND, min(second, NANOS_PER_SECOND)), NANOS_PER_MINUTE)
        self.step_ns = max(1, round(step))
        self._timeline: Timeline | None = None
        self._zero = self._elapsed = self._seen = 0
        self._stopped = False

    def begin(self, timeline: Timeline, at_ns: int) -> None:
        """See `Pace`."""
        self._timeline, self._zero = timeline, timeline.played(at_ns)
        self._elapsed, self._seen = 0, self._clock.now_ns()

    def stream(self) -> AbstractContextManager[None]:
        """See `Pace`."""
        return nullcontext()

    async def reach(self, at_ns: int) -> int:
        """See `Pace`."""
        await self._sleep(0)
        if self._timeline is None:
            raise RuntimeError("replayed time has not begun")
        due = self._timeline.played(at_ns)
        while (played := self._played()) < due and not self._stopped:
            left_s = (due - played) / self._speed / NANOS_PER_SECOND
            await self._sleep(min(left_s, _SLICE_S))
        return max(at_ns, self._timeline.at(played))

    def stop(self) -> None:
        """See `Pace`."""
        self._stopped = True

    def _played(self) -> int:
        now = self._clock.now_ns()
        self._elapsed += max(0, now - self._seen)
        self._seen = now
        return self._zero + round(self._elapsed * self._speed)


class StepPacer:
    """Step by step, for tests: everything before an instant is let go, and then the feed waits."""

    def __init__(self, step_ns: int = NANOS_PER_SECOND) -> None:
        self.step_ns = step_ns
        self._until = -_NEVER
        self._streams = 0
        self._held: list[int] = []
        self._changed = asyncio.Event()
        self._stopped = False

    def begin(self, timeline: Timeline, at_ns: int) -> None:
        """See `Pace`."""

    @contextmanager
    def stream(self) -> Generator[None]:
        """See `Pace`."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1
            self._poke()

    async def reach(self, at_ns: int) -> int:
        """See `Pace`."""
        self._held.append(at_ns)
        self._poke()
        try:
            while at_ns >= self._until and not self._stopped:
                await self._changed.wait()
        finally:
            self._held.remove(at_ns)
        return max(at_ns, self._until - 1)

    async def advance(self, until_ns: int) -> None:
        """Let go of everything before an instant (ns UTC); return when whoever reads the streams has asked for more.

        Streams that nobody has begun to read are not waited for.
        """
        self._until = max(self._until, until_ns)
        self._poke()
        while len(self._held) < self._streams or any(held < self._until for held in self._held):
            await self._changed.wait()

    def stop(self) -> None:
        """See `Pace`."""
        self._stopped = True
        self._poke()

    def _poke(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
