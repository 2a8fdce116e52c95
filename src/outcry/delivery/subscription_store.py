"""Store webhook subscriptions and delivery attempts in SQLite or PostgreSQL, through SQLAlchemy Core.

Every statement names the owner, so that a user cannot read or change another user's rows. A changed URL resets the
queue, and waiting entries follow the new settings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, RowMapping, func, select, update

from outcry.database import schema
from outcry.database.database import Database, new_id
from outcry.database.json_rows import insert_rows
from outcry.delivery.model import (
    AttemptRow,
    Change,
    Outcome,
    SubscriptionPhase,
    SubscriptionRow,
    Target,
)
from outcry.delivery.outbox_model import EntryPhase, Queue

_FIELDS = tuple(field.name for field in fields(SubscriptionRow))
SUBSCRIPTION_COLUMNS = tuple(schema.subscriptions.c[name] for name in _FIELDS)


def _symbols(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_READ: Mapping[str, Callable[[Any], object]] = {
    "target": Target, "symbols": _symbols, "phase": SubscriptionPhase, "ordered": bool, "at_once": bool,
}  # fmt: skip
#: Places in `SUBSCRIPTION_COLUMNS` of values that are stored in another form, and what reads each.
_CONVERTED = [(place, _READ[name]) for place, name in enumerate(_FIELDS) if name in _READ]
_NOT_COLUMNS = ("id", "phases_ms")
_ATTEMPT_VALUES = attrgetter(*(name for name in AttemptRow.__slots__ if name not in _NOT_COLUMNS))
#: Columns of `_ATTEMPT_VALUES` in the same order, and the phases.
_ATTEMPT_COLUMNS = {
    name: schema.attempts.c[name].type.python_type
    for name in (*(name for name in AttemptRow.__slots__ if name not in _NOT_COLUMNS), "phases")
}


class SqlSubscriptionStore:
    """Storage of webhook subscriptions, by owner. Every method may raise `StoreBusy`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def subscriptions(self, user_id: int) -> Sequence[SubscriptionRow]:
        """Return a user's subscriptions, oldest first."""
        table = schema.subscriptions
        query = select(*SUBSCRIPTION_COLUMNS).where(table.c.user_id == user_id).order_by(table.c.id)
        with self._database.reading() as connection:
            return [read_subscription(row) for row in connection.execute(query)]

    def subscription(self, user_id: int, subscription_id: int) -> SubscriptionRow | None:
        """Return a subscription of this user; None if there is none."""
        query = select(*SUBSCRIPTION_COLUMNS).where(*_own(user_id, subscription_id))
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else read_subscription(row)

    def add_subscription(self, row: SubscriptionRow, most: int) -> int | None:
        """Store a new subscription (its id is ignored); return its id, or None if its owner has `most` already.

        Encrypted fields are bound to owner and creation time, because they are encrypted before the id exists.
        """
        own = select(func.count()).where(schema.subscriptions.c.user_id == row.user_id)
        with self._database.write("people") as connection:
            if connection.execute(own).scalar_one() >= most:
                return None
            number = new_id(connection.execute(schema.subscriptions.insert().values(_plain(row))))
            connection.execute(schema.lanes.insert().values(subscription_id=number))
            return number

    def change_subscription(
        self, user_id: int, subscription_id: int, change: Change
    ) -> SubscriptionRow | None:
        """Replace a subscription by the result of `change`; return it, or None if there is none.

        No other change runs meanwhile, so `change` must be quick. If it raises, nothing changes.
        """
        own = _own(user_id, subscription_id)
        with self._database.write("people") as connection:
            # Read under the write lock: the later of two changes is based on the earlier.
            stored = connection.execute(select(*SUBSCRIPTION_COLUMNS).where(*own)).first()
            if stored is None:
                return None
            row = change(read_subscription(stored))
            connection.execute(update(schema.subscriptions).where(*own).values(_plain(row)))
            _follow(connection, read_subscription(stored), row)
            return row

    def remove_subscription(self, user_id: int, subscription_id: int) -> bool:
        """Delete a subscription of this user and its attempts."""
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
        """Return delivery attempts of a user's subscription, newest first.

        `before`: only ids below it. `outcome`: only attempts with this outcome.
        """
        table = schema.attempts
        query = select(table).join_from(table, schema.subscriptions).where(*_own(user_id, subscription_id))
        if before is not None:
            query = query.where(table.c.id < before)
        if outcome is not None:
            query = query.where(table.c.outcome == outcome)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(table.c.id.desc()).limit(limit)).mappings()
            return [_attempt(row) for row in rows]


def _own(user_id: int, subscription_id: int) -> tuple[Any, Any]:
    table = schema.subscriptions
    return table.c.id == subscription_id, table.c.user_id == user_id


def _plain(row: SubscriptionRow) -> dict[str, Any]:
    values = asdict(row) | {"target": row.target.value, "phase": row.phase.value}
    values |= {"symbols": " ".join(row.symbols), "ordered": int(row.ordered), "at_once": int(row.at_once)}
    del values["id"]
    return values


def _follow(connection: Connection, before: SubscriptionRow, after: SubscriptionRow) -> None:
    """Apply a subscription's changed settings to its waiting alerts.

    The alerts become due now, and the next claim computes when each is sent.
    """
    queues, outbox = schema.lanes, schema.outbox
    queue = update(queues).where(queues.c.subscription_id == before.id)
    waits = update(outbox).where(
        outbox.c.subscription_id == before.id, outbox.c.phase == EntryPhase.WAITING.value
    )
    if after.sealed_address != before.sealed_address:
        # The queue's row comes first, because recording a result locks it.
        connection.execute(queue.values(asdict(Queue())))
        connection.execute(waits.values(due_ns=0, tries=0))
    elif (after.window, after.at_once) != (before.window, before.at_once):
        # Entries already in a message are sent or retried in any window.
        connection.execute(waits.where(outbox.c.message_id.is_(None)).values(due_ns=0))
    elif after.ordered == before.ordered:
        return
    connection.execute(queue.where(queues.c.due_ns.is_not(None)).values(due_ns=0))


def read_subscription(values: Sequence[Any]) -> SubscriptionRow:
    """Build a subscription from the values of `SUBSCRIPTION_COLUMNS`."""
    changed = list(values)
    for place, read in _CONVERTED:
        changed[place] = read(changed[place])
    return SubscriptionRow(*changed)


def write_attempts(connection: Connection, attempts: Sequence[AttemptRow]) -> None:
    """Add attempts to the delivery log. Their ids are ignored."""
    rows = [
        (*_ATTEMPT_VALUES(attempt), " ".join([f"{name}={took_ms}" for name, took_ms in attempt.phases_ms]))
        for attempt in attempts
    ]
    insert_rows(connection, schema.attempts, _ATTEMPT_COLUMNS, rows)


def _attempt(row: RowMapping) -> AttemptRow:
    values = dict(row)
    phases = [phase.partition("=") for phase in values.pop("phases").split()]
    return AttemptRow(**values, phases_ms=tuple((name, int(took_ms)) for name, _, took_ms in phases))
