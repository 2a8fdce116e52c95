"""Contract of latest states, within one process and over JetStream."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import pytest
from support.engines.jetstream import JetStream
from tests.contract.conditions import soon
from tests.contract.local_latest import LocalLatest
from tests.timeouts import within

from outcry.base.log_events import discard
from outcry.cluster.calls import BusDown
from outcry.cluster.latest import Latest
from outcry.cluster.nats.latest import JetStreamLatest
from outcry.cluster.nats.link import Link
from outcry.cluster.nats.log_format import subject_of

ES, NQ = "0/demo/ESZ2026", "7/my.feed/NQH2027"

#: Opens the states as in another process.
Open = Callable[[], Awaitable[JetStreamLatest]]


@asynccontextmanager
async def linked(server: JetStream) -> AsyncIterator[JetStreamLatest]:
    async with Link(server.urls, discard) as link:
        await within(link.up(), 60)
        yield JetStreamLatest(link)


@pytest.fixture(params=["local", "jetstream"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[Open], Awaitable[None]]], None]:
    """Run a test's work with a function that opens the states again."""
    server = request.getfixturevalue("jetstream") if request.param == "jetstream" else None

    def run(work: Callable[[Open], Awaitable[None]]) -> None:
        async def main() -> None:
            local = LocalLatest()
            async with AsyncExitStack() as stack:

                async def opened() -> JetStreamLatest:
                    return local if server is None else await stack.enter_async_context(linked(server))

                await work(opened)

        asyncio.run(within(main(), 180))

    return run


async def all_there(states: JetStreamLatest) -> dict[str, Latest]:
    """Return the initial states that a new watcher receives."""
    found: dict[str, Latest] = {}
    async with aclosing(states.watch()) as watched:
        async for state in watched:
            if state is None:
                return found
            found[state.key] = state
    raise AssertionError("the watch ended")


async def received_until(watched: AsyncGenerator[Latest | None], last: Latest) -> list[Latest | None]:
    found: list[Latest | None] = []
    async for state in watched:
        found.append(state)
        if state == last:
            return found
    raise AssertionError("the watch ended")


def test_of_nothing_all_is_told_at_once(run) -> None:
    async def work(opened: Open) -> None:
        assert await all_there(await opened()) == {}

    run(work)


def test_what_was_put_is_told_to_others_as_it_was(run) -> None:
    body = bytes(range(256)) * 300

    async def work(opened: Open) -> None:
        one, other = await opened(), await opened()
        put = [Latest(ES, (0, 1), body), Latest(NQ, (2**40, 2**33), b"x")]
        assert await one.put(put) == {}
        assert await one.put([]) == {}
        assert await all_there(other) == {state.key: state for state in put}

    run(work)


def test_an_older_state_never_takes_the_place_of_a_newer_one(run) -> None:
    """The order is the epoch, then the count: states 1 and 2 of epoch 5 are newer than any state of epoch 3."""

    async def work(opened: Open) -> None:
        one, other = await opened(), await opened()
        assert await one.put([Latest(ES, (5, 2), b"b")]) == {}
        for late in [Latest(ES, (5, 1), b"a"), Latest(ES, (5, 2), b"again"), Latest(ES, (3, 900), b"zombie")]:
            assert await other.put([late, Latest(NQ, (9, late.order[1]), b"q")]) == {ES: (5, 2)}
            assert await one.put([late]) == {ES: (5, 2)}
        assert (await all_there(other))[ES] == Latest(ES, (5, 2), b"b")
        assert await other.put([Latest(ES, (6, 0), b"c")]) == {}
        assert await one.put([Latest(ES, (5, 3), b"d")]) == {ES: (6, 0)}
        assert (await all_there(one))[ES] == Latest(ES, (6, 0), b"c")

    run(work)


def test_what_is_shown_no_more_is_told_and_stays_so(run) -> None:
    async def work(opened: Open) -> None:
        one, other = await opened(), await opened()
        async with aclosing(other.watch()) as watched:
            removed = Latest(ES, (1, 2), b"")
            assert await one.put([Latest(ES, (1, 1), b"a")]) == {}
            await received_until(watched, Latest(ES, (1, 1), b"a"))
            assert await one.put([removed]) == {}
            assert await received_until(watched, removed)
            assert await other.put([Latest(ES, (0, 9), b"zombie")]) == {ES: (1, 2)}
            assert (await all_there(one)).get(ES, removed) == removed

    run(work)


def test_of_many_writers_each_stream_has_its_newest_state_and_no_watcher_sees_it_go_back(run) -> None:
    """Six processes concurrently put 40 states of two streams each, in random order; the newest is (5, 40)."""

    async def work(opened: Open) -> None:
        writers, reader, chance = [await opened() for _ in range(6)], await opened(), random.Random(3)
        newest = {key: Latest(key, (5, 40), b"5 40") for key in (ES, NQ)}
        seen: list[Latest] = []

        async def write(states: JetStreamLatest, owner: int) -> None:
            for count in range(1, 41):
                await states.put([Latest(key, (owner, count), b"%d %d" % (owner, count)) for key in (ES, NQ)])
                await asyncio.sleep(chance.uniform(0, 0.003))

        async def read() -> None:
            left = dict(newest)
            async with aclosing(reader.watch()) as watched:
                async for state in watched:
                    if state is not None:
                        seen.append(state)
                        if left.get(state.key) == state:
                            del left[state.key]
                    if not left:
                        return

        async with asyncio.TaskGroup() as group:
            group.create_task(read())
            for owner, states in enumerate(writers):
                group.create_task(write(states, owner))
        assert await all_there(reader) == newest
        for key in (ES, NQ):
            orders = [state.order for state in seen if state.key == key]
            assert orders == sorted(set(orders))
        assert all(state.body == b"%d %d" % state.order for state in seen)

    run(work)


