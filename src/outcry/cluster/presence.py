"""The port for presence: which processes of each role there are."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Presence(Protocol):
    """Lists processes, for one event loop. At most about two seconds old; without NATS, the last known state."""

    def here(self, roles: Sequence[str]) -> AbstractAsyncContextManager[None]:
        """Announce this process under these roles until the block ends; without NATS, after it is available."""
        ...

    def members(self, role: str) -> Sequence[str]:
        """Return the names of the processes of a role, sorted; this process is listed as `name`."""
        ...

    @property
    def name(self) -> str:
        """This process's name: host, process id and a random word."""
        ...

    @property
    def connected(self) -> bool:
        """Whether NATS has delivered our heartbeat within the last two seconds."""
        ...
