"""Write delivery results to outbox entries, queues, subscriptions and the delivery log, in one transaction.

A result changes no alert and no queue if its worker has lost the lease of the queue. A result for an old URL does not
affect the new URL.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, null, select, update

from outcry.database import schema
from outcry.database.json_rows import json_rows, json_values, list_of, values_of
from outcry.database.lock_order import lock_queues
from outcry.delivery.claiming import MISSED_PHASES, QUEUE_FIELDS
from outcry.delivery.model import AttemptRow, SubscriptionPhase
from outcry.delivery.outbox_model import DeliveryResult, Entry, EntryPhase, Message, Sign, moved_by
from outcry.delivery.queues import look_again, read_states, read_waiting
from outcry.delivery.subscription_store import write_attempts

_QUEUES, _OUTBOX, _SUBSCRIPTIONS = schema.lanes.c, schema.outbox.c, schema.subscriptions.c
_WAITING = EntryPhase.WAITING.value
_QUEUE_VALUES = attrgetter(*QUEUE_FIELDS)
_DISABLED_FROM = [phase.value for phase in moved_by(Sign.SWITCHED_OFF)]


def record(connection: Connection, done: Sequence[DeliveryResult]) -> Sequence[DeliveryResult]:
    """Write delivery results; return those that disabled their subscription."""
    kept = _read_stored(connection, [one.message.subscription.id for one in done])
    mine = [one for one in done if _is_mine(one.message, kept)]
    off = [one for one in mine if one.disable and _switch_off(connection, one)]
    switched_off = {one.message.subscription.id for one in off}
    _settle_entries(connection, [_current(one, kept, switched_off) for one in mine])
    _hold(connection, switched_off)
    _free_queues(connection, [one for one in mine if not _has_moved(one.message, kept)])
    _let_go(connection, [one.message.subscription.id for one in mine if _has_moved(one.message, kept)])
    _keep_attempts(connection, [one.attempt for one in done if one.attempt is not None], kept)
    return off


def return_entries(connection: Connection, message: Message, entries: Sequence[Entry], due_ns: int) -> None:
    """Return claimed entries (alerts) of a message to their queue, due at `due_ns`.

    If these are all entries of the message, release the queue.
    """
    number, ids = message.subscription.id, {entry.id for entry in entries}
    if not entries or not _is_mine(message, _read_stored(connection, [number])):
        return
    connection.execute(_put_back(), values_of([(entry_id, message.message_id, due_ns) for entry_id in ids]))
    if ids.issuperset(entry.id for entry in message.entries):
        _let_go(connection, [number])


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is stored now for a subscription: the claim on its queue, its encrypted URL and its phase."""

    lease: str
    sealed_address: bytes
    phase: str


def _read_stored(connection: Connection, subscription_ids: Sequence[int]) -> Mapping[int, _Stored]:
    """Lock the queues of subscriptions, and return what is stored for each."""
    lock_queues(connection, subscription_ids)
    rows: Sequence[Any] = connection.execute(_as_they_are(), list_of(subscription_ids)).all()
    return {number: _Stored(lease, address, phase) for number, lease, address, phase in rows}


@cache
def _as_they_are() -> Any:
    columns = (_QUEUES.subscription_id, _QUEUES.worker, _SUBSCRIPTIONS.sealed_address, _SUBSCRIPTIONS.phase)
    query = select(*columns).select_from(schema.lanes.join(schema.subscriptions))
    return query.where(_QUEUES.subscription_id.in_(json_values(int)))


def _is_mine(message: Message, kept: Mapping[int, _Stored]) -> bool:
    """Return whether the queue of a message is still leased by the claim that returned the message."""
    now = kept.get(message.subscription.id)
    return now is not None and now.lease == message.lease != ""


def _has_moved(message: Message, kept: Mapping[int, _Stored]) -> bool:
    """Return whether the subscription's URL changed since the message was claimed."""
    return kept[message.subscription.id].sealed_address != message.subscription.sealed_address


def _current(
    done: DeliveryResult, kept: Mapping[int, _Stored], switched_off: Collection[int]
) -> DeliveryResult:
    """Return a delivery result adjusted to what changed in its subscription during the attempt.

    If the URL changed, an undelivered message waits for a new attempt. If the result would put the message on hold but
    its subscription is not disabled, the message waits too.
    """
    number = done.message.subscription.id
    if _has_moved(done.message, kept) and done.phase is not EntryPhase.DELIVERED:
        return replace(done, phase=EntryPhase.WAITING, due_ns=0, tries=0)
    off = number in switched_off or kept[number].phase == SubscriptionPhase.DISABLED.value
    if done.phase is EntryPhase.HELD and not off:
        return replace(done, phase=EntryPhase.WAITING, due_ns=0)
    return done


