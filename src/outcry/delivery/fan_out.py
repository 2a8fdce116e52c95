"""Write the outbox entries of alerts: one for each subscription that should receive the alert.

The transaction that records an alert writes these entries. A subscription matches only if its user may see the alert's
feed. The alerts of a subscription and symbol are numbered without gaps, even after some are deleted.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    or_,
    select,
    true,
    update,
)

from outcry.access.licences import OPERATOR, Audience, Scope
from outcry.database import schema
from outcry.database.lock_order import lock_queues_of, lock_recording
from outcry.delivery.model import SubscriptionPhase
from outcry.delivery.outbox_model import TRANSITIONS, EntryPhase, Sign, moved_by
from outcry.delivery.queues import wake
from outcry.live.model import AlertRow, FanOut

_ALERTS, _SUBSCRIPTIONS, _USERS = schema.alerts.c, schema.subscriptions.c, schema.users.c
_OUTBOX = schema.outbox.c
_NOW = bindparam("now_ns")
_COLUMNS = (
    "subscription_id", "alert_seq", "symbol", "number", "phase", "tries", "attempts", "due_ns", "created_ns",
    "asked_ns",
)  # fmt: skip
_RANKS = {"info": 0, "warn": 1, "critical": 2}


class OutboxEntries:
    """Writes outbox entries, each of which queues one alert for one subscription. Implements `AlertEntries`."""

    def enter(self, connection: Connection, alerts: Sequence[AlertRow], whom: FanOut) -> None:
        """Write the outbox entries of newly recorded alerts, one for each subscription that receives them."""
        enter_alerts(connection, alerts, whom)

    def forget_alerts(self, connection: Connection, *which: ColumnElement[bool]) -> None:
        """Delete the alerts that match these conditions. Their outbox entries stay but are never sent."""
        forget_alerts(connection, *which)


def enter_alerts(connection: Connection, alerts: Sequence[AlertRow], whom: FanOut) -> None:
    """Write outbox entries for alerts that were just recorded."""
    alerts = [alert for alert in alerts if alert.at_ns >= whom.since_ns]
    for alert in alerts:
        audience = whom.audience(alert.owner, alert.symbol)
        values: dict[str, Any] = {"seq": alert.seq, "now_ns": whom.now_ns}
        if not audience.everyone:
            values |= {"tiers": sorted(audience.tiers), "users": sorted(audience.users)}
        if audience != Audience(everyone=False, tiers=frozenset(), users=frozenset()):
            connection.execute(_to_audience(everyone=audience.everyone), values)
    if alerts:
        wake(connection, alerts[0].seq, whom.now_ns)


def enter_missing(
    connection: Connection, scope: Scope, subscription_id: int, since_ns: int, now_ns: int
) -> int:
    """Write the outbox entries (queued alerts) that a subscription lacks; return how many.

    Include alerts since `since_ns` that match the subscription and that the owner of `scope` may see.
    """
    there = exists().where(_OUTBOX.subscription_id == _SUBSCRIPTIONS.id, _OUTBOX.alert_seq == _ALERTS.seq)
    place = func.row_number().over(partition_by=_ALERTS.symbol, order_by=_ALERTS.seq)
    phases = (SubscriptionPhase.ACTIVE, SubscriptionPhase.PAUSED, SubscriptionPhase.DISABLED)
    query = _entries(_last_number() + place, phases).where(
        _SUBSCRIPTIONS.id == subscription_id,
        _SUBSCRIPTIONS.user_id == scope.user_id,
        seen_by(scope),
        func.coalesce(_ALERTS.written_ns, _ALERTS.recorded_ns, _ALERTS.at_ns) >= since_ns,
        ~there,
    )
    into = schema.outbox.insert().from_select(_COLUMNS, query.order_by(_ALERTS.seq))
    return connection.execute(into.execution_options(preserve_rowcount=True), {"now_ns": now_ns}).rowcount


def seen_by(scope: Scope) -> ColumnElement[bool]:
    """Return the SQL condition that the user of a scope may see an alert's feed."""
    live = [grant for grant in scope.grants if grant.scope == "live"]
    roots = None if any(not grant.roots for grant in live) else {root for one in live for root in one.roots}
    granted = and_(_ALERTS.owner == OPERATOR, true() if roots is None else _ALERTS.symbol.in_(sorted(roots)))
    return or_(_ALERTS.owner == scope.user_id, granted)


