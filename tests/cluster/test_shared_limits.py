"""Limits shared by several processes are exact over all of them."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.cluster.limiter_harness import HandTime, Harness
from tests.timeouts import within
from tests.virtual_time import run_in_virtual_time

from outcry.base.log_events import LogEvent
from outcry.live.partitions import PARTITIONS

WINDOW = 60_000_000_000
KEY = "key:1"


def running(test: Coroutine[Any, Any, None]) -> None:
    run_in_virtual_time(within(test, 120))


@pytest.mark.parametrize("arrangement", ["in turn", "bursts", "all at once", "in turns of seven"])
@pytest.mark.parametrize("limit", [30, 120, 600])
def test_exactly_as_many_pass_as_the_limit_says(arrangement: str, limit: int) -> None:
    async def test() -> None:
        time = HandTime()
        async with Harness(3, time) as harness:
            for _ in range(3):
                assert await arranged(harness, arrangement, 4 * limit, limit) == limit
                time.at_ns += WINDOW

    running(test())


async def arranged(harness: Harness, arrangement: str, requests: int, limit: int) -> int:
    match arrangement:
        case "in turn":
            verdicts = [await harness.ask(number % 3, KEY, limit) for number in range(requests)]
            return sum(verdict.allowed for verdict in verdicts)
        case "bursts":
            return sum([await harness.passed(number % 3, KEY, limit, requests // 4) for number in range(4)])
        case "in turns of seven":
            return sum([await harness.passed(at // 7 % 3, KEY, limit, 7) for at in range(0, requests, 7)])
        case _:
            asking = (harness.passed(number, KEY, limit, requests // 3) for number in range(3))
            return sum(await asyncio.gather(*asking))


def test_no_window_holds_more_than_the_limit_and_none_is_wasted() -> None:
    """A client exceeds its limit on alternating replicas for ten minutes.

    Accepted requests are compared with the definition of the limit, and each refusal with the window at its time.
    """

    async def test() -> None:
        chance, time = random.Random(5), HandTime()
        passed: list[int] = []
        async with Harness(3, time) as harness:
            for _ in range(3000):
                time.at_ns += chance.choice([0, 1_000_000, 200_000_000, 600_000_000])
                verdict = await harness.ask(chance.randrange(3), KEY, 60)
                live = sum(time.at_ns - at_ns < WINDOW for at_ns in passed[-60:])
                assert verdict.allowed == (live < 60)
                if verdict.allowed:
                    passed.append(time.at_ns)
        assert len(passed) > 500

    running(test())


def test_most_requests_ask_nobody() -> None:
    """A client uses 300 of 600: first one message for each request, then one for tens of them."""

    async def test() -> None:
        async with Harness(1) as harness:
            before = len(harness.wires.asked)
            for _ in range(300):
                assert (await harness.ask(0, KEY, 600)).allowed
            assert len(harness.wires.asked) - before < 30

    running(test())


def test_all_that_is_asked_in_one_turn_goes_in_one_message() -> None:
    async def test() -> None:
        async with Harness(1) as harness:
            for number in range(500):  # so that the owner of each partition is known
                await harness.ask(0, f"key:{number}", 30)
            harness.wires.asked.clear()
            asking = (harness.ask(0, f"ip:10.0.0.{number}", 30) for number in range(200))
            verdicts = await asyncio.gather(*asking)
            assert all(verdict.allowed for verdict in verdicts)
            assert len(harness.wires.asked) < 5, "one, and whichever looked for an owner meanwhile"

    running(test())


def test_a_refusal_holds_without_asking_again() -> None:
    async def test() -> None:
        time = HandTime()
        async with Harness(2, time) as harness:
            assert await harness.passed(0, KEY, 30, 40) == 30
            assert await harness.passed(1, KEY, 30, 10) == 0
            harness.wires.asked.clear()
            for replica in range(2):
                verdict = harness.replicas[replica].take(KEY, 30)
                assert verdict is not None
                assert (verdict.allowed, verdict.retry_after_ms) == (False, 60_000)
            assert not harness.wires.asked
            time.at_ns += WINDOW
            assert (await harness.ask(1, KEY, 30)).remaining == 29

    running(test())


def test_what_is_lent_elsewhere_is_asked_back_before_anybody_is_refused() -> None:
    """One replica used 10 of 120 and holds a share; the other replica gets all the rest."""

    async def test() -> None:
        async with Harness(2, HandTime()) as harness:
            for _ in range(10):
                await harness.ask(0, KEY, 120)
            assert harness.replicas[0].take(KEY, 120) is not None, "it holds some"
            assert await harness.passed(1, KEY, 120, 150) == 109
            assert not (await harness.ask(0, KEY, 120)).allowed

    running(test())


def test_what_a_silent_replica_was_lent_counts_as_passed_for_a_window() -> None:
    """An unresponsive replica holds at most a tenth of the limit, and other replicas do not wait for it."""

    async def test() -> None:
        time = HandTime()
        async with Harness(2, time) as harness:
            for _ in range(10):
                await harness.ask(0, KEY, 120)
            harness.wires.deaf.add("limit.held.api-0")
            begun_s = asyncio.get_running_loop().time()
            passed = await harness.passed(1, KEY, 120, 150)
            assert asyncio.get_running_loop().time() - begun_s < 0.5, "each of 150 waited by itself"
            assert 98 <= passed < 110
            refused = 0
            while (verdict := harness.replicas[0].take(KEY, 120)) is not None and verdict.allowed:
                refused += 1
            assert passed + refused <= 110
            assert not await harness.passed(1, KEY, 120, 10)

    running(test())


def test_with_the_owner_gone_and_another_there_no_window_holds_more_than_the_limit() -> None:
    async def test() -> None:
        time = HandTime()
        async with Harness(3, time) as harness:
            passed = [(await harness.ask(number % 3, KEY, 120)).allowed for number in range(60)]
            await harness.stop_owner()
            passed += [(await harness.ask(number % 3, KEY, 120)).allowed for number in range(20)]
            await harness.start_owner()
            passed += [(await harness.ask(number % 3, KEY, 120)).allowed for number in range(300)]
            assert sum(passed) == 120
            time.at_ns += WINDOW
            passed = [(await harness.ask(number % 3, KEY, 120)).allowed for number in range(300)]
            assert sum(passed) == 120

    running(test())


def test_an_owner_handed_on_while_requests_come_loses_none_and_counts_none_twice() -> None:
    """The owner changes twenty times under load from three replicas."""

    async def test() -> None:
        limit, ended = 3000, False
        async with Harness(3) as harness:
            passed = [0, 0, 0]

            async def load(replica: int) -> None:
                while not ended:
                    passed[replica] += (await harness.ask(replica, KEY, limit)).allowed
                    await asyncio.sleep(0.0005)

            loads = [asyncio.ensure_future(load(replica)) for replica in range(3)]
            for _ in range(20):
                await asyncio.sleep(0.02)
                await harness.stop_owner()
                await harness.start_owner()
            ended = True
            await asyncio.gather(*loads)
            rest = 0
            while (await harness.ask(0, KEY, limit)).allowed:
                rest += 1
            assert sum(passed) + rest == limit

    running(test())


def test_out_of_reach_a_replica_lets_its_share_pass_and_waits_once() -> None:
    """Of 120 a third: 40, with the 10 it let pass before among them. One turn waits, the next do not."""

    async def test() -> None:
        time = HandTime()
        async with Harness(3, time) as harness:
            loop = asyncio.get_running_loop()
            assert await harness.passed(0, KEY, 120, 10) == 10
            harness.wires.down = True
            begun_s = loop.time()
            assert await harness.passed(0, "key:2", 120, 100) == 40
            assert loop.time() - begun_s < 1
            assert await harness.passed(0, KEY, 120, 100) == 30
            begun_s = loop.time()
            for _ in range(100):
                assert not (await harness.ask(0, KEY, 120)).allowed
            assert loop.time() == begun_s
            assert harness.replicas[0].degraded
            time.at_ns += WINDOW
            assert await harness.passed(0, KEY, 120, 100) == 40
            assert await harness.passed(0, "key:3", 2, 5) == 1, "of two among three there is one, never none"

    running(test())


def test_processes_that_have_not_joined_stay_below_the_limit_together_and_log_it_once() -> None:
    """They do not know of each other, so each allows a tenth. The owner then counts what they allowed."""

    async def test() -> None:
        time, logged = HandTime(), list[LogEvent]()
        async with Harness(3, time) as harness:
            for place in harness.places:
                place.names, place.connected = [place.name], False
                place.joined.clear()
            for replica in harness.replicas:
                replica.report = lambda event, **_: logged.append(event)
            assert [await harness.passed(number, KEY, 30, 20) for number in range(3)] == [3, 3, 3]
            assert logged == [LogEvent.LIMITS_CUT_OFF] * 3
            for place in harness.places:
                place.names, place.connected = harness.names, True
                place.joined.set()
            assert [await harness.passed(number, KEY, 30, 1) for number in range(3)] == [1, 1, 1]
            assert sum([await harness.passed(number, KEY, 30, 20) for number in range(3)]) == 30 - 12

    running(test())


def test_what_passed_out_of_reach_is_told_once_the_owner_is_back() -> None:
    async def test() -> None:
        async with Harness(3, HandTime()) as harness:
            assert await harness.passed(0, KEY, 120, 20) == 20
            harness.wires.down = True
            assert await harness.passed(1, KEY, 120, 100) == 40
            harness.wires.down = False
            while harness.replicas[1].degraded:
                await asyncio.sleep(0.01)
            assert await harness.passed(2, KEY, 120, 100) == 60
            assert not (await harness.ask(0, KEY, 120)).allowed

    running(test())


def test_with_the_bus_away_nobody_waits_at_all() -> None:
    async def test() -> None:
        async with Harness(2, HandTime()) as harness:
            harness.places[0].connected = False
            harness.wires.down = True
            begun_s = asyncio.get_running_loop().time()
            assert [await harness.passed(0, f"key:{number}", 30, 20) for number in range(5)] == [15] * 5
            assert asyncio.get_running_loop().time() == begun_s
            assert harness.replicas[0].degraded
            assert not harness.replicas[1].alone

    running(test())


def test_lost_answers_cost_some_requests_but_never_let_more_pass() -> None:
    """A grant whose answer was lost counts against the sender, for one window at most."""

    async def test() -> None:
        time, chance = HandTime(), random.Random(3)
        async with Harness(1, time) as harness:
            passed: list[int] = []
            for _ in range(300):
                harness.wires.lose_answers = chance.random() < 0.02
                time.at_ns += 100_000_000
                if (await harness.ask(0, KEY, 60)).allowed:
                    passed.append(time.at_ns)
                harness.wires.lose_answers = False
                while harness.replicas[0].degraded:
                    await asyncio.sleep(0.01)
            assert all(later - early >= WINDOW for early, later in zip(passed, passed[60:], strict=False))
            assert len(passed) >= 50
            time.at_ns += 2 * WINDOW
            assert await harness.passed(0, KEY, 60, 100) == 60

    running(test())


def test_a_flood_of_addresses_is_bounded_and_costs_no_key_its_own_count() -> None:
    async def test() -> None:
        time = HandTime()
        async with Harness(1, time, max_subjects=100) as harness:
            for number in range(1000):
                await harness.ask(0, f"ip:10.0.{number // 256}.{number % 256}", 30)
            assert harness.replicas[0].subjects <= 101
            assert not (await harness.ask(0, "ip:192.0.2.1", 30)).allowed
            assert (await harness.ask(0, KEY, 30)).remaining == 29
            for _ in range(3):
                time.at_ns += WINDOW
                await harness.ask(0, KEY, 30)
            assert harness.replicas[0].subjects == 1

    running(test())


def test_a_replica_that_ends_hands_back_what_it_holds() -> None:
    async def test() -> None:
        async with Harness(2, HandTime()) as harness:
            for _ in range(10):
                await harness.ask(0, KEY, 120)
            harness.running[0].cancel()
            await asyncio.gather(harness.running[0], return_exceptions=True)
            assert await harness.passed(1, KEY, 120, 150) == 110

    running(test())


def test_what_is_held_and_not_used_is_handed_back_before_it_ends() -> None:
    """A lease expires after ten seconds; an idle replica has returned it by then, a busy one has renewed it."""

    async def test() -> None:
        time = HandTime()
        async with Harness(1, time) as harness:
            for _ in range(10):
                await harness.ask(0, KEY, 120)
            for second in range(40):
                time.at_ns += 1_000_000_000
                if second < 11:
                    while harness.replicas[0].take(KEY, 120) is None:  # it has requested another
                        await asyncio.sleep(0.005)
                harness.replicas[0]._renew_leases()
                await asyncio.sleep(0.025)
            assert harness.replicas[0].take(KEY, 120) is None
            assert (await harness.ask(0, KEY, 120)).remaining == 120 - 22

    running(test())


@pytest.mark.parametrize("spent", [(90, 0, 0), (50, 10, 0), (0, 0, 119), (40, 40, 40), (0, 0, 0)])
def test_without_an_owner_replicas_divide_what_is_left(spent: tuple[int, int, int]) -> None:
    """The limit is never exceeded, and at least the whole shares of the rest pass, even after uneven use."""

    async def test() -> None:
        async with Harness(3, HandTime()) as harness:
            for replica, requests in enumerate(spent):
                assert await harness.passed(replica, KEY, 120, requests) == requests
            await harness.stop_owner()
            asking = (harness.passed(replica, KEY, 120, 100) for replica in range(3))
            passed = sum(await asyncio.gather(*asking))
            assert (120 - sum(spent)) // 3 * 3 <= passed <= 120 - sum(spent)
            for replica in range(3):
                assert not (await harness.ask(replica, KEY, 120)).allowed
            await harness.start_owner()
            rest = 120 - sum(spent) - passed
            assert await harness.passed(1, KEY, 120, 20) == rest

    running(test())


@pytest.mark.parametrize("seed", range(6))
def test_owners_that_hang_end_and_begin_never_let_more_pass(seed: int) -> None:
    """A client exceeds its limit for two minutes, while owners stall or change and calls to them time out.

    Replicas answer each other at once or late, but in time.
    """

    async def test() -> None:
        chance, loop, limit = random.Random(seed), asyncio.get_running_loop(), 30
        passed: list[tuple[float, float]] = []  # when answered and when sent
        ended = False

        def delay_s(name: str) -> float:
            if name.startswith(("limit.held", "limit.passed")):
                return chance.choice((0.0, 0.02, 0.1))
            return chance.choice((0.0, 0.0, 0.0, 0.02, 0.04, 0.3))

        async with Harness(3, lambda: 10**18 + round(loop.time() * 1e9)) as harness:
            harness.wires.delay_s = delay_s

            async def once(replica: int) -> None:
                sent_s = loop.time()
                if (await harness.ask(replica, KEY, limit)).allowed:
                    passed.append((loop.time(), sent_s))

            async def load(replica: int) -> None:
                while not ended:
                    await asyncio.sleep(chance.expovariate(2))
                    await asyncio.gather(*(once(replica) for _ in range(chance.choice((1, 1, 6)))))

            loads = [asyncio.ensure_future(load(replica)) for replica in range(3)]
            while loop.time() < 120:
                await asyncio.sleep(chance.uniform(0, 8))
                if chance.random() < 0.5:
                    harness.wires.deaf = {f"limit.{partition}" for partition in range(PARTITIONS)}
                    await asyncio.sleep(chance.uniform(0, 3))
                    harness.wires.deaf = set()
                else:
                    await harness.stop_owner()
                    await asyncio.sleep(chance.uniform(0, 3))
                    await harness.start_owner()
            ended = True
            await asyncio.gather(*loads)
        passed.sort()
        windows = [passed[first : first + limit + 1] for first in range(len(passed) - limit)]
        assert len(passed) > 1.5 * limit, "without an owner, requests pass too"
        assert all(window[-1][0] - min(sent_s for _, sent_s in window) >= 60 for window in windows)

    run_in_virtual_time(within(test(), 200))
