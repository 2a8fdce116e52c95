"""Contract of presence, over a real NATS server."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.engines.jetstream import JetStream
from tests.timeouts import until, within

from outcry.base.log_events import discard
from outcry.cluster.nats import presence
from outcry.cluster.nats.link import Link
from outcry.cluster.nats.presence import NatsPresence


@asynccontextmanager
async def process(server: JetStream) -> AsyncIterator[NatsPresence]:
    """Create the presence of one process, which does not announce itself yet."""
    async with Link(server.urls, discard) as link:
        await within(link.up(), 60)
        yield NatsPresence(link)


def test_processes_find_each_other_by_role_and_a_process_that_ends_is_removed_by_its_last_message(
    jetstream: JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "SILENCE_S", 3600.0)

    async def main() -> None:
        async with process(jetstream) as one, process(jetstream) as two, process(jetstream) as three:
            assert len({one.name, two.name, three.name}) == 3
            async with one.announce(["engine", "api"]), two.announce(["engine"]), three.announce([]):
                both = sorted([one.name, two.name])
                for each in (one, two, three):
                    await until(lambda each=each: each.members("engine") == both, "both engines are known")
                assert two.members("api") == three.members("api") == [one.name]
                assert one.members("feeds") == three.members("feeds") == []
                assert all(each.connected for each in (one, two, three))
                async with three.announce(["feeds"]):
                    await until(lambda: one.members("feeds") == [three.name], "the feeds process is known")
                await until(lambda: one.members("feeds") == [], "it is gone")
            assert one.members("engine") == []

    asyncio.run(within(main(), 180))


def test_a_process_without_heartbeats_is_removed(jetstream: JetStream) -> None:
    async def main() -> None:
        async with (
            process(jetstream) as one,
            process(jetstream) as two,
            one.announce(["engine"]),
            two.announce(["engine"]),
        ):
            await until(lambda: two.name in one.members("engine"), "the other is known")
            await two._heartbeats.stop()  # pyright: ignore[reportPrivateUsage]  # as if it were killed
            await until(lambda: one.members("engine") == [one.name], "it is gone")
            assert presence.SILENCE_S < 2

    asyncio.run(within(main(), 180))


def test_with_the_bus_away_all_is_as_last_known_and_nobody_is_missed_as_it_comes_back(
    jetstream: JetStream,
) -> None:
    async def main() -> None:
        async with (
            process(jetstream) as one,
            process(jetstream) as two,
            one.announce(["engine"]),
            two.announce(["engine"]),
        ):
            both = sorted([one.name, two.name])
            await until(lambda: one.members("engine") == two.members("engine") == both, "both are known")
            jetstream.kill(0)
            seen: set[tuple[str, ...]] = set()
            watching = asyncio.create_task(_watch(one, two, seen))
            await until(lambda: not one.connected and not two.connected, "both know that the bus is away")
            async with one.announce(["api"]):  # started while the bus is unavailable
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
