"""Claim messages from the outbox for a worker that sends them.

A worker claims a message by leasing the queue of the message's subscription: until the lease ends, no other worker
sends from this queue. Each claim has a unique name. A message gets its id and its entries (the alerts it contains)
before it is sent. Only a part of the messages in flight may belong to slow subscriptions.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update

from outcry.database import schema
from outcry.database.json_rows import json_rows, json_values, list_of, values_of
from outcry.delivery.model import SubscriptionPhase, SubscriptionRow, Target
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
from outcry.delivery.subscription_store import SUBSCRIPTION_COLUMNS, read_subscription
from outcry.live.model import AlertRow
from outcry.live.store import ALERT_COLUMNS, read_alert

_QUEUES, _OUTBOX, _SUBSCRIPTIONS = schema.lanes.c, schema.outbox.c, schema.subscriptions.c
_NOW = bindparam("now_ns")
#: Entries that the next chat message or email reports as missed.
MISSED_PHASES = sorted(phase.value for phase in moved_by(Sign.COUNTED))
_NO_TRY_TAKES_SO_LONG_MS = 2**31 - 1
QUEUE_FIELDS = tuple(field.name for field in fields(Queue))
_READER_FIELDS = tuple(field.name for field in fields(Reader))
#: Where the values of the reader and of the queue begin in a row of `_to_be_looked_at`.
_READER_FROM = len(SUBSCRIPTION_COLUMNS)
_QUEUE_FROM = _READER_FROM + len(_READER_FIELDS)


@dataclass(frozen=True, slots=True)
class ClaimLimits:
    """How many queues a claim may lease: in total, and among them queues whose last attempt was slow."""

    most: int
    slow: int


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A queue to check now for due messages, with its subscription. `due_ns`: time from which the check is due."""

    subscription: SubscriptionRow
    reader: Reader
    queue: Queue
    due_ns: int

    @property
    def is_slow(self) -> bool:
        """Whether the last attempt of the queue was slow."""
        return self.queue.took_ms >= SLOW_MS


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
        slow = sum(candidates[number].is_slow for number in due)
        room = ClaimLimits(room.most - len(due), room.slow - slow)
    return messages


def _candidates(connection: Connection, now_ns: int, room: ClaimLimits) -> Mapping[int, _Candidate]:
    """Return the queues to check now for due messages, by subscription id, longest waiting first."""

    def found(faster_than_ms: int) -> list[_Candidate]:
        values = {"now_ns": now_ns, "room": room.most, "faster_ms": faster_than_ms}
        return [_candidate(row) for row in connection.execute(_to_be_looked_at(), values).all()]

    candidates = found(_NO_TRY_TAKES_SO_LONG_MS)
    slow = [candidate for candidate in candidates if candidate.is_slow]
    if len(slow) > room.slow:
        candidates = [*slow[: max(0, room.slow)], *found(SLOW_MS)]
        candidates.sort(key=lambda candidate: (candidate.due_ns, candidate.subscription.id))
    return {candidate.subscription.id: candidate for candidate in candidates[: room.most]}


def _candidate(row: Sequence[Any]) -> _Candidate:
    return _Candidate(
        read_subscription(row[:_READER_FROM]),
        Reader(*row[_READER_FROM:_QUEUE_FROM]),
        Queue(*row[_QUEUE_FROM:-1]),
        row[-1],
    )


def _is_due(state: QueueState, now_ns: int) -> bool:
    due_ns = state.due_ns(state.sent_ns, state.closed_until_ns)
    return due_ns is not None and due_ns <= now_ns