def test_a_watch_begun_among_changes_is_told_all_there_was_before_it_is_told_that_this_is_all(run) -> None:
    """A state that is replaced at the start of a watch arrives with the changes, without delay."""
    keys = [f"0/demo/ES{letter}20{year}" for letter in "HMUZ" for year in range(10, 99)]
    stirred = keys[:: len(keys) // 7]

    async def work(opened: Open) -> None:
        one, other = await opened(), await opened()
        assert await one.put([Latest(key, (0, 1), b"x" * 2000) for key in keys]) == {}

        async def stir() -> None:
            for count in range(2, 100_000):
                await one.put([Latest(key, (0, count), b"y" * 2000) for key in stirred])

        stirring = asyncio.create_task(stir())
        for _ in range(5):
            seen: set[str] = set()
            complete = False
            async with aclosing(other.watch()) as watched:
                async for state in watched:
                    if state is None:
                        assert seen >= set(keys) - set(stirred)
                        complete = True
                    else:
                        seen.add(state.key)
                    if complete and seen == set(keys):
                        break
        stirring.cancel()
        await asyncio.gather(stirring, return_exceptions=True)

    run(work)


def test_a_watch_is_told_that_this_is_all_when_the_newest_state_is_gone(jetstream: JetStream) -> None:
    """The newest state may have expired: its number is skipped, and the watcher still becomes complete."""

    async def main() -> None:
        async with linked(jetstream) as one, Link(jetstream.urls, discard) as link:
            assert await one.put([Latest(ES, (0, 1), b"es"), Latest(NQ, (0, 1), b"nq")]) == {}
            await link.up()
            await link.api("STREAM.PURGE.LATEST", {"filter": subject_of("latest", NQ)})
            async with aclosing(one.watch()) as watched:
                assert [await anext(watched), await anext(watched)] == [Latest(ES, (0, 1), b"es"), None]
            await link.api("STREAM.PURGE.LATEST")
            async with aclosing(one.watch()) as watched:
                assert await anext(watched) is None

    asyncio.run(within(main(), 60))


def test_who_reads_slowly_is_told_the_newest_and_holds_up_nobody(run) -> None:
    """Put 3000 states of one stream while nothing is read: a few hundred may be in transit; the last one arrives."""

    async def work(opened: Open) -> None:
        one, other = await opened(), await opened()
        async with aclosing(other.watch()) as watched:
            assert await anext(watched) is None
            for count in range(1, 3001):
                await one.put([Latest(ES, (0, count), b"z" * 500)])
            found = await received_until(watched, Latest(ES, (0, 3000), b"z" * 500))
        assert len(found) < 1500

    run(work)


def test_who_reads_nothing_for_a_while_goes_on(run) -> None:
    """A reader pauses for longer than the server's idle limit; heartbeats are not states."""

    async def work(opened: Open) -> None:
        one, other = await opened(), await opened()
        async with aclosing(other.watch()) as watched:
            assert await anext(watched) is None
            waiting = asyncio.ensure_future(anext(watched))
            await asyncio.wait([waiting], timeout=3)
            assert not waiting.done()
            await one.put([Latest(ES, (0, 1), b"a")])
            assert await waiting == Latest(ES, (0, 1), b"a")

    run(work)


def test_a_bus_that_is_away_is_said_to_be_and_is_watched_anew(jetstream: JetStream) -> None:
    """The server is killed and loses its memory; states that are put again can be read again."""
    server = jetstream

    async def main() -> None:
        async with linked(server) as one, linked(server) as other:
            await one.put([Latest(ES, (4, 7), b"a")])
            async with aclosing(other.watch()) as watched:
                await received_until(watched, Latest(ES, (4, 7), b"a"))
                server.kill(0)
                with pytest.raises(BusDown):
                    async for _ in watched:
                        pass
            with pytest.raises(BusDown):
                await one.put([Latest(ES, (4, 8), b"b")])
            with pytest.raises(BusDown):
                await anext(other.watch())
            server.start(0)
            await asyncio.to_thread(server.ready)
            assert await soon(lambda: one.put([Latest(ES, (4, 9), b"c")])) == {}
            assert await soon(lambda: all_there(other)) == {ES: Latest(ES, (4, 9), b"c")}
            assert await other.put([Latest(ES, (4, 8), b"b")]) == {ES: (4, 9)}

    asyncio.run(within(main(), 180))


def test_the_node_that_leads_dies_and_states_stay(jetstream_cluster: JetStream) -> None:
    servers = jetstream_cluster

    async def main() -> None:
        async with linked(servers) as one, linked(servers) as other:
            await soon(lambda: one.put([Latest(ES, (4, 7), b"a"), Latest(NQ, (1, 1), b"n")]))
            assert len(await soon(lambda: all_there(other))) == 2
            async with Link(servers.urls, discard) as link:
                await link.up()
                leader = (await link.api("STREAM.INFO.LATEST"))["cluster"]["leader"]
            servers.kill(int(leader.removeprefix("n")))
            # a state whose acknowledgement was lost is refused the second time
            assert await soon(lambda: one.put([Latest(ES, (4, 8), b"b")])) in ({}, {ES: (4, 8)})
            found = await soon(lambda: all_there(other))
            assert found == {ES: Latest(ES, (4, 8), b"b"), NQ: Latest(NQ, (1, 1), b"n")}
            assert await soon(lambda: other.put([Latest(ES, (4, 7), b"z")])) == {ES: (4, 8)}

    asyncio.run(within(main(), 180))
