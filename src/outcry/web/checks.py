"""Runs connection checks in the background, and stores the latest result of each connection.

A user can have at most two running checks, one for each connection. Results are in memory only, and only for the most
recently checked connections.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from outcry.base.tasks import BackgroundTasks
from outcry.connections.model import Finding

#: Longer than a check takes, which has its own time-out.
TIMEOUT_S = 45.0
#: Concurrent checks per user, and the number of connections whose latest check is stored.
MAX_RUNNING, MAX_STORED = 2, 1000

#: User id and connection id.
ConnectionId = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Checked:
    """A connection check and its result. `ended_ns` is None while the check runs.

    The result is None if the check ended without one.
    """

    began_ns: int
    ended_ns: int | None = None
    findings: Sequence[Finding] | None = None


class Checks:
    """Runs connection checks and stores their results. For one event loop."""

    def __init__(self) -> None:
        self._latest: OrderedDict[ConnectionId, Checked] = OrderedDict()
        self._running: dict[ConnectionId, asyncio.Task[None]] = {}
        #: Running checks, including their `report` calls.
        self._tasks = BackgroundTasks()

    def begin(
        self,
        key: ConnectionId,
        check: Callable[[], Awaitable[Sequence[Finding] | None]],
        now_ns: Callable[[], int],
        report: Callable[[Sequence[Finding] | None], Awaitable[None]],
    ) -> bool:
        """Start a check; return False if one of this connection is running or the user has two.

        report: called with the result. now_ns: the clock.
        """
        if key in self._running or sum(user == key[0] for user, _ in self._running) >= MAX_RUNNING:
            return False
        self._store(key, Checked(now_ns()))
        self._running[key] = self._tasks.start("connection check", self._run(key, check, now_ns, report))
        return True

    async def _run(
        self,
        key: ConnectionId,
        check: Callable[[], Awaitable[Sequence[Finding] | None]],
        now_ns: Callable[[], int],
        report: Callable[[Sequence[Finding] | None], Awaitable[None]],
    ) -> None:
        found: Sequence[Finding] | None = None
        began_ns = now_ns()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                found = await check()
        except TimeoutError:
            pass  # stored as a check without a result
        finally:
            if self._running.get(key) is asyncio.current_task():  # not forgotten in the meantime
                del self._running[key]
                self._store(key, Checked(began_ns, now_ns(), found))
        await report(found)

    def _store(self, key: ConnectionId, checked: Checked) -> None:
        self._latest[key] = checked
        self._latest.move_to_end(key)
        while len(self._latest) > MAX_STORED:
            self._latest.popitem(last=False)

    def of(self, key: ConnectionId) -> Checked | None:
        """Return the latest check of a connection."""
        return self._latest.get(key)

    def forget(self, key: ConnectionId) -> None:
        """Drop the result of a removed or changed connection."""
        running = self._running.pop(key, None)
        if running is not None:
            running.cancel()
        self._latest.pop(key, None)
