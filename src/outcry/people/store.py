"""Store users, browser sessions and the audit log in SQLite or PostgreSQL.

The database has counters of changes (revisions), by which processes notice that their caches are outdated. A sign-in
increments the revision of users; audit entries, times of last use and one-time tokens increment none. A change of what
a key may do (tier, disabled) increments the revision of answers, so that it takes effect within a second. Transactions
that change or depend on credentials increment a revision and therefore run one at a time.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Literal

from sqlalchemy import Connection, RowMapping, bindparam, exists, func, select, update

from outcry.access.key_store import CHANGED_NOW
from outcry.access.model import Tier
from outcry.database import schema
from outcry.database.database import new_id
from outcry.people.credential_store import (
    CHANGED_CREDENTIALS,
    RETENTION_NS,
    SqlCredentials,
    as_proved,
    end_all,
    end_sessions,
    has_way_in,
    session_in_force,
    spend,
)
from outcry.people.model import AuditRow, BrowserSession, Preferences, UserRole, UserRow, Ways


class SqlIdentityStore(SqlCredentials):
    """Storage of users, their sessions, passkeys, tokens and audit log."""

    def revision(self) -> int:
        """Return a number that increases with every committed change.

        Times of last use, recovery codes, one-time tokens and audit entries do not change it.
        """
        return self._database.revision_of_all()

    # -- users

    def user(self, user_id: int) -> UserRow | None:
        """Return the user with an id."""
        with self._database.reading() as connection:
            row = connection.execute(_USERS.where(schema.users.c.id == user_id)).mappings().first()
        return None if row is None else _user(row)

    def user_named(self, email: str) -> UserRow | None:
        """Return the user with an email address, compared in lower case."""
        with self._database.reading() as connection:
            row = connection.execute(_USERS.where(schema.users.c.email == _lower(email))).mappings().first()
        return None if row is None else _user(row)

    def user_of_openid(self, openid: str) -> UserRow | None:
        """Return the user linked to an OpenID identity (issuer and subject); None if there is none."""
        with self._database.reading() as connection:
            row = connection.execute(_USERS.where(schema.users.c.openid == openid)).mappings().first()
        return None if row is None else _user(row)

    def set_openid(self, user_id: int, openid: str | None, instead_of: str | None) -> bool:
        """Link a user to a subject of the OpenID provider, or unlink with None.

        Return False if the current link is not `instead_of`, or the subject is linked to another user.
        """
        users = schema.users
        others = select(users.c.id).where(users.c.openid == openid, users.c.id != user_id)
        query = update(users).where(users.c.id == user_id, users.c.openid.is_not_distinct_from(instead_of))
        with self._database.write("people") as connection:
            if connection.execute(others).first() is not None:
                return False
            return connection.execute(query.values(openid=openid)).rowcount == 1

    def users(self) -> Sequence[UserRow]:
        """Return all users, oldest first."""
        with self._database.reading() as connection:
            return [_user(row) for row in connection.execute(_USERS.order_by(schema.users.c.id)).mappings()]

    def add_user(self, email: str, role: UserRole, tier: Tier, handle: bytes, now_ns: int) -> UserRow | None:
        """Store a new user; return None if the email address is taken."""
        row = {"email": _lower(email), "role": role, "tier": tier, "handle": handle, "created_ns": now_ns}
        with self._database.write("people") as connection:
            if _taken(connection, email, but=None):
                return None
            number = new_id(connection.execute(schema.users.insert().values(row)))
            return _user_in(connection, number)

    def admit(
        self, token_id: int, email: str, role: UserRole, tier: Tier, handle: bytes, now_ns: int, *, claims: bool,
        password_hash: str | None = None, openid: str | None = None,
    ) -> UserRow | Literal["spent", "taken"]:  # fmt: skip
        """Mark an invitation as used and create its account with a credential, atomically.

        `claims`: use an existing account with that email address if it is enabled and has no credentials. Return
        `spent` if the invitation was used or has expired, `taken` if the email address is taken.
        """
        users = schema.users
        used = has_way_in("any").label("used")
        known = select(users.c.id, used, users.c.disabled_ns).where(users.c.email == _lower(email))
        ways = {"password_hash": password_hash, "openid": openid}
        row = {"role": role, "tier": tier} | {name: way for name, way in ways.items() if way is not None}
        with self._database.write() as connection:
            there = connection.execute(known).first()
            if there is not None and (not claims or there.used or there.disabled_ns is not None):
                return "taken"
            if not spend(
                connection, now_ns, schema.tokens.c.id == token_id, schema.tokens.c.expires_ns > now_ns
            ):
                return "spent"
            if there is not None:
                number = there.id
                values = row | CHANGED_CREDENTIALS
                connection.execute(update(users).where(users.c.id == number).values(values))
                _follow(connection, number, tier)
            else:
                row |= {"email": _lower(email), "handle": handle, "created_ns": now_ns}
                number = new_id(connection.execute(users.insert().values(row)))
            return _user_in(connection, number)

    def change_user(
        self, user_id: int, *, email: str | None = None, role: UserRole | None = None,
        tier: Tier | None = None, disabled_ns: int | None = None, leaving: Ways | None = None,
    ) -> bool:  # fmt: skip
        """Change the given fields of a user.

        A new tier also applies to the user's live keys. `disabled_ns` 0 enables the user again. Disabling also stops
        the user's keys and ends the user's sessions and one-time links. `leaving`: change nothing unless another
        operator has credentials of one of these kinds. Return False if there is none, the email address is taken, or
        the user is unknown.
        """
        given = {"email": None if email is None else _lower(email), "role": role, "tier": tier}
        values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if disabled_ns is not None:
            values["disabled_ns"] = disabled_ns or None
        if disabled_ns or email is not None:
            values |= CHANGED_CREDENTIALS
        with self._database.write() as connection:
            if email is not None and _taken(connection, email, but=user_id):
                return False
            if leaving is not None and _is_last_operator(connection, user_id, leaving):
                return False
            _follow(connection, user_id, tier)
            if disabled_ns:
                end_all(connection, user_id, disabled_ns)
            # Without changes, the row count still shows whether the user exists.
            changed = update(schema.users).where(schema.users.c.id == user_id)
            return connection.execute(changed.values(values or {"id": user_id})).rowcount == 1

    def set_password(
        self, user_id: int, password_hash: str | None, now_ns: int, *, by: int | None = None
    ) -> UserRow | None:
        """Store a password hash, or None for no password; also end the user's sessions and one-time links.

        All of this is one transaction. `by`: id of the session that makes the change and continues. Return the updated
        user; None if the user is unknown or the session `by` has ended.
        """
        users = schema.users
        query = update(users).where(users.c.id == user_id)
        if by is not None:
            query = query.where(exists(session_in_force(by, user_id)))
        with self._database.write("people") as connection:
            query = query.values({"password_hash": password_hash} | CHANGED_CREDENTIALS)
            if connection.execute(query).rowcount != 1:
                return None
            end_all(connection, user_id, now_ns, but=by)
            return _user_in(connection, user_id)

    def rehash_password(self, user_id: int, instead_of: str, password_hash: str) -> bool:
        """Replace the hash of an unchanged password; return False if the stored hash is not `instead_of`."""
        users = schema.users
        query = update(users).where(users.c.id == user_id, users.c.password_hash == instead_of)
        with self._database.write("people") as connection:
            return connection.execute(query.values(password_hash=password_hash)).rowcount == 1

    def set_totp(self, user_id: int, sealed: bytes | None) -> None:
        """Store a user's encrypted TOTP secret, or None for no second factor.

        This resets the last used time step.
        """
        self._set(user_id, totp_sealed=sealed, totp_step=None, **CHANGED_CREDENTIALS)

    def set_preferences(self, user_id: int, preferences: Preferences) -> None:
        """Store a user's preferences."""
        self._set(user_id, **asdict(preferences) | {"shortcuts": int(preferences.shortcuts)})

    def first_operator(self, user_id: int, password_hash: str) -> UserRow | None:
        """Make a user the operator, with a password; return the updated user, or None if an operator exists."""
        others = schema.users.alias()
        nobody = ~exists(select(others.c.id).where(others.c.role == "operator"))
        query = update(schema.users).where(schema.users.c.id == user_id, nobody)
        query = query.values({"role": "operator", "password_hash": password_hash} | CHANGED_CREDENTIALS)
        with self._database.write("people") as connection:
            done = connection.execute(query).rowcount == 1
            return _user_in(connection, user_id) if done else None

    def _set(self, user_id: int, **values: object) -> None:
        with self._database.write("people") as connection:
            connection.execute(update(schema.users).where(schema.users.c.id == user_id).values(values))

    # -- browser sessions

    def add_session(
        self, user: UserRow, digest: bytes, address: str, agent: str, now_ns: int, *, most: int | None = None
    ) -> int | None:
        """Store a new session of a user who has just been authenticated; return its id.

        `user`: as read when the credentials were checked. Return None if the credentials have changed since, or the
        user is disabled. With more than `most` sessions, the user's least recently used one ends.
        """
        table = schema.browser_sessions
        row = {"user_id": user.id, "digest": digest, "address": address, "agent": agent}
        row |= {"created_ns": now_ns, "seen_ns": now_ns, "confirmed_ns": now_ns}
        with self._database.write("people") as connection:
            if connection.execute(as_proved(user)).first() is None:
                return None
            connection.execute(table.delete().where(table.c.created_ns < now_ns - RETENTION_NS))
            number = new_id(connection.execute(table.insert().values(row)))
            if most is not None:
                others = select(table.c.id).where(
                    table.c.user_id == user.id, table.c.ended_ns.is_(None), table.c.id != number
                )
                newest = others.order_by(table.c.seen_ns.desc(), table.c.id.desc())
                over = connection.execute(newest.offset(most - 1)).scalars().all()
                connection.execute(update(table).where(table.c.id.in_(over)).values(ended_ns=now_ns))
            return number

    def sessions(self, begun_ns: int = 0, seen_ns: int = 0) -> Sequence[BrowserSession]:
        """Return the sessions of all users that have not ended.

        Leave out those started before `begun_ns` or last used before `seen_ns` (ns UTC).
        """
        table = schema.browser_sessions
        recent = table.c.created_ns >= begun_ns, table.c.seen_ns >= seen_ns
        query = select(table).where(table.c.ended_ns.is_(None), *recent).order_by(table.c.id)
        with self._database.reading() as connection:
            return [BrowserSession(**row) for row in connection.execute(query).mappings()]

    def seen(self, times: Mapping[int, int]) -> None:
        """Store when sessions were last used, by id (ns UTC). Does not change `revision`."""
        if not times:
            return
        table = schema.browser_sessions
        query = update(table).where(table.c.id == bindparam("number"), table.c.seen_ns < bindparam("at_ns"))
        rows = [{"number": number, "at_ns": at_ns} for number, at_ns in sorted(times.items())]
        with self._database.write("nothing") as connection:
            connection.execute(query.values(seen_ns=bindparam("at_ns")), rows)

    def confirm_session(self, session_id: int, user: UserRow, digest: bytes, now_ns: int) -> bool:
        """Record that a session's user confirmed their identity, and replace the session's token.

        `user`: as read when the credentials were checked. Return False if the session has ended, the credentials have
        changed since, or the user is disabled.
        """
        table = schema.browser_sessions
        in_force = table.c.id.in_(session_in_force(session_id, user.id))
        query = update(table).where(in_force, exists(as_proved(user)))
        with self._database.write("people") as connection:
            return connection.execute(query.values(digest=digest, confirmed_ns=now_ns)).rowcount == 1

    def end_sessions(
        self, user_id: int, now_ns: int, *, only: int | None = None, but: int | None = None
    ) -> int:
        """End all browser sessions of a user, `only` one, or all `but` one; return how many ended."""
        with self._database.write("people") as connection:
            return end_sessions(connection, user_id, now_ns, only=only, but=but)

    # -- the audit log

    def note(
        self, user_id: int, event: str, details: Mapping[str, str], address: str, agent: str, now_ns: int
    ) -> None:
        """Add an entry to the audit log. Entries are never changed or removed."""
        row = {"user_id": user_id, "event": event, "details": json.dumps(dict(details), ensure_ascii=False)}
        row |= {"address": address, "agent": agent, "at_ns": now_ns}
        with self._database.write("nothing") as connection:
            connection.execute(schema.audit.insert().values(row))

    def noted(self, user_id: int, events: Sequence[str], way: str, since_ns: int) -> int:
        """Return how many audit entries a user has with one of these events and this sign-in method (`way`).

        Only entries later than `since_ns` (UTC) count.
        """
        table = schema.audit
        # As `note` writes it. Quotes within a value are escaped, so no value can look like this pair.
        pair = json.dumps({"way": way}, ensure_ascii=False)[1:-1]
        matching = table.c.details.contains(pair, autoescape=True)
        query = select(func.count()).where(table.c.user_id == user_id, table.c.at_ns > since_ns)
        with self._database.reading() as connection:
            return connection.execute(query.where(table.c.event.in_(events), matching)).scalar_one()

    def audit(self, user_id: int | None, before: int | None, limit: int) -> Sequence[AuditRow]:
        """Return audit entries of a user (None: of all) with ids less than `before`, newest first."""
        table = schema.audit
        query = select(table).order_by(table.c.id.desc()).limit(limit)
        if user_id is not None:
            query = query.where(table.c.user_id == user_id)
        if before is not None:
            query = query.where(table.c.id < before)
        with self._database.reading() as connection:
            rows = connection.execute(query).mappings()
            return [AuditRow(**{**row, "details": json.loads(row["details"])}) for row in rows]


