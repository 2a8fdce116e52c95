"""The outbox (alerts to be delivered) in SQLite or PostgreSQL, through SQLAlchemy Core.

Operations for an owner affect only the owner's rows. Outbox entries of deleted alerts are never sent.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, func, select, update

from outcry.access.licences import Scope
from outcry.database import schema
from outcry.database.database import Database
from outcry.database.lock_order import lock_queues, lock_recording
from outcry.delivery.claiming import QUEUE_FIELDS, ClaimLimits, claim
from outcry.delivery.fan_out import enter_missing, seen_by
from outcry.delivery.model import AttemptRow, SubscriptionPhase
from outcry.delivery.outbox_model import (
    RETENTION_NS,
    Backlog,
    DeliveryResult,
    DeliveryStatus,
    Entry,
    EntryPhase,
    Message,
    Queue,
    Sign,
    moved_by,
)
from outcry.delivery.queues import look_again
from outcry.delivery.results import keep_attempts, record, return_entries
from outcry.delivery.worker_presence import WorkerPresence, let_go
from outcry.market.units import NANOS_PER_MINUTE

_QUEUES, _OUTBOX, _SUBSCRIPTIONS = schema.lanes.c, schema.outbox.c, schema.subscriptions.c
_WAITING = EntryPhase.WAITING.value
#: Phases of entries that can be resent, and of entries that can be resent because they were not delivered.
_OVER = sorted(phase.value for phase in moved_by(Sign.ASKED_FOR))
_GIVEN_UP = [phase for phase in _OVER if phase != EntryPhase.DELIVERED.value]
#: Rows deleted in one transaction, so that other writers wait only briefly.
_SWEPT_AT_ONCE = 2000
_LATE_NS = NANOS_PER_MINUTE
#: When the first queue must be checked that is not paused. A leased queue must be checked when its lease ends.
_FIRST_DUE = f"""
    SELECT due_ns FROM lanes JOIN subscriptions ON subscriptions.id = subscription_id JOIN users ON users.id = user_id
    WHERE due_ns IS NOT NULL AND phase = '{SubscriptionPhase.ACTIVE.value}' AND disabled_ns IS NULL
    ORDER BY due_ns LIMIT 1
