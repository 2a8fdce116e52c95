"""Event loop with virtual time: its clock jumps to the next timer as soon as nothing else is ready to run."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """Selector that returns at once and advances the clock by the timeout."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout else timeout)
        if not ready and timeout:
            self.now_s += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Event loop for work without sockets and threads; waits for those would advance the clock."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s

    def spend(self, seconds: float) -> None:
        """Pass time as work of so many seconds would."""
        self._jumping.now_s += seconds


def run_in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; `loop.time()` is 0 at the start and exact after every sleep."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
