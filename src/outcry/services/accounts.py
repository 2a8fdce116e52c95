"""Keys and licences as the running service knows them: making, finding and revoking keys; resolving what one
may see.

Rule kept: a key is shown once and kept only as a keyed digest. Both classes answer from memory and look
again when the store's revision has moved, asked at most every 200 ms, so that a revocation by any process
holds within a second.
"""

import hashlib
import secrets
from collections.abc import Sequence
from enum import StrEnum

from outcry.accounts import keys as form
from outcry.accounts.licences import Grant, Scope, resolve
from outcry.ports.store import AccountStore, KeyRow, Role, Tier
from outcry.services.mirror import Mirror

_MIN_SECRET_BYTES = 16
_MAX_SECRET_BYTES = 64  # the longest key BLAKE2b takes


class KeyRefusal(StrEnum):
    """Why a key is no good; the `reason` of a 401."""

    MISSING = "missing"
    MALFORMED = "malformed"
    UNKNOWN = "unknown"
    REVOKED = "revoked"
    KEY_IN_QUERY = "key_in_query"
    TICKET = "ticket"


class KeyRing(Mirror):
    """All keys by keyed digest. `server_secret`: 16 to 64 bytes; without it the stored digests find
    nothing."""

    def __init__(self, store: AccountStore, server_secret: bytes) -> None:
        if not _MIN_SECRET_BYTES <= len(server_secret) <= _MAX_SECRET_BYTES:
            raise ValueError("the server secret has 16 to 64 bytes")
        super().__init__(store.revision)
        self._store = store
        self._secret = server_secret
        self._by_digest: dict[bytes, KeyRow] = {}
        self._live: dict[str, KeyRow] = {}
        self.live_count = 0

    def digest(self, key: str) -> bytes:
        """Return what is kept of a key."""
        return hashlib.blake2b(key.encode("ascii"), digest_size=32, key=self._secret).digest()

    def create(self, email: str, tier: Tier, now_ns: int, *, role: Role = "read") -> str:
        """Make a key for that user and return it, the only time it is seen."""
        taken = {row.prefix for row in self.list()}
        key = form.compose(secrets.randbits(form.SECRET_BITS))
        while form.prefix(key) in taken:  # a prefix names one key, so that it can be revoked by it
            key = form.compose(secrets.randbits(form.SECRET_BITS))
        user_id = self._store.ensure_user(email, now_ns)
        self._store.add_key(user_id, tier, form.prefix(key), self.digest(key), now_ns, role=role)
        self.refresh(now_ns, force=True)
        return key

    def revoke(self, prefix: str, now_ns: int) -> KeyRow | None:
        """Revoke the one live key of that prefix; None where there is none, or several."""
        row = self._store.revoke_key(prefix, now_ns)
        self.refresh(now_ns, force=True)
        return row

    def list(self) -> Sequence[KeyRow]:
        """All keys, revoked ones too, oldest first; straight from the store."""
        return self._store.keys()

    def find(self, key: str, now_ns: int) -> KeyRow | KeyRefusal:
        """Return the live key's row or why there is none, after a look at the store if one is due (this may
        block)."""
        self.refresh(now_ns)
        return self.known(key)

    def known(self, key: str) -> KeyRow | KeyRefusal:
        """Return the live key's row or why there is none, from memory alone.

        The look-up is by a digest under a secret, so its timing says nothing about how near a guess was.
        """
        if not key:
            return KeyRefusal.MISSING
        if not form.is_well_formed(key):
            return KeyRefusal.MALFORMED
        row = self._by_digest.get(self.digest(key))
        if row is None:
            return KeyRefusal.UNKNOWN
        return row if row.revoked_ns is None else KeyRefusal.REVOKED

    def live(self, prefix: str) -> KeyRow | None:
        """Return the key of that prefix as it stands, from memory alone; None where it is revoked or unknown."""
        return self._live.get(prefix)

    def _load(self) -> bool:
        found = {row.digest: row for row in self.list()}
        changed = found != self._by_digest
        if changed:
            self._by_digest = found
            self._live = {row.prefix: row for row in found.values() if row.revoked_ns is None}
            self.live_count = sum(row.revoked_ns is None for row in found.values())
        return changed


class Licences(Mirror):
    """All grants in force, and the scope each key has through them."""

    def __init__(self, store: AccountStore) -> None:
        super().__init__(store.revision)
        self._store = store
        self._grants: tuple[Grant, ...] = ()
        self._scopes: dict[tuple[int, int, Tier], Scope] = {}

    def scope(self, row: KeyRow) -> Scope:
        """Return what this key may see, from memory; one object as long as the grants stay the same."""
        scopes = self._scopes
        place = (row.user_id, row.id, row.tier)
        scope = scopes.get(place)
        if scope is None:
            # setdefault on the dictionary read above: a reload meanwhile leaves this entry in the one thrown
            # away.
            scope = scopes.setdefault(place, resolve(*place, self._grants))
        return scope

    def of_user(self, user_id: int) -> Scope:
        """Return what a user may see whichever key asks: a feed belongs to its user, not to a key or a tier."""
        return resolve(
            user_id, 0, "free", tuple(g for g in self._grants if not g.grantee.startswith("tier:"))
        )

    def _load(self) -> bool:
        grants = tuple(
            Grant(row.grantee, row.scope, row.roots, row.from_date, row.until_date, row.embargo_ns)
            for row in self._store.grants()
            if row.revoked_ns is None
        )
        changed = grants != self._grants
        if changed:
            self._grants, self._scopes = grants, {}
        return changed
