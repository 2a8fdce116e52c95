"""Streams replayed at full speed advance in step."""

import asyncio

from tests.timeouts import within

from outcry.feeds.replay_pacing import FreePacer


def test_the_stream_that_is_furthest_behind_goes_on() -> None:
    """Two streams of the instants 1, 4, 5, 6 and 2, 3, 7: taken in order of time, though one of them is slow."""
    pace, seen = FreePacer(), []

    async def follow(instants: list[int], pause_s: float) -> None:
        with pace.stream():
            await asyncio.sleep(0)  # both have begun
            for at_ns in instants:
                await pace.reach(at_ns)
                await asyncio.sleep(pause_s)
                seen.append(at_ns)

    async def both() -> None:
        await asyncio.gather(follow([1, 4, 5, 6], 0.01), follow([2, 3, 7], 0))

    asyncio.run(within(both(), 60))
    assert seen == [1, 2, 3, 4, 5, 6, 7]


def test_who_ends_or_is_cancelled_is_not_waited_for() -> None:
    pace = FreePacer()

    async def follow(until: int) -> int:
        with pace.stream():
            await asyncio.sleep(0)
            for at_ns in range(until):
                await pace.reach(at_ns)
        return until

    async def all_three() -> list[int]:
        stuck = asyncio.create_task(follow(1000))
        others = [asyncio.create_task(follow(3)), asyncio.create_task(follow(1000))]
        while not others[0].done():
            await asyncio.sleep(0)
        stuck.cancel()
        return list(await asyncio.gather(*others))

    assert asyncio.run(within(all_three(), 60)) == [3, 1000]


def test_stopped_it_holds_nobody() -> None:
    pace = FreePacer()

    async def waits() -> None:
        with pace.stream(), pace.stream():  # the second never asks
            asking = asyncio.create_task(pace.reach(1))
            await asyncio.sleep(0.01)
            assert not asking.done()
            pace.stop()
            await asking

    asyncio.run(within(waits(), 60))
