"""Background tasks: start, repeat, wait for and end them. Decision record 0057 says why no library does this."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self

from outcry.base.log_events import LogEvent, Report

#: Time between two cancellations of a task that may lose one, long enough for it to clean up.
CANCEL_AGAIN_S = 2.0

#: Handles the unexpected error of a repeated action.
OnError = Callable[[Exception], object]


class BackgroundTasks:
    """Background tasks that belong to one component and end with it, on one event loop.

    report: logs `BACKGROUND_TASK_FAILED` with the name of a task that raised an unexpected error. Without it, `wait`
    raises that error. As a context manager, cancels the tasks at the end of the block and waits for them.
    """

    def __init__(self, report: Report | None = None) -> None:
        self._report = report
        self._tasks: set[asyncio.Task[None]] = set()
        self._first_ended: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __len__(self) -> int:
        """Return the number of tasks that have not ended."""
        return len(self._tasks)

    def __contains__(self, name: object) -> bool:
        """Return whether a task of this name has not ended."""
        return any(task.get_name() == name for task in self._tasks)

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine in a task. Names need not be unique."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def every(
        self,
        pause_s: float,
        name: str,
        action: Callable[[], Awaitable[object]],
        on_error: OnError | None = None,
    ) -> asyncio.Task[None]:
        """Repeat an action in a task, as `repeat` does. By default errors of the action are reported."""
        if on_error is None and (report := self._report) is not None:
            on_error = partial(_log_error, report, name)
        return self.start(name, repeat(action, pause_s, on_error))

    async def wait(self) -> None:
        """Wait until the first of the tasks has ended, and raise its error if it has one."""
        if self._first_ended is None:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        assert self._first_ended is not None, "a task that ended has called `_ended`"
        self._first_ended.result()

    async def settle(self, limit_s: float | None = None) -> None:
        """Wait until all tasks have ended by themselves, at most `limit_s` seconds. Cancels nothing."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=limit_s)

    async def stop(self, again_s: float | None = None) -> None:
        """Cancel the tasks and wait until all have ended.

        Tasks are cancelled once, so that no cleanup is interrupted. again_s: seconds after which tasks that still run
        are cancelled again, see `end`.
        """
        await end(self._tasks, again_s)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._first_ended = self._first_ended or task
        if self._report is not None and not task.cancelled() and (problem := task.exception()) is not None:
            _log_error(self._report, task.get_name(), problem)


def _log_error(report: Report, name: str, problem: BaseException) -> None:
    report(LogEvent.BACKGROUND_TASK_FAILED, task=name, problem=repr(problem))


async def repeat(
    action: Callable[[], Awaitable[object]], pause_s: float, on_error: OnError | None = None
) -> NoReturn:
    """Run an action until cancelled, with a pause after each run.

    If the action raises an error, `on_error` receives the error and the action is repeated. Without `on_error` the
    error is raised.
    """
    task = asyncio.current_task()
    while True:
        try:
            await action()
        except Exception as problem:  # a supervisor: the caller decides what an error ends
            if on_error is None:
                raise
            on_error(problem)
        # The action has lost the cancellation, or failed because of it.
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        await asyncio.sleep(pause_s)


async def end(tasks: Iterable[asyncio.Task[Any]], again_s: float | None = None) -> None:
    """Cancel tasks, except the current one, and wait until they have ended. Their errors are not raised.

    again_s: seconds after which tasks that still run are cancelled again. Tasks that run code of other libraries need
    it: before Python 3.12, `asyncio.wait_for` loses a cancellation that arrives together with its result.
    """
    under_way = {task for task in tasks if not task.done() and task is not asyncio.current_task()}
    while under_way:
        for task in under_way:
            task.cancel()
        _, under_way = await asyncio.wait(under_way, timeout=again_s)


async def is_set_within(event: asyncio.Event, limit_s: float) -> bool:
    """Wait until an event is set or the time has passed; return whether it is set."""
    try:
        async with asyncio.timeout(limit_s):  # not `wait_for`, see `end`
            await event.wait()
    except TimeoutError:
        pass
    return event.is_set()
