"""What waits for other hosts: addresses judged, tests and questions sent, each beside the pages.

Rules kept: whoever waits for somebody else's host holds up no page and no other user: such work has threads of its own,
and one user has two of them at most; it is not given up before it has said how it ended.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from outcry.services.errors import StoreUnavailable

#: More than a test may take (`ports.delivery.Deliverer`), which says by itself that nothing was answered.
PATIENCE_S = 23.0
THREADS = 16
#: At once, of one user; further ones wait, but no longer than this.
AT_ONCE, QUEUE_S = 2, 10.0

P = ParamSpec("P")
T = TypeVar("T")


class ErrandsUnderWay(Exception):
    """This user waits for so much already that no more is begun."""


class Errands:
    """Runs them. Used on one event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="errands")
        self._places: dict[int, asyncio.Semaphore] = {}
        self._users: Counter[int] = Counter()

    async def run(self, user_id: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do it for a user, in a thread. Raises `ErrandsUnderWay`, and `StoreUnavailable` where it does not end."""
        places = self._places.setdefault(user_id, asyncio.Semaphore(AT_ONCE))
        self._users[user_id] += 1
        try:
            async with asyncio.timeout(QUEUE_S):
                await places.acquire()
        except (TimeoutError, asyncio.CancelledError) as end:
            self._leave(user_id)
            if isinstance(end, TimeoutError):
                raise ErrandsUnderWay from None
            raise
        running = asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *args, **kwargs))
        running.add_done_callback(lambda _: (places.release(), self._leave(user_id)))
        done, _ = await asyncio.wait([running], timeout=PATIENCE_S)
        if not done:
            running.add_done_callback(
                lambda late: late.cancelled() or late.exception()
            )  # nobody asks any more
            raise StoreUnavailable("upstream_unavailable")
        return running.result()

    def _leave(self, user_id: int) -> None:
        """Forget a user who waits for nothing more."""
        self._users[user_id] -= 1
        if not self._users[user_id]:
            del self._users[user_id], self._places[user_id]
