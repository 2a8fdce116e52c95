"""Stores connections and their encrypted credentials in SQLite or PostgreSQL, through SQLAlchemy Core.

Credentials are overwritten before they are replaced or removed, in the same transaction. A retired encryption key
encrypts nothing new.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, case, func, select, update
from sqlalchemy.exc import IntegrityError

from outcry.connections.model import (
    ConnectionPhase,
    ConnectionRefused,
    ConnectionRow,
    EntrySealer,
    SealedEntries,
)
from outcry.database import schema
from outcry.database.database import Database, new_id
from outcry.database.errors import StoreBusy

_CONNECTIONS, _CREDENTIALS = schema.connections, schema.credentials


class SqlConnectionStore:
    """Stored connections. A phase changes only if the row still has the phase that the caller expects.

    All methods may raise `StoreBusy`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def rows(self, user_id: int | None = None) -> Sequence[ConnectionRow]:
        """Return a user's connections, or those of all enabled users, oldest first."""
        query = select(_CONNECTIONS).order_by(_CONNECTIONS.c.id)
        if user_id is not None:
            query = query.where(_CONNECTIONS.c.user_id == user_id)
        else:  # a disabled user's connections do not run
            query = query.join(schema.users).where(schema.users.c.disabled_ns.is_(None))
        with self._database.reading() as connection:
            return [read_connection(row) for row in connection.execute(query).mappings()]

    def add(self, row: ConnectionRow, seal: EntrySealer, now_ns: int) -> int:
        """Store a connection (`row.id` is 0) with the credentials that `seal` encrypts for its id; return the id.

        Raises `ConnectionRefused` `already_connected` if the user has a connection to this broker.
        """
        values = {name: getattr(row, name) for name in ("user_id", "broker", "label", "code", "hint")}
        values |= {"phase": row.phase.value, "roots": " ".join(row.symbols)}
        values |= {"since_ns": row.since_ns, "created_ns": now_ns}
        with self._database.write("people") as connection:
            try:
                number = new_id(connection.execute(_CONNECTIONS.insert().values(values)))
            except IntegrityError:
                raise ConnectionRefused("already_connected") from None
            _keep(connection, seal(number, 1))
            return number

    def move(
        self, connection_id: int, old: ConnectionPhase, new: ConnectionPhase, code: str, now_ns: int, *,
        restart: bool = False,
    ) -> bool:  # fmt: skip
        """Change the phase and code of a connection; return False if the phase is no longer `old`.

        `since_ns` changes if the phase or the code changes. With `restart` it always changes, and the supervisor then
        restarts the connection, as its user asked.
        """
        column = _CONNECTIONS.c
        same = (column.phase == new.value) & (column.code == code)
        since = [(column.since_ns >= now_ns, column.since_ns + 1)] if restart else [(same, column.since_ns)]
        query = (
            update(_CONNECTIONS)
            .where(column.id == connection_id, column.phase == old.value)
            .values(phase=new.value, code=code, since_ns=case(*since, else_=now_ns))
        )
        with self._database.write("nothing") as connection:
            return connection.execute(query).rowcount == 1

    def change(self, connection_id: int, roots: Sequence[str], label: str) -> bool:
        """Change products and label; return False if there is no such connection."""
        query = update(_CONNECTIONS).where(_CONNECTIONS.c.id == connection_id)
        with self._database.write("people") as connection:
            return connection.execute(query.values(roots=" ".join(roots), label=label)).rowcount == 1

    def renew(self, connection_id: int, hint: str, seal: EntrySealer) -> bool:
        """Replace the credentials, with the next version number; return False if there is no such connection."""
        named = update(_CONNECTIONS).where(_CONNECTIONS.c.id == connection_id)
        version = select(_CREDENTIALS.c.version).where(_CREDENTIALS.c.connection_id == connection_id)
        with self._database.write("people") as connection:
            if connection.execute(named.values(hint=hint)).rowcount != 1:
                return False
            # no version is left if the credentials were deleted with their key
            before = connection.execute(version).scalar() or 0
            shred(connection, connection_id)
            _keep(connection, seal(connection_id, before + 1))
        self._database.scrub()
        return True

    def entries(self, connection_id: int) -> SealedEntries | None:
        """Return the encrypted credentials of a connection; None if it has none."""
        query = select(_CREDENTIALS).where(_CREDENTIALS.c.connection_id == connection_id)
        with self._database.reading() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else read_entries(row)

    def remove(self, connection_id: int) -> bool:
        """Delete a connection and overwrite its credentials; return False if there is no such connection."""
        with self._database.write("people") as connection:
            shred(connection, connection_id)
            query = _CONNECTIONS.delete().where(_CONNECTIONS.c.id == connection_id)
            removed = connection.execute(query).rowcount == 1
        self._database.scrub()
        return removed


def shred(connection: Connection, connection_id: int) -> None:
    """Overwrite a connection's credentials in place, then delete them."""
    mine = _CREDENTIALS.c.connection_id == connection_id
    row = connection.execute(select(_CREDENTIALS).where(mine)).mappings().first()
    if row is not None:
        # the same length, so that the database overwrites the bytes instead of writing elsewhere
        nothing = {name: bytes(len(row[name])) for name in ("wrapped", "sealed")}
        connection.execute(update(_CREDENTIALS).where(mine).values(nothing))
        connection.execute(_CREDENTIALS.delete().where(mine))


def read_connection(row: RowMapping) -> ConnectionRow:
    """Read a connection from columns by name, ignoring other columns."""
    return ConnectionRow(
        id=row["id"], user_id=row["user_id"], broker=row["broker"], label=row["label"],
        phase=ConnectionPhase(row["phase"]), code=row["code"], since_ns=row["since_ns"],
        symbols=tuple(row["roots"].split()), hint=row["hint"],
    )  # fmt: skip


def read_entries(row: RowMapping) -> SealedEntries:
    """Read encrypted credentials from columns by name, ignoring other columns."""
    return SealedEntries(row["connection_id"], row["kid"], row["wrapped"], row["sealed"], row["version"])


def _keep(connection: Connection, entries: SealedEntries) -> None:
    key = schema.vault_keys.c
    query: Any = select(func.count()).where(key.kid == entries.kid, key.retired_ns.is_(None))
    if not connection.execute(query).scalar_one():
        raise StoreBusy(
            f"the vault's key {entries.kid} was exchanged for a newer one: restart the service with that"
        )
    values = {name: getattr(entries, name) for name in SealedEntries.__slots__}
    connection.execute(_CREDENTIALS.insert().values(values))
