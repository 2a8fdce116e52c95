"""Store users' accounts with their keys and grants, in SQLite or PostgreSQL."""

import secrets
from typing import Any

from sqlalchemy import select

from outcry.access.grant_store import SqlGrants
from outcry.access.key_store import SqlKeys
from outcry.database import schema
from outcry.database.database import new_id

HANDLE_BYTES = 32  # length of the user handle of passkeys


class SqlAccounts(SqlKeys, SqlGrants):
    """Storage of users, API keys and grants. Every method may raise `StoreBusy`."""

    def revision(self) -> int:
        """Return a number that increases with every committed change that can change an API answer.

        Sign-ins do not change the number. Caches of stored data compare it often to notice changes, so it is cheap to
        read.
        """
        return self._database.revision()

    def ensure_user(self, email: str, now_ns: int) -> int:
        """Return the id of the user with an email address (compared in lower case); create the user if needed."""
        known = self.find_user(email)
        if known is not None:
            return known
        with self._database.write() as connection:
            found = connection.execute(_user(email)).scalar()
            if found is not None:
                return found
            done = connection.execute(
                schema.users.insert().values(
                    email=email.strip().lower(), created_ns=now_ns, handle=secrets.token_bytes(HANDLE_BYTES)
                )
            )
            return new_id(done)

    def find_user(self, email: str) -> int | None:
        """Return the id of the user with an email address (compared in lower case); None if there is none."""
        with self._database.reading() as connection:
            return connection.execute(_user(email)).scalar()


def _user(email: str) -> Any:
    return select(schema.users.c.id).where(schema.users.c.email == email.strip().lower())
