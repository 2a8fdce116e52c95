"""Connection checks, run in the background, and the latest result of each connection.

A check blocks no page. A user has at most two running checks, and one per connection. Results are kept in memory only,
for the most recently checked connections.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from outcry.connections.model import Finding

#: More than a check takes by itself (`Connections.check`).
PATIENCE_S = 45.0
#: Under way at once, of one user; and connections whose newest check is kept.
AT_ONCE, KEPT = 2, 1000

#: Whose connection, and which.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Checked:
    """A check, running while `ended_ns` is None. The result is None if the check did not finish."""

    began_ns: int
    ended_ns: int | None = None
    findings: Sequence[Finding] | None = None


class Checks:
    """Runs connection checks. Used on one event loop."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Place, Checked] = OrderedDict()
        self._running: dict[Place, asyncio.Task[None]] = {}
        #: Checks, and what is told of those that have ended.
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(
        self,
        place: Place,
        check: Callable[[], Awaitable[Sequence[Finding] | None]],
        now_ns: Callable[[], int],
        tell: Callable[[Sequence[Finding] | None], Awaitable[None]],
    ) -> bool:
        """Start a check; return False if one is running or the user has two. tell: called with the result."""
        if place in self._running or sum(user == place[0] for user, _ in self._running) >= AT_ONCE:
            return False
        self._keep(place, Checked(now_ns()))
        task = asyncio.get_running_loop().create_task(self._run(place, check, now_ns, tell))
        self._running[place] = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _run(
        self,
        place: Place,
        check: Callable[[], Awaitable[Sequence[Finding] | None]],
        now_ns: Callable[[], int],
        tell: Callable[[Sequence[Finding] | None], Awaitable[None]],
    ) -> None:
        found: Sequence[Finding] | None = None
        began_ns = now_ns()
        try:
            async with asyncio.timeout(PATIENCE_S):
                found = await check()
        except TimeoutError:
            pass  # it came to no end, which is what is kept
        finally:
            if self._running.get(place) is asyncio.current_task():  # not forgotten meanwhile
                del self._running[place]
                self._keep(place, Checked(began_ns, now_ns(), found))
        await tell(found)

    def _keep(self, place: Place, checked: Checked) -> None:
        self._kept[place] = checked
        self._kept.move_to_end(place)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def of(self, place: Place) -> Checked | None:
        """Return the latest check of a connection."""
        return self._kept.get(place)

    def forget(self, place: Place) -> None:
        """Drop the result of a removed or changed connection."""
        running = self._running.pop(place, None)
        if running is not None:
            running.cancel()
        self._kept.pop(place, None)
