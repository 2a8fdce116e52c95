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
from outcry.web.page_context import Desk, Page, Visit


async def ask_reader(desk: Desk, visit: Visit, row: SubscriptionRow) -> Asked | Literal["busy"] | None:
    """Ask the reader of an address that is not confirmed; None where there is nothing to ask."""
    if row.phase is not SubscriptionPhase.UNCONFIRMED:
        return None
    ask = desk.services.consent.ask
    try:
        return await asked_of_others(desk, desk.user(visit), None, ask, row, visit.words.language)
    except TooOften:
        return "busy"


async def ask_again(desk: Desk, visit: Visit) -> Response:
    """Send the question again."""
    _, row = await own(desk, visit)
    await desk.form(visit)
    asked = await ask_reader(desk, visit, row)
    return desk.to(visit, f"{LIST}/{row.id}" + (f"?done={asked}" if asked else ""))


PAGES: Sequence[Page] = (
    (f"{ONE}/confirmation", ("POST",), ask_again),
    (f"{ONE}/confirmation", ("GET",), back_to_webhook),
)