"""  # noqa: S608 - our own constant


class SqlOutbox:
    """Storage of alerts to deliver. Every method may raise `StoreBusy`. Times are the machine's clock, ns UTC."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._attendance = WorkerPresence(database)

    # -- for workers

    def report_presence(self, worker: str, now_ns: int) -> int:
        """Record that a worker is alive, and release the queues of workers that have ended.

        Return the number of queues released. Call it every few seconds. Ended workers are detected at once on
        PostgreSQL; otherwise their leases expire.
        """
        gone = self._attendance.look(worker, now_ns)
        if not gone:
            return 0
        with self._database.write("nothing") as connection:
            return let_go(connection, gone, now_ns)

    def leave(self) -> None:
        """Record that this worker has ended."""
        self._attendance.leave()

    def has_due(self, now_ns: int) -> bool:
        """Return whether any queue may have a due message. Takes a tenth of the time of a claim that finds none."""
        row = self._database.polled(_FIRST_DUE)
        return row is not None and row[0] <= now_ns

    def claim(self, worker: str, now_ns: int, lease_ns: int, most: int, most_slow: int) -> Sequence[Message]:
        """Lease up to `most` queues with due entries (alerts), longest waiting first; return a message for each queue.

        At most `most_slow` of these queues may be slow, that is, their last attempt took `SLOW_MS` or more.

        An entry is due if its time has come, its subscription is active, its user is not disabled, and its queue is
        neither leased nor closed. The last message of the queue must be `GATHER_NS` old, unless the target is `https`
        and a full message waits. Entries of a message that was attempted, or claimed by a worker that stopped, keep
        their `message_id` and are returned together, oldest first. Other entries form new messages of up to
        `MOST_ALERTS` of the target. New ids are stored before this returns.
        """
        with self._database.write("nothing") as connection:
            return claim(connection, worker, now_ns, lease_ns, ClaimLimits(most, most_slow))

    def return_entries(self, message: Message, entries: Sequence[Entry], due_ns: int) -> None:
        """Return claimed entries (alerts) of a message to their queue; they join a new message at `due_ns`.

        Call this before sending the other entries, so that a message id always identifies the same alerts. If these are
        all entries of the message, the queue is released too. Does nothing if the lease was lost.
        """
        with self._database.write("nothing") as connection:
            return_entries(connection, message, entries, due_ns)

    def record(self, done: Sequence[DeliveryResult]) -> Sequence[DeliveryResult]:
        """Store delivery results and release their queues, in one transaction.

        Return the results that disabled their subscription.

        The attempt is always logged, even if its entries were deleted or its queue is leased by another worker. If the
        URL changed during the attempt, the result does not affect the queue, and undelivered entries are due now at the
        new URL.
        """
        if not done:
            return []
        with self._database.write("people" if any(one.disable for one in done) else "nothing") as connection:
            return record(connection, done)

    def keep_attempt(self, attempt: AttemptRow, queue: Queue | None) -> None:
        """Log the attempt to send a test, which belongs to no claimed message.

        Also store `queue` as the new state of the queue, unless it is None.
        """
        number = attempt.subscription_id
        with self._database.write("nothing") as connection:
            keep_attempts(connection, [attempt])
            if queue is not None:
                reset = update(schema.lanes).where(_QUEUES.subscription_id == number)
                connection.execute(reset.values(asdict(queue)))
                look_again(connection, [number], attempt.at_ns)

    def queue(self, subscription_id: int) -> Queue:
        """Return the delivery state of a subscription."""
        query = select(schema.lanes).where(_QUEUES.subscription_id == subscription_id)
        with self._database.reading() as connection:
            row = connection.execute(query).mappings().first()
        return Queue() if row is None else Queue(*(row[name] for name in QUEUE_FIELDS))

    # -- for owners

    def backlog(self, user_id: int, subscription_id: int) -> Backlog:
        """Return how many alerts of a user's subscription wait, are on hold, or failed.

        Alerts are on hold while the subscription is disabled.
        """
        counted = select(_OUTBOX.phase, func.count()).where(
            _OUTBOX.subscription_id.in_(_own(user_id, subscription_id)),
            _OUTBOX.phase.in_((_WAITING, *_GIVEN_UP)),
            _OUTBOX.alert_seq.is_not(None),
        )
        with self._database.reading() as connection:
            found = dict(connection.execute(counted.group_by(_OUTBOX.phase)).all())
        dead = found.get(EntryPhase.MISSED.value, 0) + found.get(EntryPhase.DEAD.value, 0)
        return Backlog(found.get(_WAITING, 0), found.get(EntryPhase.HELD.value, 0), dead)

    def resend_one(
        self, user_id: int, subscription_id: int, message_id: str, now_ns: int, scope: Scope | None = None
    ) -> int:
        """Resend the alerts of one message of this user under the same id, with a full retry schedule.

        Return the number of alerts. A message that already waits is unchanged. Deleted alerts are left out, and so are
        alerts that the owner of `scope` (if given) may not see.
        """
        theirs = _OUTBOX.subscription_id.in_(_own(user_id, subscription_id))
        message = (theirs, _OUTBOX.message_id == message_id, _is_seen_by(scope))
        with self._database.write("nothing") as connection:
            lock_queues(connection, [subscription_id])
            connection.execute(_waiting_again(now_ns).where(*message, _OUTBOX.phase.in_(_OVER)))
            look_again(connection, [subscription_id], now_ns)
            return connection.execute(select(func.count()).where(*message)).scalar_one()

    def resend_failed(
        self, user_id: int, subscription_id: int, since_ns: int, now_ns: int, scope: Scope | None = None
    ) -> int:
        """Resend alerts queued since `since_ns` that are on hold, were missed or failed permanently.

        Return their number. If `scope` is given, only alerts that its owner may see are resent.
        """
        failed = _waiting_again(now_ns).where(
            _OUTBOX.subscription_id.in_(_own(user_id, subscription_id)),
            _OUTBOX.phase.in_(_GIVEN_UP),
            _is_seen_by(scope),
            _OUTBOX.created_ns >= since_ns,
        )
        with self._database.write("nothing") as connection:
            lock_queues(connection, [subscription_id])
            count = connection.execute(failed).rowcount
            look_again(connection, [subscription_id], now_ns)
            return count

    def resend_missing(self, scope: Scope, subscription_id: int, since_ns: int, now_ns: int) -> int:
        """Write missing entries for alerts since `since_ns` that match a subscription; return the number of entries.

        Entries are missing if the alerts fired while the subscription was paused, or before it was created. Includes
        only alerts that the owner of `scope` may see and that are not older than `RETENTION_NS`.
        """
        with self._database.write("nothing") as connection:
            lock_recording(connection)  # numbering continues from the last entry
            lock_queues(connection, [subscription_id])
            since_ns = max(since_ns, now_ns - RETENTION_NS)
            count = enter_missing(connection, scope, subscription_id, since_ns, now_ns)
            look_again(connection, [subscription_id], now_ns)
            return count

    # -- for the operator and maintenance

    def status(self, now_ns: int) -> DeliveryStatus:
        """Return how many subscriptions are in each phase, how many of them fail, and how many are late."""
        phases = select(_SUBSCRIPTIONS.phase, func.count()).group_by(_SUBSCRIPTIONS.phase)
        active = (
            select(func.count())
            .select_from(schema.lanes)
            .join(schema.subscriptions, _SUBSCRIPTIONS.id == _QUEUES.subscription_id)
            .where(_SUBSCRIPTIONS.phase == SubscriptionPhase.ACTIVE.value)
        )
        late = (_QUEUES.due_ns < now_ns - _LATE_NS, _QUEUES.closed_until_ns < now_ns)
        with self._database.reading() as connection:
            return DeliveryStatus(
                {SubscriptionPhase(phase): count for phase, count in connection.execute(phases)},
                connection.execute(active.where(_QUEUES.failing_since_ns.is_not(None))).scalar_one(),
                connection.execute(active.where(*late)).scalar_one(),
            )

    def forget_old(self, before_ns: int) -> None:
        """Delete the delivery attempts and the outbox entries from before `before_ns`.

        An entry is deleted if it completed before that time, or if it never completed and was written or last resent
        before it. The newest entry of each subscription and symbol stays, because the numbering continues from it.
        """
        old = select(schema.attempts.c.id).where(schema.attempts.c.at_ns < before_ns).limit(_SWEPT_AT_ONCE)
        old = old.with_for_update(skip_locked=True)  # another process may delete too
        removed = _SWEPT_AT_ONCE
        while removed == _SWEPT_AT_ONCE:
            with self._database.write("nothing") as connection:
                attempts = schema.attempts.delete().where(schema.attempts.c.id.in_(old))
                removed = connection.execute(attempts).rowcount
        seen: int | None = 0
        while seen is not None:
            with self._database.write("nothing") as connection:
                seen = _forget_entries(connection, seen, before_ns)


