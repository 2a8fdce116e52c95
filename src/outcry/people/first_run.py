"""The first run: until there is an operator, a one-time token that only the machine's owner can read creates one."""

from collections.abc import Callable

from outcry.people.links import Links
from outcry.people.model import TokenRow
from outcry.people.store import SqlIdentityStore


class FirstRun:
    """The first run of a service: whether an operator is missing, and the one-time token that creates the account.

    Also calls what must happen after that account exists.
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

        It goes to the log and to a file that only its owner can read.
        """
        self._links.void("setup")
        return self._links.make("setup")

    def find(self, token: str) -> TokenRow | None:
        """Return the stored row of a token, or None if it is invalid."""
        return self._links.find("setup", token.strip())
