"""How tasks that run what others wrote are ended.

Rule kept: what was told to end is waited for until it has, and told again.
"""

import asyncio
from collections.abc import Iterable

#: Between two cancellations: what cleans up after itself has this long.
AGAIN_S = 2.0


async def end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended. Once is not always enough: before Python 3.12 `asyncio.wait_for` loses a
    cancellation that comes just as what it waits for does, and whoever waited would wait for ever."""
    under_way = {task for task in tasks if not task.done()}
    while under_way:
        for task in under_way:
            task.cancel()
        _, under_way = await asyncio.wait(under_way, timeout=AGAIN_S)
