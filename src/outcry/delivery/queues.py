"""Decide when a subscription's queue is next checked for due messages, and which message is next.

A queue is checked no later than its first waiting alert is due. If the clock was set back, so that the last attempt
seems to lie in the future, the check is not delayed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, and_, bindparam, case, exists, func, null, or_, select, update

from outcry.database import schema
from outcry.database.json_rows import json_values, list_of
from outcry.database.lock_order import lock_queues_of
from outcry.delivery.model import Target
from outcry.delivery.outbox_model import GATHER_NS, MOST_ALERTS, EntryPhase

_QUEUES, _OUTBOX, _SUBSCRIPTIONS = schema.lanes.c, schema.outbox.c, schema.subscriptions.c
_NOW = bindparam("now_ns")
_WAITING = EntryPhase.WAITING.value
_FULL = MOST_ALERTS[Target.HTTPS]
_NO_ID_IS_SO_HIGH = 2**63 - 1


@dataclass(frozen=True, slots=True)
class QueueState:
    """What waits in the queue of a subscription.

    - `first_ns`: when the first alert is due, None if nothing waits.
    - `message_id`: next message, None if it must be formed from outbox entries with ids below `before_id`.
    - `full`: enough alerts wait to fill a message, so the queue need not wait for more.

    """

    first_ns: int | None
    message_id: str | None
    before_id: int
    full: bool
    sent_ns: int
    closed_until_ns: int
    now_ns: int

    def due_ns(self, sent_ns: int, closed_until_ns: int) -> int | None:
        """Return when the queue must next be checked; None if nothing waits.

        sent_ns: time of the queue's last attempt. closed_until_ns: end of the queue's pause.
        """
        if self.first_ns is None:
            return None
        gathers = not self.full and sent_ns <= self.now_ns
        return max(self.first_ns, closed_until_ns, sent_ns + GATHER_NS if gathers else 0)


def read_states(
    connection: Connection, subscription_ids: Sequence[int], now_ns: int
) -> Mapping[int, QueueState]:
    """Return the states of the queues of these subscriptions."""
    values = {**list_of(subscription_ids), "now_ns": now_ns}
    rows: Sequence[Any] = connection.execute(_states_query(), values).all()
    return {
        number: QueueState(first_ns, message_id, before_id or _NO_ID_IS_SO_HIGH, bool(full), sent_ns, closed_ns, now_ns)
        for number, first_ns, message_id, before_id, full, sent_ns, closed_ns in rows
    }  # fmt: skip


def read_waiting(connection: Connection, subscription_ids: Sequence[int]) -> Sequence[int]:
    """Return which of these subscriptions have waiting alerts. Faster than `read_states`."""
    return connection.execute(_waiting_query(), list_of(subscription_ids)).scalars().all()


def look_again(connection: Connection, subscription_ids: Sequence[int], now_ns: int) -> None:
    """Compute and store when these queues must next be checked.

    The transaction must hold the locks of the queues. Entries written meanwhile then wake the queues after it commits.
    A leased queue is checked when it is released.
    """
    rows = [
        {"queue": number, "due": state.due_ns(state.sent_ns, state.closed_until_ns), "now_ns": now_ns}
        for number, state in read_states(connection, subscription_ids, now_ns).items()
    ]
    if rows:
        connection.execute(_set_due(), rows)


def wake(connection: Connection, first_seq: int, now_ns: int) -> None:
    """Schedule an early check of the queues that have a waiting alert with sequence number `first_seq` or later."""
    values = {"first": first_seq, "now_ns": now_ns}
    lock_queues_of(connection, _that_wait(), values)
    connection.execute(_wake(), values)


@cache
def _set_due() -> Any:
    free = (_QUEUES.subscription_id == bindparam("queue"), _QUEUES.leased_until_ns <= _NOW)
    return update(schema.lanes).where(*free).values(due_ns=bindparam("due"))


@cache
def _wake() -> Any:
    """Return the SQL update that schedules checks of queues: now, or after a lease, pause or batching interval."""
    https = exists().where(
        _SUBSCRIPTIONS.id == _QUEUES.subscription_id, _SUBSCRIPTIONS.target == Target.HTTPS.value
    )
    gathered_ns = _QUEUES.sent_ns + GATHER_NS
    soonest_ns = case(
        (_QUEUES.leased_until_ns > _NOW, _QUEUES.leased_until_ns),
        (_QUEUES.closed_until_ns > _NOW, _QUEUES.closed_until_ns),
        (and_(gathered_ns > _NOW, _QUEUES.sent_ns <= _NOW, or_(~https, ~_fills_a_message())), gathered_ns),
        else_=_NOW,
    )
    later = or_(_QUEUES.due_ns.is_(None), _QUEUES.due_ns > _NOW)
    return (
        update(schema.lanes).where(_QUEUES.subscription_id.in_(_that_wait()), later).values(due_ns=soonest_ns)
    )


@cache
def _that_wait() -> Any:
    return select(_OUTBOX.subscription_id).where(
        _OUTBOX.alert_seq >= bindparam("first"), _OUTBOX.phase == _WAITING
    )


@cache
def _waiting_query() -> Any:
    waits = exists().where(_OUTBOX.subscription_id == _QUEUES.subscription_id, _OUTBOX.phase == _WAITING)
    return select(_QUEUES.subscription_id).where(_QUEUES.subscription_id.in_(json_values(int)), waits)


@cache
def _states_query() -> Any:
    ordered = _SUBSCRIPTIONS.ordered == 1
    head, waiting = schema.outbox.alias("head"), schema.outbox.alias("waiting")
    mine = and_(waiting.c.subscription_id == _QUEUES.subscription_id, waiting.c.phase == _WAITING)
    # Next is the oldest due entry; in an ordered queue the oldest entry, which all others wait for.
    oldest = select(waiting.c.id).where(mine, or_(ordered, waiting.c.due_ns <= _NOW)).order_by(waiting.c.id)
    earliest = select(func.min(waiting.c.due_ns)).where(mine).scalar_subquery()
    in_message = select(func.min(waiting.c.id)).where(mine, waiting.c.message_id.is_not(None))
    https = _SUBSCRIPTIONS.target == Target.HTTPS.value
    return (
        select(
            _QUEUES.subscription_id,
            case((head.c.id.is_not(None), head.c.due_ns), else_=earliest),
            head.c.message_id,
            case((ordered, in_message.scalar_subquery()), else_=null()),
            and_(https, _fills_a_message()),
            _QUEUES.sent_ns,
            _QUEUES.closed_until_ns,
        )
        .select_from(
            schema.lanes.join(schema.subscriptions).outerjoin(
                head,
                head.c.id == oldest.limit(1).correlate(schema.lanes, schema.subscriptions).scalar_subquery(),
            )
        )
        .where(_QUEUES.subscription_id.in_(json_values(int)))
    )


def _fills_a_message() -> Any:
    """Return the SQL condition that enough alerts wait to fill a message to an `https` target."""
    free = (
        _OUTBOX.subscription_id == _QUEUES.subscription_id,
        _OUTBOX.phase == _WAITING,
        _OUTBOX.message_id.is_(None),
    )
    last = select(_OUTBOX.id).where(*free).order_by(_OUTBOX.id).limit(1).offset(_FULL - 1)
    return last.correlate(schema.lanes).scalar_subquery().is_not(null())
