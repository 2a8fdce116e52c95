"""Load parts of the program when they are first used, so that a process starts fast and small.

Most processes never use most parts: no page is opened, no alert is delivered, no file is imported. A part that imports
large libraries or reads files is built by a function that imports them. Decision record 0060.
"""

import asyncio
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Deferred(Generic[T]):
    """An object that `build` creates once, when it is first used. If that fails, the next use tries again."""

    def __init__(self, build: Callable[[], T]) -> None:
        self._build = build
        self._lock = Lock()
        self._parts: list[T] = []

    def __call__(self) -> T:
        """Return the object. The first call creates it; other threads wait."""
        if not self._parts:
            with self._lock:
                if not self._parts:
                    self._parts.append(self._build())
        return self._parts[0]

    async def loaded(self) -> T:
        """Return the object; create it in a thread, so that the event loop continues."""
        return self._parts[0] if self._parts else await asyncio.to_thread(self)

    @property
    def if_built(self) -> T | None:
        """The object if it was used before, else None. Never creates it."""
        return self._parts[0] if self._parts else None
