"""Test of a webhook: send a test alert in the same way as a real one, and show the result.

The response of the endpoint is untrusted and is shown as plain text only.
"""

from collections.abc import Sequence

from starlette.responses import Response

from outcry.delivery.model import SubscriptionPhase
from outcry.people.audit import Event
from outcry.web.account.delivery_health import health_of
from outcry.web.account.delivery_times import timed
from outcry.web.account.delivery_words import result_words
from outcry.web.account.webhook_page import (
    ONE,
    TooOften,
    asked,
    asked_of_others,
    back_to_webhook,
    note,
    own,
    with_retry_after,
)
from outcry.web.as_text import as_seen
from outcry.web.page_context import Page, PageContext, PageRequest

#: Tests per user and minute. A test waits for the endpoint.
_TESTS = 5


async def test_webhook(context: PageContext, request: PageRequest) -> Response:
    """Send the test alert now and show its result."""
    user, row = await own(context, request)
    await context.form(request)
    test = context.services.subscriptions.test
    try:
        result = await asked_of_others(
            context, user, ("test", _TESTS), test, user.id, row.id, context.now_ns()
        )
    except TooOften as often:
        page = context.page(
            request, "account/webhook_test.html", webhook=row, result=None, wait_s=often.wait_s
        )
        return with_retry_after(page, often.wait_s)
    await note(context, request, user, Event.SUBSCRIPTION_TESTED, row, code=result.code)
    _, after = await own(context, request)
    enabled = row.phase is SubscriptionPhase.DISABLED and after.phase is not SubscriptionPhase.DISABLED
    health = await asked(context, health_of, context, request, after)
    return context.page(
        request,
        "account/webhook_test.html",
        webhook=after,
        enabled=enabled,
        held=health.held if enabled else 0,
        result=result,
        excerpt=as_seen(result.excerpt),
        sent_request=as_seen(result.request),
        diagnosis=result_words(request.words, result.code, row.target, result.status),
        times=timed(request.words, result.phases_ms, result.took_ms),
    )


PAGES: Sequence[Page] = (
    (f"{ONE}/test", ("POST",), test_webhook),
    (f"{ONE}/test", ("GET",), back_to_webhook),
)
