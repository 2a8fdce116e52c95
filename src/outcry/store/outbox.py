"""The outbox in SQLite or PostgreSQL, through SQLAlchemy Core: what is to be delivered to whom, and how that went.

Rules kept: whoever lost his lease changes no entry and no lane; what became of a message is written in one transaction
with its attempt; what an owner asks for is done to what is that owner's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update

from outcry.accounts.licences import Scope
from outcry.core.units import NANOS_PER_MINUTE
from outcry.ports.delivery import AttemptRow, SubscriptionPhase
from outcry.ports.outbox import Backlog, Done, EntryPhase, Lane, Parcel, Standing
from outcry.store import schema
from outcry.store.claiming import LANE_FIELDS, MISSED_PHASES, claim, read_lane
from outcry.store.database import Database
from outcry.store.fan_out import enter_missing
from outcry.store.lanes import look_again, standings
from outcry.store.subscriptions import write_attempt

_LANES, _OUTBOX, _SUBSCRIPTIONS = schema.lanes.c, schema.outbox.c, schema.subscriptions.c
_WAITING = EntryPhase.WAITING.value
_GIVEN_UP = (EntryPhase.HELD.value, EntryPhase.MISSED.value, EntryPhase.DEAD.value)
#: Rows removed in one transaction, so that nobody waits long for the turn to write.
_SWEPT_AT_ONCE = 2000
_LATE_NS = NANOS_PER_MINUTE


class SqlOutbox:
    """Implements `ports.outbox.Outbox`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # -- for who delivers

    def claim(self, worker: str, now_ns: int, lease_ns: int, most: int) -> Sequence[Parcel]:
        """See `Outbox`."""
        with self._database.write("nothing") as connection:
            return claim(connection, worker, now_ns, lease_ns, most)

    def record(self, worker: str, done: Sequence[Done]) -> None:
        """See `Outbox`."""
        if not done:
            return
        with self._database.write("people" if any(one.disable for one in done) else "nothing") as connection:
            holders = _holders(connection, [one.parcel.subscription.id for one in done])
            mine = [one for one in done if holders.get(one.parcel.subscription.id) == worker]
            _settle_entries(connection, mine)
            _disable(connection, [one for one in mine if one.disable])
            _free_lanes(connection, mine)
            _keep_attempts(connection, [one.attempt for one in done if one.attempt is not None], holders)

    def keep_attempt(self, attempt: AttemptRow, lane: Lane | None) -> None:
        """See `Outbox`."""
        number = attempt.subscription_id
        with self._database.write("nothing") as connection:
            _keep_attempts(connection, [attempt], _holders(connection, [number]))
            if lane is not None:
                stands = update(schema.lanes).where(_LANES.subscription_id == number)
                connection.execute(stands.values(asdict(lane)))
                look_again(connection, [number], attempt.at_ns)

    def lane(self, subscription_id: int) -> Lane:
        """See `Outbox`."""
        query = select(schema.lanes).where(_LANES.subscription_id == subscription_id)
        with self._database.reading() as connection:
            row = connection.execute(query).mappings().first()
        return Lane() if row is None else read_lane(row)

    # -- for whose it is

    def backlog(self, user_id: int, subscription_id: int) -> Backlog:
        """See `Outbox`."""
        counted = select(_OUTBOX.phase, func.count()).where(
            _OUTBOX.subscription_id.in_(_own(user_id, subscription_id)),
            _OUTBOX.phase.in_((_WAITING, *_GIVEN_UP)),
        )
        with self._database.reading() as connection:
            found = dict(connection.execute(counted.group_by(_OUTBOX.phase)).all())
        dead = found.get(EntryPhase.MISSED.value, 0) + found.get(EntryPhase.DEAD.value, 0)
        return Backlog(found.get(_WAITING, 0), found.get(EntryPhase.HELD.value, 0), dead)

    def resend_one(self, user_id: int, subscription_id: int, message_id: str, now_ns: int) -> int:
        """See `Outbox`."""
        theirs = _OUTBOX.subscription_id.in_(_own(user_id, subscription_id))
        message = (theirs, _OUTBOX.message_id == message_id)
        with self._database.write("nothing") as connection:
            connection.execute(_waiting_again(now_ns).where(*message, _OUTBOX.phase != _WAITING))
            look_again(connection, [subscription_id], now_ns)
            return connection.execute(select(func.count()).where(*message)).scalar_one()

    def resend_failed(self, user_id: int, subscription_id: int, since_ns: int, now_ns: int) -> int:
        """See `Outbox`."""
        failed = _waiting_again(now_ns).where(
            _OUTBOX.subscription_id.in_(_own(user_id, subscription_id)),
            _OUTBOX.phase.in_(_GIVEN_UP),
            _OUTBOX.created_ns >= since_ns,
        )
        with self._database.write("nothing") as connection:
            count = connection.execute(failed).rowcount
            look_again(connection, [subscription_id], now_ns)
            return count

    def resend_missing(self, scope: Scope, subscription_id: int, since_ns: int, now_ns: int) -> int:
        """See `Outbox`."""
        with self._database.write("nothing") as connection:
            count = enter_missing(connection, scope, subscription_id, since_ns, now_ns)
            look_again(connection, [subscription_id], now_ns)
            return count

    # -- for nobody

    def standing(self, now_ns: int) -> Standing:
        """See `Outbox`."""
        phases = select(_SUBSCRIPTIONS.phase, func.count()).group_by(_SUBSCRIPTIONS.phase)
        active = (
            select(func.count())
            .select_from(schema.lanes)
            .join(schema.subscriptions, _SUBSCRIPTIONS.id == _LANES.subscription_id)
            .where(_SUBSCRIPTIONS.phase == SubscriptionPhase.ACTIVE.value)
        )
        late = (_LANES.due_ns < now_ns - _LATE_NS, _LANES.closed_until_ns < now_ns)
        with self._database.reading() as connection:
            return Standing(
                {SubscriptionPhase(phase): count for phase, count in connection.execute(phases)},
                connection.execute(active.where(_LANES.failing_since_ns.is_not(None))).scalar_one(),
                connection.execute(active.where(*late)).scalar_one(),
            )

    def forget_old(self, before_ns: int) -> None:
        """See `Outbox`."""
        old = select(schema.attempts.c.id).where(schema.attempts.c.at_ns < before_ns).limit(_SWEPT_AT_ONCE)
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
    """The subscription, if it is this user's."""
    return select(_SUBSCRIPTIONS.id).where(
        _SUBSCRIPTIONS.id == subscription_id, _SUBSCRIPTIONS.user_id == user_id
    )


