"""The port for the keys that the entries of connections are sealed under, and for what is kept of them.

Rule kept: a key itself is never kept: only its name, and a canary that opens under it and no other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from outcry.connections.model import ConnectionRow, SealedEntries


@dataclass(frozen=True, slots=True)
class VaultKeyRow:
    """A key-encryption key as the database knows it. `canary`: what tells the right key from another of its name."""

    kid: str
    canary: bytes
    made_ns: int
    retired_ns: int | None


class VaultStore(Protocol):
    """What is kept of keys, and entries by the key they are under. All methods may raise `StoreBusy`."""

    def vault_keys(self) -> Sequence[VaultKeyRow]:
        """Every key there ever was, oldest first."""
        ...

    def add_vault_key(self, kid: str, canary: bytes, now_ns: int) -> bool:
        """Keep a key; False where one of its name is kept."""
        ...

    def uses(self) -> Mapping[str, int]:
        """How many connections' entries are under each key; keys nothing is under are not named."""
        ...

    def not_under(self, kid: str, after_id: int, limit: int) -> Sequence[tuple[ConnectionRow, SealedEntries]]:
        """Connections of a higher id than `after_id` whose entries are under another key, by id."""
        ...

    def rewrap(self, old: SealedEntries, new: SealedEntries) -> bool:
        """Put `new` in the place of `old`; False where that is no longer what is kept."""
        ...

    def retire(self, kid: str, now_ns: int) -> bool:
        """Have nothing be under this key ever again; False where entries still are."""
        ...

    def forget_under(self, kids: Sequence[str], code: str, now_ns: int) -> int:
        """Destroy the entries under these keys, retire the keys, and have their owners sign in again, `code` saying
        why; return how many connections it was."""
        ...
