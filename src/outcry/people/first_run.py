"""Set-up of a new service: with a one-time token, the machine's owner creates the first operator."""

from collections.abc import Callable

from outcry.people.links import Links
from outcry.people.model import TokenRow
from outcry.people.store import SqlIdentityStore


class FirstRun:
    """Set-up of a new service: whether an operator is still missing, and the one-time token to create the first one.

    `afterwards` is called once the first operator exists.
    """

    def __init__(self, store: SqlIdentityStore, links: Links) -> None:
        self._store, self._links = store, links
        #: Runs once the first operator has been created.
        self.afterwards: Callable[[], object] = lambda: None

    def is_pending(self) -> bool:
        """Return whether there is no operator yet."""
        return all(user.role != "operator" for user in self._store.users())

    def new_token(self) -> str:
        """Return a one-time token for creating the first operator, and revoke earlier ones.

        The caller writes the token to the log and to a file that only the file's owner can read.
        """
        self._links.void("setup")
        return self._links.make("setup")

    def find(self, token: str) -> TokenRow | None:
        """Return the stored row of a token, or None if it is invalid."""
        return self._links.find("setup", token.strip())
