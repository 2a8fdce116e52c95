"""Background tasks: their errors are reported, periodic ones continue, and all end with their component."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.virtual_time import run_in_virtual_time

from outcry.base.log_events import LogEvent
from outcry.base.tasks import BackgroundTasks, end, is_set_within, repeat


class Log:
    """Stores the reported events."""

    def __init__(self) -> None:
        self.events: list[tuple[LogEvent, dict[str, Any]]] = []

    def report(self, event: LogEvent, **fields: Any) -> None:
        self.events.append((event, fields))


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def forever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise ValueError("no")


def times_of(runs: list[float]) -> Callable[[], Awaitable[None]]:
    """Return an action that records when it ran."""

    async def action() -> None:
        runs.append(now_s())

    return action


FAILED = (LogEvent.BACKGROUND_TASK_FAILED, {"task": "failing", "problem": "ValueError('no')"})


def test_an_error_of_a_task_is_reported_and_ends_that_task_only() -> None:
    async def work() -> None:
        log = Log()
        async with BackgroundTasks(log.report) as tasks:
            tasks.start("failing", fail())
            other = tasks.start("other", forever())
            await asyncio.sleep(1)
            assert log.events == [FAILED]
            assert ("failing" in tasks, "other" in tasks, len(tasks)) == (False, True, 1)
        assert other.cancelled()
        assert (len(tasks), log.events) == (0, [FAILED])

    run_in_virtual_time(work())


def test_a_periodic_task_pauses_after_each_run_and_continues_after_an_error() -> None:
    """Each run takes two seconds, followed by a pause of three, so they begin at 0, 5 and 10."""
    log, runs = Log(), list[float]()

    async def action() -> None:
        runs.append(now_s())
        await asyncio.sleep(2)
        await fail()

    async def work() -> None:
        async with BackgroundTasks(log.report) as tasks:
            tasks.every(3, "failing", action)
            await asyncio.sleep(11)

    run_in_virtual_time(work())
    assert (runs, log.events) == ([0, 5, 10], [FAILED, FAILED])


def test_a_periodic_task_can_report_errors_by_an_event_of_its_own() -> None:
    log, problems = Log(), list[str]()

    async def work() -> None:
        async with BackgroundTasks(log.report) as tasks:
            tasks.every(1, "failing", fail, lambda problem: problems.append(repr(problem)))
            await asyncio.sleep(1.5)

    run_in_virtual_time(work())
    assert (problems, log.events) == (["ValueError('no')"] * 2, [])


def test_waiting_raises_the_error_of_the_first_task_that_ended_even_if_it_ended_before() -> None:
    async def work() -> None:
        async with BackgroundTasks() as tasks:
            tasks.start("failing", fail())
            tasks.start("other", forever())
            with pytest.raises(ValueError, match="no"):
                await tasks.wait()
            with pytest.raises(ValueError, match="no"):
                await tasks.wait()

    run_in_virtual_time(work())


def test_stopping_waits_for_cleanups_and_does_not_interrupt_them() -> None:
    async def cleaned_up_slowly() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(10)
            ended.append(now_s())

    ended = list[float]()

    async def work() -> None:
        tasks = BackgroundTasks()
        await tasks.stop()  # without a task
        tasks.start("slow", cleaned_up_slowly())
        await asyncio.sleep(1)
        await tasks.stop()

    run_in_virtual_time(work())
    assert ended == [11]


def test_a_task_that_stops_its_component_is_not_cancelled() -> None:
    async def work() -> None:
        tasks = BackgroundTasks()
        other = tasks.start("other", forever())
        task = tasks.start("last", tasks.stop())
        await task
        assert (task.cancelled(), other.cancelled(), len(tasks)) == (False, True, 0)

    run_in_virtual_time(work())


@pytest.mark.parametrize("fails", [False, True])
def test_repeating_ends_though_its_action_loses_the_cancellation(fails: bool) -> None:
    async def action() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            if fails:
                await fail()

    async def work() -> None:
        async with BackgroundTasks(Log().report) as tasks:
            task = tasks.every(1, "deaf", action)
            await asyncio.sleep(5)
        assert (task.cancelled(), now_s()) == (True, 5)

    run_in_virtual_time(work())


def test_repeating_raises_an_error_that_nobody_handles() -> None:
    runs = list[float]()

    async def action() -> None:
        await times_of(runs)()
        if len(runs) == 3:
            await fail()

    with pytest.raises(ValueError, match="no"):
        run_in_virtual_time(repeat(action, 2))
    assert runs == [0, 2, 4]


@pytest.mark.parametrize(("again_s", "cancelled_s"), [(None, [0]), (2, [0, 2, 4])])
def test_a_task_is_cancelled_once_or_again_until_it_ends(
    again_s: float | None, cancelled_s: list[float]
) -> None:
    """The task ends by itself after 5 seconds. One that has ended is not cancelled."""
    times = list[float]()

    async def deaf() -> None:
        while now_s() < 5:
            try:
                await asyncio.sleep(5 - now_s())
            except asyncio.CancelledError:
                times.append(now_s())

    async def work() -> None:
        over = asyncio.create_task(fail())
        await asyncio.wait([over])
        task = asyncio.create_task(deaf())
        await asyncio.sleep(0)
        await end([over, task], again_s)
        assert (task.done(), now_s(), repr(over.exception())) == (True, 5, "ValueError('no')")
        await end([])

    run_in_virtual_time(work())
    assert times == cancelled_s


def test_waiting_for_an_event_has_a_limit() -> None:
    async def work() -> None:
        event = asyncio.Event()
        asyncio.get_running_loop().call_later(3, event.set)
        assert (await is_set_within(event, 2), now_s()) == (False, 2)
        assert (await is_set_within(event, 2), now_s()) == (True, 3)
        assert (await is_set_within(event, 0), now_s()) == (True, 3)

    run_in_virtual_time(work())
