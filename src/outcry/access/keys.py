"""API keys in memory: create, find, rotate and revoke keys.

A key is shown once; the database stores only a keyed digest. `ApiKeys` answers from memory. It checks the database's
revision (a counter of changes) at most every 200 ms, and reloads keys if the revision has changed. A revocation by any
process therefore takes effect within a second. Keys expire by this machine's clock, even where the market runs on a
simulated clock. Only changed keys are reloaded, because there may be a million of them.
"""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from heapq import heappop, heappush

from outcry.access import key_format as form
from outcry.access.account_store import SqlAccounts
from outcry.access.model import KeyRow, Role, Tier
from outcry.base.clock import Clock
from outcry.database.revision_cache import RevisionCache
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_HOUR

_MIN_SECRET_BYTES = 16
_MAX_SECRET_BYTES = 64  # the longest key BLAKE2b takes
MOST_OWN_KEYS = 20
#: Allowed grace periods of a rotated key.
GRACES_NS = (0, NANOS_PER_HOUR, NANOS_PER_DAY, 7 * NANOS_PER_DAY)
#: Prefix of a key's subject in the limiter; its id follows.
SUBJECT = "key:"
_SHOWN_AFTER_END_NS = 30 * NANOS_PER_DAY


class KeyRefusal(StrEnum):
    """Reason why a request's API key is not accepted: the `reason` in a 401 response."""

    MISSING = "missing"
    MALFORMED = "malformed"
    UNKNOWN = "unknown"
    REVOKED = "revoked"
    EXPIRED = "expired"
    DISABLED = "disabled"
    KEY_IN_QUERY = "key_in_query"
    TICKET = "ticket"


class KeyFault(StrEnum):
    """Reason why a key cannot be created, rotated or labelled."""

    TOO_MANY = "too_many_keys"
    LABEL = "key_label"
    EXPIRY = "key_expiry"
    GRACE = "key_grace"
    UNKNOWN = "unknown_key"


class KeyRefused(Exception):
    """A key cannot be created, rotated or labelled."""

    def __init__(self, fault: KeyFault) -> None:
        super().__init__(fault.value)
        self.fault = fault


