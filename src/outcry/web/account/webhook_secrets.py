"""Signing secret of a webhook: rotate it and show the new one once.

Rotation needs a recent confirmation of identity.
"""

from collections.abc import Sequence

from starlette.responses import Response

from outcry.delivery.subscriptions import SubscriptionRefused
from outcry.people.audit import Event
from outcry.web.account.delivery_words import OVERLAPS, USUAL_OVERLAP
from outcry.web.account.webhook_page import LIST, ONE, asked, back_to_webhook, note, own
from outcry.web.form_state import delete_secret, prove_first, redirect_with_secret, take_secret
from outcry.web.page_context import NotConfirmed, Page, PageContext, PageMissing, PageRequest


async def rotate_secret(context: PageContext, request: PageRequest) -> Response:
    """Rotate the signing secret and show the new one once; the old one stays valid for the chosen time."""
    user, row = await own(context, request)
    overlap = (await context.form(request)).text("overlap")
    overlap = overlap if overlap in OVERLAPS else USUAL_OVERLAP
    rotate = context.services.subscriptions.rotate
    try:
        context.confirmed(request)
        secret = await asked(context, rotate, user.id, row.id, context.now_ns(), OVERLAPS[overlap][0])
    except NotConfirmed:
        return prove_first(context, request, f"{LIST}/{row.id}", {})
    except SubscriptionRefused:
        raise PageMissing from None  # unsigned targets have no rotation form
    await note(context, request, user, Event.SUBSCRIPTION_ROTATED, row, overlap=overlap)
    return redirect_with_secret(
        context, request, f"{LIST}/{row.id}/secret", {"secret": secret, "done": overlap}
    )


async def show_secret(context: PageContext, request: PageRequest) -> Response:
    """Show the new signing secret, once."""
    _, row = await own(context, request)
    held = await take_secret(context, request, f"{LIST}/{row.id}/secret")
    if held is None:
        return context.to(request, f"{LIST}/{row.id}?done=shown")
    done = held["done"]
    overlap = request.words(OVERLAPS[done][1]) if done in OVERLAPS else ""
    page = context.page(
        request, "account/webhook_secret.html", secret=True, webhook=row, value=held["secret"], overlap=overlap,
        unverified=done == "unverified", sink=context.services.sink,
    )  # fmt: skip
    return delete_secret(request, page)


PAGES: Sequence[Page] = (
    (f"{ONE}/secret", ("GET",), show_secret),
    (f"{ONE}/rotate", ("POST",), rotate_secret),
    (f"{ONE}/rotate", ("GET",), back_to_webhook),
)
