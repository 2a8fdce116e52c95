"""Webhook subscriptions and the attempts at delivering to them, in SQLite or PostgreSQL, through SQLAlchemy Core.

Rule kept: every statement names the owner, so that nobody can read or change what is another's.
"""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import RowMapping, func, select, update

from outcry.ports.delivery import AttemptRow, Change, Outcome, SubscriptionPhase, SubscriptionRow, Target
from outcry.store import schema
from outcry.store.database import Database, new_id


class SqlSubscriptionStore:
    """Implements `ports.delivery.SubscriptionStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def subscriptions(self, user_id: int) -> Sequence[SubscriptionRow]:
        """See `SubscriptionStore`."""
        table = schema.subscriptions
        query = select(table).where(table.c.user_id == user_id).order_by(table.c.id)
        with self._database.reading() as connection:
            return [_subscription(row) for row in connection.execute(query).mappings()]

    def subscription(self, user_id: int, subscription_id: int) -> SubscriptionRow | None:
        """See `SubscriptionStore`."""
        query = select(schema.subscriptions).where(*_own(user_id, subscription_id))
        with self._database.reading() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else _subscription(row)

    def add_subscription(self, row: SubscriptionRow, most: int) -> int | None:
        """See `SubscriptionStore`."""
        own = select(func.count()).where(schema.subscriptions.c.user_id == row.user_id)
        with self._database.write("people") as connection:
            if connection.execute(own).scalar_one() >= most:
                return None
            return new_id(connection.execute(schema.subscriptions.insert().values(_plain(row))))

    def change_subscription(
        self, user_id: int, subscription_id: int, change: Change
    ) -> SubscriptionRow | None:
        """See `SubscriptionStore`."""
        own = _own(user_id, subscription_id)
        with self._database.write("people") as connection:
            # Read in the turn to write: of two changes the later is made of what the earlier left.
            kept = connection.execute(select(schema.subscriptions).where(*own)).mappings().first()
            if kept is None:
                return None
            row = change(_subscription(kept))
            connection.execute(update(schema.subscriptions).where(*own).values(_plain(row)))
            return row

    def remove_subscription(self, user_id: int, subscription_id: int) -> bool:
        """See `SubscriptionStore`."""
        query = schema.subscriptions.delete().where(*_own(user_id, subscription_id))
        with self._database.write("people") as connection:
            return connection.execute(query).rowcount == 1

    def attempts(
        self,
        user_id: int,
        subscription_id: int,
        before: int | None,
        limit: int,
        outcome: Outcome | None = None,
    ) -> Sequence[AttemptRow]:
        """See `SubscriptionStore`."""
        table = schema.attempts
        columns = [table.c[field.name] for field in fields(AttemptRow)]
        query = select(*columns).join_from(table, schema.subscriptions).where(*_own(user_id, subscription_id))
        if before is not None:
            query = query.where(table.c.id < before)
        if outcome is not None:
            query = query.where(table.c.outcome == outcome)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(table.c.id.desc()).limit(limit)).mappings()
            return [AttemptRow(**row) for row in rows]


def _own(user_id: int, subscription_id: int) -> tuple[Any, Any]:
    table = schema.subscriptions
    return table.c.id == subscription_id, table.c.user_id == user_id


def _plain(row: SubscriptionRow) -> dict[str, Any]:
    values = asdict(row) | {"target": row.target.value, "phase": row.phase.value}
    values["symbols"] = " ".join(row.symbols)
    del values["id"]
    return values


def _subscription(row: RowMapping) -> SubscriptionRow:
    changed: dict[str, Any] = {
        "target": Target(row["target"]), "phase": SubscriptionPhase(row["phase"]),
        "symbols": tuple(row["symbols"].split()),
    }  # fmt: skip
    return SubscriptionRow(**{**row, **changed})
