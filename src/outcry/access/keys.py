"""Keys and licences as the running service knows them: making, finding, replacing and revoking keys; resolving what one
may see.

Rule kept: a key is shown once and kept only as a keyed digest. Both classes answer from memory and look again when the
store's revision has moved, asked at most every 200 ms, so that a revocation by any process holds within a second; so
does the end of a key's time, by this machine's clock whatever clock the market goes by. Only keys that
changed are read: there may be a million, and the revision moves with every session of the market.
"""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from heapq import heappop, heappush

from outcry.access import key_format as form
from outcry.access.licences import VISITOR, Audience, Grant, Scope, audience, resolve
from outcry.access.model import AccountStore, KeyRow, Role, Tier
from outcry.base.clock import Clock
from outcry.database.revision_cache import RevisionCache
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_HOUR

_MIN_SECRET_BYTES = 16
_MAX_SECRET_BYTES = 64  # the longest key BLAKE2b takes
MOST_OWN_KEYS = 20
#: How long a key that was replaced may still be used.
GRACES_NS = (0, NANOS_PER_HOUR, NANOS_PER_DAY, 7 * NANOS_PER_DAY)
#: What the limiter counts a key's requests under, before its number.
SUBJECT = "key:"
_SHOWN_AFTER_END_NS = 30 * NANOS_PER_DAY


class KeyRefusal(StrEnum):
    """Why a key is no good; the `reason` of a 401."""

    MISSING = "missing"
    MALFORMED = "malformed"
    UNKNOWN = "unknown"
    REVOKED = "revoked"
    EXPIRED = "expired"
    DISABLED = "disabled"
    KEY_IN_QUERY = "key_in_query"
    TICKET = "ticket"


class KeyFault(StrEnum):
    """Why a key is not made, replaced or named as asked."""

    TOO_MANY = "too_many_keys"
    LABEL = "key_label"
    EXPIRY = "key_expiry"
    GRACE = "key_grace"
    UNKNOWN = "unknown_key"


class KeyRefused(Exception):
    """What was asked of a key cannot be done."""

    def __init__(self, fault: KeyFault) -> None:
        super().__init__(fault.value)
        self.fault = fault


