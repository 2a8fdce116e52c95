"""Interface for the vault's key-encryption keys in the database, and for finding credentials by key.

Keys themselves are never stored. Their names are, each with a canary, a ciphertext that only the right key decrypts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from outcry.connections.model import ConnectionRow, SealedEntries


@dataclass(frozen=True, slots=True)
class VaultKeyRow:
    """What is stored of a key-encryption key. `canary`: ciphertext that only the right key decrypts."""

    kid: str
    canary: bytes
    made_ns: int
    retired_ns: int | None


class VaultStore(Protocol):
    """Stored names of key-encryption keys, and credentials by key. All methods may raise `StoreBusy`."""

    def vault_keys(self) -> Sequence[VaultKeyRow]:
        """Return every key-encryption key ever used, oldest first."""
        ...

    def add_vault_key(self, kid: str, canary: bytes, now_ns: int) -> bool:
        """Store a key-encryption key's name and canary; return False if the name is already stored."""
        ...

    def uses(self) -> Mapping[str, int]:
        """Return the number of connections encrypted under each key; unused keys are left out."""
        ...

    def not_under(self, kid: str, after_id: int, limit: int) -> Sequence[tuple[ConnectionRow, SealedEntries]]:
        """Return connections with an id above `after_id` whose credentials use another key, ordered by id."""
        ...

    def rewrap(self, old: SealedEntries, new: SealedEntries) -> bool:
        """Replace the encrypted credentials `old` by `new`; return False if `old` is no longer stored."""
        ...

    def retire(self, kid: str, now_ns: int) -> bool:
        """Mark a key as retired, so that it encrypts nothing again; return False if credentials still use it."""
        ...

    def forget_under(self, kids: Sequence[str], code: str, now_ns: int) -> int:
        """Delete the credentials under these keys, retire the keys and ask the owners to sign in again.

        code: the reason the owners see. Returns the number of connections.
        """
        ...
