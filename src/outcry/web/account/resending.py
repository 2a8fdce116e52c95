"""What did not arrive, sent again: `/account/webhooks/{id}/resend/…`.

Rules kept: sent again is only what its owner asks for and may see now, and only where alerts are being sent; it goes
the way alerts go, under the ids it had, so that a receiver recognises what it has already.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from starlette.responses import Response

from outcry.access.licences import Scope
from outcry.delivery.model import SubscriptionPhase, SubscriptionRow
from outcry.delivery.outbox_model import KEPT_NS
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
    told_to_wait,
    typed_of,
)
from outcry.web.page_context import Page, PageContext, PageRequest

#: Times anything is sent again, in any minute.
_RESENDS = 10
_LONGEST_ID = 100


async def resend_one(context: PageContext, request: PageRequest) -> Response:
    """The alerts of one message."""
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
    """Whatever was held or given up."""
    user, row = await own(context, request)
    await context.form(request)
    again = context.services.subscriptions.resend_failed
    return await _resend(
        context, request, user, row, lambda: again(_scope(request, user), row.id, 0, context.now_ns())
    )


async def resend_failed(context: PageContext, request: PageRequest) -> Response:
    """What was held or given up since a time."""
    again = context.services.subscriptions.resend_failed
    return await _resend_since(
        context,
        request,
        "failed_since",
        lambda user, row, since_ns: again(_scope(request, user), row.id, since_ns, context.now_ns()),
    )


async def resend_missing(context: PageContext, request: PageRequest) -> Response:
    """What it is for and was never to be sent to it, for it was paused or not yet there, since a time."""
    again = context.services.subscriptions.resend_missing

    def missing(user: UserRow, row: SubscriptionRow, since_ns: int) -> int:
        return again(_scope(request, user), row.id, since_ns, context.now_ns())

    return await _resend_since(context, request, "missing_since", missing)


def _scope(request: PageRequest, user: UserRow) -> Scope:
    """What a user may see now."""
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
        return told_to_wait(page, -(-verdict.retry_after_ms // 1000))
    count = await asked(context, again)
    if count:
        await note(context, request, user, Event.SUBSCRIPTION_RESENT, row, count=str(count))
    return context.to(request, f"{place}?done=resent&count={count}")


def since_of(request: PageRequest, typed: str, now_ns: int) -> int | None:
    """A day and time (ns UTC) as its reader's clock shows it; None of what is none, is to come, or is too long ago."""
    try:
        there = datetime.fromisoformat(typed)
    except ValueError:
        return None
    if there.tzinfo is not None or not 2000 < there.year < 3000:
        return None
    there = there.replace(tzinfo=ZoneInfo(request.preferences.time_zone))
    since_ns = int(there.astimezone(UTC).timestamp()) * NANOS_PER_SECOND
    return since_ns if now_ns - KEPT_NS - NANOS_PER_DAY <= since_ns <= now_ns else None


PAGES: Sequence[Page] = (
    (f"{ONE}/resend/one", ("POST",), resend_one),
    (f"{ONE}/resend/held", ("POST",), resend_held),
    (f"{ONE}/resend/failed", ("POST",), resend_failed),
    (f"{ONE}/resend/missing", ("POST",), resend_missing),
    *((f"{ONE}/resend/{form}", ("GET",), back_to_webhook) for form in ("one", "held", "failed", "missing")),
)
