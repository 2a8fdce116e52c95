"""The limiters of the contract suite: created for every example, on a clock that the example moves."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager

from tests.cluster.limiter_harness import HandTime, Harness, Here, patience

from outcry.access.limiter import WINDOW_NS, PromptLimiter, Verdict
from outcry.access.local_limiter import SlidingWindowLimiter
from outcry.cluster.limits.owner import LimitOwner
from outcry.cluster.limits.shared_limiter import SharedLimiter
from outcry.cluster.limits.thread_safe import ThreadSafeLimiter
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.nats.link import Link
from outcry.live.partitions import PARTITIONS

Opened = AbstractAsyncContextManager[SharedLimiter]


class Moved:
    """A limiter and its clock, which an example advances."""

    def __init__(self, limiter: PromptLimiter, time: HandTime) -> None:
        self._limiter, self._time, self._latest_ns = limiter, time, -1
        time.at_ns += 3 * WINDOW_NS  # discard the state of the last example

    @property
    def subjects(self) -> int:
        """Return the number of subjects in memory."""
        assert isinstance(self._limiter, SlidingWindowLimiter)
        return self._limiter.subjects

    def _move(self, now_ns: int) -> None:
        if self._latest_ns >= 0:
            self._time.at_ns += max(0, now_ns - self._latest_ns)
        self._latest_ns = now_ns

    def take(self, subject: str, limit: int, now_ns: int) -> Verdict:
        self._move(now_ns)
        return self._limiter.take(subject, limit)

    def recent(self, prefix: str, now_ns: int) -> Mapping[str, int]:
        self._move(now_ns)
        return self._limiter.recent(prefix)

    def refusal(self, subject: str, limit: int, now_ns: int) -> Verdict | None:
        self._move(now_ns)
        return self._limiter.refusal(subject, limit)

    def peek(self, subject: str, limit: int, now_ns: int) -> Verdict:
        self._move(now_ns)
        return self._limiter.peek(subject, limit)


def alone(max_subjects: int = 50_000) -> Moved:
    """Create the limiter of a single process."""
    time = HandTime()
    return Moved(SlidingWindowLimiter(time, max_subjects=max_subjects), time)


@asynccontextmanager
async def here(time: HandTime) -> AsyncIterator[SharedLimiter]:
    """Create a replica and the owner in one process."""
    async with Harness(1, time) as harness:
        yield harness.replicas[0]
        assert not harness.replicas[0].alone


@asynccontextmanager
async def over_nats(urls: str, time: HandTime) -> AsyncIterator[SharedLimiter]:
    """Create a replica and the owner with a NATS server between them."""

    def tell(*_: object, **__: object) -> None:
        """Ignore all reports."""

    async with Link(urls, tell) as one, Link(urls, tell) as other:
        await one.up()
        await other.up()
        owner = LimitOwner(NatsCalls(one, tell), Here("engine", ["api"]), now_ns=time)
        limiter = SharedLimiter(NatsCalls(other, tell), Here("api", ["api"]), now_ns=time)
        running = asyncio.ensure_future(limiter.run())
        servings = [owner.serve(partition) for partition in range(PARTITIONS)]
        for serving in servings:
            await serving.__aenter__()
        yield limiter
        assert not limiter.alone
        for serving in servings:
            await serving.__aexit__(None, None, None)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@contextmanager
def moved(opened: Callable[[HandTime], Opened]) -> Iterator[Callable[[], Moved]]:
    """Create limiters on an event loop of their own until the block ends."""
    time, up, ended = HandTime(), threading.Event(), asyncio.Event()
    loop, limiters = asyncio.new_event_loop(), list[SharedLimiter]()

    async def main() -> None:
        async with opened(time) as limiter:
            limiters.append(limiter)
            up.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()), daemon=True)
    thread.start()
    assert up.wait(10)
    try:
        with patience():
            yield lambda: Moved(ThreadSafeLimiter(limiters[0], lambda: loop), time)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)
        loop.close()
