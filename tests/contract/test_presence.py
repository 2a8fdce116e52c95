"""What presence must tell, over a real NATS server."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from support.engines.jetstream import JetStream
from tests.contract.conditions import until
from tests.timeouts import within

from outcry.base.log_events import discard
from outcry.cluster.nats.link import Link
from outcry.cluster.nats.presence import NatsPresence


@asynccontextmanager
async def process(server: JetStream) -> AsyncIterator[NatsPresence]:
    """The presence of one process, which does not say yet that it is here."""
    async with Link(server.urls, discard) as link:
        await within(link.up(), 60)
        yield NatsPresence(link)


def test_processes_know_each_other_by_role_at_once_and_who_leaves_is_gone_at_once(
    jetstream: JetStream,
) -> None:
    async def main() -> None:
        async with process(jetstream) as one, process(jetstream) as two, process(jetstream) as three:
            assert len({one.name, two.name, three.name}) == 3
            async with one.here(["engine", "api"]), two.here(["engine"]), three.here([]):
                both = sorted([one.name, two.name])
                for each in (one, two, three):
                    took_s = await until(
                        lambda each=each: each.members("engine") == both, "both engines are known"
                    )
                    assert took_s < 5
                assert two.members("api") == three.members("api") == [one.name]
                assert one.members("feeds") == three.members("feeds") == []
                assert all(each.connected for each in (one, two, three))
                async with three.here(["feeds"]):
                    await until(lambda: one.members("feeds") == [three.name], "the feeds process is known")
                assert await until(lambda: one.members("feeds") == [], "it is gone") < 1, (
                    "sooner than by its silence"
                )
            assert one.members("engine") == []

    asyncio.run(within(main(), 180))


def test_who_falls_silent_is_gone_within_two_seconds(jetstream: JetStream) -> None:
    async def main() -> None:
        async with process(jetstream) as one, AsyncExitStack() as stack, one.here(["engine"]):
            gone_s: list[float] = []
            while len(gone_s) < 3 and not (gone_s and gone_s[-1] < 2.5):  # the quickest counts
                two = await stack.enter_async_context(process(jetstream))
                await stack.enter_async_context(two.here(["engine"]))
                await until(lambda two=two: two.name in one.members("engine"), "the other is known")
                await two._heartbeats.stop()  # pyright: ignore[reportPrivateUsage]  # as if it were killed
                gone_s.append(await until(lambda: one.members("engine") == [one.name], "it is gone"))
            assert 0.8 < min(gone_s) < 2.5

    asyncio.run(within(main(), 180))


def test_with_the_bus_away_all_is_as_last_known_and_nobody_is_missed_as_it_comes_back(
    jetstream: JetStream,
) -> None:
    async def main() -> None:
        async with (
            process(jetstream) as one,
            process(jetstream) as two,
            one.here(["engine"]),
            two.here(["engine"]),
        ):
            both = sorted([one.name, two.name])
            await until(lambda: one.members("engine") == two.members("engine") == both, "both are known")
            jetstream.kill(0)
            seen: set[tuple[str, ...]] = set()
            watching = asyncio.create_task(_watch(one, two, seen))
            await until(lambda: not one.connected and not two.connected, "both know that the bus is away")
            async with one.here(["api"]):  # begun while it is away
                jetstream.start(0)
                await until(lambda: two.members("api") == [one.name], "what changed meanwhile is known")
                end_s = time.monotonic() + 4
                await until(lambda: time.monotonic() > end_s, "the time of grace is over")
            watching.cancel()
            assert seen == {tuple(both)}
            assert one.connected
            assert two.connected

    asyncio.run(within(main(), 180))


async def _watch(one: NatsPresence, two: NatsPresence, seen: set[tuple[str, ...]]) -> None:
    while True:
        seen |= {tuple(one.members("engine")), tuple(two.members("engine"))}
        await asyncio.sleep(0.01)