def _own(user_id: int, subscription_id: int) -> Any:
    """Return the SQL query for a subscription if it belongs to this user."""
    return select(_SUBSCRIPTIONS.id).where(
        _SUBSCRIPTIONS.id == subscription_id, _SUBSCRIPTIONS.user_id == user_id
    )


def _is_seen_by(scope: Scope | None) -> Any:
    """Return the SQL condition that an entry's alert exists and that the owner of `scope`, if given, may see it."""
    if scope is None:
        return _OUTBOX.alert_seq.is_not(None)
    return _OUTBOX.alert_seq.in_(select(schema.alerts.c.seq).where(seen_by(scope)))


def _waiting_again(now_ns: int) -> Any:
    """Return the SQL update that makes outbox entries wait for delivery again, as if written now, with all retries."""
    unsent = {"tries": 0, "attempts": 0, "due_ns": now_ns, "asked_ns": now_ns, "ended_ns": None}
    return update(schema.outbox).values(phase=_WAITING, **unsent)


# -- deletion


def _forget_entries(connection: Connection, after_id: int, before_ns: int) -> int | None:
    """Delete expired outbox entries of the next page of rows; return the last id checked, or None at the end.

    The end is reached when rows are too new to have expired.
    """
    page = (
        select(_OUTBOX.id, _OUTBOX.created_ns)
        .where(_OUTBOX.id > after_id)
        .order_by(_OUTBOX.id)
        .limit(_SWEPT_AT_ONCE)
    )
    rows = connection.execute(page).all()
    if not rows or rows[0][1] >= before_ns:
        return None
    newer = schema.outbox.alias("newer").c
    newest = select(func.max(newer.number)).where(
        newer.subscription_id == _OUTBOX.subscription_id, newer.symbol == _OUTBOX.symbol
    )
    old = select(_OUTBOX.id).where(
        _OUTBOX.id.between(rows[0][0], rows[-1][0]),
        # Entries that wait this long are of a paused subscription, and expired.
        func.coalesce(_OUTBOX.ended_ns, _OUTBOX.asked_ns) < before_ns,
        _OUTBOX.number < newest.correlate(schema.outbox).scalar_subquery(),
    )
    # Locked rows are about to change; the next run checks them.
    connection.execute(schema.outbox.delete().where(_OUTBOX.id.in_(old.with_for_update(skip_locked=True))))
    return rows[-1][0]
