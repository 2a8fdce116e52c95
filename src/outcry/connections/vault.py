"""The vault: encrypts the credentials users entered for their connections.

Each version of a connection's credentials is encrypted with AES-256-GCM under its own random key. That key is encrypted
("wrapped") with a key-encryption key that is not in the database. Both ciphertexts are bound to user, connection,
broker and version. So a copied, swapped or altered row cannot be decrypted, nor can a row that mixes versions.

No message and no `repr` contains credentials. After a change of the key-encryption key, only the connections' own keys
are encrypted again; the ciphertext of the credentials stays the same.
"""

import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b

from outcry.base.encryption import KEY_BYTES, Cipher, DecryptionFailed
from outcry.connections.model import ConnectionRow, EntrySealer, SealedEntries, VaultKeyRow
from outcry.connections.vault_store import SqlVaultStore

#: Connections rewrapped per query.
BATCH = 100
_CANARY = b"outcry"


class VaultBroken(Exception):
    """Credentials cannot be decrypted: they were altered or copied from another row, or their key is not configured."""


class VaultKeys:
    """The configured key-encryption keys (32 bytes each) by name, newest first. New credentials use the newest."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys.values()):
            raise ValueError(f"the vault needs at least one key of {KEY_BYTES} bytes")
        self.kids = tuple(keys)
        self._keys = dict(keys)
        self._ciphers = {kid: Cipher(key) for kid, key in keys.items()}

    def __repr__(self) -> str:
        return f"VaultKeys({', '.join(self.kids)})"

    @property
    def newest(self) -> str:
        """Return the name of the key that encrypts new credentials."""
        return self.kids[0]

    def cipher(self, kid: str) -> Cipher | None:
        """Return the cipher for a key's name; None if the key is not configured."""
        return self._ciphers.get(kid)

    def canary(self, kid: str) -> bytes:
        """Return ciphertext that only this key decrypts. It is stored to recognise the key later."""
        return self._known(kid).encrypt(_CANARY, f"canary|{kid}")

    def recognises(self, row: VaultKeyRow) -> bool:
        """Return whether the configured key of this name is the same key that was used before."""
        cipher = self.cipher(row.kid)
        try:
            return cipher is not None and cipher.decrypt(row.canary, f"canary|{row.kid}") == _CANARY
        except DecryptionFailed:
            return False

    def hash_of(self, row: VaultKeyRow) -> str:
        """Return a hash of a key's canary and the configured key. Any other key or canary has another hash."""
        return blake2b(row.canary, digest_size=32, key=self._keys[row.kid], person=b"canary").hexdigest()

    def wrap(self, kid: str, key: bytes, place: str) -> bytes:
        """Encrypt a connection's own key with a key-encryption key."""
        return self._known(kid).encrypt(key, f"{place}|{kid}")

    def unwrap(self, kid: str, wrapped: bytes, place: str) -> bytes:
        """Decrypt a connection's own key. Raises `VaultBroken`."""
        try:
            return self._known(kid).decrypt(wrapped, f"{place}|{kid}")
        except DecryptionFailed:
            raise VaultBroken(f"the connection's key cannot be decrypted with vault key {kid}") from None

    def _known(self, kid: str) -> Cipher:
        cipher = self.cipher(kid)
        if cipher is None:
            raise VaultBroken(f"vault key {kid} is missing")
        return cipher


class Vault:
    """Encrypts and decrypts credentials of connections. Thread-safe.

    keys_now: reads the configured key-encryption keys, which may change while the service runs.
    """

    def __init__(self, keys_now: Callable[[], VaultKeys]) -> None:
        self._keys_now = keys_now
        self._lock = threading.Lock()
        self._keys = keys_now()

    def seal(self, user_id: int, broker: str, entries: Mapping[str, str]) -> EntrySealer:
        """Return a function that encrypts these credentials for a connection.

        The store calls the function in its transaction. The function reads the vault's keys only then, so that it does
        not use a key that was retired meanwhile.
        """
        plain = json.dumps(dict(entries)).encode()

        def sealed(connection_id: int, version: int) -> SealedEntries:
            keys = self._read()
            place = _place(user_id, connection_id, broker, version)
            own = secrets.token_bytes(KEY_BYTES)
            wrapped = keys.wrap(keys.newest, own, place)
            return SealedEntries(
                connection_id, keys.newest, wrapped, Cipher(own).encrypt(plain, place), version
            )

        return sealed

    def open(self, row: ConnectionRow, sealed_entries: SealedEntries) -> Mapping[str, str]:
        """Decrypt the credentials of a connection. Raises `VaultBroken`."""
        place = _place_of(row, sealed_entries)
        own = self._holding(sealed_entries.kid).unwrap(sealed_entries.kid, sealed_entries.wrapped, place)
        try:
            return json.loads(Cipher(own).decrypt(sealed_entries.sealed, place))
        except DecryptionFailed:
            raise VaultBroken(f"the stored credentials of connection {row.id} were altered") from None

    def rewrap(self, row: ConnectionRow, sealed_entries: SealedEntries) -> SealedEntries:
        """Return the same credentials, with their key encrypted by the newest key-encryption key.

        Raises `VaultBroken`.
        """
        keys, place = self._holding(sealed_entries.kid), _place_of(row, sealed_entries)
        own = keys.unwrap(sealed_entries.kid, sealed_entries.wrapped, place)
        return replace(sealed_entries, kid=keys.newest, wrapped=keys.wrap(keys.newest, own, place))

    @property
    def keys(self) -> VaultKeys:
        """Return the key-encryption keys as last read."""
        return self._keys

    def _holding(self, kid: str) -> VaultKeys:
        """Return the key-encryption keys. If the key named `kid` is unknown, read the keys again first."""
        keys = self._keys
        return keys if keys.cipher(kid) else self._read()

    def _read(self) -> VaultKeys:
        with self._lock:
            self._keys = self._keys_now()
            return self._keys


def rewrapped(vault: Vault, store: SqlVaultStore) -> Iterator[tuple[int, int]]:
    """Encrypt the keys of all credentials with the newest key-encryption key, while services may run.

    After each batch, yield how many were encrypted again so far, and how many stay unchanged because they cannot be
    decrypted. An interrupted run can be repeated.
    """
    newest = vault.keys.newest
    rewrapped_count = broken = after_id = 0
    while batch := store.not_under(newest, after_id, BATCH):
        for row, sealed_entries in batch:
            try:
                rewrapped_count += store.rewrap(sealed_entries, vault.rewrap(row, sealed_entries))
            except VaultBroken:
                broken += 1
        after_id = batch[-1][0].id
        yield rewrapped_count, broken


def _place_of(row: ConnectionRow, sealed_entries: SealedEntries) -> str:
    if sealed_entries.connection_id != row.id:
        raise VaultBroken(f"the stored credentials do not belong to connection {row.id}")
    return _place(row.user_id, row.id, row.broker, sealed_entries.version)


def _place(user_id: int, connection_id: int, broker: str, version: int) -> str:
    """Return the text that ciphertexts are bound to (associated data): user, connection, broker and version."""
    return f"{user_id}|{connection_id}|{broker}|{version}"
