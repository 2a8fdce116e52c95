"""Stores the vault's keys, and finds credentials by key, in SQLite or PostgreSQL through SQLAlchemy Core.

A key is retired in the same transaction that finds it unused.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import func, select, update

from outcry.connections.model import ConnectionPhase, ConnectionRow, SealedEntries, VaultKeyRow
from outcry.connections.store import read_connection, read_entries, shred
from outcry.database import schema
from outcry.database.database import Database

_CONNECTIONS, _CREDENTIALS, _KEYS = schema.connections, schema.credentials, schema.vault_keys


class SqlVaultStore:
    """Stored names of key-encryption keys, and which credentials use which key. All methods may raise `StoreBusy`.

    The database never stores a key, only its name and a canary: ciphertext that only the right key decrypts.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def vault_keys(self) -> Sequence[VaultKeyRow]:
        """Return every key-encryption key ever used, oldest first."""
        query = select(_KEYS).order_by(_KEYS.c.made_ns, _KEYS.c.kid)
        with self._database.reading() as connection:
            return [VaultKeyRow(**row) for row in connection.execute(query).mappings()]

    def add_vault_key(self, kid: str, canary: bytes, now_ns: int) -> bool:
        """Store a key-encryption key's name and canary; return False if the name is already stored."""
        known = select(func.count()).where(_KEYS.c.kid == kid)
        with self._database.write("people") as connection:
            if connection.execute(known).scalar_one():
                return False
            connection.execute(_KEYS.insert().values(kid=kid, canary=canary, made_ns=now_ns))
            return True

    def uses(self) -> Mapping[str, int]:
        """Return the number of connections encrypted under each key; unused keys are left out."""
        query = select(_CREDENTIALS.c.kid, func.count()).group_by(_CREDENTIALS.c.kid)
        with self._database.reading() as connection:
            return {row.kid: row[1] for row in connection.execute(query)}

    def not_under(self, kid: str, after_id: int, limit: int) -> Sequence[tuple[ConnectionRow, SealedEntries]]:
        """Return connections with an id above `after_id` whose credentials use another key, ordered by id."""
        query = (
            select(_CONNECTIONS, _CREDENTIALS)
            .join_from(_CONNECTIONS, _CREDENTIALS)
            .where(_CREDENTIALS.c.kid != kid, _CONNECTIONS.c.id > after_id)
            .order_by(_CONNECTIONS.c.id)
            .limit(limit)
        )
        with self._database.reading() as connection:
            rows = connection.execute(query).mappings()
            return [(read_connection(row), read_entries(row)) for row in rows]

    def rewrap(self, old: SealedEntries, new: SealedEntries) -> bool:
        """Replace the encrypted credentials `old` by `new`; return False if `old` is no longer stored."""
        column = _CREDENTIALS.c
        query = update(_CREDENTIALS).where(
            column.connection_id == old.connection_id, column.version == old.version, column.kid == old.kid
        )
        with self._database.write("people") as connection:
            return connection.execute(query.values(kid=new.kid, wrapped=new.wrapped)).rowcount == 1

    def retire(self, kid: str, now_ns: int) -> bool:
        """Mark a key as retired, so that it encrypts nothing again; return False if credentials still use it."""
        used = select(func.count()).where(_CREDENTIALS.c.kid == kid)
        query = update(_KEYS).where(_KEYS.c.kid == kid, _KEYS.c.retired_ns.is_(None))
        # It takes the write lock before it reads. Storing credentials does too, and reads the keys under that lock.
        with self._database.write("people") as connection:
            if connection.execute(used).scalar_one():
                return False
            connection.execute(query.values(retired_ns=now_ns))
            return True

    def forget_under(self, kids: Sequence[str], code: str, now_ns: int) -> int:
        """Delete the credentials under these keys, retire the keys and ask the owners to sign in again.

        code: the reason the owners see. Returns the number of connections.
        """
        under = select(_CREDENTIALS.c.connection_id).where(_CREDENTIALS.c.kid.in_(kids))
        again = {"phase": ConnectionPhase.NEEDS_SIGN_IN.value, "code": code, "since_ns": now_ns}
        with self._database.write("people") as connection:
            numbers = list(connection.execute(under).scalars())
            for number in numbers:
                shred(connection, number)
            connection.execute(update(_CONNECTIONS).where(_CONNECTIONS.c.id.in_(numbers)).values(again))
            retired = update(_KEYS).where(_KEYS.c.kid.in_(kids), _KEYS.c.retired_ns.is_(None))
            connection.execute(retired.values(retired_ns=now_ns))
        self._database.scrub()
        return len(numbers)