@cache
def _to_be_looked_at() -> Any:
    """Return the SQL query for queues without a lease whose check is due and whose last attempt was fast enough.

    `SKIP LOCKED` skips queues that another process is claiming, so that processes do not wait for each other.
    """
    reader = [schema.users.c[name] for name in _READER_FIELDS]
    queue = [_QUEUES[name] for name in QUEUE_FIELDS]
    return (
        select(*SUBSCRIPTION_COLUMNS, *reader, *queue, _QUEUES.due_ns)
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
    """Lease queues to a worker until a time. If the worker stops, other workers can then lease the queues."""
    held = {"worker": lease, "leased_until_ns": until_ns, "due_ns": until_ns}
    connection.execute(
        update(schema.lanes).where(_QUEUES.subscription_id.in_(json_values(int))).values(held),
        list_of(numbers),
    )


def _choose(
    connection: Connection, due: Mapping[int, QueueState], candidates: Mapping[int, _Candidate], now_ns: int
) -> Mapping[str, int]:
    """Return the id of each queue's next message, with its subscription id.

    If a queue has no such message yet, put its waiting alerts into a new one.
    """
    chosen: dict[str, int] = {}
    new: list[tuple[int, str, int, int]] = []
    for number, state in due.items():
        message_id = state.message_id
        if message_id is None:
            message_id = f"msg_{uuid.uuid4().hex}"
            most = MOST_ALERTS[candidates[number].subscription.target]
            new.append((number, message_id, state.before_id, most))
        chosen[message_id] = number
    if new:
        connection.execute(_gather(), {**values_of(new), "now_ns": now_ns})
    return chosen


@cache
def _gather() -> Any:
    """Return the SQL update that puts waiting alerts without a message into new messages, the oldest first."""
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
    connection: Connection, chosen: Mapping[str, int], candidates: Mapping[int, _Candidate], lease: str
) -> list[Message]:
    """Return messages with their alerts. If all alerts of a message were deleted meanwhile, the message is left out."""
    reporting = [
        number for number in chosen.values() if candidates[number].subscription.target is not Target.HTTPS
    ]
    missed: dict[int, int] = dict(_rows(connection, _missed(), reporting)) if reporting else {}
    messages: list[Message] = []
    for message_id, contents in _read_contents(connection, list(chosen)).items():
        candidate = candidates[chosen[message_id]]
        messages.append(
            Message(
                message_id=message_id,
                subscription=candidate.subscription,
                reader=candidate.reader,
                queue=candidate.queue,
                entries=tuple(contents.entries),
                missed=missed.get(candidate.subscription.id, 0),
                tries=contents.tries,
                created_ns=contents.asked_ns,
                attempts=contents.attempts,
                lease=lease,
            )
        )
    return messages


@dataclass(slots=True)
class _Contents:
    """The entries (alerts) of a message, read from the outbox. `asked_ns`: when the first was written."""

    entries: list[Entry]
    tries: int
    attempts: int
    asked_ns: int


def _read_contents(connection: Connection, message_ids: Sequence[str]) -> Mapping[str, _Contents]:
    """Return the waiting entries (alerts) of messages, by message id, in the order of `message_ids`."""
    rows = _rows(connection, _entries_query(), message_ids)
    alerts = _read_alerts(connection, {row.alert_seq for row in rows})
    found: dict[str, _Contents] = {}
    for number, place, message_id, tries, attempts, asked_ns, seq in rows:
        contents = found.get(message_id)
        if contents is None:
            contents = found[message_id] = _Contents([], tries, attempts, asked_ns)
        contents.entries.append(Entry(number, place, alerts[seq]))
        contents.asked_ns = min(contents.asked_ns, asked_ns)
    return {message_id: found[message_id] for message_id in message_ids if message_id in found}


def _read_alerts(connection: Connection, seqs: Collection[int]) -> Mapping[int, AlertRow]:
    """Return alerts by sequence number. The transaction holds the queues' locks, so none is deleted meanwhile."""
    rows = connection.execute(_alerts_query(), list_of([*seqs])).mappings() if seqs else ()
    return {row["seq"]: read_alert(row) for row in rows}


def _rows(connection: Connection, query: Any, ids: Sequence[int | str]) -> Sequence[Any]:
    return connection.execute(query, list_of(ids)).all()


@cache
def _missed() -> Any:
    """Return the SQL query that counts the missed alerts of each subscription, which its next message will report."""
    missed = (_OUTBOX.subscription_id.in_(json_values(int)), _OUTBOX.phase.in_(MISSED_PHASES))
    return select(_OUTBOX.subscription_id, func.count()).where(*missed).group_by(_OUTBOX.subscription_id)


@cache
def _entries_query() -> Any:
    """Return the SQL query for the waiting alerts of messages, in the order they were queued, deleted ones excluded."""
    names = ("id", "number", "message_id", "tries", "attempts", "asked_ns", "alert_seq")
    return (
        select(*(_OUTBOX[name] for name in names))
        .where(
            _OUTBOX.message_id.in_(json_values(str)),
            _OUTBOX.phase == EntryPhase.WAITING.value,
            _OUTBOX.alert_seq.is_not(None),
        )
        .order_by(_OUTBOX.id)
    )


@cache
def _alerts_query() -> Any:
    return select(*ALERT_COLUMNS).where(schema.alerts.c.seq.in_(json_values(int)))
