"""The vault: what users entered for their connections, sealed.

Each version of a connection's entries is encrypted with AES-256-GCM under a random key of its own, and that key under a
key-encryption key that is not in the database. Both are bound to user, connection, broker and version, so that a
copied, exchanged or altered row does not open, nor one with parts of an older one.

Rules kept: entries are in no message, name or representation here; exchanging the key-encryption key touches only the
keys wrapped under it, never the entries.
"""

import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from outcry.connections.model import ConnectionRow, EntrySealer, SealedEntries
from outcry.connections.vault_keys import VaultKeyRow, VaultStore

KEY_BYTES = 32
#: Entries whose key is exchanged between two looks at what is left.
BATCH = 100
_NONCE = 12
_FORM = b"\x01"
_CANARY = b"outcry"


class VaultBroken(Exception):
    """What was sealed does not open: altered, moved from another row, or under a key that is not here."""


class VaultKeys:
    """Key-encryption keys by name, of 32 bytes each, the newest first: new entries go under that one."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys.values()):
            raise ValueError(f"the vault needs at least one key of {KEY_BYTES} bytes")
        self.kids = tuple(keys)
        self._ciphers = {kid: AESGCM(key) for kid, key in keys.items()}

    def __repr__(self) -> str:
        return f"VaultKeys({', '.join(self.kids)})"

    @property
    def newest(self) -> str:
        """The key in use."""
        return self.kids[0]

    def cipher(self, kid: str) -> AESGCM | None:
        """What encrypts under a key; None where it is not here."""
        return self._ciphers.get(kid)

    def canary(self, kid: str) -> bytes:
        """Something only this key opens. Raises `VaultBroken` where it is not here."""
        return _close(self._known(kid), _CANARY, f"canary|{kid}")

    def recognises(self, row: VaultKeyRow) -> bool:
        """Whether the key of that name here is the one there was."""
        cipher = self.cipher(row.kid)
        try:
            return cipher is not None and _open(cipher, row.canary, f"canary|{row.kid}") == _CANARY
        except InvalidTag:
            return False

    def wrap(self, kid: str, key: bytes, place: str) -> bytes:
        """A connection's own key, under this one."""
        return _close(self._known(kid), key, f"{place}|{kid}")

    def unwrap(self, kid: str, wrapped: bytes, place: str) -> bytes:
        """A connection's own key. Raises `VaultBroken`."""
        try:
            return _open(self._known(kid), wrapped, f"{place}|{kid}")
        except InvalidTag:
            raise VaultBroken(f"the connection's key cannot be decrypted with vault key {kid}") from None

    def _known(self, kid: str) -> AESGCM:
        cipher = self.cipher(kid)
        if cipher is None:
            raise VaultBroken(f"vault key {kid} is missing")
        return cipher


class Vault:
    """Seals and opens entries. `keys_now` reads the key-encryption keys anew, wherever they are kept: they may be
    exchanged while a service runs. Safe to use from any thread."""

    def __init__(self, keys_now: Callable[[], VaultKeys]) -> None:
        self._keys_now = keys_now
        self._lock = threading.Lock()
        self._keys = keys_now()

    def seal(self, user_id: int, broker: str, entries: Mapping[str, str]) -> EntrySealer:
        """What seals these entries as they are kept. It reads the keys then, in the store's transaction, so that
        nothing new goes under a key that was exchanged meanwhile."""
        plain = json.dumps(dict(entries)).encode()

        def sealed(connection_id: int, version: int) -> SealedEntries:
            keys = self._read()
            place = _place(user_id, connection_id, broker, version)
            own = AESGCM.generate_key(KEY_BYTES * 8)
            wrapped = keys.wrap(keys.newest, own, place)
            return SealedEntries(
                connection_id, keys.newest, wrapped, _close(AESGCM(own), plain, place), version
            )

        return sealed

    def open(self, row: ConnectionRow, kept: SealedEntries) -> Mapping[str, str]:
        """What the user of a connection entered. Raises `VaultBroken`."""
        place = _place_of(row, kept)
        own = self._holding(kept.kid).unwrap(kept.kid, kept.wrapped, place)
        try:
            return json.loads(_open(AESGCM(own), kept.sealed, place))
        except InvalidTag:
            raise VaultBroken(f"the stored credentials of connection {row.id} were altered") from None

    def rewrap(self, row: ConnectionRow, kept: SealedEntries) -> SealedEntries:
        """The same entries under the newest key. Raises `VaultBroken`."""
        keys, place = self._holding(kept.kid), _place_of(row, kept)
        own = keys.unwrap(kept.kid, kept.wrapped, place)
        return replace(kept, kid=keys.newest, wrapped=keys.wrap(keys.newest, own, place))

    @property
    def keys(self) -> VaultKeys:
        """As last read."""
        return self._keys

    def _holding(self, kid: str) -> VaultKeys:
        """The keys; read anew where this one is not among those read before."""
        keys = self._keys
        return keys if keys.cipher(kid) else self._read()

    def _read(self) -> VaultKeys:
        with self._lock:
            self._keys = self._keys_now()
            return self._keys


def rewrapped(vault: Vault, store: VaultStore) -> Iterator[tuple[int, int]]:
    """Bring all entries under the newest key; after each batch yield how many were brought, and how many do not open
    and stay as they are. It may be left off and begun again at any time, beside running services."""
    newest = vault.keys.newest
    brought = broken = after_id = 0
    while batch := store.not_under(newest, after_id, BATCH):
        for row, kept in batch:
            try:
                brought += store.rewrap(kept, vault.rewrap(row, kept))
            except VaultBroken:
                broken += 1
        after_id = batch[-1][0].id
        yield brought, broken


def _place_of(row: ConnectionRow, kept: SealedEntries) -> str:
    if kept.connection_id != row.id:
        raise VaultBroken(f"the stored credentials do not belong to connection {row.id}")
    return _place(row.user_id, row.id, row.broker, kept.version)


def _place(user_id: int, connection_id: int, broker: str, version: int) -> str:
    """What sealed entries are bound to."""
    return f"{user_id}|{connection_id}|{broker}|{version}"


def _close(cipher: AESGCM, plain: bytes, place: str) -> bytes:
    nonce = secrets.token_bytes(_NONCE)
    return _FORM + nonce + cipher.encrypt(nonce, plain, place.encode())


def _open(cipher: AESGCM, sealed: bytes, place: str) -> bytes:
    """Raises `InvalidTag`."""
    nonce, rest = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
    if sealed[:1] != _FORM or len(nonce) < _NONCE:
        raise InvalidTag
    return cipher.decrypt(nonce, rest, place.encode())
