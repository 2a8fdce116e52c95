"""Ask the person who receives an email digest for consent: for a new email address, and again on the user's request.

The page shows the result of asking, or why no email was sent.
"""

from collections.abc import Sequence
from typing import Literal

from starlette.responses import Response

from outcry.delivery.mail_consent import ConsentRequest
from outcry.delivery.model import SubscriptionPhase, SubscriptionRow
from outcry.web.account.webhook_page import (
    LIST,
    ONE,
    TooOften,
    asked_of_others,
    back_to_webhook,
    own,
)
from outcry.web.page_context import Page, PageContext, PageRequest


async def ask_reader(
    context: PageContext, request: PageRequest, row: SubscriptionRow
) -> ConsentRequest | Literal["busy"] | None:
    """Email a confirmation link to the recipient of a digest; return the result.

    Returns None if the subscription is not waiting for a confirmation, and "busy" if too many tasks of the user run.
    """
    if row.phase is not SubscriptionPhase.UNCONFIRMED:
        return None
    ask = context.services.consent.ask
    try:
        return await asked_of_others(context, context.user(request), None, ask, row, request.words.language)
    except TooOften:
        return "busy"


async def ask_again(context: PageContext, request: PageRequest) -> Response:
    """Send the confirmation link again."""
    _, row = await own(context, request)
    await context.form(request)
    asked = await ask_reader(context, request, row)
    return context.to(request, f"{LIST}/{row.id}" + (f"?done={asked}" if asked else ""))


PAGES: Sequence[Page] = (
    (f"{ONE}/confirmation", ("POST",), ask_again),
    (f"{ONE}/confirmation", ("GET",), back_to_webhook),
)
