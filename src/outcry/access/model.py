"""Rows of API keys and grants as the store returns them."""

from dataclasses import dataclass
from datetime import date
from typing import Literal

Tier = Literal["free", "pro", "admin"]


#: A key either reads, or sends trades: as its user's feed or as the operator's.
Role = Literal["read", "ingest", "ingest-operator"]


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A stored API key: its keyed digest and its first characters, never the whole key.

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
        """Return whether the key is valid at `now_ns`: not revoked, not expired, and its user not disabled."""
        ended = self.revoked_ns is not None or self.disabled_ns is not None
        return not ended and (self.expires_ns is None or now_ns < self.expires_ns)


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A stored permission to see the operator's data, for the grantee `everyone`, `tier:pro`, `user:3` or `key:7`.

    It covers the products `roots` (empty: all). Scope `completed`: sessions between two trade dates, from `embargo_ns`
    after their close. Scope `live`: the live feed; dates and embargo do not apply. `licence`: the declared class of
    licence, empty if none is needed.
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
    """An entry of the grant log: a grant was made or withdrawn.

    `by`: an email address, or `command` for the command line. `attested`: the licence declaration made with the grant,
    verbatim.
    """

    id: int
    grant: GrantRow
    at_ns: int
    event: Literal["granted", "withdrawn"]
    by: str
    attested: str