_PREFERENCES = tuple(field.name for field in fields(Preferences))
_PLAIN = tuple(field.name for field in fields(UserRow) if field.name != "preferences")
_USERS = select(*(schema.users.c[name] for name in (*_PLAIN, *_PREFERENCES)))


def _follow(connection: Connection, user_id: int, tier: Tier | None) -> None:
    """Mark a user's keys as changed, so that caches reload them. Set the tier of live keys if a tier is given."""
    keys = schema.keys
    own = update(keys).where(keys.c.user_id == user_id)
    connection.execute(own.values(changed=CHANGED_NOW))
    if tier is not None:
        connection.execute(own.where(keys.c.revoked_ns.is_(None)).values(tier=tier))


def _user_in(connection: Connection, user_id: int) -> UserRow:
    return _user(connection.execute(_USERS.where(schema.users.c.id == user_id)).mappings().one())


def _lower(email: str) -> str:
    return email.strip().lower()


def _taken(connection: Connection, email: str, but: int | None) -> bool:
    query = select(schema.users.c.id).where(schema.users.c.email == _lower(email))
    return connection.execute(query).scalar() not in (None, but)


def _is_last_operator(connection: Connection, user_id: int, ways: Ways) -> bool:
    """Return whether the user is an operator and no other operator can sign in."""
    users = schema.users
    operators = select(users.c.id).where(users.c.role == "operator", users.c.disabled_ns.is_(None))
    is_one = connection.execute(operators.where(users.c.id == user_id)).first() is not None
    others = operators.where(users.c.id != user_id, has_way_in(ways)).limit(1)
    return is_one and connection.execute(others).first() is None


def _user(row: RowMapping) -> UserRow:
    shown: dict[str, Any] = {name: row[name] for name in _PREFERENCES}
    shown["shortcuts"] = bool(row["shortcuts"])
    plain: dict[str, Any] = {name: row[name] for name in _PLAIN}
    return UserRow(**plain, preferences=Preferences(**shown))
