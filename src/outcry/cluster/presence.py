"""Interface for the list of running processes, by role."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Presence(Protocol):
    """List the processes of each role, on one event loop.

    The list is at most about two seconds old. While NATS is unavailable it is the last known one.
    """

    def here(self, roles: Sequence[str]) -> AbstractAsyncContextManager[None]:
        """Announce this process under these roles until the block ends.

        While NATS is unavailable, the announcement waits until it is back.
        """
        ...

    def members(self, role: str) -> Sequence[str]:
        """Return the names of the processes of a role, sorted. This process appears under `name`."""
        ...

    @property
    def name(self) -> str:
        """This process's name: host, process id and a random suffix."""
        ...

    @property
    def connected(self) -> bool:
        """Whether NATS has delivered our heartbeat within the last two seconds."""
        ...
