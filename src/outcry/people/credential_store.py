"""Store users' credentials except passwords: used TOTP steps, recovery codes, passkeys, one-time tokens.

A change that may happen only once is a single conditional statement. The number of rows it changes shows whether it
happened.
"""

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, exists, func, or_, select, update

from outcry.database import schema
from outcry.database.database import Database, new_id
from outcry.database.lock_order import lock_user
from outcry.market.units import NANOS_PER_DAY
from outcry.people.model import OF_A_USER, PasskeyRow, Purpose, TokenRow, UserRow, Ways

#: Sessions and tokens are deleted this long after their start or end, when none can still be valid.
RETENTION_NS = 100 * NANOS_PER_DAY


class SqlCredentials:
    """Storage of passkeys, recovery codes and one-time tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def use_totp_step(self, user_id: int, step: int) -> bool:
        """Record that the code of a 30-second time step was used.

        Return False if this or a later step was used before.
        """
        users = schema.users
        unused = or_(users.c.totp_step.is_(None), users.c.totp_step < step)
        query = update(users).where(users.c.id == user_id, unused).values(totp_step=step)
        with self._database.write("nothing") as connection:
            return connection.execute(query).rowcount == 1

    # -- recovery codes

    def set_recovery_codes(self, user_id: int, digests: Sequence[bytes]) -> None:
        """Replace all recovery codes of a user."""
        codes = schema.recovery_codes
        rows = [{"user_id": user_id, "digest": digest} for digest in digests]
        with self._database.write("nothing") as connection:
            # Of two concurrent calls the later replaces the codes of the earlier.
            lock_user(connection, user_id)
            connection.execute(codes.delete().where(codes.c.user_id == user_id))
            if rows:
                connection.execute(codes.insert(), rows)

    def recovery_codes_left(self, user_id: int) -> int:
        """Return the number of unused recovery codes."""
        codes = schema.recovery_codes
        unused = codes.c.user_id == user_id, codes.c.used_ns.is_(None)
        with self._database.reading() as connection:
            return connection.execute(select(func.count()).select_from(codes).where(*unused)).scalar_one()

    def use_recovery_code(self, user_id: int, digest: bytes, now_ns: int) -> bool:
        """Use a recovery code; return False if the user has no such unused code."""
        codes = schema.recovery_codes
        named = codes.c.user_id == user_id, codes.c.digest == digest
        query = update(codes).where(*named, codes.c.used_ns.is_(None)).values(used_ns=now_ns)
        with self._database.write("nothing") as connection:
            return connection.execute(query).rowcount == 1

    # -- passkeys

    def passkeys(self, user_id: int) -> Sequence[PasskeyRow]:
        """Return a user's passkeys, oldest first."""
        table = schema.passkeys
        query = select(table).where(table.c.user_id == user_id).order_by(table.c.id)
        with self._database.reading() as connection:
            return [_passkey(row) for row in connection.execute(query).mappings()]

    def passkey(self, credential_id: bytes) -> PasskeyRow | None:
        """Return the passkey with a credential id."""
        query = select(schema.passkeys).where(schema.passkeys.c.credential_id == credential_id)
        with self._database.reading() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else _passkey(row)

    def add_passkey(
        self, user_id: int, credential_id: bytes, public_key: bytes, sign_count: int, transports: Sequence[str],
        label: str, now_ns: int, *, most: int | None = None,
    ) -> bool:  # fmt: skip
        """Store a passkey; return False if the credential is stored already, or the user has `most` passkeys."""
        table = schema.passkeys
        row = {
            "user_id": user_id, "credential_id": credential_id, "public_key": public_key, "label": label,
            "sign_count": sign_count, "transports": " ".join(transports), "created_ns": now_ns,
        }  # fmt: skip
        known = select(table.c.id).where(table.c.credential_id == credential_id)
        own = select(func.count()).where(table.c.user_id == user_id)
        with self._database.write("people") as connection:
            if connection.execute(known).first() is not None:
                return False
            if most is not None and connection.execute(own).scalar_one() >= most:
                return False
            connection.execute(table.insert().values(row))
            return True

    def used_passkey(self, passkey_id: int, sign_count: int, now_ns: int, *, after: int) -> bool:
        """Record a sign-in with a passkey and its new counter.

        Return False if the passkey was removed, or its stored counter is no longer `after`, the value before this
        sign-in.
        """
        table = schema.passkeys
        compared = update(table).where(table.c.id == passkey_id, table.c.sign_count == after)
        with self._database.write("nothing") as connection:
            done = connection.execute(compared.values(sign_count=sign_count, last_used_ns=now_ns))
            return done.rowcount == 1

    def remove_passkey(self, user_id: int, passkey_id: int, *, leaving: Ways | None = None) -> bool:
        """Remove a user's passkey; return False if nothing was removed.

        `leaving`: nothing is removed unless a credential of one of these kinds would remain.
        """
        table, users = schema.passkeys, schema.users
        query = table.delete().where(table.c.id == passkey_id, table.c.user_id == user_id)
        if leaving is not None:
            remains = has_way_in(leaving, but_passkey=passkey_id)
            query = query.where(exists(select(users.c.id).where(users.c.id == user_id, remains)))
        with self._database.write("people") as connection:
            if connection.execute(query).rowcount != 1:
                return False
            connection.execute(update(users).where(users.c.id == user_id).values(CHANGED_CREDENTIALS))
            return True

    # -- one-time tokens

    def add_token(self, row: TokenRow) -> int:
        """Store a new one-time token (its id is ignored); return its id."""
        table = schema.tokens
        values = {field.name: getattr(row, field.name) for field in fields(TokenRow) if field.name != "id"}
        values["details"] = json.dumps(dict(row.details))
        with self._database.write("nothing") as connection:
            connection.execute(table.delete().where(table.c.expires_ns < row.created_ns - RETENTION_NS))
            return new_id(connection.execute(table.insert().values(values)))

    def token(self, purpose: Purpose, digest: bytes) -> TokenRow | None:
        """Return the one-time token with a digest, used or not."""
        table = schema.tokens
        query = select(table).where(table.c.purpose == purpose, table.c.digest == digest)
        with self._database.reading() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else _token(row)

    def tokens(self, purpose: Purpose) -> Sequence[TokenRow]:
        """Return all unused one-time tokens of a purpose, newest first."""
        table = schema.tokens
        query = select(table).where(table.c.purpose == purpose, table.c.spent_ns.is_(None))
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(table.c.id.desc())).mappings()
            return [_token(row) for row in rows]

    def spend(self, token_id: int, now_ns: int) -> bool:
        """Mark a one-time token as used; return False if it was used before or has expired."""
        with self._database.write("nothing") as connection:
            return spend(
                connection, now_ns, schema.tokens.c.id == token_id, schema.tokens.c.expires_ns > now_ns
            )

    def revoke_token(self, token_id: int, now_ns: int) -> bool:
        """Revoke an unused one-time token."""
        with self._database.write("nothing") as connection:
            return spend(connection, now_ns, schema.tokens.c.id == token_id)


