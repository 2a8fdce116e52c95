"""The signing secret of a webhook: replaced, and shown once.

Rule kept: a secret is on a page the one time it is made, for a user who has just proved who it is.
"""

from collections.abc import Sequence

from starlette.responses import Response

from outcry.delivery.subscriptions import SubscriptionRefused
from outcry.people.audit import Event
from outcry.web.account.delivery_words import OVERLAPS, USUAL_OVERLAP
from outcry.web.account.webhook_page import LIST, ONE, asked, back_to_webhook, note, own
from outcry.web.forms import forget_secret, hand_over, handed_over, prove_first
from outcry.web.page_context import Desk, NotConfirmed, Page, PageMissing, Visit, said


async def rotate_secret(desk: Desk, visit: Visit) -> Response:
    """Sign with a new secret, shown once; the old one signs on for as long as its owner chose."""
    user, row = await own(desk, visit)
    overlap = said(await desk.form(visit), "overlap")
    overlap = overlap if overlap in OVERLAPS else USUAL_OVERLAP
    rotate = desk.services.subscriptions.rotate
    try:
        desk.confirmed(visit)
        secret = await asked(desk, rotate, user.id, row.id, desk.now_ns(), OVERLAPS[overlap][0])
    except NotConfirmed:
        return prove_first(desk, visit, f"{LIST}/{row.id}", {})
    except SubscriptionRefused:
        raise PageMissing from None  # the form for it is only where something is signed
    await note(desk, visit, user, Event.SUBSCRIPTION_ROTATED, row, overlap=overlap)
    return hand_over(desk, visit, f"{LIST}/{row.id}/secret", {"secret": secret, "done": overlap})


async def show_secret(desk: Desk, visit: Visit) -> Response:
    """A signing secret just made, the only time it is on a page."""
    _, row = await own(desk, visit)
    held = await handed_over(desk, visit, f"{LIST}/{row.id}/secret")
    if held is None:
        return desk.to(visit, f"{LIST}/{row.id}?done=shown")
    done = held["done"]
    overlap = visit.words(OVERLAPS[done][1]) if done in OVERLAPS else ""
    page = desk.page(
        visit, "account/webhook_secret.html", secret=True, webhook=row, value=held["secret"], overlap=overlap,
        unverified=done == "unverified", sink=desk.services.sink,
    )  # fmt: skip
    return forget_secret(visit, page)


PAGES: Sequence[Page] = (
    (f"{ONE}/secret", ("GET",), show_secret),
    (f"{ONE}/rotate", ("POST",), rotate_secret),
    (f"{ONE}/rotate", ("GET",), back_to_webhook),
)
