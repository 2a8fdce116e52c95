"""Claim messages from the outbox for a worker that sends them.

A worker claims a message by a lease on the queue of its subscription; each claim has a unique name. A message gets its
id and its entries before it is sent. Slow subscriptions may fill only a part of the places for messages in flight.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, func, select, update

from outcry.database import schema
from outcry.database.json_rows import json_rows, values_of
from outcry.delivery.model import SubscriptionPhase, Target
from outcry.delivery.outbox_model import (
    MOST_ALERTS,
    SLOW_MS,
    Entry,
    EntryPhase,
    Message,
    Queue,
    Reader,
    Sign,
    moved_by,
)
from outcry.delivery.queues import QueueState, look_again, read_states
from outcry.delivery.subscription_store import read_subscription
from outcry.live.model import AlertRow
from outcry.live.store import ALERT_COLUMNS, read_alert

_QUEUES, _OUTBOX, _SUBSCRIPTIONS = schema.lanes.c, schema.outbox.c, schema.subscriptions.c
_NOW = bindparam("now_ns")
_IDS = bindparam("ids", expanding=True)
#: Entries that the next chat message or email reports as missed.
MISSED_PHASES = sorted(phase.value for phase in moved_by(Sign.COUNTED))
_NO_TRY_TAKES_SO_LONG_MS = 2**31 - 1
QUEUE_FIELDS = tuple(field.name for field in fields(Queue))
_READER_FIELDS = tuple(field.name for field in fields(Reader))
_ALERT_FIELDS = tuple(column.name for column in ALERT_COLUMNS)


@dataclass(frozen=True, slots=True)
class ClaimLimits:
    """How many queues a claim may lease: in all, and of receivers whose last attempt was slow."""

    most: int
    slow: int


def claim(
    connection: Connection, worker: str, now_ns: int, lease_ns: int, room: ClaimLimits
) -> list[Message]:
    """Lease queues with due messages, within the limits, and return the next message of each."""
    lease = f"{worker}/{uuid.uuid4().hex}"
    messages: list[Message] = []
    while room.most > 0:
        candidates = _candidates(connection, now_ns, room)
        state = read_states(connection, list(candidates), now_ns)
        due = [number for number in candidates if _is_due(state[number], now_ns)]
        if due:
            _lease(connection, due, lease, now_ns + lease_ns)
            chosen = _choose(connection, {number: state[number] for number in due}, candidates, now_ns)
            messages += _read(connection, chosen, candidates, lease)
        if len(due) < len(candidates):  # not due yet: store when they are
            look_again(connection, [number for number in candidates if number not in set(due)], now_ns)
        if len(candidates) < room.most:
            break
        slow = sum(_is_slow(candidates[number]) for number in due)
        room = ClaimLimits(room.most - len(due), room.slow - slow)
    return messages


def _candidates(connection: Connection, now_ns: int, room: ClaimLimits) -> Mapping[int, RowMapping]:
    """Return the queues to check now, each with its subscription, those that have waited longest first."""

    def found(faster_than_ms: int) -> Sequence[RowMapping]:
        values = {"now_ns": now_ns, "room": room.most, "faster_ms": faster_than_ms}
        return connection.execute(_to_be_looked_at(), values).mappings().all()

    rows = found(_NO_TRY_TAKES_SO_LONG_MS)
    slow = [row for row in rows if _is_slow(row)]
    if len(slow) > room.slow:
        rows = [*slow[: max(0, room.slow)], *found(SLOW_MS)]
        rows.sort(key=lambda row: (row["due_ns"], row["id"]))
    return {row["id"]: row for row in rows[: room.most]}


def _is_slow(row: RowMapping) -> bool:
    return row["took_ms"] >= SLOW_MS


def _is_due(state: QueueState, now_ns: int) -> bool:
    due_ns = state.due_ns(state.sent_ns, state.closed_until_ns)
    return due_ns is not None and due_ns <= now_ns


@cache
def _to_be_looked_at() -> Any:
    """Query queues without a lease whose check time has come and whose last attempt was not slower than a limit.

    `SKIP LOCKED` lets several processes claim side by side.
    """
    reader = [schema.users.c[name] for name in _READER_FIELDS]
    queue = [_QUEUES[name] for name in QUEUE_FIELDS]
    return (
        select(schema.subscriptions, *reader, *queue, _QUEUES.due_ns)
        .select_from(schema.lanes.join(schema.subscriptions).join(schema.users))
        .where(
            _QUEUES.due_ns <= _NOW,
            _QUEUES.leased_until_ns <= _NOW,
            _QUEUES.closed_until_ns <= _NOW,
            _QUEUES.took_ms < bindparam("faster_ms"),
            _SUBSCRIPTIONS.phase == SubscriptionPhase.ACTIVE.value,
            schema.users.c.disabled_ns.is_(None),
        )
        .order_by(_QUEUES.due_ns, _QUEUES.subscription_id)
        .limit(bindparam("room"))
        .with_for_update(of=schema.lanes, skip_locked=True)
    )


def _lease(connection: Connection, numbers: Sequence[int], lease: str, until_ns: int) -> None:
    """Lease queues to a worker. If the worker stops, other workers check them when the lease expires."""
    held = {"worker": lease, "leased_until_ns": until_ns, "due_ns": until_ns}
    connection.execute(
        update(schema.lanes).where(_QUEUES.subscription_id.in_(_IDS)).values(held), {"ids": list(numbers)}
    )


def _choose(
    connection: Connection, due: Mapping[int, QueueState], candidates: Mapping[int, RowMapping], now_ns: int
) -> Mapping[str, int]:
    """Return the ids of the next messages with their subscriptions. New messages are formed from waiting entries."""
    chosen: dict[str, int] = {}
    new: list[tuple[int, str, int, int]] = []
    for number, state in due.items():
        message_id = state.message_id
        if message_id is None:
            message_id = f"msg_{uuid.uuid4().hex}"
            most = MOST_ALERTS[Target(candidates[number]["target"])]
            new.append((number, message_id, state.before_id, most))
        chosen[message_id] = number
    if new:
        connection.execute(_gather(), {**values_of(new), "now_ns": now_ns})
    return chosen


@cache
def _gather() -> Any:
    """Put waiting entries that belong to no message into new messages, the oldest first."""
    rows = json_rows("new", queue=int, message=str, before_id=int, most=int).c
    free = schema.outbox.alias("free").c
    place = func.row_number().over(partition_by=rows.queue, order_by=free.id)
    found = (
        select(free.id, rows.message, rows.most, place.label("place"))
        .where(
            free.subscription_id == rows.queue,
            free.phase == EntryPhase.WAITING.value,
            free.message_id.is_(None),
            free.due_ns <= _NOW,
            free.id < rows.before_id,
        )
        .subquery("found")
        .c
    )
    chosen = (_OUTBOX.id == found.id, found.place <= found.most)
    return update(schema.outbox).where(*chosen).values(message_id=found.message)


def _read(
    connection: Connection, chosen: Mapping[str, int], candidates: Mapping[int, RowMapping], lease: str
) -> list[Message]:
    """Return messages with their alerts. If all alerts of a message were deleted meanwhile, the message is left out."""
    reporting = [number for number in chosen.values() if candidates[number]["target"] != Target.HTTPS.value]
    missed: dict[int, int] = dict(_rows(connection, _missed(), reporting)) if reporting else {}
    messages: list[Message] = []
    for message_id, contents in _read_contents(connection, list(chosen)).items():
        row = candidates[chosen[message_id]]
        messages.append(
            Message(
                message_id=message_id,
                subscription=read_subscription(row),
                reader=Reader(*(row[name] for name in _READER_FIELDS)),
                queue=Queue(*(row[name] for name in QUEUE_FIELDS)),
                entries=tuple(contents.entries),
                missed=missed.get(row["id"], 0),
                tries=contents.tries,
                created_ns=contents.asked_ns,
                attempts=contents.attempts,
                lease=lease,
            )
        )
    return messages


@dataclass(slots=True)
class _Contents:
    """The entries of a message, while they are read from the outbox. `asked_ns`: when the first of them was written."""

    entries: list[Entry]
    tries: int
    attempts: int
    asked_ns: int


def _read_contents(connection: Connection, message_ids: Sequence[str]) -> Mapping[str, _Contents]:
    """Return the waiting entries of messages, by message, in the order of `message_ids`."""
    alerts: dict[int, AlertRow] = {}
    found: dict[str, _Contents] = {}
    for number, place, message_id, tries, attempts, asked_ns, seq, *rest in _rows(
        connection, _contents(), message_ids
    ):
        if seq not in alerts:
            alerts[seq] = read_alert(dict(zip(_ALERT_FIELDS, rest, strict=True)))
        contents = found.get(message_id)
        if contents is None:
            contents = found[message_id] = _Contents([], tries, attempts, asked_ns)
        contents.entries.append(Entry(number, place, alerts[seq]))
        contents.asked_ns = min(contents.asked_ns, asked_ns)
    return {message_id: found[message_id] for message_id in message_ids if message_id in found}


def _rows(connection: Connection, query: Any, ids: Sequence[int | str]) -> Sequence[Any]:
    return connection.execute(query, {"ids": ids}).all()


@cache
def _missed() -> Any:
    """Query how many missed alerts the next chat message or email will report."""
    missed = (_OUTBOX.subscription_id.in_(_IDS), _OUTBOX.phase.in_(MISSED_PHASES))
    return select(_OUTBOX.subscription_id, func.count()).where(*missed).group_by(_OUTBOX.subscription_id)


@cache
def _contents() -> Any:
    """Query the waiting entries of messages, in the order they were written."""
    entry = (
        _OUTBOX.id,
        _OUTBOX.number,
        _OUTBOX.message_id,
        _OUTBOX.tries,
        _OUTBOX.attempts,
        _OUTBOX.asked_ns,
        _OUTBOX.alert_seq,
    )
    return (
        select(*entry, *ALERT_COLUMNS)
        .select_from(schema.outbox.join(schema.alerts))
        .where(_OUTBOX.message_id.in_(_IDS), _OUTBOX.phase == EntryPhase.WAITING.value)
        .order_by(_OUTBOX.id)
    )
