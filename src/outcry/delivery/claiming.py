"""How a worker takes messages out of the outbox.

Rules kept: a lane is held by one claim at a time, which has a name no other has; a message has its id, and its entries,
before anybody sends it; slow endpoints get a share of all places and no more.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, func, select, update

from outcry.database import schema
from outcry.delivery.model import SubscriptionPhase, Target
from outcry.delivery.outbox_model import (
    MOST_ALERTS,
    SLOW_MS,
    Entry,
    EntryPhase,
    Lane,
    Parcel,
    Reader,
    Sign,
    moved_by,
)
from outcry.delivery.queues import Standing, look_again, standings
from outcry.delivery.subscription_store import read_subscription
from outcry.live.model import AlertRow
from outcry.live.store import ALERT_COLUMNS, read_alert

_LANES, _OUTBOX, _SUBSCRIPTIONS = schema.lanes.c, schema.outbox.c, schema.subscriptions.c
_NOW = bindparam("now_ns")
_IDS = bindparam("ids", expanding=True)
#: What a chat's or mail's next message counts, as nobody will read it by itself.
MISSED_PHASES = sorted(phase.value for phase in moved_by(Sign.TOLD))
_NO_TRY_TAKES_SO_LONG_MS = 2**31 - 1
LANE_FIELDS = tuple(field.name for field in fields(Lane))
_READER_FIELDS = tuple(field.name for field in fields(Reader))
_ALERT_FIELDS = tuple(column.name for column in ALERT_COLUMNS)


@dataclass(frozen=True, slots=True)
class Room:
    """Lanes that may be claimed: in all, and of these slow ones."""

    most: int
    slow: int


def claim(connection: Connection, worker: str, now_ns: int, lease_ns: int, room: Room) -> list[Parcel]:
    """Lease lanes with something due as far as there is room, and return what goes next in each."""
    lease = f"{worker}/{uuid.uuid4().hex}"
    parcels: list[Parcel] = []
    while room.most > 0:
        candidates = _candidates(connection, now_ns, room)
        standing = standings(connection, list(candidates), now_ns)
        due = [number for number in candidates if _is_due(standing[number], now_ns)]
        if due:
            _lease(connection, due, lease, now_ns + lease_ns)
            messages = _messages(connection, {number: standing[number] for number in due}, candidates, now_ns)
            parcels += _parcels(connection, messages, candidates, lease)
        if len(due) < len(candidates):  # looked at too early: from now on when they are due
            look_again(connection, [number for number in candidates if number not in set(due)], now_ns)
        if len(candidates) < room.most:
            break
        slow = sum(_is_slow(candidates[number]) for number in due)
        room = Room(room.most - len(due), room.slow - slow)
    return parcels


def _candidates(connection: Connection, now_ns: int, room: Room) -> Mapping[int, RowMapping]:
    """Lanes to be looked at, those first that waited longest, with whose they are."""

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


def _is_due(standing: Standing, now_ns: int) -> bool:
    due_ns = standing.due_ns(standing.sent_ns, standing.closed_until_ns)
    return due_ns is not None and due_ns <= now_ns


@cache
def _to_be_looked_at() -> Any:
    """Lanes to be looked at that nobody holds, with whose they are, if their last attempt was not too long. Several
    processes pass each other's by."""
    reader = [schema.users.c[name] for name in _READER_FIELDS]
    lane = [_LANES[name] for name in LANE_FIELDS]
    return (
        select(schema.subscriptions, *reader, *lane, _LANES.due_ns)
        .select_from(schema.lanes.join(schema.subscriptions).join(schema.users))
        .where(
            _LANES.due_ns <= _NOW,
            _LANES.leased_until_ns <= _NOW,
            _LANES.closed_until_ns <= _NOW,
            _LANES.took_ms < bindparam("faster_ms"),
            _SUBSCRIPTIONS.phase == SubscriptionPhase.ACTIVE.value,
            schema.users.c.disabled_ns.is_(None),
        )
        .order_by(_LANES.due_ns, _LANES.subscription_id)
        .limit(bindparam("room"))
        .with_for_update(of=schema.lanes, skip_locked=True)
    )