class ApiKeys(RevisionCache):
    """All API keys in memory, by keyed digest.

    `server_secret`: 16 to 64 bytes; the key of the digests. With another secret no stored key is found. `clock`:
    decides when keys expire.
    """

    def __init__(self, store: SqlAccounts, server_secret: bytes, clock: Clock) -> None:
        if not _MIN_SECRET_BYTES <= len(server_secret) <= _MAX_SECRET_BYTES:
            raise ValueError("the server secret must have 16 to 64 bytes")
        super().__init__(store.revision)
        self._store = store
        self._secret = server_secret
        self._clock = clock
        self._by_digest: dict[bytes, KeyRow] = {}
        self._live: dict[str, KeyRow] = {}
        #: A heap of (expiry, digest). A key whose expiry was changed has an entry for each.
        self._ends: list[tuple[int, bytes]] = []

    @property
    def live_count(self) -> int:
        """Number of live keys, that is, neither expired nor revoked."""
        return len(self._live)

    def digest(self, key: str) -> bytes:
        """Return the keyed digest that is stored for a key."""
        return hashlib.blake2b(key.encode("ascii"), digest_size=32, key=self._secret).digest()

    # -- making and ending

    def create(
        self, email: str, tier: Tier, now_ns: int, *, role: Role = "read", label: str = "",
        expires_ns: int | None = None, most: int | None = None,
    ) -> str:  # fmt: skip
        """Create a key for a user and return the key. It cannot be read later, because only its digest is stored.

        `most`: maximum number of live keys of the user, this one included. Raises `KeyRefused`.
        """
        if expires_ns is not None and expires_ns <= now_ns:
            raise KeyRefused(KeyFault.EXPIRY)
        label = _label(label)
        key = self._new()
        user_id = self._store.ensure_user(email, now_ns)
        made = self._store.add_key(
            user_id, tier, form.prefix(key), self.digest(key), now_ns,
            role=role, label=label, expires_ns=expires_ns, most=most,
        )  # fmt: skip
        if made is None:
            raise KeyRefused(KeyFault.TOO_MANY)
        self.refresh(now_ns, force=True)
        return key

    def create_own(
        self, email: str, tier: Tier, now_ns: int, *, role: Role = "read", label: str = "",
        expires_ns: int | None = None,
    ) -> str:  # fmt: skip
        """Create a key at its user's request. A user may have at most 20 live keys. Raises `KeyRefused`."""
        return self.create(
            email, tier, now_ns, role=role, label=label, expires_ns=expires_ns, most=MOST_OWN_KEYS
        )

    def rotate(self, user_id: int, key_id: int, grace_ns: int, now_ns: int) -> str:
        """Replace a user's key and return the new one. It cannot be read again.

        The new key has the same label, tier, role and lifetime. The old one stays valid for `grace_ns` (one of
        `GRACES_NS`) and cannot be rotated again. Raises `KeyRefused`.
        """
        if grace_ns not in GRACES_NS:
            raise KeyRefused(KeyFault.GRACE)
        old = next((row for row in self._store.keys(user_id) if row.id == key_id), None)
        if old is None or not old.is_live(now_ns) or old.replaced_by is not None:
            raise KeyRefused(KeyFault.UNKNOWN)
        key, most = self._new(), 2 * MOST_OWN_KEYS  # each may have a predecessor in its grace period
        made = self._store.replace_key(
            user_id, key_id, form.prefix(key), self.digest(key), grace_ns, now_ns, most=most
        )
        if made is None:  # or another request rotated or revoked it meanwhile
            raise KeyRefused(KeyFault.TOO_MANY)
        self.refresh(now_ns, force=True)
        return key

    def change_own(self, user_id: int, key_id: int, label: str) -> bool:
        """Change the label of a user's key. Return False if the user has no such key. Raises `KeyRefused`."""
        return self._store.name_key(user_id, key_id, _label(label))

    def named(self, text: str) -> Sequence[KeyRow]:
        """Return the keys that match a whole key or its beginning, oldest first, including revoked ones.

        Reads the database. A whole key is compared by digest. A shorter text is compared with the stored prefix only.
        """
        if not form.is_beginning(text):
            return ()
        rows = self._store.keys_named(form.prefix(text))
        if len(text) < form.KEY_LENGTH:
            return rows
        return [row for row in rows if form.is_well_formed(text) and row.digest == self.digest(text)]

    def revoke(self, text: str, now_ns: int) -> KeyRow | None:
        """Revoke the only unrevoked key that matches a whole key or its beginning (see `named`).

        Return None if none or several match. The common prefix `outcry_` alone never matches.
        """
        active = [row for row in self.named(text) if row.revoked_ns is None and len(text) > len(form.MARK)]
        return self.revoke_own(active[0].user_id, active[0].id, now_ns) if len(active) == 1 else None

    def revoke_own(self, user_id: int, key_id: int, now_ns: int) -> KeyRow | None:
        """Revoke a user's key. Return None if the user has no such key or it is revoked already."""
        row = self._store.revoke_key_of(user_id, key_id, now_ns)
        self.refresh(now_ns, force=True)
        return row

    # -- looking

    def list(self) -> Sequence[KeyRow]:
        """Read all keys from the database, oldest first, including revoked ones."""
        return self._store.keys()

    def of(self, user_id: int) -> Sequence[KeyRow]:
        """Read a user's keys from the database, newest first: live ones and those that ended in the last 30 days."""
        since_ns = self._clock.now_ns() - _SHOWN_AFTER_END_NS
        ends = ((row, (row.revoked_ns, row.expires_ns)) for row in self._store.keys(user_id))
        shown = [row for row, ended in ends if not any(at is not None and at < since_ns for at in ended)]
        return shown[::-1]

    def find(self, key: str, now_ns: int) -> KeyRow | KeyRefusal:
        """Return the row of a live key, or why the key is refused.

        First checks for changed keys, which may query the database and block.
        """
        self.refresh(now_ns)
        return self.known(key)

    def known(self, key: str) -> KeyRow | KeyRefusal:
        """Return the row of a live key, or why the key is refused. Uses memory only.

        The lookup uses a digest under a secret, so its timing reveals nothing about similar API keys.
        """
        if not key:
            return KeyRefusal.MISSING
        if not form.is_well_formed(key):
            return KeyRefusal.MALFORMED
        row = self._by_digest.get(self.digest(key))
        if row is None:
            return KeyRefusal.UNKNOWN
        if row.is_live(self._clock.now_ns()):
            return row
        if row.revoked_ns is not None:
            return KeyRefusal.REVOKED
        return KeyRefusal.EXPIRED if row.disabled_ns is None else KeyRefusal.DISABLED

    def live(self, prefix: str) -> KeyRow | None:
        """Return the live key with this prefix, from memory; None if there is none."""
        return self._live.get(prefix)

    def note_used(self, ages_ns: Mapping[str, int]) -> None:
        """Store when keys were last used. `ages_ns`: time (ns) since the last use, by limiter subject (`key:7`)."""
        now_ns = self._clock.now_ns()
        used = {int(subject.removeprefix(SUBJECT)): now_ns - age_ns for subject, age_ns in ages_ns.items()}
        self._store.used_keys(used)

    def _new(self) -> str:
        """Return a new key with a unique prefix, so that it can be revoked by its prefix."""
        while True:
            key = form.compose(secrets.randbits(form.SECRET_BITS))
            if not self._store.has_prefix(form.prefix(key)):
                return key

    def _load(self) -> bool:
        now_ns = self._clock.now_ns()
        # Read all rows first: if the store fails half-way, nothing changes.
        return sum([self._take(row, now_ns) for row in list(self._store.keys_since(self._revision))]) > 0

    def _take(self, row: KeyRow, now_ns: int) -> bool:
        """Put a key's row from the database in memory; return whether what the key may do has changed."""
        before = self._by_digest.get(row.digest)
        self._by_digest[row.digest] = row
        if row.is_live(now_ns):
            self._live[row.prefix] = row
            if row.expires_ns is not None:
                heappush(self._ends, (row.expires_ns, row.digest))
        else:
            self._let_go(row)
        return before is None or _standing(before) != _standing(row)

    def _let_go(self, row: KeyRow) -> bool:
        """Remove a key from the live keys in memory; return whether it was among them."""
        live = self._live.get(row.prefix)
        if live is None or live.id != row.id:
            return False
        del self._live[row.prefix]
        return True

    def _lapse(self) -> bool:
        now_ns, over = self._clock.now_ns(), False
        while self._ends and self._ends[0][0] <= now_ns:
            row = self._by_digest[heappop(self._ends)[1]]
            if not row.is_live(now_ns):  # otherwise its expiry has changed
                over = self._let_go(row) or over
        return over


def _standing(row: KeyRow) -> KeyRow:
    """Return a key's row reduced to the fields that decide what the key may do."""
    return replace(row, label="", last_used_ns=None)


def _label(text: str) -> str:
    text = text.strip()
    if not form.is_label(text):
        raise KeyRefused(KeyFault.LABEL)
    return text
