"""Hearing what is said under a subject, for as long as a block lasts, whether or not the bus is there as it begins."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error

from outcry.cluster.nats.link import Link

#: How long the bus is given to take note of what is begun or ended.
_NOTED_S = 1.0


@asynccontextmanager
async def subscribed(
    link: Link, subject: str, take: Callable[[Msg], Awaitable[None]]
) -> AsyncGenerator[None]:
    """Give every message under a subject to `take`, one after the other. With the bus there, the block begins once it
    has taken note; else at once, and messages come as soon as the bus does. At the end, what it has sent us still is
    given to `take`."""
    beginning = asyncio.get_running_loop().create_task(_subscribe(link, subject, take))
    try:
        if link.connected:
            await asyncio.wait((beginning,))
        yield
    finally:
        if not beginning.done():
            beginning.cancel()
        (begun,) = await asyncio.gather(beginning, return_exceptions=True)
        if isinstance(begun, Subscription):
            await _unsubscribe(begun)


async def _subscribe(link: Link, subject: str, take: Callable[[Msg], Awaitable[None]]) -> Subscription:
    await link.up()
    begun = await link.client.subscribe(subject, cb=take)
    with suppress(Error, OSError, TimeoutError):  # lost meanwhile: it is taken note of as the link is back
        async with asyncio.timeout(_NOTED_S):
            await link.client.flush()
    return begun


async def _unsubscribe(begun: Subscription) -> None:
    try:
        async with asyncio.timeout(_NOTED_S):
            await begun.drain()
    except (Error, OSError, TimeoutError):
        with suppress(Error, OSError):
            await begun.unsubscribe()