def _lease(connection: Connection, numbers: Sequence[int], lease: str, until_ns: int) -> None:
    """Hold lanes; should the worker die, they are looked at when the lease is over."""
    held = {"worker": lease, "leased_until_ns": until_ns, "due_ns": until_ns}
    connection.execute(
        update(schema.lanes).where(_LANES.subscription_id.in_(_IDS)).values(held), {"ids": list(numbers)}
    )


def _messages(
    connection: Connection, due: Mapping[int, Standing], candidates: Mapping[int, RowMapping], now_ns: int
) -> Mapping[str, int]:
    """The messages that go next, by id, with their subscription: those there are, and new ones, gathered."""
    messages: dict[str, int] = {}
    new: list[dict[str, Any]] = []
    for number, standing in due.items():
        message_id = standing.message_id
        if message_id is None:
            message_id = f"msg_{uuid.uuid4().hex}"
            most = MOST_ALERTS[Target(candidates[number]["target"])]
            new.append({"message": message_id, "lane": number, "before": standing.before_id, "most": most})
        messages[message_id] = number
    if new:
        connection.execute(_gather(), [row | {"now_ns": now_ns} for row in new])
    return messages


@cache
def _gather() -> Any:
    """Put entries that are in no message yet into a new one."""
    free = schema.outbox.alias("free")
    oldest = (
        select(free.c.id)
        .where(
            free.c.subscription_id == bindparam("lane"),
            free.c.phase == EntryPhase.WAITING.value,
            free.c.message_id.is_(None),
            free.c.due_ns <= _NOW,
            free.c.id < bindparam("before"),
        )
        .order_by(free.c.id)
        .limit(bindparam("most"))
    )
    return update(schema.outbox).where(_OUTBOX.id.in_(oldest)).values(message_id=bindparam("message"))


def _parcels(
    connection: Connection, messages: Mapping[str, int], candidates: Mapping[int, RowMapping], lease: str
) -> list[Parcel]:
    told = [number for number in messages.values() if candidates[number]["target"] != Target.HTTPS.value]
    missed: dict[int, int] = dict(_rows(connection, _missed(), told)) if told else {}
    alerts: dict[int, AlertRow] = {}
    found: dict[str, _Contents] = {}
    for number, place, message_id, tries, attempts, asked_ns, seq, *rest in _rows(
        connection, _contents(), list(messages)
    ):
        if seq not in alerts:
            alerts[seq] = read_alert(dict(zip(_ALERT_FIELDS, rest, strict=True)))
        message = found.get(message_id)
        if message is None:
            message = found[message_id] = _Contents([], tries, attempts, asked_ns)
        message.entries.append(Entry(number, place, alerts[seq]))
        message.asked_ns = min(message.asked_ns, asked_ns)
    # Alerts may be forgotten while this is under way; then there is nothing to send.
    return [
        _parcel(candidates[number], message_id, found[message_id], missed.get(number, 0), lease)
        for message_id, number in messages.items()
        if message_id in found
    ]


@dataclass(slots=True)
class _Contents:
    """What is read of a message. `asked_ns`: the earliest of its entries'."""

    entries: list[Entry]
    tries: int
    attempts: int
    asked_ns: int


def _rows(connection: Connection, query: Any, ids: Sequence[int | str]) -> Sequence[Any]:
    return connection.execute(query, {"ids": ids}).all()


def _parcel(row: RowMapping, message_id: str, message: _Contents, missed: int, lease: str) -> Parcel:
    return Parcel(
        message_id=message_id,
        subscription=read_subscription(row),
        reader=Reader(*(row[name] for name in _READER_FIELDS)),
        lane=read_lane(row),
        entries=tuple(message.entries),
        missed=missed,
        tries=message.tries,
        created_ns=message.asked_ns,
        attempts=message.attempts,
        lease=lease,
    )


def read_lane(row: RowMapping) -> Lane:
    """A lane of the table's columns by name; others are passed over."""
    return Lane(*(row[name] for name in LANE_FIELDS))


@cache
def _missed() -> Any:
    """How much the next message of a chat or mail has to tell of."""
    missed = (_OUTBOX.subscription_id.in_(_IDS), _OUTBOX.phase.in_(MISSED_PHASES))
    return select(_OUTBOX.subscription_id, func.count()).where(*missed).group_by(_OUTBOX.subscription_id)


@cache
def _contents() -> Any:
    """What waits in messages, in the order it was written."""
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
