"""Wait until a condition is met, in threads and in tasks."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Time limit (s) for events that happen at once on an idle machine.
PATIENCE_S = 60.0


def wait_until(
    met: Callable[[], T],
    what: str | Callable[[], object] = "",
    limit_s: float = PATIENCE_S,
    *,
    poll_s: float = 0.02,
    pause: Callable[[float], object] = time.sleep,
) -> T:
    """Wait until a condition is met (its value is true), and return that value.

    `what` names the condition, or returns details at the time limit. `pause` waits between two checks (s).
    Raises `AssertionError` at the time limit (s)."""
    end_s = time.monotonic() + limit_s
    while not (value := met()):
        assert time.monotonic() < end_s, _failure(what, limit_s)
        pause(poll_s)
    return value


async def until(
    met: Callable[[], T],
    what: str | Callable[[], object] = "",
    limit_s: float = PATIENCE_S,
    *,
    poll_s: float = 0.005,
) -> T:
    """Wait like `wait_until`, while other tasks run."""
    end_s = time.monotonic() + limit_s
    while not (value := met()):
        assert time.monotonic() < end_s, _failure(what, limit_s)
        await asyncio.sleep(poll_s)
    return value


def _failure(what: str | Callable[[], object], limit_s: float) -> str:
    return f"condition not met within {limit_s:.0f} s: {what if isinstance(what, str) else what()}"
