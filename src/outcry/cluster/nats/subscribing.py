"""Subscribe to a NATS subject for the duration of a block, even if the server is unavailable when the block begins."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error

from outcry.cluster.nats.link import Link

#: Longest wait for the server to confirm that a subscription has begun or ended.
_NOTED_S = 1.0


@asynccontextmanager
async def subscribed(
    link: Link, subject: str, take: Callable[[Msg], Awaitable[None]]
) -> AsyncGenerator[None]:
    """Pass every message of a subject to `take`, one at a time.

    While NATS is connected, the block begins after the server has confirmed the subscription. Otherwise it begins at
    once, and messages arrive after the connection is established. At the end, `take` still receives the messages that
    the server has already sent.
    """
    beginning = asyncio.ensure_future(_subscribe(link, subject, take))
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
    with suppress(Error, OSError, TimeoutError):  # link lost: the client subscribes again later
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
