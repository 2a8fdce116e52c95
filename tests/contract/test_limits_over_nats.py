"""Shared limits of three replicas over a real NATS server, through the end of an owner and of the server."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from support.engines.jetstream import JetStream
from tests.cluster.limiter_harness import patience
from tests.timeouts import until, within

from outcry.access.limiter import Verdict
from outcry.cluster.limits.owner import LimitOwner
from outcry.cluster.limits.shared_limiter import SharedLimiter
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.nats.link import Link
from outcry.cluster.nats.presence import NatsPresence
from outcry.live.partitions import PARTITIONS

KEY, LIMIT = "key:1", 120


def tell(*_: object, **__: object) -> None:
    """Ignore all reports."""


@asynccontextmanager
async def process(server: JetStream, role: str) -> AsyncIterator[tuple[NatsCalls, NatsPresence]]:
    async with Link(server.urls, tell) as link:
        await link.up()
        presence = NatsPresence(link)
        async with presence.announce([role]):
            yield NatsCalls(link, tell), presence


@asynccontextmanager
async def replica(server: JetStream) -> AsyncIterator[tuple[SharedLimiter, NatsPresence]]:
    async with process(server, "api") as (calls, presence):
        limiter = SharedLimiter(calls, presence)
        running = asyncio.ensure_future(limiter.run())
        yield limiter, presence
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def owner(server: JetStream) -> AsyncIterator[None]:
    async with process(server, "engine") as (calls, presence), AsyncExitStack() as serving:
        await until(lambda: len(presence.members("api")) == 3, "the owner knows all replicas")
        one = LimitOwner(calls, presence)
        for partition in range(PARTITIONS):
            await serving.enter_async_context(one.serve(partition))
        yield


async def ask(limiter: SharedLimiter) -> Verdict:
    return limiter.take(KEY, LIMIT) or await limiter.ask(KEY, LIMIT)


async def passed(limiter: SharedLimiter, requests: int) -> int:
    return sum(verdict.allowed for verdict in await asyncio.gather(*(ask(limiter) for _ in range(requests))))


async def know_each_other(entered: list[tuple[SharedLimiter, NatsPresence]]) -> None:
    await until(
        lambda: all(len(presence.members("api")) == 3 for _, presence in entered), "replicas know each other"
    )


async def well(limiters: list[SharedLimiter]) -> None:
    await until(lambda: not any(limiter.degraded for limiter in limiters), "owners answer")


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(within(work, 180))


@patience()
def test_an_owner_ends_and_another_begins_within_one_window(jetstream: JetStream) -> None:
    """Between two owners each replica receives 90 requests, after uneven use."""

    async def main() -> None:
        async with AsyncExitStack() as stack:
            entered = [await stack.enter_async_context(replica(jetstream)) for _ in range(3)]
            limiters = [limiter for limiter, _ in entered]
            async with owner(jetstream):
                await know_each_other(entered)
                assert await passed(limiters[0], 50) == 50
                assert await passed(limiters[1], 10) == 10
            between = sum(await asyncio.gather(*(passed(limiter, 90) for limiter in limiters)))
            assert 30 <= between <= 60  # at least 57 if they connect in time, otherwise a share of each
            async with owner(jetstream):
                await well(limiters)
                after = sum(await asyncio.gather(*(passed(limiter, 90) for limiter in limiters)))
                assert between + after == 60

    run(main())


def test_without_the_server_each_replica_allows_its_share() -> None:
    async def main(server: JetStream) -> None:
        async with AsyncExitStack() as stack:
            entered = [await stack.enter_async_context(replica(server)) for _ in range(3)]
            limiters = [limiter for limiter, _ in entered]
            async with owner(server):
                await know_each_other(entered)
                assert await passed(limiters[0], 10) == 10
                server.kill(0)
                assert await passed(limiters[0], 100) == 30
                assert await passed(limiters[1], 100) == 40
                assert limiters[0].degraded
                server.start(0)
                await well(limiters)
                assert await passed(limiters[2], 100) == 40

    with JetStream() as server:
        run(main(server))
