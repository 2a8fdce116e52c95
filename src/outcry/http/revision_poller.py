"""The pulse: asks the store several times a second whether anything changed, so that no request has to.

Rule kept: an answer is given only on knowledge less than a second old. A revocation by another process
therefore holds within a second, and a store that does not respond is noticed in the same time. While the disk itself
hangs, no process can commit a change to it, and answers go on from memory.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic_ns

from outcry.base.clock import Clock
from outcry.live.registry import Registry

INTERVAL_S = 0.2
STALE_NS = 1_000_000_000


class RevisionPoller:
    """Runs `look` (which returns the store's revision) in a thread of its own.

    `on_change(error)`: told when looking starts to fail, and with None when it succeeds again. `registry`: what of
    live feeds moves at once, and is not looked for. `frozen`: whether the disk of the store hangs: nobody can have
    changed anything on it then, so what is known goes on to hold.
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
        self._thread = ThreadPoolExecutor(1, "outcry-revision")
        self._beat: asyncio.Future[int] | None = None
        self._task: asyncio.Task[None] | None = None
        self._failing = False
        self._waiting: list[asyncio.Future[None]] = []
        self._registry = registry or Registry()
        self._frozen = frozen
        self._frozen = frozen
        #: The store's revision when it was last looked at.
        self.store_revision = -1
        self.seen_ns: int | None = None
        #: By the monotonic clock: what is known is fresh before this.
        self.fresh_until_ns = 0

    @property
    def revision(self) -> int:
        """What answers rest on: moves with the store as last looked at, and at once with every feed that comes, goes
        or stops. Both only grow, so their sum is never the same again."""
        return self.store_revision + self._registry.generation

    @property
    def started(self) -> bool:
        """Whether the store answered at all since the start."""
        return self.seen_ns is not None

    @property
    def fresh(self) -> bool:
        """Whether what is known is less than a second old, or cannot have changed since."""
        return monotonic_ns() < self.fresh_until_ns or (self.started and self._frozen())

    @property
    def age_s(self) -> float:
        """Seconds since the store last answered; infinite before that."""
        return float("inf") if self.seen_ns is None else (monotonic_ns() - self.seen_ns) / 1e9

    async def ensure(self, timeout_s: float) -> bool:
        """Look now if what is known is old, as after the process was stopped for a while; return whether it
        is fresh."""
        if not self.fresh:
            await asyncio.wait([self._start_beat()], timeout=timeout_s)
        return self.fresh

    async def next(self, timeout_s: float) -> None:
        """Wait for a look that begins after this call to end, or for the time to be over."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await asyncio.wait([turn], timeout=timeout_s)

    def start(self) -> None:
        """Begin to beat, on the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop beating; a look under way is left to its thread."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        while True:
            await asyncio.wait([self._start_beat()])
            await asyncio.sleep(INTERVAL_S)

    def _start_beat(self) -> asyncio.Future[int]:
        """One look at a time: whoever asks meanwhile waits for the same."""
        beat = self._beat
        if beat is None or beat.done():
            asked_ns = monotonic_ns()
            beat = asyncio.get_running_loop().run_in_executor(self._thread, self._look, self._clock.now_ns())
            waiting, self._waiting = self._waiting, []
            beat.add_done_callback(lambda done: self._seen(done, asked_ns, waiting))
            self._beat = beat
        return beat

    def _seen(self, beat: asyncio.Future[int], asked_ns: int, waiting: list[asyncio.Future[None]]) -> None:
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)
        if beat.cancelled():
            return
        error = beat.exception()
        if error is None:
            self.store_revision, self.seen_ns = beat.result(), asked_ns
            self.fresh_until_ns = asked_ns + STALE_NS
        if (error is not None) != self._failing:
            self._failing = error is not None
            self._on_change(error)