def _waiting_again(now_ns: int) -> Any:
    """Let entries wait from their first try, in the message they are in."""
    return update(schema.outbox).values(phase=_WAITING, tries=0, due_ns=now_ns, ended_ns=None)


# -- what became of messages


def _holders(connection: Connection, subscription_ids: Sequence[int]) -> Mapping[int, str]:
    """Who holds the lanes of those subscriptions that there still are; they stay as they are until this ends."""
    query = select(_LANES.subscription_id, _LANES.worker).where(_LANES.subscription_id.in_(subscription_ids))
    return dict(connection.execute(query.with_for_update()).all())


def _settle_entries(connection: Connection, done: Sequence[Done]) -> None:
    put_back = [
        {"entry": entry.id, "message": one.parcel.message_id, "due": one.put_back_due_ns}
        for one in done
        for entry in one.put_back
    ]
    settled = [
        {"entry": entry.id, "message": one.parcel.message_id} | _became(one)
        for one in done
        for entry in one.parcel.entries
    ]
    for change, rows in ((_put_back(), put_back), (_settle(), settled)):
        if rows:
            connection.execute(change, rows)
    told = [one.parcel.subscription.id for one in done if one.told and one.parcel.missed]
    if told:
        missed = (_OUTBOX.subscription_id.in_(told), _OUTBOX.phase.in_(MISSED_PHASES))
        connection.execute(update(schema.outbox).where(*missed).values(phase=EntryPhase.DEAD.value))


