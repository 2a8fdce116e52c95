"""Store API keys in SQLite or PostgreSQL.

The transaction that creates, replaces or revokes a key also checks whether that is allowed, so that concurrent requests
cannot act on outdated rows. Column `changed` has the database revision at which a key's permissions last changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, bindparam, func, or_, select, tuple_, update

from outcry.access.grant_store import log_alike
from outcry.access.model import KeyRow, Role, Tier
from outcry.database import schema
from outcry.database.database import Database, new_id

_KEYS = schema.keys
_AT_ONCE = 5_000
#: The current revision. `Database.write` increments it at the start of the transaction.
CHANGED_NOW = select(schema.revision.c.n).scalar_subquery()
_ELSEWHERE = ("email", "disabled_ns")  # columns of `users` in a `KeyRow`


class SqlKeys:
    """Storage of API keys in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_key(
        self, user_id: int, tier: Tier, prefix: str, digest: bytes, now_ns: int, *, role: Role = "read",
        label: str = "", expires_ns: int | None = None, most: int | None = None,
    ) -> int | None:  # fmt: skip
        """Store a new key and return its id. Return None if the user already has `most` live keys."""
        row = {
            "user_id": user_id, "tier": tier, "prefix": prefix, "digest": digest, "created_ns": now_ns,
            "role": role, "label": label, "expires_ns": expires_ns, "changed": CHANGED_NOW,
        }  # fmt: skip
        with self._database.write() as connection:
            if most is not None and _live_of(connection, user_id, now_ns) >= most:
                return None
            return new_id(connection.execute(_KEYS.insert().values(row)))

    def replace_key(
        self, user_id: int, key_id: int, prefix: str, digest: bytes, grace_ns: int, now_ns: int, *, most: int
    ) -> int | None:
        """Store the replacement of a user's key and return its id.

        The new key has the same user, label, tier, role, lifetime and grants. The old key expires after the grace
        period, if not before. Return None if the user has no such key, if that key is not live or was replaced before,
        or if the user already has `most` live keys.
        """
        named = _KEYS.c.id == key_id, _KEYS.c.user_id == user_id, _KEYS.c.replaced_by.is_(None)
        with self._database.write() as connection:
            old = connection.execute(select(_KEYS).where(*named, *_live(now_ns))).mappings().first()
            if old is None or _live_of(connection, user_id, now_ns) >= most:
                return None
            row: dict[str, Any] = {"user_id": user_id, "prefix": prefix, "digest": digest}
            row |= {"created_ns": now_ns, "changed": CHANGED_NOW}
            row |= {name: old[name] for name in ("tier", "role", "label")}
            ends_ns = now_ns + grace_ns
            if old["expires_ns"] is not None:
                row["expires_ns"] = now_ns + old["expires_ns"] - old["created_ns"]
                ends_ns = min(ends_ns, old["expires_ns"])
            new = new_id(connection.execute(_KEYS.insert().values(row)))
            _grant_alike(connection, key_id, new, now_ns)
            ended = (
                update(_KEYS).where(*named).values(expires_ns=ends_ns, replaced_by=new, changed=CHANGED_NOW)
            )
            connection.execute(ended)
            return new

    def name_key(self, user_id: int, key_id: int, label: str) -> bool:
        """Change the label of a user's key; return False if the user has no such key."""
        named = update(_KEYS).where(_KEYS.c.id == key_id, _KEYS.c.user_id == user_id)
        with self._database.write("people") as connection:
            return connection.execute(named.values(label=label)).rowcount == 1

    def revoke_key_of(self, user_id: int, key_id: int, now_ns: int) -> KeyRow | None:
        """Revoke a user's key; return None if the user has no such key or it is revoked already."""
        active = _rows().where(_KEYS.c.revoked_ns.is_(None), _KEYS.c.id == key_id, _KEYS.c.user_id == user_id)
        with self._database.write() as connection:
            found = connection.execute(active).mappings().first()
            if found is None:
                return None
            revoked = update(_KEYS).where(_KEYS.c.id == key_id)
            connection.execute(revoked.values(revoked_ns=now_ns, changed=CHANGED_NOW))
            values: dict[str, Any] = {**found, "revoked_ns": now_ns}
            return KeyRow(**values)

    def keys(self, user_id: int | None = None) -> Sequence[KeyRow]:
        """Return the keys of all users, or of one user, oldest first, including revoked ones."""
        return self._listed(*([] if user_id is None else [_KEYS.c.user_id == user_id]))

    def keys_named(self, beginning: str) -> Sequence[KeyRow]:
        """Return all keys whose prefix starts with a non-empty text, oldest first, including revoked ones."""
        return self._listed(func.substr(_KEYS.c.prefix, 1, len(beginning)) == beginning)

    def keys_since(self, revision: int | None) -> Iterator[KeyRow]:
        """Yield the keys whose permissions changed after a database revision, and possibly others. None: all keys.

        Rows are read lazily, and reading them may raise `StoreBusy`.
        """
        place = tuple_(_KEYS.c.changed, _KEYS.c.id)
        query = _rows().add_columns(_KEYS.c.changed).order_by(_KEYS.c.changed, _KEYS.c.id).limit(_AT_ONCE)
        query = query.where(place > tuple_(bindparam("changed"), bindparam("number")))
        after = {"changed": 0, "number": 0} if revision is None else {"changed": revision + 1, "number": 0}
        full = True
        while full:  # one page per statement, so that none takes long
            with self._database.reading() as connection:
                rows: Sequence[Any] = connection.execute(query, after).all()
            yield from (KeyRow(*row[:-1]) for row in rows)
            full = len(rows) == _AT_ONCE
            if full:
                after = {"changed": rows[-1].changed, "number": rows[-1].id}

    def has_prefix(self, prefix: str) -> bool:
        """Return whether any key, revoked or not, has this prefix."""
        with self._database.reading() as connection:
            return connection.execute(select(_KEYS.c.id).where(_KEYS.c.prefix == prefix)).first() is not None

    def used_keys(self, times: Mapping[int, int]) -> None:
        """Store when keys were last used. `times`: ns UTC by key id. The database's `revision` stays the same."""
        if not times:
            return
        used = _KEYS.c.last_used_ns
        later = or_(used.is_(None), used < bindparam("at_ns"))
        query = update(_KEYS).where(_KEYS.c.id == bindparam("number"), later)
        rows = [{"number": number, "at_ns": at_ns} for number, at_ns in sorted(times.items())]
        with self._database.write("nothing") as connection:
            connection.execute(query.values(last_used_ns=bindparam("at_ns")), rows)

    def _listed(self, *conditions: Any) -> list[KeyRow]:
        query = _rows().where(*conditions).order_by(_KEYS.c.id)
        with self._database.reading() as connection:
            return [KeyRow(**row) for row in connection.execute(query).mappings()]


