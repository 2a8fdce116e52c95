"""The port for presence: which processes of each role there are."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Presence(Protocol):
    """For one event loop. What it says is at most about two seconds old; with the bus away, as it was last known."""

    def here(self, roles: Sequence[str]) -> AbstractAsyncContextManager[None]:
        """Be counted under these roles until the block ends. With the bus away, as soon as it is back."""
        ...

    def members(self, role: str) -> Sequence[str]:
        """Names of the processes of a role, sorted; this one's own as `name`."""
        ...

    @property
    def name(self) -> str:
        """This process's name: its host, its number there, and a word of chance."""
        ...

    @property
    def connected(self) -> bool:
        """Whether the bus was heard of within the last two seconds."""
        ...
