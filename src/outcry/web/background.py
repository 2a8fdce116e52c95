"""Background work that waits for other hosts: URL checks, tests and confirmations.

A slow host blocks no page and no other user, because this work has its own threads, with at most two tasks per user. A
task that has started always runs until it has a result.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from outcry.base.errors import StoreUnavailable

#: Longer than a webhook test takes, which has its own time-out.
TIMEOUT_S = 23.0
THREADS = 16
#: Concurrent tasks per user, and how long a further task waits to start.
MAX_RUNNING, QUEUE_TIMEOUT_S = 2, 10.0

P = ParamSpec("P")
T = TypeVar("T")


class TooManyTasks(Exception):
    """The user already has the maximum number of tasks running."""


class UserThreadPool:
    """A pool of threads for all users, with a maximum of tasks for each user. For one event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="background")
        self._slots: dict[int, asyncio.Semaphore] = {}
        self._users: Counter[int] = Counter()

    async def run(self, user_id: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a task for a user in a thread. Raises `TooManyTasks`, and `StoreUnavailable` on a time-out."""
        slots = self._slots.setdefault(user_id, asyncio.Semaphore(MAX_RUNNING))
        self._users[user_id] += 1
        try:
            async with asyncio.timeout(QUEUE_TIMEOUT_S):
                await slots.acquire()
        except (TimeoutError, asyncio.CancelledError) as end:
            self._leave(user_id)
            if isinstance(end, TimeoutError):
                raise TooManyTasks from None
            raise
        running = asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *args, **kwargs))
        running.add_done_callback(lambda _: (slots.release(), self._leave(user_id)))
        done, _ = await asyncio.wait([running], timeout=TIMEOUT_S)
        if not done:
            # The result is not needed any more.
            running.add_done_callback(lambda late: late.cancelled() or late.exception())
            raise StoreUnavailable("upstream_unavailable")
        return running.result()

    def _leave(self, user_id: int) -> None:
        """Count a task of a user as ended."""
        self._users[user_id] -= 1
        if not self._users[user_id]:
            del self._users[user_id], self._slots[user_id]
