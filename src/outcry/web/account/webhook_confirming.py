"""The question whether whoever reads at an e-mail address wants alerts there: asked when it is given, and again.

Rule kept: what came of asking is said; where it was not asked, why.
"""

from collections.abc import Sequence
from typing import Literal

from starlette.responses import Response

from outcry.delivery.mail_consent import Asked
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
) -> Asked | Literal["busy"] | None:
    """Ask the reader of an address that is not confirmed; None where there is nothing to ask."""
    if row.phase is not SubscriptionPhase.UNCONFIRMED:
        return None
    ask = context.services.consent.ask
    try:
        return await asked_of_others(context, context.user(request), None, ask, row, request.words.language)
    except TooOften:
        return "busy"


async def ask_again(context: PageContext, request: PageRequest) -> Response:
    """Send the question again."""
    _, row = await own(context, request)
    await context.form(request)
    asked = await ask_reader(context, request, row)
    return context.to(request, f"{LIST}/{row.id}" + (f"?done={asked}" if asked else ""))


PAGES: Sequence[Page] = (
    (f"{ONE}/confirmation", ("POST",), ask_again),
    (f"{ONE}/confirmation", ("GET",), back_to_webhook),
)
