"""Store grants, which allow callers to see the operator's data, and their log in SQLite or PostgreSQL.

Adding or revoking a grant writes a log line in the same transaction. Log lines are never changed.
"""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Connection, RowMapping, select, update

from outcry.access.model import GrantEvent, GrantRow
from outcry.database import schema
from outcry.database.database import Database, new_id

_GRANTS, _LOG = schema.grants, schema.grant_log


class SqlGrants:
    """Storage of grants, which allow callers to see the operator's data, and of their log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def grants(self) -> Sequence[GrantRow]:
        """Return all grants that were not revoked."""
        query = select(_GRANTS).where(_GRANTS.c.revoked_ns.is_(None)).order_by(_GRANTS.c.id)
        with self._database.reading() as connection:
            return [_grant(row) for row in connection.execute(query).mappings()]

    def add_grant(self, grant: GrantRow, now_ns: int, *, by: str = "", attested: str = "") -> int:
        """Store a new grant (its id is ignored) with its log line; return its id."""
        row = asdict(grant) | {"roots": " ".join(grant.roots), "created_ns": now_ns}
        del row["id"]
        with self._database.write() as connection:
            number = new_id(connection.execute(_GRANTS.insert().values(row)))
            connection.execute(_LOG.insert().values(_line(number, now_ns, "granted", by, attested)))
            return number

    def revoke_grant(self, grant_id: int, now_ns: int, *, by: str = "") -> bool:
        """Revoke a grant and log who revoked it; return False if the grant is unknown or was revoked before."""
        query = update(_GRANTS).where(_GRANTS.c.id == grant_id, _GRANTS.c.revoked_ns.is_(None))
        with self._database.write() as connection:
            if connection.execute(query.values(revoked_ns=now_ns)).rowcount != 1:
                return False
            connection.execute(_LOG.insert().values(_line(grant_id, now_ns, "withdrawn", by, "")))
            return True

    def grant_events(self, limit: int) -> Sequence[GrantEvent]:
        """Return the newest lines of the grant log, newest first."""
        line = [column.label(f"log_{column.name}") for column in _LOG.columns]
        query = select(_GRANTS, *line).join_from(_LOG, _GRANTS).order_by(_LOG.c.id.desc()).limit(limit)
        with self._database.reading() as connection:
            return [_event(row) for row in connection.execute(query).mappings()]


def log_alike(connection: Connection, old: int, new: int, now_ns: int, by: str) -> None:
    """Log that grant `new` is a copy of grant `old`, with the licence declaration that was made for `old`."""
    first = select(_LOG.c.attested).where(_LOG.c.grant_id == old, _LOG.c.event == "granted")
    attested = connection.execute(first).scalar() or ""
    connection.execute(_LOG.insert().values(_line(new, now_ns, "granted", by, attested)))


def _line(grant_id: int, now_ns: int, event: str, by: str, attested: str) -> dict[str, Any]:
    return {"grant_id": grant_id, "at_ns": now_ns, "event": event, "by": by, "attested": attested}


def _event(row: RowMapping) -> GrantEvent:
    kept = ("id", "at_ns", "event", "by", "attested")
    return GrantEvent(grant=_grant(row), **{name: row[f"log_{name}"] for name in kept})


def _grant(row: RowMapping) -> GrantRow:
    values: dict[str, Any] = {field.name: row[field.name] for field in fields(GrantRow)}
    values["roots"] = tuple(row["roots"].split())
    return GrantRow(**values)