class ApiKeys(RevisionCache):
    """All keys by keyed digest. `server_secret`: 16 to 64 bytes; without it the stored digests find nothing. `clock`:
    what keys expire by."""

    def __init__(self, store: AccountStore, server_secret: bytes, clock: Clock) -> None:
        if not _MIN_SECRET_BYTES <= len(server_secret) <= _MAX_SECRET_BYTES:
            raise ValueError("the server secret must have 16 to 64 bytes")
        super().__init__(store.revision)
        self._store = store
        self._secret = server_secret
        self._clock = clock
        self._by_digest: dict[bytes, KeyRow] = {}
        self._live: dict[str, KeyRow] = {}
        #: When keys are over, and which; of one whose end was moved both.
        self._ends: list[tuple[int, bytes]] = []

    @property
    def live_count(self) -> int:
        """How many keys are good."""
        return len(self._live)

    def digest(self, key: str) -> bytes:
        """Return what is kept of a key."""
        return hashlib.blake2b(key.encode("ascii"), digest_size=32, key=self._secret).digest()

    # -- making and ending

    def create(
        self, email: str, tier: Tier, now_ns: int, *, role: Role = "read", label: str = "",
        expires_ns: int | None = None, most: int | None = None,
    ) -> str:  # fmt: skip
        """Make a key for that user and return it, the only time it is seen. `most`: how many live ones the user may
        have, this one included. Raises `KeyRefused`."""
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
        """Make a key its user asked for: of those a user has 20 at most. Raises `KeyRefused`."""
        return self.create(
            email, tier, now_ns, role=role, label=label, expires_ns=expires_ns, most=MOST_OWN_KEYS
        )

    def rotate(self, user_id: int, key_id: int, grace_ns: int, now_ns: int) -> str:
        """Make a key in the place of one of this user's and return it, the only time it is seen: of the same name,
        tier, role and length of life. The old one is good until the grace is over (`GRACES_NS`) and cannot be replaced
        again. Raises `KeyRefused`."""
        if grace_ns not in GRACES_NS:
            raise KeyRefused(KeyFault.GRACE)
        old = next((row for row in self._store.keys(user_id) if row.id == key_id), None)
        if old is None or not old.is_live(now_ns) or old.replaced_by is not None:
            raise KeyRefused(KeyFault.UNKNOWN)
        key, most = self._new(), 2 * MOST_OWN_KEYS  # each may have one before it that is not over yet
        made = self._store.replace_key(
            user_id, key_id, form.prefix(key), self.digest(key), grace_ns, now_ns, most=most
        )
        if made is None:  # or it was replaced or revoked this very moment
            raise KeyRefused(KeyFault.TOO_MANY)
        self.refresh(now_ns, force=True)
        return key

    def change_own(self, user_id: int, key_id: int, label: str) -> bool:
        """Call a key of this user's so; False where it is none of them. Raises `KeyRefused`."""
        return self._store.name_key(user_id, key_id, _label(label))

    def named(self, text: str) -> Sequence[KeyRow]:
        """Return the keys that a whole key or its beginning names, revoked ones too, oldest first; straight from the
        store.

        A whole key is compared by its digest. Of a shorter text only the characters that are stored can be compared,
        which are those `form.prefix` returns.
        """
        if not form.is_beginning(text):
            return ()
        rows = self._store.keys_named(form.prefix(text))
        if len(text) < form.KEY_LENGTH:
            return rows
        return [row for row in rows if form.is_well_formed(text) and row.digest == self.digest(text)]

    def revoke(self, text: str, now_ns: int) -> KeyRow | None:
        """Revoke the key that this whole key or beginning names (see `named`); None where it names no key that is not
        revoked yet, or several. What all keys begin with names none, even where there is only one."""
        active = [row for row in self.named(text) if row.revoked_ns is None and len(text) > len(form.MARK)]
        return self.revoke_own(active[0].user_id, active[0].id, now_ns) if len(active) == 1 else None

    def revoke_own(self, user_id: int, key_id: int, now_ns: int) -> KeyRow | None:
        """Revoke a key of this user's; None where it is none of them, or revoked already."""
        row = self._store.revoke_key_of(user_id, key_id, now_ns)
        self.refresh(now_ns, force=True)
        return row

    # -- looking

    def list(self) -> Sequence[KeyRow]:
        """All keys, revoked ones too, oldest first; straight from the store."""
        return self._store.keys()

    def of(self, user_id: int) -> Sequence[KeyRow]:
        """A user's keys, newest first, those that ended within the last 30 days too; straight from the store."""
        since_ns = self._clock.now_ns() - _SHOWN_AFTER_END_NS
        ends = ((row, (row.revoked_ns, row.expires_ns)) for row in self._store.keys(user_id))
        shown = [row for row, ended in ends if not any(at is not None and at < since_ns for at in ended)]
        return shown[::-1]

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
        if row.is_live(self._clock.now_ns()):
            return row
        if row.revoked_ns is not None:
            return KeyRefusal.REVOKED
        return KeyRefusal.EXPIRED if row.disabled_ns is None else KeyRefusal.DISABLED

    def live(self, prefix: str) -> KeyRow | None:
        """Return the key of that prefix as it stands, from memory alone; None where it is no good or unknown."""
        return self._live.get(prefix)

    def note_used(self, ages_ns: Mapping[str, int]) -> None:
        """Write down when keys were last used: how long ago, by the limiter's name of each (`key:7`)."""
        now_ns = self._clock.now_ns()
        used = {int(subject.removeprefix(SUBJECT)): now_ns - age_ns for subject, age_ns in ages_ns.items()}
        self._store.used_keys(used)

    def _new(self) -> str:
        """A new key. Its prefix is no other's, so that it can be revoked by it."""
        while True:
            key = form.compose(secrets.randbits(form.SECRET_BITS))
            if not self._store.has_prefix(form.prefix(key)):
                return key

    def _load(self) -> bool:
        now_ns = self._clock.now_ns()
        # All of them first: a store that fails half-way leaves what was known as it was.
        return sum([self._take(row, now_ns) for row in list(self._store.keys_since(self._revision))]) > 0

    def _take(self, row: KeyRow, now_ns: int) -> bool:
        """Know a key as it stands; return whether what it may do has changed."""
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
        """Count a key as good no longer; return whether it was."""
        live = self._live.get(row.prefix)
        if live is None or live.id != row.id:
            return False
        del self._live[row.prefix]
        return True

    def _lapse(self) -> bool:
        now_ns, over = self._clock.now_ns(), False
        while self._ends and self._ends[0][0] <= now_ns:
            row = self._by_digest[heappop(self._ends)[1]]
            if not row.is_live(now_ns):  # else it was given another end since
                over = self._let_go(row) or over
        return over


def _standing(row: KeyRow) -> KeyRow:
    """What of a key decides what it may do: a use or a new name does not."""
    return replace(row, label="", last_used_ns=None)


def _label(text: str) -> str:
    text = text.strip()
    if not form.is_label(text):
        raise KeyRefused(KeyFault.LABEL)
    return text


class Licences(RevisionCache):
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

    def of_person(self, user_id: int, tier: Tier) -> Scope:
        """Return what a person sees on pages: what the person's own keys see, but for grants to one key."""
        return resolve(user_id, 0, tier, self._grants)

    def of_visitor(self) -> Scope:
        """Return what somebody who is not signed in may see where visitors are let in."""
        return resolve(VISITOR, 0, "free", tuple(g for g in self._grants if g.grantee == "everyone"))

    def audience(self, owner: int, root: str) -> Audience:
        """Return whom the alerts of a feed and product reach."""
        return audience(owner, root, self._grants)

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