def forget_alerts(connection: Connection, *which: ColumnElement[bool]) -> None:
    """Delete the alerts that match these conditions. Their outbox entries stay but are never sent.

    The entries stay because the numbers of later alerts continue from them.
    """
    seqs = select(_ALERTS.seq).where(*which)
    lock_recording(connection)
    lock_queues_of(connection, select(_OUTBOX.subscription_id).where(_OUTBOX.alert_seq.in_(seqs)))
    for phase in moved_by(Sign.FORGOTTEN):
        entries = (_OUTBOX.alert_seq.in_(seqs), _OUTBOX.phase == phase.value)
        became = TRANSITIONS[phase, Sign.FORGOTTEN].value
        connection.execute(update(schema.outbox).where(*entries).values(phase=became))
    connection.execute(schema.alerts.delete().where(*which))


def _entries(number: Any, phases: Sequence[SubscriptionPhase]) -> Select[Any]:
    """Return the SQL query for the outbox entries of alerts: one per matching subscription in one of `phases`.

    Entries of disabled subscriptions are on hold, so they are not sent.
    """
    held = _SUBSCRIPTIONS.phase == SubscriptionPhase.DISABLED.value
    phase = case((held, EntryPhase.HELD.value), else_=EntryPhase.WAITING.value)
    columns = (_SUBSCRIPTIONS.id, _ALERTS.seq, _ALERTS.symbol, number, phase)
    columns = (*columns, literal(0), literal(0), _NOW, _NOW, _NOW)
    named = (literal(" ") + _SUBSCRIPTIONS.symbols + " ").contains(literal(" ") + _ALERTS.symbol + " ")
    wanted = and_(
        _SUBSCRIPTIONS.phase.in_([phase.value for phase in phases]),
        or_(_SUBSCRIPTIONS.symbols == "", named),
        case(_RANKS, value=_SUBSCRIPTIONS.min_severity) <= case(_RANKS, value=_ALERTS.severity),
    )
    return select(*columns).select_from(schema.alerts.join(schema.subscriptions, wanted))


def _last_number() -> Any:
    """Return the SQL expression for the number of the newest outbox entry of a subscription and symbol."""
    earlier = schema.outbox.alias("earlier").c
    newest = select(func.max(earlier.number)).where(
        earlier.subscription_id == _SUBSCRIPTIONS.id, earlier.symbol == _ALERTS.symbol
    )
    return func.coalesce(newest.correlate(schema.subscriptions, schema.alerts).scalar_subquery(), 0)


@cache
def _to_audience(*, everyone: bool) -> Any:
    """Return the SQL statement that inserts the outbox entries of one alert.

    `everyone`: for all users; otherwise only for the users who may see the alert's feed.
    """
    phases = (SubscriptionPhase.ACTIVE, SubscriptionPhase.DISABLED)
    query = _entries(_last_number() + 1, phases).where(
        _ALERTS.seq == bindparam("seq"),
        _SUBSCRIPTIONS.user_id == _USERS.id,
        _USERS.disabled_ns.is_(None),
    )
    if not everyone:
        # User ids are written into the statement, because it may have too few parameters for them.
        users = bindparam("users", expanding=True, literal_execute=True)
        tiers = bindparam("tiers", expanding=True)
        query = query.where(or_(_USERS.tier.in_(tiers), _USERS.id.in_(users)))
    # The lock waits for a subscription that is being deleted, and then skips it.
    query = query.with_for_update(read=True, key_share=True, of=schema.subscriptions)
    return schema.outbox.insert().from_select(_COLUMNS, query)
