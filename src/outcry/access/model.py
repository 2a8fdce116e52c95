"""API keys, grants and the interface of their store.

Every method of the store may raise `StoreBusy`. `revision()` increases with every committed change that can change an
answer. It is cheap, and caches of stored data are keyed by it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, Protocol

Tier = Literal["free", "pro", "admin"]


#: A key either reads, or sends trades: as its user's feed or as the operator's.
Role = Literal["read", "ingest", "ingest-operator"]


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A stored API key: a keyed digest and the first characters, never the key.

    `expires_ns` None: never expires. `last_used_ns`: accurate to a minute. `replaced_by`: id of the key that replaced
    it. `disabled_ns`: when its user was disabled.
    """

    id: int
    user_id: int
    email: str
    tier: Tier
    prefix: str
    digest: bytes
    created_ns: int
    revoked_ns: int | None
    role: Role = "read"
    label: str = ""
    expires_ns: int | None = None
    last_used_ns: int | None = None
    replaced_by: int | None = None
    disabled_ns: int | None = None

    def is_live(self, now_ns: int) -> bool:
        """Return whether the key is valid: not revoked, not expired, and its user not disabled."""
        ended = self.revoked_ns is not None or self.disabled_ns is not None
        return not ended and (self.expires_ns is None or now_ns < self.expires_ns)


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A stored grant of the operator's data to `everyone`, a `tier:pro`, a `user:3` or a `key:7`.

    Covers `roots` (empty: all): `completed` sessions between two trade dates, `embargo_ns` after their close; or the
    `live` feed, where dates and embargo do not apply. `licence`: the declared class of licence, empty where none is
    needed.
    """

    id: int
    grantee: str
    scope: Literal["completed", "live"]
    roots: tuple[str, ...]
    from_date: date | None
    until_date: date | None
    embargo_ns: int
    revoked_ns: int | None
    licence: str = ""


@dataclass(frozen=True, slots=True)
class GrantEvent:
    """A log line: a grant was made or withdrawn.

    `by`: an email address, or `command` for the command line. `attested`: the declaration made with it, verbatim.
    """

    id: int
    grant: GrantRow
    at_ns: int
    event: Literal["granted", "withdrawn"]
    by: str
    attested: str


class AccountStore(Protocol):
    """Store of users, keys and grants."""

    def revision(self) -> int:
        """Return a number that increases with every committed change that can change an answer.

        Sign-ins do not change it.
        """
        ...

    def ensure_user(self, email: str, now_ns: int) -> int:
        """Return the id of the user with an email address (compared in lower case); create the user if needed."""
        ...

    def find_user(self, email: str) -> int | None:
        """Return the id of the user with an email address, if there is one."""
        ...

    def add_key(
        self, user_id: int, tier: Tier, prefix: str, digest: bytes, now_ns: int, *, role: Role = "read",
        label: str = "", expires_ns: int | None = None, most: int | None = None,
    ) -> int | None:  # fmt: skip
        """Store a new key and return its id; None if the user has `most` live keys."""
        ...

    def replace_key(
        self, user_id: int, key_id: int, prefix: str, digest: bytes, grace_ns: int, now_ns: int, *, most: int
    ) -> int | None:
        """Store the replacement of a user's key and return its id.

        The new key has the same user, label, tier, role, lifetime and grants. The old one expires after the grace
        period, if not before. Return None if the user has no such key, if it is not live or was replaced before, or if
        the user has `most` live keys.
        """
        ...

    def name_key(self, user_id: int, key_id: int, label: str) -> bool:
        """Label a user's key; return False if the user has no such key."""
        ...

    def keys_named(self, beginning: str) -> Sequence[KeyRow]:
        """Return all keys whose prefix starts with a non-empty text, oldest first, including revoked ones."""
        ...

    def revoke_key_of(self, user_id: int, key_id: int, now_ns: int) -> KeyRow | None:
        """Revoke a user's key; return None if the user has no such key or it is revoked already."""
        ...

    def keys(self, user_id: int | None = None) -> Sequence[KeyRow]:
        """Return all keys, or a user's, oldest first, including revoked ones."""
        ...

    def keys_since(self, revision: int | None) -> Iterator[KeyRow]:
        """Yield all keys that changed since a revision in what they may do, possibly others too; None: all keys.

        Rows are read lazily, and reading them may raise `StoreBusy`.
        """
        ...

    def has_prefix(self, prefix: str) -> bool:
        """Return whether any key, revoked or not, has this prefix."""
        ...

    def used_keys(self, times: Mapping[int, int]) -> None:
        """Store when keys were last used, by id (ns UTC). Does not change `revision`."""
        ...

    def grants(self) -> Sequence[GrantRow]:
        """Return all active grants."""
        ...

    def add_grant(self, grant: GrantRow, now_ns: int, *, by: str = "", attested: str = "") -> int:
        """Store a new grant (its id is ignored) with its log line; return its id."""
        ...

    def revoke_grant(self, grant_id: int, now_ns: int, *, by: str = "") -> bool:
        """Revoke a grant and log who did; return False if it is unknown or revoked already."""
        ...

    def grant_events(self, limit: int) -> Sequence[GrantEvent]:
        """Return the newest lines of the grant log, newest first."""
        ...