#: Increments the version of a user's credentials, in the statement that changes them.
CHANGED_CREDENTIALS: dict[str, Any] = {
    "credentials_version": schema.users.c.credentials_version + 1,
}


def as_proved(user: UserRow) -> Select[int]:
    """Return the SQL query for a user who is enabled and whose credentials have not changed since they were checked."""
    users = schema.users
    same = users.c.id == user.id, users.c.credentials_version == user.credentials_version
    return select(users.c.id).where(*same, users.c.disabled_ns.is_(None))


def session_in_force(session_id: int, user_id: int) -> Select[int]:
    """Return the SQL query for a user's browser session if it has not ended."""
    table = schema.browser_sessions.alias()
    return select(table.c.id).where(
        table.c.id == session_id, table.c.user_id == user_id, table.c.ended_ns.is_(None)
    )


def end_all(connection: Connection, user_id: int, now_ns: int, *, but: int | None = None) -> None:
    """End a user's sessions, except the one whose id is `but`, and revoke the user's one-time links."""
    end_sessions(connection, user_id, now_ns, but=but)
    tokens = schema.tokens
    own = tokens.c.user_id == user_id, tokens.c.purpose.in_(OF_A_USER)
    connection.execute(update(tokens).where(*own, tokens.c.spent_ns.is_(None)).values(spent_ns=now_ns))


def end_sessions(
    connection: Connection, user_id: int, now_ns: int, *, only: int | None = None, but: int | None = None
) -> int:
    """End all browser sessions of a user, only the session `only`, or all except `but` (ids); return how many ended."""
    table = schema.browser_sessions
    query = update(table).where(table.c.user_id == user_id, table.c.ended_ns.is_(None))
    if only is not None:
        query = query.where(table.c.id == only)
    if but is not None:
        query = query.where(table.c.id != but)
    return connection.execute(query.values(ended_ns=now_ns)).rowcount


def spend(connection: Connection, now_ns: int, *named: Any) -> bool:
    """Mark the one-time token that meets the SQL conditions `named` as used; return whether it was unused."""
    unspent = update(schema.tokens).where(*named, schema.tokens.c.spent_ns.is_(None))
    return connection.execute(unspent.values(spent_ns=now_ns)).rowcount == 1


def has_way_in(ways: Ways, *, but_passkey: int | None = None) -> ColumnElement[bool]:
    """Return the SQL condition that a user has one of these kinds of credentials.

    but_passkey: id of a passkey that does not count.
    """
    users, passkeys = schema.users, schema.passkeys.alias()
    own = select(passkeys.c.id).where(passkeys.c.user_id == users.c.id).correlate(users)
    if but_passkey is not None:
        own = own.where(passkeys.c.id != but_passkey)
    either = or_(users.c.password_hash.is_not(None), exists(own))
    return or_(either, users.c.openid.is_not(None)) if ways == "any" else either


def _passkey(row: RowMapping) -> PasskeyRow:
    changed: dict[str, Any] = {"transports": tuple(row["transports"].split())}
    return PasskeyRow(**{**row, **changed})


def _token(row: RowMapping) -> TokenRow:
    return TokenRow(**{**row, "details": json.loads(row["details"])})