def _settle_entries(connection: Connection, done: Sequence[DeliveryResult]) -> None:
    settled = [
        (entry.id, one.message.message_id, *became)
        for one in done
        for became in (_became(one),)
        for entry in one.message.entries
    ]
    if settled:
        connection.execute(_settle(), values_of(settled))
    reported = [one.message.subscription.id for one in done if one.reported_missed and one.message.missed]
    if reported:
        missed = (_OUTBOX.subscription_id.in_(reported), _OUTBOX.phase.in_(MISSED_PHASES))
        connection.execute(update(schema.outbox).where(*missed).values(phase=EntryPhase.DEAD.value))


def _became(done: DeliveryResult) -> tuple[str, int, int, int, int | None]:
    """Return what to store for the alerts of a message: phase, due time, retries, attempts and time of completion."""
    ended_ns = None
    if done.phase is not EntryPhase.WAITING:
        ended_ns = done.attempt.at_ns if done.attempt else max(done.due_ns, done.message.created_ns)
    attempts = done.message.attempts + (done.attempt is not None)
    return done.phase.value, done.due_ns, done.tries, attempts, ended_ns


def _in_message(rows: Any) -> Any:
    return (_OUTBOX.id == rows.entry, _OUTBOX.message_id == rows.message, _OUTBOX.phase == _WAITING)


@cache
def _settle() -> Any:
    rows = json_rows(
        "settled", entry=int, message=str, phase=str, due_ns=int, tries=int, attempts=int, ended_ns=int
    ).c
    names = ("phase", "due_ns", "tries", "attempts", "ended_ns")
    return update(schema.outbox).where(*_in_message(rows)).values({name: rows[name] for name in names})


@cache
def _put_back() -> Any:
    rows = json_rows("returned", entry=int, message=str, due_ns=int).c
    return update(schema.outbox).where(*_in_message(rows)).values(message_id=null(), due_ns=rows.due_ns)


def _switch_off(connection: Connection, done: DeliveryResult) -> bool:
    """Disable the subscription of a result; return whether that changed anything.

    Nothing changes if it is disabled already, or if its URL changed during the attempt.
    """
    tried = done.message.subscription
    there = update(schema.subscriptions).where(
        _SUBSCRIPTIONS.id == tried.id,
        _SUBSCRIPTIONS.sealed_address == tried.sealed_address,
        _SUBSCRIPTIONS.phase.in_([SubscriptionPhase.ACTIVE.value, SubscriptionPhase.PAUSED.value]),
    )
    off = {"phase": SubscriptionPhase.DISABLED.value, "reason": done.disable}
    return bool(connection.execute(there.values(off)).rowcount)


def _hold(connection: Connection, subscription_ids: Collection[int]) -> None:
    """Put the waiting alerts of disabled subscriptions on hold, so that they are not sent."""
    if subscription_ids:
        waits = (_OUTBOX.subscription_id.in_(subscription_ids), _OUTBOX.phase.in_(_DISABLED_FROM))
        connection.execute(update(schema.outbox).where(*waits).values(phase=EntryPhase.HELD.value))


def _let_go(connection: Connection, subscription_ids: Sequence[int]) -> None:
    """Release queues but keep their delivery state, and compute when they must next be checked."""
    if subscription_ids:
        mine = update(schema.lanes).where(_QUEUES.subscription_id.in_(subscription_ids))
        connection.execute(mine.values(worker="", leased_until_ns=0))
        look_again(connection, subscription_ids, 0)


def _free_queues(connection: Connection, done: Sequence[DeliveryResult]) -> None:
    if not done:
        return
    now_ns = max(one.queue.sent_ns for one in done)
    waiting = read_waiting(connection, [one.message.subscription.id for one in done])
    states = read_states(connection, waiting, now_ns) if waiting else {}
    rows: list[tuple[int | None, ...]] = []
    for one in done:
        number, queue = one.message.subscription.id, one.queue
        state = states.get(number)
        due_ns = state.due_ns(queue.sent_ns, queue.closed_until_ns) if state is not None else None
        rows.append((number, due_ns, *_QUEUE_VALUES(queue)))
    connection.execute(_free(), values_of(rows))


@cache
def _free() -> Any:
    rows = json_rows("freed", queue=int, due_ns=int, **dict.fromkeys(QUEUE_FIELDS, int)).c
    values: dict[str, Any] = {name: rows[name] for name in ("due_ns", *QUEUE_FIELDS)}
    values |= {"worker": "", "leased_until_ns": 0}
    return update(schema.lanes).where(_QUEUES.subscription_id == rows.queue).values(values)


def keep_attempts(connection: Connection, attempts: Sequence[AttemptRow]) -> None:
    """Add attempts to the delivery log, except those of deleted subscriptions."""
    _keep_attempts(
        connection, attempts, _read_stored(connection, [attempt.subscription_id for attempt in attempts])
    )


def _keep_attempts(
    connection: Connection, attempts: Sequence[AttemptRow], there: Mapping[int, _Stored]
) -> None:
    known = [attempt for attempt in attempts if attempt.subscription_id in there]
    if known:
        write_attempts(connection, known)
