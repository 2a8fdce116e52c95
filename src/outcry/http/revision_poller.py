"""Polls the database's revision several times a second, so that requests need not query it.

The revision is a number that increases with every change on which a response depends. Responses use only keys, grants
and a revision that were checked within the last second. So if another process revokes a key, the key stops working
within a second. The service also detects an unresponsive database within a second. While the disk is stalled, no
process can commit a change, so responses continue from memory.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic_ns

from outcry.base.clock import Clock
from outcry.base.tasks import BackgroundTasks
from outcry.live.registry import Registry

INTERVAL_S = 0.2
STALE_NS = 1_000_000_000


class Freshness:
    """A stamp that is replaced after each change of keys, grants, browser sessions, stored data or live feeds.

    What was found valid at a stamp stays valid while that stamp is the current one, but no longer than `until_ns`
    (monotonic clock). Any thread may replace the stamp.
    """

    __slots__ = ("stamp", "until_ns")

    def __init__(self) -> None:
        self.stamp = object()
        self.until_ns = 0

    def end(self) -> None:
        """Replace the stamp, so that everything is checked again before its next use."""
        self.stamp = object()


class RevisionPoller:
    """Regularly calls `look`, which returns the database's revision (counter of changes), on a separate thread.

    `on_change(error)`: called when polling starts to fail, and with None when it succeeds again. `registry`: live
    feeds, whose changes take effect at once. `frozen`: returns whether the database's disk is stalled; the last poll
    then stays valid. `freshness`: its stamp is replaced when `revision` changes.
    """

    def __init__(
        self,
        look: Callable[[int], int],
        clock: Clock,
        on_change: Callable[[BaseException | None], None],
        registry: Registry | None = None,
        frozen: Callable[[], bool] = lambda: False,
    ) -> None:
        self._look = look
        self._clock = clock
        self._on_change = on_change
        self._worker = ThreadPoolExecutor(1, "outcry-revision")
        self._poll: asyncio.Future[int] | None = None
        self._tasks = BackgroundTasks()
        self._failing = False
        self._waiting: list[asyncio.Future[None]] = []
        self._registry = registry or Registry()
        self._frozen = frozen
        self.freshness = Freshness()
        self._registry.on_channels(lambda _key: self.freshness.end())
        #: The store's revision at the last poll.
        self.store_revision = -1
        self.seen_ns: int | None = None

    @property
    def revision(self) -> int:
        """The revision on which responses depend. It changes with the database, and when a feed starts, stops or ends.

        It is the sum of two counters that only increase, so a value never occurs again.
        """
        return self.store_revision + self._registry.generation

    @property
    def fresh_until_ns(self) -> int:
        """Until when the last poll counts as fresh (ns of the monotonic clock)."""
        return self.freshness.until_ns

    @property
    def started(self) -> bool:
        """Whether the database has responded since the start."""
        return self.seen_ns is not None

    @property
    def fresh(self) -> bool:
        """Whether the last poll is less than a second old, or the database cannot have changed since."""
        return monotonic_ns() < self.fresh_until_ns or (self.started and self._frozen())

    @property
    def age_s(self) -> float:
        """Seconds since the database last responded; infinite if it never has."""
        return float("inf") if self.seen_ns is None else (monotonic_ns() - self.seen_ns) / 1e9

    async def ensure(self, timeout_s: float) -> bool:
        """Poll now if the last poll is outdated, for example after the machine was suspended.

        Return whether the last poll is fresh now.
        """
        if not self.fresh:
            await asyncio.wait([self._start_poll()], timeout=timeout_s)
        return self.fresh

    async def next(self, timeout_s: float) -> None:
        """Wait until a poll that starts after this call has finished, or until the timeout."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await asyncio.wait([turn], timeout=timeout_s)

    def start(self) -> None:
        """Start polling on the running event loop."""
        self._tasks.every(INTERVAL_S, "revision", lambda: asyncio.wait([self._start_poll()]))

    async def stop(self) -> None:
        """Stop polling; a poll in progress finishes in its thread."""
        await self._tasks.stop()
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _start_poll(self) -> asyncio.Future[int]:
        """Start a poll, or return the one in progress."""
        poll = self._poll
        if poll is None or poll.done():
            asked_ns = monotonic_ns()
            poll = asyncio.get_running_loop().run_in_executor(self._worker, self._look, self._clock.now_ns())
            waiting, self._waiting = self._waiting, []
            poll.add_done_callback(lambda done: self._seen(done, asked_ns, waiting))
            self._poll = poll
        return poll

    def _seen(self, poll: asyncio.Future[int], asked_ns: int, waiting: list[asyncio.Future[None]]) -> None:
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)
        if poll.cancelled():
            return
        error = poll.exception()
        if error is None:
            if poll.result() != self.store_revision:
                self.store_revision = poll.result()
                self.freshness.end()
            self.seen_ns, self.freshness.until_ns = asked_ns, asked_ns + STALE_NS
        if (error is not None) != self._failing:
            self._failing = error is not None
            self._on_change(error)
