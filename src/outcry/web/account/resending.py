"""Resend alerts to a webhook: `/account/webhooks/{id}/resend/…`.

Only the owner can resend. Only alerts that the owner may see now are sent, and only to an active webhook. Resent alerts
use the normal queue and their original ids, so a receiver can drop duplicates.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from starlette.responses import Response

from outcry.access.licences import Scope
from outcry.delivery.model import SubscriptionPhase, SubscriptionRow
from outcry.delivery.outbox_model import RETENTION_NS
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_SECOND
from outcry.people.audit import Event
from outcry.people.model import UserRow
from outcry.web.account.webhook_page import (
    LIST,
    ONE,
    asked,
    back_to_webhook,
    note,
    one,
    own,
    typed_of,
    with_retry_after,
)
from outcry.web.page_context import Page, PageContext, PageRequest

#: Resends per user and minute.
_RESENDS = 10
_LONGEST_ID = 100


async def resend_one(context: PageContext, request: PageRequest) -> Response:
    """Resend the alerts of one message."""
    user, row = await own(context, request)
    message_id = (await context.form(request)).text("message_id", _LONGEST_ID)
    again = context.services.subscriptions.resend_one
    return await _resend(
        context,
        request,
        user,
        row,
        lambda: again(_scope(request, user), row.id, message_id, context.now_ns()),
    )


async def resend_held(context: PageContext, request: PageRequest) -> Response:
    """Resend all alerts of a webhook that were on hold or failed permanently."""
    user, row = await own(context, request)
    await context.form(request)
    again = context.services.subscriptions.resend_failed
    return await _resend(
        context, request, user, row, lambda: again(_scope(request, user), row.id, 0, context.now_ns())
    )


async def resend_failed(context: PageContext, request: PageRequest) -> Response:
    """Resend alerts that have been on hold or have failed permanently since a time that the user enters."""
    again = context.services.subscriptions.resend_failed
    return await _resend_since(
        context,
        request,
        "failed_since",
        lambda user, row, since_ns: again(_scope(request, user), row.id, since_ns, context.now_ns()),
    )


async def resend_missing(context: PageContext, request: PageRequest) -> Response:
    """Send alerts that were never sent, because the webhook was paused or did not exist.

    They are those recorded since a time that the user enters.
    """
    again = context.services.subscriptions.resend_missing

    def missing(user: UserRow, row: SubscriptionRow, since_ns: int) -> int:
        return again(_scope(request, user), row.id, since_ns, context.now_ns())

    return await _resend_since(context, request, "missing_since", missing)


def _scope(request: PageRequest, user: UserRow) -> Scope:
    """Return what the user may see now; at least the user's own data."""
    return request.scope or Scope(user.id, ())


async def _resend_since(
    context: PageContext,
    request: PageRequest,
    field: str,
    again: Callable[[UserRow, SubscriptionRow, int], int],
) -> Response:
    user, row = await own(context, request)
    typed = (await context.form(request)).text(field, 40)
    since_ns = since_of(request, typed, context.now_ns())
    if since_ns is None:
        fault = request.words("Enter a date and time within the last 30 days.")
        return await one(context, request, row, {**typed_of(row), field: typed}, {field: fault})
    return await _resend(context, request, user, row, lambda: again(user, row, since_ns))


async def _resend(
    context: PageContext, request: PageRequest, user: UserRow, row: SubscriptionRow, again: Callable[[], int]
) -> Response:
    place = f"{LIST}/{row.id}"
    if row.phase is not SubscriptionPhase.ACTIVE:
        return context.to(request, f"{place}?done=not_active")
    verdict = await context.counted(f"resend:{user.id}", _RESENDS)
    if not verdict.allowed:
        fault = request.words("Too many resends in a minute. Try again in a moment.")
        page = await one(context, request, row, typed_of(row), {"": fault})
        return with_retry_after(page, -(-verdict.retry_after_ms // 1000))
    count = await asked(context, again)
    if count:
        await note(context, request, user, Event.SUBSCRIPTION_RESENT, row, count=str(count))
    return context.to(request, f"{place}?done=resent&count={count}")


def since_of(request: PageRequest, typed: str, now_ns: int) -> int | None:
    """Parse a typed date and time in the reader's time zone; return it in ns UTC.

    Returns None if it is malformed, in the future, or more than a day older than the retention of alerts.
    """
    try:
        there = datetime.fromisoformat(typed)
    except ValueError:
        return None
    if there.tzinfo is not None or not 2000 < there.year < 3000:
        return None
    there = there.replace(tzinfo=ZoneInfo(request.preferences.time_zone))
    since_ns = int(there.astimezone(UTC).timestamp()) * NANOS_PER_SECOND
    return since_ns if now_ns - RETENTION_NS - NANOS_PER_DAY <= since_ns <= now_ns else None


PAGES: Sequence[Page] = (
    (f"{ONE}/resend/one", ("POST",), resend_one),
    (f"{ONE}/resend/held", ("POST",), resend_held),
    (f"{ONE}/resend/failed", ("POST",), resend_failed),
    (f"{ONE}/resend/missing", ("POST",), resend_missing),
    *((f"{ONE}/resend/{form}", ("GET",), back_to_webhook) for form in ("one", "held", "failed", "missing")),
)
