"""Cancel tasks that run other people's code, and wait until they have ended."""

import asyncio
from collections.abc import Iterable

#: Time between two cancellations, for a task to clean up.
AGAIN_S = 2.0


async def end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended.

    One cancellation is not always enough: before Python 3.12, `asyncio.wait_for` loses a cancellation that arrives
    together with its result.
    """
    under_way = {task for task in tasks if not task.done()}
    while under_way:
        for task in under_way:
            task.cancel()
        _, under_way = await asyncio.wait(under_way, timeout=AGAIN_S)