def _rows() -> Any:
    """Return a query that selects all keys, with the columns in the order of `KeyRow`."""
    users = schema.users
    named = [(users if field.name in _ELSEWHERE else _KEYS).c[field.name] for field in fields(KeyRow)]
    return select(*named).join_from(_KEYS, users)


def _grant_alike(connection: Connection, old: int, new: int, now_ns: int) -> None:
    """Copy the grants of the old key to the new one."""
    grants = schema.grants
    given = select(grants).where(grants.c.grantee == f"key:{old}", grants.c.revoked_ns.is_(None))
    for row in connection.execute(given).mappings().all():
        values: dict[str, Any] = {**row, "grantee": f"key:{new}"}
        del values["id"]
        number = new_id(connection.execute(grants.insert().values(values)))
        log_alike(connection, row["id"], number, now_ns, "replaced key")


def _live(now_ns: int) -> tuple[Any, Any]:
    return _KEYS.c.revoked_ns.is_(None), or_(_KEYS.c.expires_ns.is_(None), _KEYS.c.expires_ns > now_ns)


def _live_of(connection: Connection, user_id: int, now_ns: int) -> int:
    query = select(func.count()).select_from(_KEYS).where(_KEYS.c.user_id == user_id, *_live(now_ns))
    return connection.execute(query).scalar_one()
