"""API keys, grants and the store that holds them.

Every method of the store may raise `StoreBusy`. `revision()` grows with every committed change that an answer may rest
on, and is cheap enough to ask several times a second: caches of what the store holds are keyed by it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, Protocol

Tier = Literal["free", "pro", "admin"]


#: What a key is for: asking, or sending trades, as its user's feed or as the operator's. No key is for both.
Role = Literal["read", "ingest", "ingest-operator"]


@dataclass(frozen=True, slots=True)
class KeyRow:
    """An API key as kept: never the key itself, but its keyed digest and its first characters.

    `label`: what its user calls it; `expires_ns`: from when it is no good, None: never; `last_used_ns`: to within a
    minute; `replaced_by`: the key that was made in its place; `disabled_ns`: since when its user is disabled.
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
        """Whether it is good for anything: not revoked, not over, its user not disabled."""
        ended = self.revoked_ns is not None or self.disabled_ns is not None
        return not ended and (self.expires_ns is None or now_ns < self.expires_ns)


@dataclass(frozen=True, slots=True)
class GrantRow:
    """The operator's data licensed on: to `everyone`, a `tier:pro`, a `user:3` or a `key:7`.

    Covers `roots` (empty: all): `completed` sessions between two trade dates, each once its close is `embargo_ns` past;
    or the `live` feed, where dates and embargo do not apply. `licence`: the class of licence the operator declared for
    it, empty where none had to be.
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
    """That a grant was made or withdrawn. `by`: an address, or `command` for who has the data folder; `attested`: what
    was declared with it, word for word."""

    id: int
    grant: GrantRow
    at_ns: int
    event: Literal["granted", "withdrawn"]
    by: str
    attested: str


class AccountStore(Protocol):
    """Users, keys and grants."""

    def revision(self) -> int:
        """A number that changes whenever anything was committed that an answer may rest on; a sign-in is no such
        thing."""
        ...

    def ensure_user(self, email: str, now_ns: int) -> int:
        """The id of the user of that address (compared in lower case), made if new."""
        ...

    def find_user(self, email: str) -> int | None:
        """The id of the user of that address, if there is one."""
        ...

    def add_key(
        self, user_id: int, tier: Tier, prefix: str, digest: bytes, now_ns: int, *, role: Role = "read",
        label: str = "", expires_ns: int | None = None, most: int | None = None,
    ) -> int | None:  # fmt: skip
        """Keep a new key; return its id, None where the user has `most` live ones."""
        ...

    def replace_key(
        self, user_id: int, key_id: int, prefix: str, digest: bytes, grace_ns: int, now_ns: int, *, most: int
    ) -> int | None:
        """Keep a new key of the same user, name, tier, role and length of life, granted what the old one is, and let
        that one end when the grace is over, if not before; return the new one's id. None where the old one is none of
        this user's, not live or replaced before, or where the user has `most` live ones."""
        ...

    def name_key(self, user_id: int, key_id: int, label: str) -> bool:
        """Call a key of this user's so; False where it is none of them."""
        ...

    def keys_named(self, beginning: str) -> Sequence[KeyRow]:
        """All keys whose prefix begins so, revoked ones too, oldest first; `beginning` is not empty."""
        ...

    def revoke_key_of(self, user_id: int, key_id: int, now_ns: int) -> KeyRow | None:
        """Revoke a key of this user's; None where it is none of them, or revoked already."""
        ...

    def keys(self, user_id: int | None = None) -> Sequence[KeyRow]:
        """All keys, or a user's, revoked ones too, oldest first."""
        ...

    def keys_since(self, revision: int | None) -> Iterator[KeyRow]:
        """All keys of which anything that decides what they may do was changed since that revision, new ones too, and
        perhaps others; None: all there are. Asked for while they are taken; may raise `StoreBusy` then."""
        ...

    def has_prefix(self, prefix: str) -> bool:
        """Whether a key, revoked or not, has these first characters."""
        ...

    def used_keys(self, times: Mapping[int, int]) -> None:
        """Note when keys were last used, by id (ns UTC). Does not move `revision`."""
        ...

    def grants(self) -> Sequence[GrantRow]:
        """All grants in force."""
        ...

    def add_grant(self, grant: GrantRow, now_ns: int, *, by: str = "", attested: str = "") -> int:
        """Keep a new grant (its id is ignored) and that it was made, by whom; return its id."""
        ...

    def revoke_grant(self, grant_id: int, now_ns: int, *, by: str = "") -> bool:
        """Revoke a grant and keep by whom; False where it is unknown or revoked already."""
        ...

    def grant_events(self, limit: int) -> Sequence[GrantEvent]:
        """The newest of what was ever granted and withdrawn, newest first. None of it is ever changed or removed."""
        ...
