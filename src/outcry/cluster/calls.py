"""The port for calls between processes: a short question to whoever serves a name, and its answer.

Rule kept: a call is answered in time or it is not; nothing is kept of it, so whoever asks may ask again.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

#: Answers a call. What it raises is told to whoever asked as `CallRefused`, in its words if it is one, else as `fault`.
Answerer = Callable[[bytes], Awaitable[bytes]]


class BusDown(Exception):
    """What carries messages between processes does not answer; worth trying again."""

    retry = True


class NobodyServes(BusDown):
    """No process serves that name now: the one that did has ended, and the next is on the way."""


class CallRefused(Exception):
    """Whoever serves the name refuses: `code` is stable, `details` go with it."""

    def __init__(self, code: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(code)
        self.code, self.details = code, dict(details or {})


class Calls(Protocol):
    """For one event loop. Names are dot-separated words: `push.17`."""

    async def ask(self, name: str, body: bytes, timeout_s: float) -> bytes:
        """Ask whoever serves a name. Raises `NobodyServes` at once, `BusDown` when it takes longer or the bus is gone,
        and `CallRefused`."""
        ...

    def serve(self, name: str, answer: Answerer) -> AbstractAsyncContextManager[None]:
        """Serve a name until the block ends; calls are answered beside each other."""
        ...

    async def tell(self, name: str, body: bytes) -> None:
        """Say something to everybody who listens to a name, if the bus is there; nobody may."""
        ...

    def listen(self, name: str, heard: Callable[[bytes], None]) -> AbstractAsyncContextManager[None]:
        """Call `heard` with what is told under a name, until the block ends."""
        ...
