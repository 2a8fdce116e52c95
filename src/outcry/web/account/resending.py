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
from outcry.web.page_context import Desk, Page, Visit, said

#: Times anything is sent again, in any minute.
_RESENDS = 10
_LONGEST_ID = 100


async def resend_one(desk: Desk, visit: Visit) -> Response:
    """The alerts of one message."""
    user, row = await own(desk, visit)
    message_id = said(await desk.form(visit), "message_id", _LONGEST_ID)
    again = desk.services.subscriptions.resend_one
    return await _resend(
        desk, visit, user, row, lambda: again(_scope(visit, user), row.id, message_id, desk.now_ns())
    )


async def resend_held(desk: Desk, visit: Visit) -> Response:
    """Whatever was held or given up."""
    user, row = await own(desk, visit)
    await desk.form(visit)
    again = desk.services.subscriptions.resend_failed
    return await _resend(desk, visit, user, row, lambda: again(_scope(visit, user), row.id, 0, desk.now_ns()))


async def resend_failed(desk: Desk, visit: Visit) -> Response:
    """What was held or given up since a time."""
    again = desk.services.subscriptions.resend_failed
    return await _resend_since(
        desk,
        visit,
        "failed_since",
        lambda user, row, since_ns: again(_scope(visit, user), row.id, since_ns, desk.now_ns()),
    )


async def resend_missing(desk: Desk, visit: Visit) -> Response:
    """What it is for and was never to be sent to it, for it was paused or not yet there, since a time."""
    again = desk.services.subscriptions.resend_missing

    def missing(user: UserRow, row: SubscriptionRow, since_ns: int) -> int:
        return again(_scope(visit, user), row.id, since_ns, desk.now_ns())

    return await _resend_since(desk, visit, "missing_since", missing)


def _scope(visit: Visit, user: UserRow) -> Scope:
    """What a user may see now."""
    return visit.scope or Scope(user.id, ())


async def _resend_since(
    desk: Desk, visit: Visit, field: str, again: Callable[[UserRow, SubscriptionRow, int], int]
) -> Response:
    user, row = await own(desk, visit)
    typed = said(await desk.form(visit), field, 40)
    since_ns = since_of(visit, typed, desk.now_ns())
    if since_ns is None:
        fault = visit.words("Enter a date and time within the last 30 days.")
        return await one(desk, visit, row, {**typed_of(row), field: typed}, {field: fault})
    return await _resend(desk, visit, user, row, lambda: again(user, row, since_ns))


async def _resend(
    desk: Desk, visit: Visit, user: UserRow, row: SubscriptionRow, again: Callable[[], int]
) -> Response:
    place = f"{LIST}/{row.id}"
    if row.phase is not SubscriptionPhase.ACTIVE:
        return desk.to(visit, f"{place}?done=not_active")
    verdict = await desk.counted(f"resend:{user.id}", _RESENDS)
    if not verdict.allowed:
        fault = visit.words("Too many resends in a minute. Try again in a moment.")
        page = await one(desk, visit, row, typed_of(row), {"": fault})
        return told_to_wait(page, -(-verdict.retry_after_ms // 1000))
    count = await asked(desk, again)
    if count:
        await note(desk, visit, user, Event.SUBSCRIPTION_RESENT, row, count=str(count))
    return desk.to(visit, f"{place}?done=resent&count={count}")


def since_of(visit: Visit, typed: str, now_ns: int) -> int | None:
    """A day and time (ns UTC) as its reader's clock shows it; None of what is none, is to come, or is too long ago."""
    try:
        there = datetime.fromisoformat(typed)
    except ValueError:
        return None
    if there.tzinfo is not None or not 2000 < there.year < 3000:
        return None
    there = there.replace(tzinfo=ZoneInfo(visit.preferences.time_zone))
    since_ns = int(there.astimezone(UTC).timestamp()) * NANOS_PER_SECOND
    return since_ns if now_ns - KEPT_NS - NANOS_PER_DAY <= since_ns <= now_ns else None


PAGES: Sequence[Page] = (
    (f"{ONE}/resend/one", ("POST",), resend_one),
    (f"{ONE}/resend/held", ("POST",), resend_held),
    (f"{ONE}/resend/failed", ("POST",), resend_failed),
    (f"{ONE}/resend/missing", ("POST",), resend_missing),
    *((f"{ONE}/resend/{form}", ("GET",), back_to_webhook) for form in ("one", "held", "failed", "missing")),
)