def _became(done: Done) -> dict[str, Any]:
    ended_ns = None
    if done.phase is not EntryPhase.WAITING:
        ended_ns = done.attempt.at_ns if done.attempt else max(done.due_ns, done.parcel.created_ns)
    tries = done.parcel.tries + (done.attempt is not None)
    return {"became": done.phase.value, "due": done.due_ns, "tried": tries, "ended": ended_ns}


def _in_message() -> Any:
    return (
        _OUTBOX.id == bindparam("entry"),
        _OUTBOX.message_id == bindparam("message"),
        _OUTBOX.phase == _WAITING,
    )


@cache
def _settle() -> Any:
    values = {"phase": bindparam("became"), "due_ns": bindparam("due")}
    values |= {"tries": bindparam("tried"), "ended_ns": bindparam("ended")}
    return update(schema.outbox).where(*_in_message()).values(values)


@cache
def _put_back() -> Any:
    return update(schema.outbox).where(*_in_message()).values(message_id=None, due_ns=bindparam("due"))


def _disable(connection: Connection, done: Sequence[Done]) -> None:
    """Switch subscriptions off, unless another address was given while the last attempt was under way; what waits for
    them is held."""
    phases = [SubscriptionPhase.ACTIVE.value, SubscriptionPhase.PAUSED.value]
    for one in done:
        tried = one.parcel.subscription
        there = update(schema.subscriptions).where(
            _SUBSCRIPTIONS.id == tried.id,
            _SUBSCRIPTIONS.sealed_address == tried.sealed_address,
            _SUBSCRIPTIONS.phase.in_(phases),
        )
        off = {"phase": SubscriptionPhase.DISABLED.value, "reason": one.disable}
        if connection.execute(there.values(off)).rowcount:
            waits = (_OUTBOX.subscription_id == tried.id, _OUTBOX.phase == _WAITING)
            connection.execute(update(schema.outbox).where(*waits).values(phase=EntryPhase.HELD.value))


def _free_lanes(connection: Connection, done: Sequence[Done]) -> None:
    if not done:
        return
    now_ns = max(one.lane.sent_ns for one in done)
    standing = standings(connection, [one.parcel.subscription.id for one in done], now_ns)
    rows: list[dict[str, Any]] = []
    for one in done:
        number, lane = one.parcel.subscription.id, one.lane
        due_ns = standing[number].due_ns(lane.sent_ns, lane.closed_until_ns)
        rows.append(
            {f"new_{name}": getattr(lane, name) for name in LANE_FIELDS} | {"lane": number, "due": due_ns}
        )
    connection.execute(_free(), rows)


@cache
def _free() -> Any:
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in LANE_FIELDS}
    values |= {"worker": "", "leased_until_ns": 0, "due_ns": bindparam("due")}
    return update(schema.lanes).where(_LANES.subscription_id == bindparam("lane")).values(values)


def _keep_attempts(
    connection: Connection, attempts: Sequence[AttemptRow], there: Mapping[int, object]
) -> None:
    """Keep attempts, but of subscriptions that were removed meanwhile."""
    rows = [write_attempt(attempt) for attempt in attempts if attempt.subscription_id in there]
    if rows:
        connection.execute(schema.attempts.insert(), rows)


# -- what is forgotten


def _forget_entries(connection: Connection, after_id: int, before_ns: int) -> int | None:
    """Remove old entries among the next so many; return the last one looked at, None once they are newer."""
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
    connection.execute(
        schema.outbox.delete().where(
            _OUTBOX.id.between(rows[0][0], rows[-1][0]),
            _OUTBOX.phase != _WAITING,
            func.coalesce(_OUTBOX.ended_ns, _OUTBOX.created_ns) < before_ns,
            _OUTBOX.number < newest.correlate(schema.outbox).scalar_subquery(),
        )
    )
    return rows[-1][0]
