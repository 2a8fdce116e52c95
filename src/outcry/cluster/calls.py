"""Interface for calls between processes: a short request to the process that registered a name, and its answer.

A call is answered within its timeout or fails. Calls are not stored, so the caller may repeat a failed one.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

#: Answers a call. The caller receives a `CallRefused` unchanged, and any other error as one with the code `fault`.
Answerer = Callable[[bytes], Awaitable[bytes]]


class BusDown(Exception):
    """The message bus does not respond; the caller may retry."""

    retry = True


class NobodyServes(BusDown):
    """No process has registered the name at present; another may do so soon."""


class CallRefused(Exception):
    """The called process refused the request. `code` is a stable error code; `details` depend on it."""

    def __init__(self, code: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(code)
        self.code, self.details = code, dict(details or {})


class Calls(Protocol):
    """Calls and notifications, on one event loop. Names are dot-separated words such as `push.17`."""

    async def ask(self, name: str, body: bytes, timeout_s: float) -> bytes:
        """Call the process that registered a name, and return its answer.

        Raises `NobodyServes` at once, `BusDown` after the timeout or if the bus is unavailable, and `CallRefused`.
        """
        ...

    def serve(self, name: str, answer: Answerer) -> AbstractAsyncContextManager[None]:
        """Register a name until the block ends, and answer calls to it with `answer`, several at once."""
        ...

    async def tell(self, name: str, body: bytes) -> None:
        """Notify every process that listens to a name.

        The notification is lost if the bus is unavailable or no process listens.
        """
        ...

    def listen(self, name: str, heard: Callable[[bytes], None]) -> AbstractAsyncContextManager[None]:
        """Call `heard` with each notification of a name, until the block ends."""
        ...
