"""Delivery status of a webhook: since when attempts fail, and how many alerts wait for delivery."""

from dataclasses import dataclass
from typing import Literal

from outcry.delivery.digest_windows import window_end_ns
from outcry.delivery.model import SubscriptionPhase, SubscriptionRow, Target
from outcry.delivery.subscriptions import NoSubscription, Subscriptions
from outcry.market.units import NANOS_PER_DAY
from outcry.web.dates import LocalTime, local_time
from outcry.web.page_context import PageContext, PageRequest

#: The page warns after these times. An endpoint that fails for five days is disabled.
_WARNED_NS, _WARNED_AGAIN_NS = NANOS_PER_DAY, 3 * NANOS_PER_DAY

HealthState = Literal["well", "failing", "failing_day", "failing_days"]


@dataclass(frozen=True, slots=True)
class Health:
    """Delivery status of one webhook.

    - `state`: whether attempts fail now, and for how long: under one day, one day, or three days and more.
    - `arrived`: last success; `since`: first failure after it; `failures`: consecutive failures.
    - `closed`, `closed_ns` (ns UTC): the queue is paused until this time; `closed` is None once it has passed.
    - `mail`: time of the next email digest, which is sent only if there are alerts.
    - `waiting`, `held`, `dead`: number of alerts that wait, are on hold while disabled, and failed permanently.
    """

    state: HealthState
    arrived: LocalTime | None
    since: LocalTime | None
    failures: int
    closed: LocalTime | None
    closed_ns: int
    mail: LocalTime | None
    waiting: int
    held: int
    dead: int


def health_of(context: PageContext, request: PageRequest, row: SubscriptionRow) -> Health:
    """Return the delivery status of a webhook. Raises `NoSubscription` if it no longer exists."""
    subscriptions, now_ns = context.services.subscriptions, context.now_ns()
    queue = subscriptions.queue(row.user_id, row.id)
    backlog = subscriptions.backlog(row.user_id, row.id)
    sends = row.phase is SubscriptionPhase.ACTIVE
    return Health(
        state=_state(queue.failing_since_ns, now_ns) if sends else "well",
        arrived=local_time(request, queue.arrived_ns),
        since=local_time(request, queue.failing_since_ns),
        failures=queue.failures,
        closed=local_time(request, queue.closed_until_ns)
        if sends and queue.closed_until_ns > now_ns
        else None,
        closed_ns=queue.closed_until_ns,
        mail=local_time(request, _next_mail_ns(request, row, now_ns)) if sends else None,
        waiting=backlog.waiting,
        held=backlog.held,
        dead=backlog.dead,
    )


def _next_mail_ns(request: PageRequest, row: SubscriptionRow, now_ns: int) -> int | None:
    if row.target is not Target.EMAIL:
        return None
    reader = request.preferences
    return window_end_ns(row.window, now_ns, reader.time_zone, reader.digest_hour)


def _state(failing_since_ns: int | None, now_ns: int) -> HealthState:
    if failing_since_ns is None:
        return "well"
    lasted_ns = now_ns - failing_since_ns
    if lasted_ns >= _WARNED_AGAIN_NS:
        return "failing_days"
    return "failing_day" if lasted_ns >= _WARNED_NS else "failing"


def worries(context: PageContext, user_id: int) -> tuple[int, int]:
    """Return how many webhooks a user has, and how many of them are failing, disabled or unconfirmed."""
    subscriptions = context.services.subscriptions
    rows = subscriptions.of(user_id)
    return len(rows), sum(_worries(subscriptions, row) for row in rows)


def _worries(subscriptions: Subscriptions, row: SubscriptionRow) -> bool:
    if row.phase is not SubscriptionPhase.ACTIVE:
        return row.phase is not SubscriptionPhase.PAUSED
    try:
        return subscriptions.queue(row.user_id, row.id).failing_since_ns is not None
    except NoSubscription:  # removed in the meantime
        return False
