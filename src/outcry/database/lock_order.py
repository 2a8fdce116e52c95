"""Locks for transactions on PostgreSQL. A transaction takes them before it reads the data that it will change.

To prevent deadlocks, all transactions take locks in this order: the row of the revision (`Database.write`), the
recording lock, users, subscriptions, delivery queues by id, and their messages. SQLite has a single writer and needs no
locks.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select, text

from outcry.database import schema
from outcry.database.json_rows import json_values, list_of

_IDS = json_values(int)
#: Separates our advisory locks from those of other programs in the database.
_NAMESPACE = 0x4F75_7463  # "Outc"
_MIGRATE, _RECORD = 1, 2
_SUBSCRIPTIONS = select(schema.subscriptions.c.id).where(schema.subscriptions.c.id.in_(_IDS))
_LANES = select(schema.lanes.c.subscription_id).where(schema.lanes.c.subscription_id.in_(_IDS))
_IN_ORDER = (
    _SUBSCRIPTIONS.order_by(schema.subscriptions.c.id).with_for_update(read=True, key_share=True),
    _LANES.order_by(schema.lanes.c.subscription_id).with_for_update(),
)


def lock_migration(connection: Connection) -> None:
    """Wait until no other process migrates the database."""
    _take(connection, _MIGRATE)


def lock_recording(connection: Connection) -> None:
    """Wait until no other transaction records alerts or adds them to the outbox.

    Sequence numbers are then assigned in commit order.
    """
    _take(connection, _RECORD)


def lock_user(connection: Connection, user_id: int) -> None:
    """Lock a user's row, for changes to what the user owns."""
    users = schema.users
    connection.execute(select(users.c.id).where(users.c.id == user_id).with_for_update(key_share=True))


def lock_queues(connection: Connection, subscription_ids: Sequence[int]) -> None:
    """Lock the delivery queues of subscriptions. No other transaction can then remove the subscriptions."""
    if connection.dialect.name == "postgresql":
        for query in _IN_ORDER:
            connection.execute(query, list_of(subscription_ids))


def lock_queues_of(
    connection: Connection, subscription_ids: Any, values: Mapping[str, Any] | None = None
) -> None:
    """Lock the delivery queues of all subscriptions that a query selects."""
    if connection.dialect.name == "postgresql":
        number = schema.lanes.c.subscription_id
        locked = select(number).where(number.in_(subscription_ids)).order_by(number).with_for_update()
        connection.execute(select(func.count()).select_from(locked.subquery()), values or {})


def _take(connection: Connection, which: int) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:a, :b)"), {"a": _NAMESPACE, "b": which})
